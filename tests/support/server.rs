//! One case on servers of every kind: the embedded one in memory under a paused clock and on TCP,
//! and Apache ZooKeeper.

use std::time::Duration;

use zk_curator::{CuratorFramework, CuratorFrameworkBuilder};
use zk_curator_real::{self as real, Chroot, RealZooKeeper};
use zk_curator_testing::TestServer;

/// A server of any kind.
#[derive(Debug)]
#[non_exhaustive]
pub enum Server {
    /// In memory or on TCP.
    Embedded(TestServer),
    Apache(Box<RealZooKeeper>),
    /// A chroot of Apache ZooKeeper, whose server other cases use, too. It cannot be stopped.
    Shared(Chroot),
}

/// The panic of a case that is declared without `restarted:`.
const NOT_OWN: &str = "a case that stops its server is declared with `restarted:`";

impl Server {
    /// A server of its own. `None` if Apache ZooKeeper is not installed, see [`real::or_skip`].
    pub async fn apache(case: &str) -> Option<Self> {
        real::or_skip(case).await.map(|server| Self::Apache(Box::new(server)))
    }

    /// A chroot of a shared server. `None` if Apache ZooKeeper is not installed.
    pub async fn shared(case: &str) -> Option<Self> {
        real::chroot_or_skip(case).await.map(Self::Shared)
    }

    /// Settings for a framework whose session outlives every outage, and that waits long for its
    /// first connection.
    pub fn builder(&self) -> CuratorFrameworkBuilder {
        let builder = match self {
            Self::Embedded(server) => crate::builder(server),
            Self::Apache(server) => crate::builder_for(&server.connect_string()),
            Self::Shared(chroot) => crate::builder_for(&chroot.connect_string()),
        };
        builder.session_timeout(Duration::from_secs(30)).connection_timeout(Duration::from_secs(30))
    }

    /// Returns a [`builder`](Self::builder) with a short session timeout, for a session that has to
    /// expire.
    pub fn mortal(&self) -> CuratorFrameworkBuilder {
        self.builder().session_timeout(Duration::from_secs(2))
    }

    /// A framework that is connected to this server, with a session that outlives every outage.
    pub async fn connected(&self) -> CuratorFramework {
        crate::start(self.builder()).await
    }

    /// Ends the server; its data stay.
    pub async fn stop(&mut self) {
        match self {
            Self::Embedded(server) => server.stop().await,
            Self::Apache(server) => server.kill().await.unwrap(),
            Self::Shared(_) => panic!("{NOT_OWN}"),
        }
    }

    /// Starts it again with the same data at the same address.
    pub async fn restart(&mut self) {
        match self {
            Self::Embedded(server) => server.restart().await.unwrap(),
            Self::Apache(server) => server.restart().await.unwrap(),
            Self::Shared(_) => panic!("{NOT_OWN}"),
        }
    }

    /// Lets it respond to nothing, with all connections open.
    pub async fn pause(&self) {
        match self {
            Self::Embedded(server) => server.hold(),
            Self::Apache(server) => server.pause().await.unwrap(),
            Self::Shared(_) => panic!("{NOT_OWN}"),
        }
    }

    /// Ends [`Server::pause`].
    pub async fn resume(&self) {
        match self {
            Self::Embedded(server) => server.release(),
            Self::Apache(server) => server.resume().await.unwrap(),
            Self::Shared(_) => panic!("{NOT_OWN}"),
        }
    }
}

/// Declares tests of cases, `async fn(Server)`: each in memory, on TCP, and in a chroot of Apache
/// ZooKeeper. Cases after `restarted:` stop or suspend their servers, so each has its own Apache
/// ZooKeeper. Cases after `tcp:` need sockets, and are not run in memory.
#[macro_export]
macro_rules! on_each_server {
    (@in_memory $case:ident) => {
        #[test]
        fn in_memory() {
            $crate::simulated(async {
                super::$case($crate::Server::Embedded($crate::server().await)).await;
            });
        }
    };
    (@on_sockets $case:ident $apache:ident) => {
        #[test]
        fn on_tcp() {
            $crate::real_time(async {
                let server = zk_curator_testing::TestServer::start().await;
                super::$case($crate::Server::Embedded(server)).await;
            });
        }

        #[test]
        #[ignore = "slow: scripts/test-all"]
        fn on_apache_zookeeper() {
            $crate::real_time(async {
                let Some(server) = $crate::Server::$apache(stringify!($case)).await else { return };
                super::$case(server).await;
            });
        }
    };
    (tcp: $($case:ident)*) => {
        $(mod $case {
            $crate::on_each_server!(@on_sockets $case shared);
        })*
    };
    (restarted: $($case:ident)*) => {
        $(mod $case {
            $crate::on_each_server!(@in_memory $case);
            $crate::on_each_server!(@on_sockets $case apache);
        })*
    };
    ($($case:ident)*) => {
        $(mod $case {
            $crate::on_each_server!(@in_memory $case);
            $crate::on_each_server!(@on_sockets $case shared);
        })*
    };
}
