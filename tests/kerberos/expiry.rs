//! Tickets that expire while a client is connected.

use std::fs;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::kerberos::KerberosErrorKind;
use zk_curator_client::{CreateMode, SessionState, ZooKeeper};
use zk_curator_real::RealZooKeeper;

use crate::realm::{
    ALICE, ALICE_ID, Realm, assert_tries, by_name, client, in_realm, in_realm_with, only, proven,
    start, until,
};

/// Long enough to connect on a busy machine, to a server that has served others before.
const SHORT: Duration = Duration::from_secs(20);

/// Starts a server, and has it authenticate a client, because its first exchange is slow. There is
/// a client keytab, and no ticket in the file of the cache.
async fn warm_server(realm: &Realm) -> RealZooKeeper {
    realm.use_keytab(ALICE).await;
    let server = realm.server().await;
    start(client(&by_name(&server))).await.close().await.unwrap();
    // There is no file if the cache is in memory.
    drop(fs::remove_file(realm.kdc.cache()));
    server
}

/// Obtains tickets until the client is connected: each may expire before the client uses it.
async fn kinit_until_connected(realm: &Realm, zk: &ZooKeeper) {
    let connected = async {
        if let Err(error) = zk.connected().await {
            panic!("{error}: {:?}", zk.last_failure());
        }
    };
    let mut connected = pin!(connected);
    loop {
        realm.kinit().await;
        if timeout(SHORT / 2, &mut connected).await.is_ok() {
            return;
        }
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_keytab_renews_the_ticket_at_the_next_connection() {
    let test = "a_keytab_renews_the_ticket_at_the_next_connection";
    in_realm(test, SHORT, async |realm: Realm| {
        let mut server = warm_server(&realm).await;
        let zk = start(client(&by_name(&server))).await;
        let session = zk.session();
        zk.create("/mine", b"1", &only(ALICE_ID), CreateMode::Persistent).await.unwrap();
        realm.kdc.ticket_expired().await.unwrap();
        // The connection outlives its ticket.
        zk.set_data("/mine", b"2", None).await.unwrap();

        let mut states = zk.states();
        server.kill().await.unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        let write = zk.set_data("/mine", b"3", None);
        server.restart().await.unwrap();
        write.await.unwrap();
        assert_eq!((proven(&zk).await, zk.session()), (vec![ALICE_ID.to_owned()], session));
        zk.close().await.unwrap();
    });
}

/// As services are advised to do: the tickets are in no file.
#[test]
#[ignore = "slow: scripts/test-all"]
fn a_keytab_renews_a_ticket_in_memory() {
    let memory = [("KRB5CCNAME", "MEMORY:client")];
    let test = "a_keytab_renews_a_ticket_in_memory";
    in_realm_with(test, SHORT, &memory, async |realm: Realm| {
        let mut server = warm_server(&realm).await;
        let zk = start(client(&by_name(&server))).await;
        let session = zk.session();
        // Another ticket, in a file, which is younger.
        realm.kinit().await;
        realm.kdc.ticket_expired().await.unwrap();
        let mut states = zk.states();
        server.kill().await.unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        server.restart().await.unwrap();
        assert_eq!((proven(&zk).await, zk.session()), (vec![ALICE_ID.to_owned()], session));
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn without_a_keytab_the_next_connection_waits_for_kinit() {
    let test = "without_a_keytab_the_next_connection_waits_for_kinit";
    in_realm(test, SHORT, async |realm: Realm| {
        let mut server = warm_server(&realm).await;
        realm.forget_keytab();
        let zk = client(&by_name(&server)).connect().unwrap();
        kinit_until_connected(&realm, &zk).await;
        let session = zk.session();
        zk.create("/mine", b"1", &only(ALICE_ID), CreateMode::Persistent).await.unwrap();
        realm.kdc.ticket_expired().await.unwrap();
        zk.set_data("/mine", b"2", None).await.unwrap();

        let mut states = zk.states();
        server.kill().await.unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        server.restart().await.unwrap();
        // It may expire during the exchange, and then the library has other words.
        assert_tries(&zk, KerberosErrorKind::TicketExpired, "expired").await;
        // Like a program that renews tickets, a moment too late. The session is still alive.
        kinit_until_connected(&realm, &zk).await;
        zk.set_data("/mine", b"3", None).await.unwrap();
        assert_eq!(zk.session(), session);
        zk.close().await.unwrap();
    });
}
