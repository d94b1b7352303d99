use std::fmt;

use bytes::Bytes;
use futures_core::Stream;
use zk_curator_client::{Data, Stat};

use super::follower::{FollowedRead, OfData, WatchFollower};
use super::order::HistoryPlace;
use super::stream::until_error;
use crate::error::Result;
use crate::framework::CuratorFramework;

/// Follows the data of a node: see [`CuratorFramework::watch_data`].
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless the next state is awaited"]
pub struct DataWatch {
    follower: WatchFollower<OfData>,
    /// The place of the state that was returned last; `None` in it for a missing node.
    told: Option<Option<HistoryPlace>>,
}

impl CuratorFramework {
    /// Follows the data of a node, which need not exist: returns them now, and after every change.
    /// [`watch`](crate::watch) says when to use this, and what every followed read promises.
    ///
    /// **Nothing is sent until [`next`](DataWatch::next) is awaited.** An invalid path is an error
    /// of that call.
    ///
    /// Corresponds to kazoo's `DataWatch`. There the callback runs on the client's own thread, and
    /// an exception in it ends the watch.
    pub fn watch_data(&self, path: impl Into<String>) -> DataWatch {
        DataWatch::of("watch_data", self, path.into())
    }
}

impl DataWatch {
    pub(super) fn of(operation: &'static str, zk: &CuratorFramework, path: String) -> Self {
        Self { follower: WatchFollower::new(zk, operation, path, false), told: None }
    }

    /// Returns the path within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.follower.target.path
    }

    /// Waits for the next state, without a time limit and across sessions. The first call returns
    /// the present state, later calls a state that differs from the last one. `None` means that the
    /// node does not exist. Equal data that are written again are another state, and so is a node
    /// that was deleted and created again.
    ///
    /// # Errors
    /// Errors that do not pass by themselves: `NoAuth`, `InvalidPath`, `SchemaViolation`, `Closed`,
    /// and `SessionExpired` for a handle that is [bound](CuratorFramework::bound_to_session) to a
    /// session that is over. The next call tries again. `Undecodable` for data that cannot be
    /// decompressed, once: the next call waits for the next state.
    ///
    /// # Cancel safety
    /// Dropping the future loses no state.
    pub async fn next(&mut self) -> Result<Option<(Bytes, Stat)>> {
        loop {
            self.follower.changed().await;
            let seen = self.follower.next_value().await?;
            let place = seen.as_ref().map(OfData::place);
            if self.told == Some(place) {
                continue;
            }
            self.told = Some(place);
            let Some(Data { data, stat, .. }) = seen else { return Ok(None) };
            return Ok(Some((self.follower.target.decompress(None, data)?, stat)));
        }
    }

    /// Returns the states as a stream, which ends after the first error.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream drops the watch.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<(Bytes, Stat)>>> + Send + 'static {
        until_error(self, |watch| Box::pin(watch.next()))
    }
}

impl fmt::Debug for DataWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataWatch")
            .field("path", &self.path())
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
