//! The conformance suite on the embedded server, as ZooKeeper 3.8 and as 3.9, and on a cluster of three.

use crate::conformance::{Target, for_each_case, on_threads, run, run_all};
use zk_curator_testing::{TestCluster, TestServer, ZooKeeperVersion};

async fn servers(members: usize, version: ZooKeeperVersion) -> Target {
    let settings = TestServer::builder().version(version);
    let servers = TestCluster::builder(members).settings(settings).start().await.expect("servers");
    Target::embedded(servers, if version == ZooKeeperVersion::V3_8 { (3, 8) } else { (3, 9) })
}

async fn embedded(name: &str, version: ZooKeeperVersion) {
    run(servers(1, version).await, name).await;
}

/// All cases share the servers, as those on Apache ZooKeeper do.
#[test]
fn the_client_conforms_on_a_cluster_of_three() {
    on_threads(async { run_all(servers(3, ZooKeeperVersion::V3_9).await).await });
}

macro_rules! tests {
    (suite { $($suite:ident)* } shared { $($a:ident: $shared:ident)* } alone { $($b:ident: $alone:ident)* }) => {
        tests! { $($suite)* $($shared)* $($alone)* }
    };
    ($($name:ident)*) => {
        mod as_3_8 {
            $(#[test] fn $name() {
                let version = super::ZooKeeperVersion::V3_8;
                crate::common::real_time(super::embedded(stringify!($name), version));
            })*
        }
        mod as_3_9 {
            $(#[test] fn $name() {
                let version = super::ZooKeeperVersion::V3_9;
                crate::common::real_time(super::embedded(stringify!($name), version));
            })*
        }
    };
}
for_each_case!(tests);
