use std::fmt;

use zk_curator::CuratorFramework;

use super::batch::Operation;
use super::error::Error;
use super::handle::DistributedAtomicLong;

/// A latch that opens when a given number of arrivals have been counted, from any process
/// (`java.util.concurrent.CountDownLatch`).
///
/// An open latch stays open until its node is deleted. Every process names the same count; it is
/// the initial value while there is no node.
///
/// # Layout
/// ```text
/// /latches/started                          persistent: the arrivals that are missing, as a DistributedAtomicLong
///   ├─ _r_1f0c52a0-…                        ephemeral: the receipt of a process that has counted down
///   └─ _o/3f/worker-7                       the record of an arrival with an id
/// ```
///
/// # Protocol
/// One conditional write counts an arrival: see [`Counter`](super::Counter). A waiting process
/// follows the node, with one request for each change: at most *n·w* requests for *n* arrivals and
/// *w* waiting processes.
///
/// # Guarantees
/// * A call counts once or not at all, whatever replies are lost;
///   [with an id](Self::count_down_once) once for the id.
/// * Every waiting process is woken, also across sessions.
///
/// # Connection loss
/// SUSPENDED and LOST: waiters keep waiting, and read again in the next session.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::counter::CountDownLatch;
///
/// let latch = CountDownLatch::new(&zk, "/latches/started", 2);
/// assert_eq!(latch.count_down_once("worker-1").await?, 1);
/// assert_eq!(latch.count_down_once("worker-1").await?, 1);
/// assert_eq!(latch.count_down_once("worker-2").await?, 0);
/// latch.wait().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    counter: DistributedAtomicLong,
}

impl CountDownLatch {
    /// A latch that opens after `count` arrivals. With zero it is open, unless another process has
    /// created it with more. Nothing is sent; a path that is not valid is refused by the first
    /// operation.
    #[must_use = "nothing is sent until it is used"]
    pub fn new(zk: &CuratorFramework, path: impl Into<String>, count: u32) -> Self {
        let counter = DistributedAtomicLong::builder(zk, path).initial(i64::from(count));
        Self { counter: counter.at_most(i64::from(u32::MAX)).build() }
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.counter.path()
    }

    /// Counts an arrival; returns the number of missing arrivals. An open latch stays unchanged
    /// is.
    ///
    /// # Errors
    /// As [`add`](super::Counter::add), but for `Overflow`.
    ///
    /// # Cancel safety
    /// The arrival may be counted.
    pub async fn count_down(&self) -> Result<u32, Error> {
        self.counter.applied(Operation::CountDown).await.map(|change| missing(change.post))
    }

    /// Counts the arrival of an id, once; returns the number of arrivals that were missing after
    /// it, also when it is called again. An open latch stays unchanged, and returns 0.
    ///
    /// # Errors
    /// As [`add_once`](super::Counter::add_once), but for `Overflow`.
    ///
    /// # Cancel safety
    /// The arrival may be counted; calling it again with the same id counts it at most once.
    pub async fn count_down_once(&self, id: impl Into<String>) -> Result<u32, Error> {
        let once = self.counter.once(&id.into(), Operation::CountDown).await;
        once.map(|once| missing(once.into_inner().post))
    }

    /// Returns the number of missing arrivals; every arrival that has returned is counted.
    ///
    /// # Errors
    /// As [`get`](super::Counter::get).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn count(&self) -> Result<u32, Error> {
        self.counter.get().await.map(missing)
    }

    /// Waits until the latch is open, forever and across sessions.
    ///
    /// # Errors
    /// [`Error::Undecodable`]; [`Error::Framework`] for permanent errors.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "await")]
    pub async fn wait(&self) -> Result<(), Error> {
        let mut values = self.counter.follow();
        while values.next().await? > 0 {}
        Ok(())
    }
}

/// The arrivals that are missing. The counter of a latch has no greater numbers.
fn missing(count: i64) -> u32 {
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch").field("path", &self.path()).finish_non_exhaustive()
    }
}
