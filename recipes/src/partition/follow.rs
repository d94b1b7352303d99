use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::DropGuard;
use zk_curator::internal::{CancellationToken, OnDrop};

use super::held::Partition;
use super::{Error, SetPartitioner};
use crate::health::HealthWatch;
use crate::shutdown::Shutdown;

/// A change of the parts that a member owns.
#[non_exhaustive]
#[derive(Debug)]
pub enum PartitionEvent {
    /// This member owns the part.
    Acquired(OwnedPartition),
    /// The part is assigned to another member: drop its [`OwnedPartition`] when its work is
    /// finished, at the latest when the time to [drain](SetPartitioner::drain) has passed.
    Revoked(String),
    /// The part is not ours any more although its [`OwnedPartition`] exists: the session is over,
    /// the lock was deleted, or the time to drain has passed.
    Lost(String),
}

/// A part that this member owns: a [`Partition`], and the duty to give it up.
///
/// # Cancel safety
/// Dropping it releases the part. Without a revocation, this member does not take the part again
/// before the next assignment.
#[must_use = "dropping it releases the part"]
pub struct OwnedPartition {
    partition: Partition,
    _done: DropGuard,
}

/// Follows the parts that a member owns. A background task is the member; it runs on the spawner of
/// the framework, and ends with it.
///
/// # Cancel safety
/// Dropping it ends the member: parts whose [`OwnedPartition`] exists are revoked, and released
/// when that is dropped, or the time to drain has passed. Then the member leaves the group.
#[must_use = "dropping it ends the member"]
pub struct PartitionWatch {
    events: UnboundedReceiver<Result<PartitionEvent, Error>>,
    health: HealthWatch,
    stop: CancellationToken,
    _stop: DropGuard,
}

impl SetPartitioner {
    /// Follows the parts that this member owns, as a stream: it joins in a background task. See
    /// [`PartitionWatch`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// use std::collections::BTreeMap;
    ///
    /// use zk_curator_recipes::partition::{PartitionEvent, SetPartitioner};
    ///
    /// let shards = SetPartitioner::new(&zk, "/shards/orders", ["s0", "s1", "s2"]).id("worker-7");
    /// # let shards = shards.settle(std::time::Duration::from_millis(50));
    /// let mut events = shards.follow();
    /// let mut owned = BTreeMap::new();
    /// while let Some(event) = events.next().await {
    ///     match event? {
    ///         PartitionEvent::Acquired(part) => _ = owned.insert(part.name().to_owned(), part),
    ///         // Dropping it releases it. After the time to drain, it is lost in any case.
    ///         PartitionEvent::Revoked(name) | PartitionEvent::Lost(name) => _ = owned.remove(&name),
    ///         _ => {}
    ///     }
    ///     if owned.len() == 3 {
    ///         events.stop();
    ///     }
    /// }
    /// assert!(owned.is_empty());
    /// # zk.close().await?;
    /// # Ok(()) }
    /// ```
    pub fn follow(&self) -> PartitionWatch {
        PartitionWatch::start(self.clone().with_own_health())
    }
}

impl PartitionWatch {
    fn start(partitioner: SetPartitioner) -> Self {
        let zk = partitioner.framework().clone();
        let (sender, events) = unbounded_channel();
        let stop = CancellationToken::new();
        let shutdown = Shutdown::on(stop.clone()).drain(partitioner.drain_time());
        let (tell, path) = (sender.clone(), partitioner.path().to_owned());
        let health = partitioner.health();
        let member = async move {
            let sender = Arc::new(sender);
            let body = |partition: Partition| own(partition, Arc::clone(&sender));
            partitioner.run(body).until(shutdown).await
        };
        zk.spawn_then(member, move |end| {
            let end = match end {
                Ok(end) => end,
                Err(why) => Err(why.of_operation("follow", path).into()),
            };
            if let Err(error) = end {
                // No caller waits otherwise.
                drop(tell.send(Err(error)));
            }
        });
        Self { events, health, _stop: stop.clone().drop_guard(), stop }
    }

    /// Waits for the next event. `None` when the member has ended; after an error, it has.
    ///
    /// # Errors
    /// As [`SetPartitioner::run`].
    ///
    /// # Cancel safety
    /// No event is lost.
    pub async fn next(&mut self) -> Option<Result<PartitionEvent, Error>> {
        self.events.recv().await
    }

    /// Follows the health of the member, as [`SetPartitioner::health`]; it ends with the member.
    pub fn health(&self) -> HealthWatch {
        self.health.restarted()
    }

    /// The events as a stream.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the watch.
    pub fn into_stream(self) -> impl Stream<Item = Result<PartitionEvent, Error>> + Send {
        unfold(self, |mut watch| async move { Some((watch.next().await?, watch)) })
    }

    /// Begins the end of the member: all parts are [revoked](PartitionEvent::Revoked), and
    /// [`next`](Self::next) returns `None` when everything is released and the member has left the
    /// group.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

/// The body of a part: it ends when the owner drops the part.
async fn own(
    partition: Partition,
    sender: Arc<UnboundedSender<Result<PartitionEvent, Error>>>,
) -> Result<(), &'static str> {
    let done = CancellationToken::new();
    let owned = OwnedPartition { partition: partition.clone(), _done: done.clone().drop_guard() };
    if sender.send(Ok(PartitionEvent::Acquired(owned))).is_err() {
        // The member ends.
        return Ok(());
    }
    let part = partition.name();
    let loss = OnDrop::new(|| drop(sender.send(Ok(PartitionEvent::Lost(part.to_owned())))));
    let revocations = async {
        loop {
            partition.revoked().await;
            drop(sender.send(Ok(PartitionEvent::Revoked(partition.name().to_owned()))));
            partition.reprieved().await;
        }
    };
    tokio::select! {
        biased;
        () = done.cancelled() => {}
        never = revocations => never,
    }
    // The owner knows.
    loss.disarm();
    Ok(())
}

impl Deref for OwnedPartition {
    type Target = Partition;

    fn deref(&self) -> &Partition {
        &self.partition
    }
}

impl fmt::Debug for OwnedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnedPartition").field(&self.partition).finish()
    }
}

impl fmt::Debug for PartitionWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionWatch")
            .field("is_stopped", &self.stop.is_cancelled())
            .finish_non_exhaustive()
    }
}
