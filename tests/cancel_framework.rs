//! Every future of the framework, dropped at every await point: nothing is left after `close`.

mod common;

use common::{assert_clean_after_close, connected, in_memory, poll_then_drop, simulated};
use zk_curator::CreateMode;
use zk_curator_testing::TestServer;

#[test]
fn a_protected_create_leaves_no_node() {
    simulated(async {
        for step in 0.. {
            let (server, zk) = in_memory().await;
            zk.create("/parent").mode(CreateMode::Container).await.unwrap();
            let create = zk.create("/parent/n-").mode(CreateMode::PersistentSequential).protected();
            if poll_then_drop(IntoFuture::into_future(create), step).await.is_some() {
                assert!(step > 3, "it has awaited something");
                break;
            }
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
        }
    });
}

#[test]
fn an_unused_framework_leaves_nothing() {
    common::real_time(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        zk.close().await.unwrap();
        assert_clean_after_close(&server);
    });
}
