//! The fault proxy, in front of the embedded server and of Apache ZooKeeper.

mod passing;
mod traffic;
mod verdicts;

use bytes::BytesMut;
use zk_curator_proto::Record;
use zk_curator_proto::records::{CreateMode, RequestHeader};
use zk_curator_proto::{Request, frame};
use zk_curator_testing::{FaultProxy, RuleRequest, TestServer, Verdict};

use crate::common::{RawClient, create};

/// Starts a server, and a proxy in front of it.
async fn proxied() -> (TestServer, FaultProxy) {
    let server = TestServer::start().await;
    let proxy = FaultProxy::start(server.addr().as_slice()).await.expect("a proxy");
    (server, proxy)
}

fn address(proxy: &FaultProxy) -> std::net::SocketAddr {
    proxy.servers().next().expect("a server").address()
}

async fn client(proxy: &FaultProxy) -> RawClient {
    RawClient::over_tcp(&proxy.connect_string()).await
}

fn on_create(verdict: Verdict) -> impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static {
    move |request| if request.is_create() { verdict } else { Verdict::Pass }
}

fn create_a() -> Request {
    create("/a", CreateMode::Persistent)
}

/// Appends the frame of a request.
fn put(out: &mut BytesMut, xid: i32, request: &Request) {
    frame::put(out, |out| {
        RequestHeader { xid, opcode: request.opcode().code() }.encode(out);
        request.encode_body(out);
    });
}
