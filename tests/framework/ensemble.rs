//! The servers of a framework: replaced by hand, or by the ensemble that it follows.

use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use zk_curator::ensemble::EnsembleServer;
use zk_curator::raw::{NativeFactory, RawClient, RawClientFactory, SessionSettings};
use zk_curator::{
    ConnectionState, ConnectionStatus, CuratorFramework, CuratorFrameworkBuilder, ErrorKind,
};
use zk_curator_client::{Connector, Transport};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{MemoryConnector, TestServer, Verdict, digest, wait};
use zk_curator_tests::{
    all_close_clean, always, builder, expire, simulated_on, simulated_with, start,
};

/// The way to one server in memory, by whatever name. Remembers the names.
#[derive(Debug, Clone)]
struct AnyName(MemoryConnector, Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Connector for AnyName {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        self.1.lock().unwrap().push(format!("{host}:{port}"));
        if host.ends_with(".invalid") {
            return Err(io::Error::other("no such host"));
        }
        self.0.connect(host, port).await
    }
}

impl AnyName {
    /// The servers that were asked for since the last call, each once.
    fn asked(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.1.lock().unwrap());
        asked.sort();
        asked.dedup();
        asked
    }
}

/// A server whose configuration its administrator can write.
async fn server() -> (TestServer, AnyName, CuratorFramework) {
    let server =
        TestServer::builder().tcp(false).super_digest(digest("root:toor")).start().await.unwrap();
    let admin = start(builder(&server).authorization("digest", "root:toor")).await;
    let names = AnyName(server.connector(), Arc::default());
    (server, names, admin)
}

fn following(server: &TestServer, names: &AnyName) -> CuratorFrameworkBuilder {
    builder(server).connector(Arc::new(names.clone())).ensemble_tracker(true)
}

async fn configure(admin: &CuratorFramework, config: &str) {
    admin.set_data("/zookeeper/config", config.to_owned()).await.unwrap();
}

/// Waits until the framework has other servers.
async fn servers(zk: &CuratorFramework, expected: &str) {
    wait::until(async || zk.connect_string() == expected).await;
}

/// Waits for a connection after the one with `epoch`.
async fn reconnected(zk: &CuratorFramework, epoch: u64) -> ConnectionStatus {
    let mut states = zk.states();
    states.until(|status| status.epoch > epoch && status.state.is_connected()).await.unwrap()
}

const TWO: &str = "server.1=one:2888:3888:participant;0.0.0.0:2181\nserver.2=two:2888:3888;2182\nversion=100000001";

#[test]
fn the_configuration_is_read_and_watched() {
    simulated_on(server, async |(_server, _names, admin)| {
        let zk = admin.using_namespace("ns").unwrap();
        let config = zk.get_config().await.unwrap();
        assert_eq!(
            (config.servers.len(), config.version, config.connect_string()),
            (0, None, None)
        );
        let watched = zk.get_config().watched().await.unwrap();
        configure(&admin, TWO).await;
        // CURATOR-666/667: its path had the namespace taken off.
        assert_eq!(watched.watch.await.unwrap().path, "/zookeeper/config");
        let config = zk.get_config().await.unwrap();
        assert_eq!(config.version, Some(0x1_0000_0001));
        assert_eq!(config.connect_string().unwrap(), "one:2181,two:2182");
        configure(&admin, "server.1=nonsense").await;
        let error = zk.get_config().await.unwrap_err();
        assert!(
            error.to_string().starts_with("get_config: malformed response (no configuration"),
            "{error}"
        );
        let error = zk.reconfig().joining(["server.3=three:2888:3888;2181"]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Server(ErrorCode::ReconfigDisabled));
    });
}

/// CURATOR-593: the chroot was lost.
#[test]
fn curator_593_the_ensemble_tracker_keeps_the_chroot() {
    simulated_on(server, async |(server, names, admin)| {
        admin.create("/app").await.unwrap();
        configure(&admin, TWO).await;
        let zk = start(following(&server, &names).connect_string("seed:2181/app")).await;
        servers(&zk, "one:2181,two:2182/app").await;
        zk.create("/a").await.unwrap();
        assert!(server.probe().exists("/app/a"));
        // The next session begins with the servers of the ensemble.
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        zk.wait_connected().await.unwrap();
        names.asked();
        let epoch = zk.status().epoch;
        server.disconnect_all();
        reconnected(&zk, epoch).await;
        assert!(!names.asked().contains(&"seed:2181".to_owned()), "it is not a member");
        // And changes are followed.
        configure(&admin, "server.1=three:2888:3888;2183\nversion=100000002").await;
        servers(&zk, "three:2183/app").await;
        zk.close().await.unwrap();
    });
}

