//! Requests over the limit of the servers, which close the connection without a response.

use zk_curator::certain::Receipt;
use zk_curator::{CuratorFramework, Error, ErrorKind};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::settled;
use zk_curator_tests::{builder, simulated_each_on, start};

/// A server whose limit is lower than that of its client.
async fn setup(limit: usize) -> (TestServer, CuratorFramework) {
    let server = TestServer::builder().tcp(false).max_frame(limit).start().await.unwrap();
    let zk = start(builder(&server).max_frame(4 << 20)).await;
    zk.create("/a").await.unwrap();
    (server, zk)
}

async fn write(zk: &CuratorFramework, operation: &str, data: Vec<u8>) -> Result<(), Error> {
    match operation {
        "set_data" => zk.set_data("/a", data).idempotent().await.map(drop),
        "idempotent" => zk.create("/b").idempotent().data(data).await.map(drop),
        "protected" => zk.create("/b").protected().data(data).await.map(drop),
        "certain" => {
            let receipt = Receipt::new(zk, "/");
            zk.transaction().set_data("/a", data).certain(&receipt).commit().await.map(drop)
        }
        _ => zk.transaction().set_data("/a", data).commit().await.map(drop),
    }
}

/// Returns the result of a write, and the number of connections that it has cost.
async fn outcome(zk: &CuratorFramework, operation: &str, data: usize) -> (Error, usize) {
    let epoch = zk.status().epoch;
    let error = write(zk, operation, vec![b'x'; data]).await.unwrap_err();
    settled().await;
    zk.exists("/").await.unwrap();
    // Each is suspended and reconnected.
    (error, usize::try_from(zk.status().epoch - epoch).unwrap() / 2)
}

#[test]
fn write_over_the_servers_limit_costs_one_connection() {
    let operations = ["set_data", "idempotent", "protected", "certain", "transaction"];
    simulated_each_on(
        operations,
        async || setup(1 << 20).await,
        async |operation, (server, zk)| {
            let (error, losses) = outcome(&zk, operation, 2 << 20).await;
            assert_eq!((error.kind(), losses), (ErrorKind::TooLarge, 1), "{operation}: {error}");
            assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
            // A receipt has shown that it was not.
            assert_eq!(error.may_have_applied(), operation != "certain", "{operation}");
            write(&zk, operation, vec![b'x'; 1_000]).await.unwrap();
            zk.close().await.unwrap();
            assert!(server.probe().sessions().is_empty());
        },
    );
}

/// The limit of the server is not the default.
#[test]
fn write_over_a_lower_limit_costs_two_connections() {
    let operations = ["set_data", "idempotent", "protected", "certain"];
    simulated_each_on(
        operations,
        async || setup(100_000).await,
        async |operation, (server, zk)| {
            let (error, losses) = outcome(&zk, operation, 200_000).await;
            assert_eq!((error.kind(), losses), (ErrorKind::TooLarge, 2), "{operation}: {error}");
            write(&zk, operation, vec![b'x'; 1_000]).await.unwrap();
            zk.close().await.unwrap();
            assert!(server.probe().sessions().is_empty());
        },
    );
}
