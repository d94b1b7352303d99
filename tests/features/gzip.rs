//! Compressed data: per operation and for the whole framework, on the embedded server.

use bytes::Bytes;
use proptest::prelude::*;
use zk_curator::compression::{
    CompressionFailure, CompressionProvider, GzipCompressionProvider, GzipError,
};
use zk_curator::op::CreateOp;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_testing::TestServer;
use zk_curator_tests::{builder, simulated_on, simulated_with, start};

pub(crate) const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

pub(crate) async fn compressing(server: &TestServer) -> CuratorFramework {
    start(builder(server).enable_compression()).await
}

pub(crate) fn is_compressed(server: &TestServer, path: &str) -> bool {
    server.probe().data(path).unwrap().starts_with(&MAGIC)
}

#[test]
fn data_are_compressed_where_an_operation_says_so() {
    simulated_with(async |server, zk| {
        let text = "data ".repeat(1000);
        zk.create("/a").data(text.clone()).compressed().await.unwrap();
        assert!(is_compressed(&server, "/a"));
        assert!(server.probe().data("/a").unwrap().len() < 100);
        assert_eq!(zk.get_data("/a").decompressed().await.unwrap(), text);
        assert_eq!(zk.get_data("/a").await.unwrap(), server.probe().data("/a").unwrap());
        zk.set_data("/a", "other").compressed().await.unwrap();
        assert!(is_compressed(&server, "/a"));
        let (data, stat) = zk.get_data("/a").decompressed().with_stat().await.unwrap();
        assert_eq!((data.as_ref(), stat.version), (&b"other"[..], 1));
        let watched = zk.get_data("/a").with_stat().decompressed().await.unwrap();
        assert_eq!(watched.0, "other");
        assert_eq!(zk.get_data("/a").watched().decompressed().await.unwrap().value.0, "other");
    });
}

#[test]
fn a_framework_compresses_unless_an_operation_opts_out() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = compressing(&server).await;
        zk.create("/a").data("data").await.unwrap();
        zk.create("/plain").data("data").uncompressed().await.unwrap();
        zk.create("/p/child").data("data").creating_parents().await.unwrap();
        zk.transaction().create("/t", "1").set_data("/a", "2").commit().await.unwrap();
        let compressed = ["/a", "/plain", "/t"].map(|path| is_compressed(&server, path));
        assert_eq!(compressed, [true, false, true]);
        assert_eq!(zk.get_data("/a").await.unwrap(), "2");
        assert_eq!(zk.get_data("/t").await.unwrap(), "1");
        assert_eq!(zk.get_data("/plain").undecompressed().await.unwrap(), "data");
        assert_eq!(zk.get_data("/p").await.unwrap(), "", "a parent, which has no data");
        zk.set_data("/a", "3").uncompressed().await.unwrap();
        assert_eq!(server.probe().data("/a").unwrap(), "3");

        let plain = zk.uncompressed();
        plain.set_data("/a", "4").await.unwrap();
        plain.transaction().set_data("/t", "4").commit().await.unwrap();
        zk.transaction().uncompressed().set_data("/plain", "4").commit().await.unwrap();
        assert_eq!(
            ["/a", "/t", "/plain"].map(|path| server.probe().data(path).unwrap()),
            ["4", "4", "4"]
        );
        assert_eq!(plain.get_data("/a").await.unwrap(), "4");
        assert!(zk.is_compressing() && !plain.is_compressing());
    });
}

#[test]
fn a_node_without_data_has_none_to_compress() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = compressing(&server).await;
        zk.create("/a").compressed().await.unwrap();
        zk.transaction().with(CreateOp::new("/b")).commit().await.unwrap();
        zk.create("/c").data("").await.unwrap();
        let sizes = ["/a", "/b", "/c"].map(|path| server.probe().data(path).unwrap().len());
        assert_eq!(sizes, [0, 0, 20], "empty data are data");
        let named = start(builder(&server).enable_compression().default_data("host")).await;
        named.create("/d").await.unwrap();
        assert!(is_compressed(&server, "/d"));
    });
}

#[test]
fn undecompressible_data_and_bombs_are_typed_errors() {
    simulated_on(TestServer::in_memory, async |server| {
        let gzip = GzipCompressionProvider::new().max_decompressed_size(1 << 20);
        let zk = start(builder(&server).compression_provider(gzip)).await;
        zk.create("/plain").data("not gzip").await.unwrap();
        zk.create("/bomb").data(vec![0; 64 << 20]).compressed().await.unwrap();
        for path in ["/plain", "/bomb"] {
            let error = zk.get_data(path).decompressed().await.unwrap_err();
            assert_eq!(
                (error.kind(), error.operation(), error.path()),
                (ErrorKind::Undecodable, "get_data", path)
            );
            assert!(!error.is_retryable() && !error.may_have_applied());
            let source = error.cause().unwrap().downcast_ref::<GzipError>().unwrap();
            assert_eq!(
                matches!(source, GzipError::TooLarge { limit: 1_048_576 }),
                path == "/bomb",
                "{source}"
            );
        }
    });
}

/// Fails, so that the test sees what becomes of that.
#[derive(Debug)]
struct Broken;

impl CompressionProvider for Broken {
    fn compress(&self, path: &str, _data: &[u8]) -> Result<Bytes, CompressionFailure> {
        Err(format!("no room in {path}").into())
    }

    fn decompress(&self, _path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        Ok(Bytes::copy_from_slice(data))
    }
}

#[test]
fn what_cannot_be_compressed_is_not_sent() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).compression_provider(Broken).enable_compression()).await;
        for (operation, result) in [
            ("create", zk.create("/a").data("1").await.map(drop)),
            ("set_data", zk.set_data("/a", "").await.map(drop)),
            ("transaction", zk.transaction().create("/a", "").commit().await.map(drop)),
        ] {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation));
            assert_eq!(error.cause().unwrap().to_string(), "no room in /a");
        }
        assert!(!server.probe().exists("/a"));
    });
}

fn gzip() -> GzipCompressionProvider {
    GzipCompressionProvider::new()
}

proptest! {
    #[test]
    fn what_was_compressed_comes_back(data in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let compressed = gzip().compress("/", &data).unwrap();
        prop_assert_eq!(gzip().decompress("/", &compressed).unwrap(), data);
    }

    #[test]
    fn no_bytes_make_it_panic(mut data in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(gzip().decompress("/", &data));
        // Behind a whole header.
        data.splice(0..0, gzip().compress("/", b"").unwrap().into_iter().take(10));
        drop(gzip().decompress("/", &data));
    }
}
