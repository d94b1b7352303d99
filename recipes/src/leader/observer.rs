use std::fmt;

use bytes::Bytes;
use futures_util::Stream;
use zk_curator::internal::until_error;
use zk_curator::{CuratorFramework, FencingToken};

use super::first::FirstCandidate;
use super::{Error, Participant};

/// A value that a leader has published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proclaimed {
    /// The leader: the path of its node.
    pub leader: String,
    /// The value.
    pub value: Bytes,
    /// The leader's fencing token.
    pub fencing_token: FencingToken,
}

impl From<Participant> for Proclaimed {
    fn from(participant: Participant) -> Self {
        let Participant { path, label, fencing_token, .. } = participant;
        Self { leader: path, value: label, fencing_token }
    }
}

/// Follows the leader of an [`Election`](super::Election) and the value that it proclaims.
/// [`into_stream`](Self::into_stream) makes it a [`Stream`].
///
/// Values that are replaced quickly may be skipped; the latest is always returned. Cost, order and
/// staleness are those of a [`LeaderObserver`]; each value costs one request.
pub struct Observer {
    first: FirstCandidate,
}

impl Observer {
    pub(super) fn new(zk: &CuratorFramework, path: &str, tag: &'static str) -> Self {
        Self { first: FirstCandidate::new(zk, path, tag) }
    }

    /// Returns the leader and its value, or `None` if there is no leader. The first call returns
    /// the current state. Each further call waits for a change, through every outage.
    ///
    /// # Errors
    /// * [`Error::Framework`] if the election cannot be read, for example with `InvalidPath` or
    ///   `NoAuth`. The next call tries again.
    /// * [`Error::Closed`] if the framework was closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Proclaimed>, Error> {
        Ok(self.first.next().await?.map(Proclaimed::from))
    }

    /// Returns the leaders as a stream that ends after the first error.
    pub fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Option<Proclaimed>, Error>> + Send + 'static {
        until_error(self, |observer| Box::pin(observer.next()))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("path", &self.first.path()).finish_non_exhaustive()
    }
}

/// Follows the leader among the candidates of a [`LeaderLatch`](super::LeaderLatch) or a
/// [`LeaderSelector`](super::LeaderSelector), without being a candidate. The candidates may use
/// this crate, or Java's Curator from 2.x on. Made by
/// [`LeaderLatch::observe`](super::LeaderLatch::observe) and
/// [`LeaderSelector::observe`](super::LeaderSelector::observe).
///
/// It creates nothing, not even the parent, and needs only the permission to read. It has no task:
/// [`next`](Self::next) is a future like any other, and [`into_stream`](Self::into_stream) makes it
/// a [`Stream`].
///
/// # Protocol
/// 1. List the candidates, and read the first one, with a watch on it. Observers and candidates use
///    the same order. The first one leads, or will lead as soon as it learns that it is first.
///    Curator's `getLeader()` returns the same one.
/// 2. When that watch fires, go to 1. Candidates that join, or leave without having led, wake no
///    observer.
/// 3. While there is no candidate, watch the children instead.
///
/// # Cost
/// Two requests for each leader. In each session the first listing is behind a quorum, which costs
/// one more request. Nothing is sent before the first [`next`](Self::next), or while nobody awaits
/// it.
///
/// # Staleness
/// * A leader that had left before the first call of `next` is never returned, even if the server
///   lags. After a lost session, this also holds for a leader that had left before the next
///   session.
/// * No state is returned after a newer one. Leaders that follow each other quickly may be skipped.
/// * The last returned leader may be out of date: by the lag of the server, and in an outage until
///   the connection is back. Even a leader that has lost its session is then still the last one
///   returned. Follow [`CuratorFramework::states`] to learn of outages. A request that must not
///   take effect at a former leader needs the fencing token.
/// * With a read-only server, nothing is returned until there is a quorum.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::leader::LeaderLatch;
///
/// // For example Spark's masters, which are in Java.
/// let masters = LeaderLatch::new(&zk, "/spark/leader_election");
/// let mut observer = masters.observe();
/// assert_eq!(observer.next().await?, None);
///
/// let candidate = masters.clone().id("master-1:7077").join();
/// let leader = observer.next().await?.expect("a leader");
/// assert_eq!(leader.label_str(), "master-1:7077");
/// candidate.close().await?;
/// assert_eq!(observer.next().await?, None);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub struct LeaderObserver {
    first: FirstCandidate,
}

impl LeaderObserver {
    pub(super) fn new(zk: &CuratorFramework, path: &str, tag: &'static str) -> Self {
        Self { first: FirstCandidate::new(zk, path, tag) }
    }

    /// Returns the path of the election.
    #[must_use]
    pub fn path(&self) -> &str {
        self.first.path()
    }

    /// Returns the leader, or `None` if there is no candidate. The first call returns the current
    /// leader. Each further call waits, through every outage, until there is another leader or its
    /// data have changed. The [label](Participant::label) is the leader's id, and the `czxid` of
    /// its node is its fencing token.
    ///
    /// # Errors
    /// * [`Error::Framework`] if the election cannot be read, for example with `InvalidPath` or
    ///   `NoAuth`. The next call tries again.
    /// * [`Error::Closed`] if the framework was closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Participant>, Error> {
        self.first.next().await
    }

    /// Returns the leaders as a stream that ends after the first error.
    pub fn into_stream(
        self,
    ) -> impl Stream<Item = Result<Option<Participant>, Error>> + Send + 'static {
        until_error(self, |observer| Box::pin(observer.next()))
    }
}

impl fmt::Debug for LeaderObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderObserver").field("path", &self.path()).finish_non_exhaustive()
    }
}