#[test]
fn members_are_reached_by_the_addresses_that_are_given() {
    simulated_on(server, async |(server, names, admin)| {
        configure(&admin, TWO).await;
        let builder = following(&server, &names).connect_string("seed:2181/app");
        let secure = |server: &EnsembleServer| {
            (server.id != 2).then(|| format!("{}:2281", server.peers[0].host))
        };
        admin.create("/app").await.unwrap();
        let zk = start(builder.ensemble_tracker_addresses(secure)).await;
        let member = admin.get_config().await.unwrap().servers[0].peers[0].host.clone();
        servers(&zk, &format!("{member}:2281/app")).await;
        zk.close().await.unwrap();
    });
}

/// CURATOR-551: writing an equal configuration is not a change.
#[test]
fn curator_551_an_equal_configuration_moves_no_client() {
    simulated_on(server, async |(server, names, admin)| {
        configure(&admin, TWO).await;
        let zk = start(following(&server, &names).connect_string("one:2181")).await;
        servers(&zk, "one:2181,two:2182").await;
        let mut states = zk.states();
        states.until(|status| status.state.is_connected()).await.unwrap();
        let (before, epoch) = (server.probe().connections(), zk.status().epoch);
        for _ in 0..20 {
            let reads = server.probe().requests(OpCode::GetData);
            configure(&admin, TWO).await;
            zk_curator_tests::until(&server, |probe| probe.requests(OpCode::GetData) > reads).await;
        }
        assert_eq!((server.probe().connections(), zk.status().epoch), (before, epoch));
        zk.close().await.unwrap();
    });
}

/// CURATOR-538/638/664: names that do not resolve, members that say nothing of clients, an empty
/// configuration.
#[test]
fn curator_638_an_unusable_configuration_changes_nothing() {
    simulated_on(server, async |(server, names, admin)| {
        let zk = following(&server, &names).connect_string("seed:2181").build().unwrap();
        let mut errors = zk.background_errors();
        zk.start().await.unwrap();
        for config in ["", "version=0", "server.1=one:2888:3888\nversion=1"] {
            let reads = server.probe().requests(OpCode::GetData);
            configure(&admin, config).await;
            zk_curator_tests::until(&server, |probe| probe.requests(OpCode::GetData) > reads).await;
            assert_eq!(zk.connect_string(), "seed:2181");
        }
        configure(&admin, "server.1=nonsense").await;
        let error = errors.next().await.unwrap();
        let told = "ensemble_tracker: malformed response (no configuration of an ensemble: ";
        assert!(error.to_string().starts_with(told), "{error}");
        assert_eq!(zk.connect_string(), "seed:2181");
        // A name that does not resolve now may do so later: it is kept as a name, and the other one
        // is used.
        configure(&admin, "server.1=no.invalid:1:2;2181\nserver.2=two:1:2;2182\nversion=2").await;
        servers(&zk, "no.invalid:2181,two:2182").await;
        zk.wait_connected().await.unwrap();
        zk.create("/a").await.unwrap();
        zk.close().await.unwrap();
    });
}

/// CURATOR-710: the tracker left a watch behind.
#[test]
fn curator_710_the_tracker_leaves_no_watch_despite_failures() {
    simulated_on(server, async |(server, names, admin)| {
        let failing =
            always(&server, OpCode::GetData, Verdict::Refuse(ErrorCode::OperationTimeout)).times(3);
        let zk = start(following(&server, &names)).await;
        zk_curator_tests::until(&server, |probe| probe.watches().len() == 1).await;
        assert_eq!(failing.hits(), 3);
        expire(&server, &zk).await;
        zk.states().until(|status| status.session_epoch == 2).await.unwrap();
        zk_curator_tests::until(&server, |probe| probe.watches().len() == 1).await;
        all_close_clean(&server, [&zk, &admin]).await;
    });
}

#[test]
fn the_tracker_goes_on_when_its_watch_is_removed() {
    simulated_on(server, async |(server, names, admin)| {
        let zk = start(following(&server, &names)).await;
        zk_curator_tests::until(&server, |probe| probe.watches().len() == 1).await;
        zk.remove_watches("/zookeeper/config").await.unwrap();
        zk_curator_tests::until(&server, |probe| probe.watches().len() == 1).await;
        configure(&admin, TWO).await;
        servers(&zk, "one:2181,two:2182").await;
    });
}

