//! The same cases on every kind of server, and clients in other languages next to ours.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

/// Declares two tests of a case that needs Java: on Apache ZooKeeper, and on the embedded server.
macro_rules! on_each_with_java {
    ($apache:ident, $embedded:ident, |$servers:ident| $case:expr $(,)?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "slow: scripts/test-all"]
        async fn $apache() {
            let name = stringify!($apache);
            if zk_curator_real::runs(name, zk_curator_real::java::available()) {
                let Some(server) = zk_curator_real::or_skip(name).await else { return };
                let $servers = server.connect_string();
                $case;
            }
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "slow: scripts/test-all"]
        async fn $embedded() {
            if zk_curator_real::runs(stringify!($embedded), zk_curator_real::java::available()) {
                let server = zk_curator_testing::TestServer::start().await;
                let $servers = server.connect_string();
                $case;
            }
        }
    };
}

mod contest;
mod counters;
mod curator_barrier;
mod curator_caches;
mod curator_discovery;
mod curator_framework;
mod curator_leader;
mod curator_locks;
mod curator_migrations;
mod curator_mutex;
mod curator_nodes;
mod curator_queue;
mod followed_reads;
mod framework;
mod framework_options;
mod inspect;
mod kazoo_barrier;
mod kazoo_lock;
mod kazoo_names;
mod kazoo_partition;
mod mutex;
mod peer;
mod raw_clients;
mod throttling;
