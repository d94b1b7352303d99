//! SASL DIGEST-MD5 with Apache ZooKeeper.
#![expect(clippy::unwrap_used, reason = "all of it is for tests")]

use std::time::Duration;

use crate::common::{id, is_connected, real_time, start, until};
use zk_curator_client::{
    Acl, CreateMode, Error, ErrorCode, EventType, Permissions, SessionState, ZooKeeper,
    ZooKeeperBuilder,
};
use zk_curator_real::{self as real, RealZooKeeper, TempDir};

const USER: &str = "alice";
const PASSWORD: &str = "s3cret, \"quoted\"";
/// Letters of ISO 8859-1, which are hashed in another encoding than the one in which they are sent.
const LATIN_PASSWORD: &str = "pässwörd";
/// Other letters.
const OTHER_PASSWORD: &str = "пароль";

struct Sasl {
    server: RealZooKeeper,
    _directory: TempDir,
}

impl Sasl {
    async fn start(test: &str, settings: &[(&str, &str)]) -> Option<Self> {
        if !real::runs(test, RealZooKeeper::available()) {
            return None;
        }
        let directory = TempDir::new(&format!("zk-curator-jaas-{test}")).unwrap();
        let jaas = directory.path().join("jaas");
        let quoted = PASSWORD.replace('"', "\\\"");
        std::fs::write(
            &jaas,
            format!(
                "Server {{\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n    \
                 user_{USER}=\"{quoted}\"\n    user_bob=\"{LATIN_PASSWORD}\"\n    \
                 user_carol=\"{OTHER_PASSWORD}\";\n}};\n"
            ),
        )
        .unwrap();
        let mut builder = RealZooKeeper::builder()
            .jvm_property("java.security.auth.login.config", jaas.display())
            .setting(
                "authProvider.1",
                "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            );
        for (name, value) in settings {
            builder = builder.setting(name, value);
        }
        let server = real::or_skip_with(test, builder).await?;
        Some(Self { server, _directory: directory })
    }

    fn client(&self, user: &str, password: &str) -> ZooKeeperBuilder {
        self.anonymous().sasl_digest_md5(user, password)
    }

    fn anonymous(&self) -> ZooKeeperBuilder {
        ZooKeeper::builder(self.server.connect_string()).session_timeout(Duration::from_secs(20))
    }
}

fn only(user: &str) -> [Acl; 1] {
    [Acl::new(Permissions::ALL, "sasl", user)]
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_user_passes_acls_also_after_a_reconnect() {
    real_time(async {
        let Some(mut sasl) = Sasl::start("the_user_passes_acls_also_after_a_reconnect", &[]).await
        else {
            return;
        };
        let zk = start(sasl.client(USER, PASSWORD)).await;
        let session = id(&zk);
        zk.create("/mine", b"1", &only(USER), CreateMode::Persistent).await.unwrap();
        assert_eq!(zk.get_data("/mine").await.unwrap().data, "1");
        let (_, watch) = zk.get_data_watched("/mine").await.unwrap();

        let anonymous = start(sasl.anonymous()).await;
        assert_eq!(anonymous.get_data("/mine").await, Err(Error::Refused(ErrorCode::NoAuth)));
        anonymous.close().await.unwrap();

        let mut states = zk.states();
        sasl.server.kill().await.unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        // Queued without a connection: it must not be sent before the client is authenticated.
        let read = zk.get_data("/mine");
        sasl.server.restart().await.unwrap();
        assert_eq!(read.await.unwrap().data, "1");
        until(&mut states, is_connected).await;
        assert_eq!(id(&zk), session);
        zk.set_data("/mine", b"2", None).await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
        zk.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn passwords_may_have_any_letters() {
    real_time(async {
        let Some(sasl) = Sasl::start("passwords_may_have_any_letters", &[]).await else { return };
        for (user, password) in
            [(USER, PASSWORD), ("bob", LATIN_PASSWORD), ("carol", OTHER_PASSWORD)]
        {
            let zk = start(sasl.client(user, password)).await;
            let path = format!("/{user}");
            zk.create(&path, b"", &only(user), CreateMode::Ephemeral).await.unwrap();
            zk.get_data(&path).await.unwrap();
            zk.close().await.unwrap();
        }
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_wrong_password_or_user_ends_the_client() {
    real_time(async {
        let Some(sasl) = Sasl::start("a_wrong_password_or_user_ends_the_client", &[]).await else {
            return;
        };
        // The password of another user is not tested: before ZooKeeper 3.9.3 a server accepts it if
        // that user came last (ZOOKEEPER-4839).
        for (user, password) in [(USER, "wrong"), (USER, ""), ("mallory", "wrong")] {
            let zk = sasl.client(user, password).connect().unwrap();
            let read = zk.get_data("/");
            assert_eq!(zk.connected().await, Err(Error::AuthFailed { sent: false }));
            assert_eq!(read.await, Err(Error::AuthFailed { sent: false }));
            assert_eq!(zk.state(), SessionState::AuthFailed);
        }
        // The server still serves the other clients.
        start(sasl.client(USER, PASSWORD)).await.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_that_wants_sasl_before_all_else_gets_it() {
    real_time(async {
        let settings = [("sessionRequireClientSASLAuth", "true")];
        let test = "a_server_that_wants_sasl_before_all_else_gets_it";
        let Some(sasl) = Sasl::start(test, &settings).await else { return };
        let zk = start(sasl.client(USER, PASSWORD)).await;
        zk.add_auth("digest", b"a:b").await.unwrap();
        assert!(zk.exists("/").await.unwrap().is_some());
        zk.close().await.unwrap();
        let zk = sasl.client(USER, "wrong").connect().unwrap();
        assert_eq!(zk.connected().await, Err(Error::AuthFailed { sent: false }));
    });
}

/// With this setting, a server keeps clients that fail as clients without an identity. This client
/// must end instead.
#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_that_tolerates_failures_is_none_for_this_client() {
    real_time(async {
        let test = "a_server_that_tolerates_failures_is_none_for_this_client";
        let Some(sasl) = Sasl::start(test, &[("allowSaslFailedClients", "true")]).await else {
            return;
        };
        let zk = sasl.client(USER, "wrong").connect().unwrap();
        assert_eq!(zk.connected().await, Err(Error::AuthFailed { sent: false }));
        start(sasl.client(USER, PASSWORD)).await.close().await.unwrap();
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_server_without_sasl_ends_the_client() {
    real_time(async {
        let test = "a_server_without_sasl_ends_the_client";
        let Some(server) = real::chroot_or_skip(test).await else { return };
        let zk = ZooKeeper::builder(server.connect_string())
            .sasl_digest_md5(USER, PASSWORD)
            .connect()
            .unwrap();
        assert_eq!(zk.connected().await, Err(Error::AuthFailed { sent: false }));
    });
}
