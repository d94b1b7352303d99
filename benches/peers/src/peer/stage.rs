//! The framework as a client of the comparison.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use zk_curator::{ConnectionStatus, CreateMode, CuratorFramework};

use crate::shared::fleet::Reports;
pub(crate) use crate::shared::measure::{Outcome, Result, Samples, at_most, cpu_time, each};
pub(crate) use crate::shared::stage::{Begun, say};
use crate::shared::{self, Session};

pub(crate) type Stage = shared::Stage<CuratorFramework>;

const CLOSED: &str = "the client was closed";

impl Session for CuratorFramework {
    type Data = Bytes;

    async fn open(connect: &str, timeout: Duration) -> Result<Self> {
        let zk = Self::builder().connect_string(connect).session_timeout(timeout).build()?;
        zk.start().await?;
        Ok(zk)
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        // `close` returns when it is.
        Box::pin(async {})
    }

    async fn close(&self) -> Result<()> {
        Ok(Self::close(self).await?)
    }

    async fn create(&self, path: &str, data: &[u8], is_ephemeral: bool) -> Result<()> {
        let mode = if is_ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        Self::create(self, path).mode(mode).data(data.to_vec()).await?;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Bytes> {
        Ok(self.get_data(path).await?)
    }

    async fn watch(&self, path: &str) -> Result<(Bytes, impl Future<Output = Result<()>> + use<>)> {
        let watched = self.get_data(path).watched().await?;
        let ((data, _), watch) = (watched.value, watched.watch);
        Ok((data, async move {
            watch.await?;
            Ok(())
        }))
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<i32> {
        Ok(self.set_data(path, data.to_vec()).await?.version)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(Self::delete(self, path).await?)
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        Ok(Self::exists(self, path).await?.is_some())
    }

    async fn children(&self, path: &str) -> Result<Vec<String>> {
        Ok(Self::children(self, path).await?)
    }

    async fn plant(&self, path: &str, data: &[u8]) -> Result<()> {
        Self::create(self, path).data(data.to_vec()).creating_parents().await?;
        Ok(())
    }

    async fn remove(&self, path: &str) -> Result<()> {
        Ok(Self::delete(self, path).deleting_children().quietly().await?)
    }
}

impl Reports for CuratorFramework {
    fn lost_and_back(&self) -> impl Future<Output = Result<()>> + use<> {
        let (mut states, watched) = (self.states(), self.status().epoch);
        async move {
            let is_back =
                |status: &ConnectionStatus| status.epoch > watched && status.state.is_connected();
            states.until(is_back).await.ok_or(CLOSED)?;
            Ok(())
        }
    }
}
