//! The choice of the server: new lists of servers, and read-only servers.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{
    TIMEOUT, create, history, id, is_connected, open, simulated, simulated_with, start, until,
};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use zk_curator_client::{
    ConnectStringError, Connector, CreateMode, DisconnectedPolicy, Error, ErrorCode, EventType,
    ExpiredBy, SessionState, Transport, ZooKeeper, ZooKeeperBuilder,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{idle, settled, spend};
use zk_curator_testing::{MemoryConnector, TestServer};

/// A network in which names stand for servers. It records the attempts. Attempts to unknown names
/// hang.
#[derive(Debug, Clone, Default)]
struct Hosts {
    inner: Arc<Mutex<Book>>,
}

#[derive(Debug, Default)]
struct Book {
    servers: HashMap<String, Option<MemoryConnector>>,
    called: Vec<String>,
}

impl Hosts {
    /// Returns a network in which all names stand for one server.
    fn of(server: &TestServer, names: &[&str]) -> Self {
        let hosts = Self::default();
        names.iter().for_each(|name| hosts.set(name, Some(server)));
        hosts
    }

    /// Sets the server of a name; `None` means that there is no listener.
    fn set(&self, name: &str, server: Option<&TestServer>) {
        let server = server.map(TestServer::connector);
        self.inner.lock().expect("no panic").servers.insert(name.to_owned(), server);
    }

    /// Returns the names that were tried since the last call of this function.
    fn called(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().expect("no panic").called)
    }

    fn builder(&self, connect_string: &str) -> ZooKeeperBuilder {
        ZooKeeper::builder(connect_string)
            .connector(Arc::new(self.clone()))
            .session_timeout(TIMEOUT)
            .seed(7)
    }
}

#[async_trait::async_trait]
impl Connector for Hosts {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let server = {
            let mut book = self.inner.lock().expect("no panic");
            book.called.push(host.to_owned());
            book.servers.get(host).cloned()
        };
        match server {
            Some(Some(server)) => server.connect(host, port).await,
            Some(None) => Err(io::ErrorKind::ConnectionRefused.into()),
            None => std::future::pending().await,
        }
    }
}

fn is_read_only(state: SessionState) -> bool {
    matches!(state, SessionState::ConnectedReadOnly(_))
}

#[test]
fn a_client_moves_with_its_session_from_an_unlisted_server() {
    simulated_with(async |server| {
        let hosts = Hosts::of(&server, &["a", "b", "c"]);
        let zk = start(hosts.builder("a")).await;
        let session = id(&zk);
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        let (_, watch) = zk.get_data_watched("/e").await.unwrap();
        hosts.called();
        let mut states = zk.states();
        let begun = Instant::now();
        zk.update_server_list("b,c").unwrap();
        until(&mut states, |state| state == SessionState::Disconnected).await;
        until(&mut states, is_connected).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "it waits for nothing");
        assert_eq!(id(&zk), session);
        let called = hosts.called();
        assert!(called == ["b"] || called == ["c"], "{called:?}");
        zk.set_data("/e", b"2", None).await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);

        // From now on only the new list counts.
        for _ in 0..6 {
            server.disconnect(session);
            until(&mut states, |state| state == SessionState::Disconnected).await;
            until(&mut states, is_connected).await;
        }
        let called = hosts.called();
        assert!(called.len() == 6 && !called.contains(&"a".to_owned()), "{called:?}");
        assert!(called.contains(&"b".to_owned()) && called.contains(&"c".to_owned()), "{called:?}");
        zk.close().await.unwrap();
    });
}

#[test]
fn a_client_of_a_listed_server_stays_when_the_others_are_full() {
    simulated_with(async |server| {
        let hosts = Hosts::of(&server, &["a", "b", "c", "d"]);
        let zk = start(hosts.builder("a,b,c")).await;
        let here = hosts.called().remove(0);
        let other = if here == "a" { "b" } else { "a" };
        for list in [format!("{here},{other}"), format!("d,{here}"), here.clone(), here.clone()] {
            zk.update_server_list(&list).unwrap();
            create(&zk, "/n").await.ok();
            assert_eq!(hosts.called(), Vec::<String>::new(), "{list}");
            assert!(is_connected(zk.state()));
        }
        zk.close().await.unwrap();
    });
}

