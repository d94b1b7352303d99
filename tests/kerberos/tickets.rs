//! The credentials of clients, and the errors of a client without them.

use std::sync::Arc;
use std::time::Duration;

use zk_curator_client::kerberos::{Kerberos, KerberosErrorKind};
use zk_curator_client::{
    CreateMode, Credentials, CredentialsProvider, DisconnectedPolicy, Error, ErrorCode,
    SessionState, ZooKeeper,
};

use zk_curator_real::TempDir;

use crate::realm::{
    ALICE, ALICE_ID, LONG, Realm, SESSION, assert_tries, by_name, client, client_with, in_realm,
    in_realm_with, only, proven, start, until,
};

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_keytab_opens_nodes_also_after_a_reconnect() {
    in_realm("a_keytab_opens_nodes_also_after_a_reconnect", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let mut server = realm.server().await;
        let zk = start(client(&by_name(&server))).await;
        let session = zk.session();
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        zk.create("/mine", b"1", &only(ALICE_ID), CreateMode::Persistent).await.unwrap();
        assert_eq!(zk.get_data("/mine").await.unwrap().data, "1");

        let anonymous = start(ZooKeeper::builder(server.connect_string())).await;
        assert_eq!(anonymous.get_data("/mine").await, Err(Error::Refused(ErrorCode::NoAuth)));
        anonymous.close().await.unwrap();

        let mut states = zk.states();
        server.kill().await.unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        // Queued without a connection: it must not be sent before the client is authenticated.
        let read = zk.get_data("/mine");
        server.restart().await.unwrap();
        assert_eq!(read.await.unwrap().data, "1");
        assert_eq!((proven(&zk).await, zk.session()), (vec![ALICE_ID.to_owned()], session));
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_client_waits_for_a_ticket_of_kinit() {
    in_realm("a_client_waits_for_a_ticket_of_kinit", LONG, async |realm: Realm| {
        let server = realm.server().await;
        let zk = client(&by_name(&server)).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::NoTicket, "No Kerberos credentials available").await;
        realm.kinit().await;
        zk.connected().await.unwrap();
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_client_chooses_among_the_principals_of_a_keytab() {
    let test = "a_client_chooses_among_the_principals_of_a_keytab";
    // A directory has room for the tickets of several principals.
    let caches = TempDir::new("zk-curator-caches").unwrap();
    let caches = format!("DIR:{}", caches.path().display());
    in_realm_with(test, LONG, &[("KRB5CCNAME", &caches)], async |realm: Realm| {
        realm.kdc.add("bob").await.unwrap();
        realm.use_keytab(ALICE).await;
        realm.use_keytab("bob").await;
        let server = realm.server().await;
        let start_as = |principal: &str| {
            let kerberos =
                Kerberos::new().client_principal(principal).server_principal("zookeeper/localhost");
            start(client_with(&by_name(&server), kerberos))
        };
        let both = [start_as("bob").await, start_as(ALICE_ID).await, start_as("bob").await];
        for (zk, id) in both.iter().zip(["bob@EXAMPLE.TEST", ALICE_ID, "bob@EXAMPLE.TEST"]) {
            assert_eq!(proven(zk).await, [id]);
            zk.close().await.unwrap();
        }
        let kerberos = Kerberos::new().client_principal("carol");
        let zk = client_with(&by_name(&server), kerberos).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::NoTicket, "carol@EXAMPLE.TEST").await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_cache_of_another_principal_is_named() {
    in_realm("a_cache_of_another_principal_is_named", LONG, async |realm: Realm| {
        realm.kdc.add("bob").await.unwrap();
        realm.use_keytab(ALICE).await;
        realm.use_keytab("bob").await;
        let server = realm.server().await;
        start(client(&by_name(&server))).await.close().await.unwrap();
        let bob = Kerberos::new().client_principal("bob");
        let zk = client_with(&by_name(&server), bob).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::WrongCache, "does not match desired name").await;
        // The file has room for one principal.
        std::fs::remove_file(realm.kdc.cache()).unwrap();
        zk.connected().await.unwrap();
        assert_eq!(proven(&zk).await, ["bob@EXAMPLE.TEST"]);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_cache_that_cannot_be_written_is_named() {
    let test = "a_cache_that_cannot_be_written_is_named";
    let cache = [("KRB5CCNAME", "FILE:/nonexistent/cache")];
    in_realm_with(test, LONG, &cache, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        let zk = client(&by_name(&server)).connect().unwrap();
        let words = "Failed to store credentials";
        assert_tries(&zk, KerberosErrorKind::UnusableCache, words).await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn wrong_principals_of_servers_are_named() {
    in_realm("wrong_principals_of_servers_are_named", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        let by_name = by_name(&server);
        let tries = async |kerberos: Kerberos, kind, words: &str| {
            let zk = client_with(&by_name, kerberos).connect().unwrap();
            assert_tries(&zk, kind, words).await;
        };
        let unknown = KerberosErrorKind::UnknownServer;
        let elsewhere = Kerberos::new().server_principal("zookeeper/elsewhere");
        tries(elsewhere, unknown, "zookeeper/elsewhere@EXAMPLE.TEST").await;
        tries(Kerberos::new().service_name("kafka"), unknown, "kafka/localhost").await;
        let malformed = Kerberos::new().server_principal("zookeeper/a@b@c");
        tries(malformed, KerberosErrorKind::Configuration, "Malformed").await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn errors_of_wrong_client_keys_and_principals_differ() {
    let test = "errors_of_wrong_client_keys_and_principals_differ";
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        realm.kdc.change_key(ALICE).await.unwrap();
        let zk = client(&by_name(&server)).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::WrongKey, "").await;
        realm.kdc.remove(ALICE).await.unwrap();
        let zk = client(&by_name(&server)).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::UnknownClient, ALICE_ID).await;
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn different_clocks_are_reported() {
    in_realm("different_clocks_are_reported", LONG, async |mut realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        realm.kdc.restart_an_hour_ahead().await.unwrap();
        let zk = client(&by_name(&server)).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::ClockSkew, "Clock skew too great").await;
        realm.kdc.restart().await.unwrap();
        zk.connected().await.unwrap();
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_kdc_that_is_down_is_only_another_attempt() {
    in_realm("a_kdc_that_is_down_is_only_another_attempt", LONG, async |mut realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        realm.kdc.stop().await.unwrap();
        let zk = client(&by_name(&server)).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::KdcUnreachable, "EXAMPLE.TEST").await;
        realm.kdc.restart().await.unwrap();
        zk.connected().await.unwrap();
        zk.close().await.unwrap();
    });
}

/// Supplies the same settings for every connection.
#[derive(Debug)]
struct Provider(Kerberos);

#[async_trait::async_trait]
impl CredentialsProvider for Provider {
    async fn credentials(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Credentials::default().sasl_kerberos(self.0.clone()))
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_provider_supplies_kerberos_for_every_connection() {
    let test = "a_provider_supplies_kerberos_for_every_connection";
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let mut server = realm.server().await;
        let provider = Arc::new(Provider(Kerberos::new()));
        let builder = ZooKeeper::builder(by_name(&server)).session_timeout(SESSION);
        let zk = start(builder.credentials_provider(provider)).await;
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        server.restart().await.unwrap();
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_silent_kdc_does_not_delay_services_with_tickets() {
    let test = "a_silent_kdc_does_not_delay_services_with_tickets";
    in_realm(test, LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        let kerberos = Kerberos::new();
        let start_one = || start(client_with(&by_name(&server), kerberos.clone()));
        start_one().await.close().await.unwrap();
        realm.kdc.pause().unwrap();
        // There is no ticket for this service. The thread that asks for one still waits.
        let patient = DisconnectedPolicy::Wait(Duration::from_secs(3));
        let other = client_with(&server.connect_string(), kerberos.clone());
        let other = other.disconnected(patient).connect().unwrap();
        assert_tries(&other, KerberosErrorKind::TimedOut, "").await;
        let zk = start_one().await;
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        assert!(zk.last_failure().is_none(), "{:?}", zk.last_failure());
        zk.close().await.unwrap();
        realm.kdc.resume().unwrap();
    });
}

/// The library waits for tens of seconds. The client does not.
#[test]
#[ignore = "slow: scripts/test-all"]
fn a_silent_kdc_blocks_no_client() {
    in_realm("a_silent_kdc_blocks_no_client", LONG, async |realm: Realm| {
        realm.use_keytab(ALICE).await;
        let server = realm.server().await;
        realm.kdc.pause().unwrap();
        let patient = DisconnectedPolicy::Wait(Duration::from_secs(3));
        let zk = client(&by_name(&server)).disconnected(patient).connect().unwrap();
        assert_tries(&zk, KerberosErrorKind::TimedOut, "").await;
        // Requests fail in time, and other clients of this process are not blocked.
        assert_eq!(zk.exists("/").await, Err(Error::NotConnected));
        let anonymous = start(ZooKeeper::builder(server.connect_string())).await;
        anonymous.exists("/").await.unwrap();
        anonymous.close().await.unwrap();
        realm.kdc.resume().unwrap();
        zk.connected().await.unwrap();
        assert_eq!(proven(&zk).await, [ALICE_ID]);
        assert_eq!(zk.session().map(|session| session.timeout), Some(SESSION));
        zk.close().await.unwrap();
    });
}
