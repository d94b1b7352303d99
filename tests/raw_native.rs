//! The conformance suite of raw clients: the native client on the embedded server.

mod common;
mod raw_suite;

use std::sync::Arc;

use common::real_time;
use raw_suite::{Case, for_each_case};
use zk_curator::raw::NativeFactory;
use zk_curator_testing::TestServer;

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
