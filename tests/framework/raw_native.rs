//! The conformance suite of raw clients: the native client on the embedded server.

use std::sync::Arc;

use zk_curator::raw::NativeFactory;
use zk_curator_testing::TestServer;
use zk_curator_tests::raw_suite::{self, Case, for_each_case};
use zk_curator_tests::real_time;

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test] fn $name() {
            real_time(async {
                let server = TestServer::start().await;
                let factory = Arc::new(NativeFactory::default());
                let case = Case::new(server.addr().expect("on TCP"), factory, false, stringify!($name)).await;
                raw_suite::$name(case).await;
            });
        })*
    };
}
for_each_case!(tests);