#[test]
fn just_enough_clients_move_to_new_servers_for_an_even_load() {
    simulated_with(async |server| {
        let (mut moved, clients) = (0, 300);
        for seed in 0..clients {
            let hosts = Hosts::of(&server, &["a", "b", "c"]);
            let zk = start(hosts.builder("a").seed(seed)).await;
            hosts.called();
            zk.update_server_list("a,b,c").unwrap();
            settled().await;
            match &hosts.called()[..] {
                [] => {}
                [host] if host != "a" => moved += 1,
                called => panic!("{called:?}"),
            }
            zk.connected().await.unwrap();
            zk.close().await.unwrap();
        }
        // Two thirds, within four standard deviations.
        assert!((168..=232).contains(&moved), "{moved} of {clients}");
    });
}

#[test]
fn an_invalid_list_or_another_chroot_changes_nothing() {
    simulated_with(async |server| {
        let hosts = Hosts::of(&server, &["a", "b"]);
        let bare = start(hosts.builder("a")).await;
        create(&bare, "/app").await.unwrap();
        let zk = start(hosts.builder("a/app")).await;
        hosts.called();
        for list in ["b", "b/", "b/other", "b/app/x"] {
            assert_eq!(zk.update_server_list(list), Err(ConnectStringError::OtherChroot), "{list}");
        }
        assert_eq!(bare.update_server_list("b/app"), Err(ConnectStringError::OtherChroot));
        assert_eq!(zk.update_server_list("/app"), Err(ConnectStringError::NoHost));
        assert_eq!(
            zk.update_server_list("b:x/app"),
            Err(ConnectStringError::InvalidPort("x".into()))
        );
        settled().await;
        assert!(hosts.called().is_empty());
        zk.update_server_list("b/app").unwrap();
        create(&zk, "/x").await.ok();
        zk.connected().await.unwrap();
        assert_eq!(hosts.called(), ["b"]);
        zk.exists("/").await.unwrap().unwrap();
        for zk in [zk, bare] {
            zk.close().await.unwrap();
            // Too late to have an effect, and no error.
            zk.update_server_list("b/app").ok();
        }
    });
}

#[test]
fn a_client_without_a_connection_turns_to_the_new_servers() {
    simulated_with(async |server| {
        // `down` has no listener, and attempts to reach `hangs` hang.
        for before in ["down", "hangs", "down,hangs"] {
            let hosts = Hosts::of(&server, &["b"]);
            hosts.set("down", None);
            for already in [Duration::from_millis(1), Duration::from_secs(30)] {
                let zk = hosts.builder(before).connect().unwrap();
                spend(already).await;
                let begun = Instant::now();
                zk.update_server_list("b").unwrap();
                zk.connected().await.unwrap();
                assert_eq!(begun.elapsed(), Duration::ZERO, "{before}, after {already:?}");
                hosts.called();
                idle(TIMEOUT * 2).await;
                assert_eq!(hosts.called(), Vec::<String>::new(), "{before}");
                zk.close().await.unwrap();
            }
        }
    });
}

#[test]
fn an_attempt_at_a_server_that_is_still_listed_goes_on() {
    simulated_with(async |server| {
        let hosts = Hosts::of(&server, &["a", "b"]);
        server.hold();
        let zk = hosts.builder("a").connect().unwrap();
        settled().await;
        zk.update_server_list("b,a").unwrap();
        settled().await;
        assert_eq!(hosts.called(), ["a"]);
        server.release();
        zk.connected().await.unwrap();
        assert_eq!(hosts.called(), Vec::<String>::new());
        // The connection is dropped now.
        zk.update_server_list("b").unwrap();
        create(&zk, "/a").await.ok();
        zk.connected().await.unwrap();
        assert_eq!(hosts.called(), ["b"]);
        assert_eq!(server.probe().sessions().len(), 1);
        zk.close().await.unwrap();
    });
}

#[test]
fn servers_of_another_ensemble_do_not_know_the_session() {
    simulated(async {
        let (here, elsewhere) = (TestServer::in_memory().await, TestServer::in_memory().await);
        let hosts = Hosts::of(&here, &["a"]);
        hosts.set("b", Some(&elsewhere));
        let zk = start(hosts.builder("a")).await;
        let states = zk.states();
        zk.update_server_list("b").unwrap();
        let history = history(states).await;
        assert_eq!(
            history[1..],
            [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Server)]
        );
    });
}

#[test]
fn a_read_only_server_is_refused_without_leave() {
    simulated_with(async |server| {
        server.set_read_only(true);
        let hosts = Hosts::of(&server, &["a"]);
        let zk = hosts.builder("a").connect().unwrap();
        assert!(timeout(TIMEOUT * 2, zk.connected()).await.is_err());
        assert_eq!(zk.state(), SessionState::Connecting);
        assert!(zk.last_failure().is_some());
        let attempts = hosts.called().len();
        assert!((4..20).contains(&attempts), "{attempts} attempts in 12 s");
        server.set_read_only(false);
        zk.connected().await.unwrap();
        assert!(is_connected(zk.state()));
        zk.close().await.unwrap();
    });
}

