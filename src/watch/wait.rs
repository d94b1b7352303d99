use bytes::Bytes;
use zk_curator_client::Stat;

use super::DataWatch;
use super::follower::{Follower, OfExistence};
use crate::framework::CuratorFramework;
use crate::op::OpFuture;

impl CuratorFramework {
    /// Waits until a node exists, for ever and across sessions, as far as the server knows.
    ///
    /// **Awaiting returns** its [`Stat`]. One request, and one more if it has to wait.
    ///
    /// Fails as [`DataWatch::next`].
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub fn wait_exists(&self, path: impl Into<String>) -> OpFuture<Stat> {
        let mut node = Follower::<OfExistence>::new(self, "wait_exists", path.into(), true);
        OpFuture::composed(async move {
            loop {
                if let Some(stat) = node.look().await? {
                    return Ok(stat);
                }
                node.changed().await;
            }
        })
    }

    /// Waits until a node does not exist, for ever and across sessions, as far as the server knows. That it is deleted while
    /// it is waited for is enough, also if it was created again by then.
    ///
    /// **Awaiting returns** `()`. One request, and one more for every change of the data.
    ///
    /// Fails as [`DataWatch::next`].
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub fn wait_gone(&self, path: impl Into<String>) -> OpFuture<()> {
        let mut node = Follower::<OfExistence>::new(self, "wait_gone", path.into(), true);
        OpFuture::composed(async move {
            let mut first = None;
            while let Some(stat) = node.look().await? {
                // Of a deletion that no event has told: another node has taken its place.
                if *first.get_or_insert(stat.czxid) != stat.czxid || node.changed().await {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Waits until a node exists and its data are wanted, for ever and across sessions. Data that are replaced before they
    /// are read are not asked about.
    ///
    /// **Awaiting returns** these data and their [`Stat`]. One request for every change.
    ///
    /// Fails as [`DataWatch::next`].
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub fn wait_data(
        &self,
        path: impl Into<String>,
        mut is_wanted: impl FnMut(&Bytes) -> bool + Send + 'static,
    ) -> OpFuture<(Bytes, Stat)> {
        let mut watch = DataWatch::of("wait_data", self, path.into());
        OpFuture::composed(async move {
            loop {
                if let Some((data, stat)) = watch.next().await?
                    && is_wanted(&data)
                {
                    return Ok((data, stat));
                }
            }
        })
    }
}
