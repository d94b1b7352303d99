//! The same cases on every kind of server, and clients in other languages next to ours.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

/// Declares two tests of a case that needs Java: on Apache ZooKeeper, in a chroot of the case, and
/// on the embedded server.
macro_rules! on_each_with_java {
    ($name:ident, |$servers:ident| $case:expr $(,)?) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "slow: scripts/test-all"]
            async fn on_apache_zookeeper() {
                let name = stringify!($name);
                if zk_curator_real::runs(name, zk_curator_real::java::available()) {
                    let Some(chroot) = zk_curator_real::chroot_or_skip(name).await else { return };
                    let $servers = chroot.connect_string();
                    $case;
                }
            }

            mod night {
                use super::*;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "night: scripts/night"]
                async fn on_the_embedded_server() {
                    let name = stringify!($name);
                    if zk_curator_real::runs(name, zk_curator_real::java::available()) {
                        let server = zk_curator_testing::TestServer::start().await;
                        let $servers = server.connect_string();
                        $case;
                    }
                }
            }
        }
    };
}

/// Declares two tests of a case that needs kazoo: on Apache ZooKeeper, in a chroot of the case, and
/// on the embedded server.
macro_rules! on_each_with_kazoo {
    ($name:ident, |$python:ident, $servers:ident| $case:expr $(,)?) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "slow: scripts/test-all"]
            async fn on_apache_zookeeper() {
                let name = stringify!($name);
                let Some($python) = crate::kazoo::python_or_skip(name).await else { return };
                let Some(chroot) = zk_curator_real::chroot_or_skip(name).await else { return };
                let $servers = chroot.connect_string();
                $case;
            }

            mod night {
                use super::*;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "night: scripts/night"]
                async fn on_the_embedded_server() {
                    let name = stringify!($name);
                    let Some($python) = crate::kazoo::python_or_skip(name).await else { return };
                    let server = zk_curator_testing::TestServer::start().await;
                    let $servers = server.connect_string();
                    $case;
                }
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
mod curator_programs;
mod curator_queue;
mod followed_reads;
mod framework;
mod framework_options;
mod inspect;
mod kazoo;
mod kazoo_barrier;
mod kazoo_lock;
mod kazoo_names;
mod kazoo_partition;
mod mutex;
mod peer;
mod raw_clients;
mod throttling;