#[test]
fn a_read_only_server_serves_reads_and_refuses_writes() {
    simulated_with(async |server| {
        let hosts = Hosts::of(&server, &["a"]);
        let before = start(hosts.builder("a")).await;
        create(&before, "/a").await.unwrap();
        before.close().await.unwrap();
        server.set_read_only(true);

        let zk = start(hosts.builder("a").read_only(true)).await;
        assert!(is_read_only(zk.state()));
        let session = id(&zk);
        assert_eq!(zk.get_data("/a").await.unwrap().data, "data");
        assert_eq!(zk.get_children("/").await.unwrap().names.len(), 2);
        let refused = Err(Error::Refused(ErrorCode::NotReadOnly));
        assert_eq!(create(&zk, "/b").await, refused.clone().map(|()| String::new()));
        assert_eq!(zk.delete("/a", None).await, refused);
        assert_eq!(zk.sync("/").await, refused);
        let refused = zk.set_data("/a", b"", None).await.unwrap_err();
        assert!(!refused.may_have_applied());
        // Watches are armed, and kept when the server joins the quorum again.
        let (_, data) = zk.get_data_watched("/a").await.unwrap();
        let (_, created) = zk.exists_watched("/b").await.unwrap();
        assert_eq!(server.probe().watches().len(), 2);
        // A session that was begun there is kept alive by its pings.
        idle(TIMEOUT * 3).await;
        assert_eq!(id(&zk), session);

        let mut states = zk.states();
        server.set_read_only(false);
        until(&mut states, is_connected).await;
        assert_ne!(id(&zk), session, "only the read-only server knew that session");
        zk.set_data("/a", b"2", None).await.unwrap();
        create(&zk, "/b").await.unwrap();
        assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);
        assert_eq!(created.await.unwrap().event_type, EventType::NodeCreated);
        zk.close().await.unwrap();
        assert!(server.probe().sessions().is_empty());
    });
}

#[test]
fn a_client_of_a_read_only_server_finds_a_writable_one() {
    simulated(async {
        // After a while, and immediately.
        for pause in [0, 1, 30, 120] {
            let (reader, writer) = (TestServer::in_memory().await, TestServer::in_memory().await);
            reader.set_read_only(true);
            let hosts = Hosts::of(&reader, &["reader"]);
            hosts.set("writer", None);
            let zk = start(hosts.builder("reader,writer").read_only(true)).await;
            let states = zk.states();
            let read_only = zk.state();
            assert!(is_read_only(read_only));
            idle(Duration::from_secs(pause)).await;
            assert_eq!(zk.state(), read_only);
            let looks = hosts.called().len();
            assert!(looks < 30, "{looks} attempts and looks in {pause} s");

            hosts.set("writer", Some(&writer));
            let begun = Instant::now();
            writer.until(|probe| !probe.sessions().is_empty()).await;
            assert!(
                begun.elapsed() <= Duration::from_secs(pause.clamp(1, 60)),
                "{:?}",
                begun.elapsed()
            );
            create(&zk, "/a").await.unwrap();
            assert_eq!(writer.probe().paths(), ["/a"]);
            let connected = zk.state();
            zk.close().await.unwrap();
            let history = history(states).await;
            assert_eq!(
                history,
                [read_only, SessionState::Disconnected, connected, SessionState::Closed]
            );
            assert!(is_connected(connected));
        }
    });
}

#[test]
fn looking_for_a_writable_server_disturbs_nothing() {
    simulated(async {
        let (reader, other) = (TestServer::in_memory().await, TestServer::in_memory().await);
        reader.set_read_only(true);
        other.set_read_only(true);
        // Another read-only server, a server that is down, and a server that does not respond.
        let hosts = Hosts::of(&reader, &["reader"]);
        hosts.set("other", Some(&other));
        hosts.set("down", None);
        let zk = start(hosts.builder("reader,other,down,hangs").read_only(true)).await;
        let state = zk.state();
        let mut states = zk.states();
        states.next().await;
        for _ in 0..1000 {
            spend(Duration::from_millis(200)).await;
            assert_eq!(zk.get_children("/").await.unwrap().names, ["zookeeper"]);
        }
        assert_eq!(zk.state(), state);
        assert!(timeout(Duration::ZERO, states.next()).await.is_err(), "no state but the first");
        let called = hosts.called();
        assert!(called.len() < 40, "{called:?}");
        for name in ["down", "hangs"] {
            assert!(called.iter().any(|host| host == name), "{name} was never looked at");
        }
        zk.close().await.unwrap();
    });
}

