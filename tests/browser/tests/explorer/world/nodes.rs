//! Nodes of every kind, and data of every form.

use std::time::Duration;

use zk_curator::compression::{CompressionProvider, GzipCompressionProvider};
use zk_curator::{Acl, CreateMode, CuratorFramework, Permissions};
use zk_curator_browser::BrowserError;
use zk_curator_testing::{TestServer, digest};

use super::clients::{SHOP, World, made};

/// The time to live of a node. No test lasts as long.
const DAY: Duration = Duration::from_secs(24 * 3_600);

const JSON: &str = r#"{
  "currency": "EUR",
  "checkout": { "retries": 3, "timeout_ms": 1500 },
  "features": ["search", "reviews"]
}"#;
const YAML: &str = "routes:\n  - path: /orders\n    service: orders\n  - path: /bills\n    \
                    service: billing\n";
const CATALOGUE: &[u8] = br#"{"books":1200,"records":311}"#;
/// The beginning of a picture.
const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\0\0\0\x01\0\x08\x06\0\0\0";
/// An object of the class `com.shop.Session` without fields, as Java serialises it.
const OBJECT: &[u8] =
    b"\xac\xed\0\x05sr\0\x10com.shop.Session\x1a\x2b\x3c\x4d\x5e\x6f\x70\x01\x02\0\0xp";

/// Creates the nodes of the explorer's own session.
pub(super) async fn fill(zk: &CuratorFramework) -> Result<(), BrowserError> {
    shop(zk).await?;
    quota(zk).await?;
    // A copy that differs.
    zk.create("/config/staging").data(JSON.replace("1500", "500")).await?;
    zk.create("/config/staging/routes.yaml").data(YAML).await?;
    // By default, data of nodes with this name are hidden.
    zk.create("/config/mail/password").creating_parents().data("s3cret").await?;
    let rates = zk.create("/cache/rates").creating_parents().mode(CreateMode::PersistentWithTtl);
    rates.ttl(DAY).data("USD 1.09").await?;
    zk.create("/uploads").mode(CreateMode::Container).await?;
    zk.create("/uploads/part-1").data("%PDF-1.7").await?;
    Ok(())
}

/// Creates the configuration of the shop, with data of every form.
async fn shop(zk: &CuratorFramework) -> Result<(), BrowserError> {
    let rights = vec![
        Acl::new(Permissions::ALL, "world", "anyone"),
        Acl::new(Permissions::ALL, "digest", digest("deploy:s3cret")),
        Acl::new(Permissions::READ, "ip", "10.0.0.7"),
    ];
    zk.create(SHOP).creating_parents().acl(rights).data(JSON).await?;
    let at = |name: &str| format!("{SHOP}/{name}");
    let gzip = GzipCompressionProvider::new();
    let catalogue = made(gzip.compress(&at("catalogue.json.gz"), CATALOGUE));
    zk.create(at("catalogue.json.gz")).data(catalogue).await?;
    zk.create(at("logo.png")).data(PICTURE).await?;
    zk.create(at("routes.yaml")).data(YAML).await?;
    zk.create(at("session.ser")).data(OBJECT).await?;
    Ok(())
}

/// Sets a quota, as the servers store it.
async fn quota(zk: &CuratorFramework) -> Result<(), BrowserError> {
    let quota = format!("/zookeeper/quota{SHOP}");
    let limits = zk.create(format!("{quota}/zookeeper_limits")).creating_parents();
    limits.data("count=100,bytes=65536").await?;
    zk.create(format!("{quota}/zookeeper_stats")).data("count=5,bytes=600").await?;
    Ok(())
}

impl World {
    /// Registers two web servers by ephemeral nodes.
    pub(super) async fn presence(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        for name in ["web-1", "web-2"] {
            let zk = self.client(server).await?;
            let node = zk.create(format!("/presence/{name}")).creating_parents();
            node.mode(CreateMode::Ephemeral).data("10.0.0.7:8080").await?;
        }
        Ok(())
    }
}
