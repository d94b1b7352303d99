//! The conformance suite on the embedded server, as ZooKeeper 3.8 and as 3.9.

mod common;
mod conformance;

use conformance::{Target, for_each_case, run};
use zk_curator_testing::{TestServer, ZooKeeperVersion};

async fn embedded(name: &str, version: ZooKeeperVersion) {
    let server = TestServer::builder().version(version).start().await.expect("a server");
    let version = if version == ZooKeeperVersion::V3_8 { (3, 8) } else { (3, 9) };
    run(Target::embedded(server, version), name).await;
}

macro_rules! tests {
    (suite { $($suite:ident)* } shared { $($a:ident: $shared:ident)* } alone { $($b:ident: $alone:ident)* }) => {
        tests! { $($suite)* $($shared)* $($alone)* }
    };
    ($($name:ident)*) => {
        mod as_3_8 {
            $(#[test] fn $name() {
                let version = super::ZooKeeperVersion::V3_8;
                super::common::real_time(super::embedded(stringify!($name), version));
            })*
        }
        mod as_3_9 {
            $(#[test] fn $name() {
                let version = super::ZooKeeperVersion::V3_9;
                super::common::real_time(super::embedded(stringify!($name), version));
            })*
        }
    };
}
for_each_case!(tests);
