//! `tokio-zookeeper`. It has no recipes, and does not report its connections.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::LocalBoxStream;
use tokio_zookeeper::{Acl, CreateMode, WatchedEvent, ZooKeeper, ZooKeeperBuilder};

use crate::shared::Session;
use crate::shared::measure::Result;

pub(crate) async fn run() -> Result<()> {
    crate::run::<Connection>(&[], async |stage| crate::unknown(stage)).await
}

#[derive(Clone)]
struct Connection {
    zk: ZooKeeper,
    /// Ends with the connection.
    events: Rc<RefCell<Option<LocalBoxStream<'static, WatchedEvent>>>>,
}

impl Session for Connection {
    type Data = Vec<u8>;

    async fn open(connect: &str, timeout: Duration) -> Result<Self> {
        let mut builder = ZooKeeperBuilder::default();
        builder.set_timeout(timeout);
        let (zk, events) = builder.connect(&connect.parse()?).await?;
        Ok(Self { zk, events: Rc::new(RefCell::new(Some(events.boxed_local()))) })
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        let events = self.events.take();
        Box::pin(async move {
            if let Some(mut events) = events {
                while events.next().await.is_some() {}
            }
        })
    }

    async fn close(&self) -> Result<()> {
        // The drop of the last clone closes it.
        Ok(())
    }

    async fn create(&self, path: &str, data: &[u8], is_ephemeral: bool) -> Result<()> {
        let mode = if is_ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        self.zk.create(path, data.to_vec(), Acl::open_unsafe(), mode).await??;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.zk.get_data(path).await?.ok_or("there is no node")?.0)
    }

    async fn watch(
        &self,
        path: &str,
    ) -> Result<(Vec<u8>, impl Future<Output = Result<()>> + use<>)> {
        let read = self.zk.with_watcher().get_data(path).await?;
        let (watch, data, _) = read.ok_or("there is no node")?;
        Ok((data, async move {
            watch.await?;
            Ok(())
        }))
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<i32> {
        Ok(self.zk.set_data(path, None, data.to_vec()).await??.version)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(self.zk.delete(path, None).await??)
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.zk.exists(path).await?.is_some())
    }

    async fn children(&self, path: &str) -> Result<Vec<String>> {
        Ok(self.zk.get_children(path).await?.ok_or("there is no node")?)
    }
}
