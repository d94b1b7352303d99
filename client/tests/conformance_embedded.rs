//! The conformance suite on the embedded server, in its versions 3.8 and 3.9, and on a cluster of
//! three.

use crate::conformance::{Target, for_each_case, on_threads, run, run_all, run_those};
use zk_curator_testing::{ErrorCode, OpCode, TestCluster, TestServer, ZooKeeperVersion};

async fn servers(members: usize, version: ZooKeeperVersion) -> Target {
    let settings = TestServer::builder().version(version);
    let servers = TestCluster::builder(members).settings(settings).start().await.expect("servers");
    Target::embedded(servers, version)
}

async fn embedded(name: &str, version: ZooKeeperVersion) {
    run(servers(1, version).await, name).await;
}

mod night {
    use super::*;

    /// All cases share the servers, as on Apache ZooKeeper.
    #[test]
    #[ignore = "night: scripts/night"]
    fn the_client_conforms_on_a_cluster_of_three() {
        on_threads(async { run_all(servers(3, ZooKeeperVersion::V3_9).await).await });
    }
}

/// The cases that depend on there being other servers.
#[test]
fn the_client_conforms_where_a_cluster_differs() {
    on_threads(async {
        let those = [
            "the_death_of_a_server",
            "lost_with_a_server",
            "read_only",
            "session_moves",
            "nodes_are_created",
        ];
        run_those(servers(3, ZooKeeperVersion::V3_9).await, &those).await;
    });
}

/// A server closes the connection after a request that it does not know.
#[test]
fn who_am_i_is_not_sent_to_a_server_before_3_7() {
    on_threads(async {
        for name in ["a_session_knows_its_ephemeral", "identities_survive_cuts"] {
            let mut target = servers(1, ZooKeeperVersion::V3_8).await;
            target.knows_who_am_i = false;
            target.refuse(OpCode::WhoAmI, ErrorCode::Unimplemented).await;
            run_those(target, &[name]).await;
        }
    });
}

/// Runs each case on 3.8 and on 3.9. The cases that take seconds show no difference between the
/// two, so the other release is for the night.
macro_rules! tests {
    (
        suite { $($suite:ident)* }
        shared { $($a:ident: $shared:ident)* }
        long { $($b:ident: $long:ident)* }
        huge { $($c:ident: $huge:ident)* }
        alone { $($d:ident: $alone:ident)* }
    ) => {
        mod as_3_8 {
            tests! { [] V3_8 $($suite)* $($shared)* $($alone)* }
            mod night {
                tests! { [#[ignore = "night: scripts/night"]] V3_8 $($long)* $($huge)* }
            }
        }
        mod as_3_9 {
            tests! { [] V3_9 $($suite)* $($shared)* $($long)* $($alone)* }
            mod night {
                tests! { [#[ignore = "night: scripts/night"]] V3_9 $($huge)* }
            }
        }
    };
    ([$($attribute:tt)*] $version:ident) => {};
    ([$($attribute:tt)*] $version:ident $name:ident $($others:ident)*) => {
        #[test]
        $($attribute)*
        fn $name() {
            let version = zk_curator_testing::ZooKeeperVersion::$version;
            crate::common::real_time(crate::conformance_embedded::embedded(stringify!($name), version));
        }
        tests! { [$($attribute)*] $version $($others)* }
    };
}
for_each_case!(tests);