#[test]
fn a_read_only_server_does_not_take_a_session_of_the_ensemble() {
    simulated_with(async |server| {
        let hosts = Hosts::of(&server, &["a"]);
        let zk = start(hosts.builder("a").read_only(true)).await;
        let states = zk.states();
        zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
        server.set_read_only(true);
        let history = history(states).await;
        assert_eq!(
            history[1..],
            [SessionState::Disconnected, SessionState::Expired(ExpiredBy::Clock)]
        );
        // The ensemble learns of the session when the server is back.
        server.set_read_only(false);
        server.until(|probe| !probe.exists("/e")).await;
        assert_eq!(server.probe().requests(OpCode::CloseSession), 1);
    });
}

#[test]
fn a_lost_read_only_session_is_replaced_and_not_expired() {
    simulated_with(async |server| {
        server.set_read_only(true);
        let hosts = Hosts::of(&server, &["a"]);
        let zk = start(hosts.builder("a").read_only(true)).await;
        let (_, watch) = zk.exists_watched("/a").await.unwrap();
        let first = id(&zk);
        let mut states = zk.states();
        states.next().await;
        server.stop().await;
        assert_eq!(states.next().await, Some(SessionState::Disconnected));
        idle(TIMEOUT * 5).await;
        assert_eq!(zk.state(), SessionState::Disconnected);
        server.restart().await.unwrap();
        assert!(states.next().await.is_some_and(is_read_only));
        assert_ne!(id(&zk), first);
        server.set_read_only(false);
        until(&mut states, is_connected).await;
        create(&zk, "/a").await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeCreated);
        zk.close().await.unwrap();
    });
}

/// One of three hosts swallows every attempt; the settings are the framework's defaults.
#[test]
fn a_blackholed_host_delays_start_and_failover_below_2_seconds() {
    let (mut starts, mut failovers) = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let times = simulated_with(async |server| {
            let hosts = Hosts::of(&server, &["a", "b"]);
            let builder =
                hosts.builder("a,b,hole").session_timeout(Duration::from_secs(60)).seed(seed);
            let begun = Instant::now();
            let zk = start(builder).await;
            let started = begun.elapsed();
            spend(Duration::from_secs(seed % 7)).await;
            let session = id(&zk);
            let begun = Instant::now();
            crate::common::reconnect(&server, &zk).await;
            let moved = begun.elapsed();
            assert_eq!((id(&zk), server.probe().sessions().len()), (session, 1));
            zk.close().await.unwrap();
            (started, moved)
        });
        starts.push(times.0);
        failovers.push(times.1);
    }
    for mut times in [starts, failovers] {
        times.sort();
        assert!(times[197] <= Duration::from_secs(2), "p99 {:?} of {times:?}", times[197]);
        // Some attempts do meet the host that swallows them.
        assert!(times[199] >= Duration::from_millis(250), "{times:?}");
    }
}

/// Returns an address that swallows connections. The kernel completes connections only while there
/// is room in the queue of the listener, and drops further requests.
async fn blackhole() -> io::Result<(TcpListener, Vec<TcpStream>, String)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let listener = socket.listen(0)?;
    let address = listener.local_addr()?;
    let mut kept = Vec::new();
    while let Ok(connected) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        kept.push(connected?);
        assert!(kept.len() < 100, "the listener takes whatever comes");
    }
    Ok((listener, kept, address.to_string()))
}

/// An attempt may take so long here that the test would hang if the next one started only after its
/// end.
#[test]
fn a_blackholed_address_does_not_hold_up_the_others() {
    pass_blackholes(0..3);
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_blackholed_address_holds_up_no_other_in_any_order() {
    pass_blackholes(3..12);
}

/// The seed decides the order in which addresses are tried.
fn pass_blackholes(seeds: std::ops::Range<u64>) {
    crate::common::real_time(async {
        let (_listener, _kept, hole) = blackhole().await.expect("an address");
        let server = TestServer::start().await;
        for seed in seeds {
            let hour = Duration::from_secs(3600);
            let connect_string = format!("{hole},{},{hole}", server.connect_string());
            let builder = ZooKeeper::builder(connect_string)
                .session_timeout(2 * hour)
                .disconnected(DisconnectedPolicy::Wait(hour))
                .seed(seed);
            let zk = start(builder).await;
            crate::common::reconnect(&server, &zk).await;
            assert_eq!(server.probe().sessions().len(), 1);
            zk.close().await.expect("a server");
            assert!(server.probe().sessions().is_empty());
        }
    });
}
