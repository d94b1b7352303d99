//! TLS together with SASL to Apache ZooKeeper, with clients that accept a read-only server.
#![expect(clippy::unwrap_used, reason = "all of it is for tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::certificates::{Authority, Identity};
use crate::common::{id, is_connected, real_time, start, until};
use zk_curator_client::tls::{TlsConnector, TlsError, TlsErrorKind};
use zk_curator_client::{
    Acl, CreateMode, DisconnectedPolicy, Error, ErrorCode, EventType, Permissions, SessionState,
    ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_real::{self as real, RealEnsemble, TempDir};
use zk_curator_testing::wait;

const HERE: &str = "127.0.0.1";

/// The files that the servers read.
struct Files {
    directory: TempDir,
    ca: Authority,
    worker: Identity,
}

impl Files {
    fn new(test: &str) -> Self {
        let directory = TempDir::new(&format!("zk-curator-{test}")).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        let ca = Authority::new("zk-curator test CA");
        let worker = ca.client("worker");
        write("server.pem", &ca.server(&[HERE]).pem());
        write("ca.pem", &ca.pem);
        write(
            "jaas",
            "Server {\n    org.apache.zookeeper.server.auth.DigestLoginModule required user_alice=\"secret\";\n};\n",
        );
        Self { directory, ca, worker }
    }

    /// Returns two servers, whose only port accepts TLS, with and without a client certificate.
    async fn ensemble(&self, test: &str) -> Option<RealEnsemble> {
        let file = |name: &str| self.directory.path().join(name).display().to_string();
        let builder = RealEnsemble::builder(2)
            .setting("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory")
            .setting("client.portUnification", true)
            .setting("ssl.keyStore.location", file("server.pem"))
            .setting("ssl.keyStore.type", "PEM")
            .setting("ssl.trustStore.location", file("ca.pem"))
            .setting("ssl.trustStore.type", "PEM")
            .setting(
                "authProvider.x509",
                "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            )
            .setting(
                "authProvider.1",
                "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            )
            .setting("localSessionsEnabled", true)
            .setting("localSessionsUpgradingEnabled", true)
            .jvm_property("readonlymode.enabled", true)
            .jvm_property("java.security.auth.login.config", file("jaas"));
        real::or_skip_ensemble_with(test, builder).await
    }

    fn client(
        &self,
        ensemble: &RealEnsemble,
        trusted: &Authority,
        password: &str,
    ) -> ZooKeeperBuilder {
        let tls = TlsConnector::builder()
            .ca_pem(trusted.pem.clone())
            .client_certificate_pem(self.worker.certificate.clone(), self.worker.key.clone());
        ZooKeeper::builder(ensemble.connect_string())
            .session_timeout(Duration::from_secs(20))
            .read_only(true)
            .connector(Arc::new(tls.build().unwrap()))
            .sasl_digest_md5("alice", password)
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_user_is_proven_over_tls_and_at_read_only_servers() {
    real_time(async {
        let test = "the_user_is_proven_over_tls_and_at_read_only_servers";
        let files = Files::new(test);
        let Some(mut ensemble) = files.ensemble(test).await else { return };
        let client = || files.client(&ensemble, &files.ca, "secret");
        let zk = start(client()).await;
        let owner = |scheme, name| [Acl::new(Permissions::ALL, scheme, name)];
        // The client has both identities.
        for (path, acl) in
            [("/alice", owner("sasl", "alice")), ("/worker", owner("x509", "CN=worker"))]
        {
            zk.create(path, b"1", &acl, CreateMode::Persistent).await.unwrap();
            assert_eq!(zk.get_data(path).await.unwrap().data, "1");
        }
        let plain = start(ZooKeeper::builder(ensemble.connect_string())).await;
        for path in ["/alice", "/worker"] {
            assert_eq!(plain.get_data(path).await, Err(Error::Refused(ErrorCode::NoAuth)));
        }
        plain.close().await.unwrap();

        // The two faults have different errors.
        let wrong = files.client(&ensemble, &files.ca, "wrong").connect().unwrap();
        assert_eq!(wrong.connected().await, Err(Error::AuthFailed { sent: false }));
        assert!(wrong.last_failure().is_some());
        let patience = DisconnectedPolicy::Wait(Duration::from_secs(1));
        let stranger =
            files.client(&ensemble, &Authority::new("other"), "secret").disconnected(patience);
        let stranger = stranger.connect().unwrap();
        assert_eq!(stranger.exists("/").await, Err(Error::NotConnected));
        let failure = stranger.last_failure().unwrap();
        assert_eq!(TlsError::of(&failure).map(TlsError::kind), Some(&TlsErrorKind::UnknownCa));
        zk.close().await.unwrap();

        // One server is left, which serves only reads.
        let leader = ensemble.leader().await.unwrap();
        let other = 1 - leader;
        let client = client();
        ensemble.kill(other).await.unwrap();
        let left = ensemble.server(leader);
        wait::until(async || left.four_letter_word("isro").await.is_ok_and(|mode| mode == "ro"))
            .await;
        let zk = client.connect().unwrap();
        let mut states = zk.states();
        let session = zk.connected().await.unwrap();
        assert_eq!(zk.state(), SessionState::ConnectedReadOnly(session));
        let (data, watch) = zk.get_data_watched("/alice").await.unwrap();
        assert_eq!(
            (&*data.data, &*zk.get_data("/worker").await.unwrap().data),
            (&b"1"[..], &b"1"[..])
        );
        assert_eq!(
            zk.set_data("/alice", b"2", None).await,
            Err(Error::Refused(ErrorCode::NotReadOnly))
        );

        // It finds the writable servers over TLS, and authenticates again before the watch is
        // rearmed.
        ensemble.restart(other).await.unwrap();
        until(&mut states, is_connected).await;
        assert_ne!(id(&zk), session.id.get());
        zk.set_data("/alice", b"2", None).await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
        zk.close().await.unwrap();
    });
}