#[test]
fn servers_are_replaced_by_hand_within_the_same_chroot() {
    simulated_on(server, async |(server, names, _admin)| {
        let zk = builder(&server)
            .connector(Arc::new(names.clone()))
            .connect_string("one:1")
            .build()
            .unwrap();
        zk.set_connect_string("two:2").unwrap();
        zk.start().await.unwrap();
        assert_eq!(
            (names.asked(), zk.connect_string()),
            (vec!["two:2".to_owned()], "two:2".to_owned())
        );
        let epoch = zk.status().epoch;
        zk.set_connect_string("three:3,four:4").unwrap();
        let status = reconnected(&zk, epoch).await;
        assert_eq!(status.state, ConnectionState::Reconnected { same_session: true });
        assert!(names.asked().iter().all(|name| name == "three:3" || name == "four:4"));
        for wrong in ["", "host:port", "three:3/app"] {
            let error = zk.set_connect_string(wrong).unwrap_err();
            assert_eq!(
                (error.kind(), error.operation()),
                (ErrorKind::InvalidArgument, "set_connect_string")
            );
        }
        assert_eq!(zk.connect_string(), "three:3,four:4");
        zk.close().await.unwrap();
    });
}

/// Opens sessions only when it is let.
#[derive(Debug)]
struct Slow(NativeFactory, Arc<Semaphore>);

#[async_trait]
impl RawClientFactory for Slow {
    fn validate(
        &self,
        settings: &SessionSettings,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.validate(settings)
    }

    async fn open(
        &self,
        settings: &SessionSettings,
    ) -> Result<Arc<dyn RawClient>, zk_curator_client::Error> {
        self.1.acquire().await.unwrap().forget();
        self.0.open(settings).await
    }
}

#[test]
fn servers_replaced_during_a_session_start_are_remembered() {
    simulated_on(server, async |(server, names, _admin)| {
        let doors = Arc::new(Semaphore::new(0));
        let factory = Slow(NativeFactory::new(Arc::new(names.clone())), Arc::clone(&doors));
        let zk = builder(&server)
            .connect_string("gone.invalid:1")
            .raw_client(Arc::new(factory))
            .build()
            .unwrap();
        let starting = tokio::spawn({
            let zk = zk.clone();
            async move { zk.start().await }
        });
        tokio::task::yield_now().await;
        zk.set_connect_string("two:2").unwrap();
        doors.add_permits(1);
        starting.await.unwrap().unwrap();
        assert!(names.asked().contains(&"two:2".to_owned()));
        zk.close().await.unwrap();
    });
}

#[test]
fn without_an_ensemble_tracker_no_request_is_sent() {
    simulated_with(async |server, zk| {
        zk.create("/a").await.unwrap();
        let probe = server.probe();
        assert_eq!((probe.requests(OpCode::GetData), probe.watches().len()), (0, 0));
    });
}

/// The configuration names addresses that do not work here, or members that are all gone.
#[test]
fn servers_that_were_given_are_tried_when_no_member_is_reached() {
    simulated_on(server, async |(server, names, admin)| {
        admin.create("/app").await.unwrap();
        let zk = start(following(&server, &names).connect_string("seed:2181,one.invalid:2181/app"));
        let zk = zk.await;
        configure(&admin, "server.1=one.invalid:1:2;2181\nversion=100000001").await;
        servers(&zk, "one.invalid:2181/app").await;
        for round in 0..2 {
            let epoch = zk.status().epoch;
            server.disconnect_all();
            reconnected(&zk, epoch).await;
            servers(&zk, "one.invalid:2181,seed:2181/app").await;
            // The same configuration again moves nobody, also in the next session.
            if round == 0 {
                expire(&server, &zk).await;
                zk.states().until(|status| status.session_epoch == 2).await.unwrap();
                zk.wait_connected().await.unwrap();
            }
        }
        names.asked();
        // Another one does.
        configure(&admin, "server.3=three:1:2;2183\nversion=100000002").await;
        servers(&zk, "three:2183/app").await;
        // The servers that the service has set last are the given ones.
        zk.set_connect_string("other:2181/app").unwrap();
        configure(&admin, "server.1=one.invalid:1:2;2181\nversion=100000003").await;
        servers(&zk, "one.invalid:2181/app").await;
        let epoch = zk.status().epoch;
        server.disconnect_all();
        reconnected(&zk, epoch).await;
        servers(&zk, "one.invalid:2181,other:2181/app").await;
        zk.close().await.unwrap();
    });
}
