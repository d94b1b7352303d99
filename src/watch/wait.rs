use bytes::Bytes;
use zk_curator_client::Stat;

use super::DataWatch;
use super::follower::{OfExistence, WatchFollower};
use crate::framework::CuratorFramework;
use crate::op::OpFuture;

impl CuratorFramework {
    /// Waits until a node exists according to the server, without a time limit and across sessions.
    ///
    /// **Awaiting returns** its [`Stat`]. Costs one request, and one more if it has to wait.
    ///
    /// Fails as [`DataWatch::next`] does.
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub fn wait_exists(&self, path: impl Into<String>) -> OpFuture<Stat> {
        let mut node = WatchFollower::<OfExistence>::new(self, "wait_exists", path.into(), true);
        OpFuture::composed(async move {
            loop {
                if let Some(stat) = node.next_value().await? {
                    return Ok(stat);
                }
                node.changed().await;
            }
        })
    }

    /// Waits until a node does not exist according to the server, without a time limit and across
    /// sessions. A deletion during the wait is enough, even if the node was created again.
    ///
    /// **Awaiting returns** `()`. Costs one request, and one more for every change of the data.
    ///
    /// Fails as [`DataWatch::next`] does.
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub fn wait_gone(&self, path: impl Into<String>) -> OpFuture<()> {
        let mut node = WatchFollower::<OfExistence>::new(self, "wait_gone", path.into(), true);
        OpFuture::composed(async move {
            let mut first = None;
            while let Some(stat) = node.next_value().await? {
                // A changed `czxid` shows a deletion without an event: another node has replaced
                // this one.
                if *first.get_or_insert(stat.czxid) != stat.czxid || node.changed().await {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Waits until a node exists whose data satisfy `is_wanted`, without a time limit and across
    /// sessions. Data that are replaced before they are read are skipped.
    ///
    /// **Awaiting returns** these data and their [`Stat`]. Costs one request for every change.
    ///
    /// Fails as [`DataWatch::next`] does.
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
