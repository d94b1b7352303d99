//! The server of an example: the embedded server or, with `ZK_CONNECT=host:port`, Apache ZooKeeper.

use std::error::Error;
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_testing::TestServer;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The environment of an example.
pub(crate) struct Stage {
    pub(crate) servers: String,
    /// The parent of all nodes of this example.
    pub(crate) root: String,
    _server: Option<TestServer>,
}

impl Stage {
    pub(crate) async fn new(name: &str) -> Self {
        let (servers, server) = match std::env::var("ZK_CONNECT") {
            Ok(servers) => (servers, None),
            Err(_) => {
                let server = TestServer::start().await;
                (server.connect_string(), Some(server))
            }
        };
        let root = format!("/examples/{name}-{}", std::process::id());
        Self { servers, root, _server: server }
    }

    /// Returns a separate client, as another process or another machine would have.
    pub(crate) async fn client(&self) -> Result<CuratorFramework> {
        let zk = CuratorFramework::builder()
            .connect_string(&self.servers)
            .session_timeout(Duration::from_secs(10))
            .build()?;
        zk.start().await?;
        Ok(zk)
    }

    /// Deletes the nodes that the example has left on a server that keeps running.
    pub(crate) async fn clear(&self, zk: &CuratorFramework) -> Result<()> {
        zk.delete(&self.root).deleting_children().quietly().await?;
        zk.close().await?;
        Ok(())
    }
}
