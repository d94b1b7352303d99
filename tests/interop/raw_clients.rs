//! The conformance suite of raw clients on Apache ZooKeeper.

use std::sync::Arc;

use zk_curator::raw::{NativeFactory, RawClientFactory};
use zk_curator_real as real;
use zk_curator_tests::raw_suite::{self, Case, for_each_case};
use zk_curator_tests::real_time;

/// All cases concurrently, each in a chroot of its own.
fn conforms(name: &str, factory: Arc<dyn RawClientFactory>, limited: bool) {
    real_time(async {
        let Some(chroot) = real::chroot_or_skip(name).await else { return };
        let mut running = Vec::new();
        macro_rules! run {
            ($($case:ident)*) => {
                $({
                    let (factory, chroot) = (Arc::clone(&factory), chroot.clone());
                    running.push((stringify!($case), tokio::spawn(async move {
                        let (parent, server) = (chroot.path(), chroot.addr());
                        let case = Case::below(parent, server, factory, limited, stringify!($case));
                        raw_suite::$case(case.await).await;
                    })));
                })*
            };
        }
        for_each_case!(run);
        let mut failed = Vec::new();
        for (case, task) in running {
            if task.await.is_err() {
                failed.push(case);
            }
        }
        assert!(failed.is_empty(), "failed: {failed:?}");
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_native_client_conforms() {
    conforms("the_native_client_conforms", Arc::new(NativeFactory::default()), false);
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_adapter_for_zookeeper_async_conforms() {
    let factory = zk_curator::raw::zookeeper_async::ZookeeperAsyncFactory::default();
    conforms("the_adapter_for_zookeeper_async_conforms", Arc::new(factory), true);
}
