//! The source of a cache's events: one persistent watch, or a watch on every node.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use tracing::debug;
use zk_curator::op::ReadResult;
use zk_curator::watch::{PersistentWatch, Watch, Watched};
use zk_curator::{
    ConnectionStatus, CuratorFramework, Error, ErrorCode, ErrorKind, EventType, PersistentEvent,
    WatchEnded, WatchedEvent,
};

use crate::cache::state::{CacheRead, ReadKind};

/// The source of the events of one session.
pub(crate) enum CacheEventSource {
    /// A persistent watch on the root (ZooKeeper 3.6).
    Persistent(Box<PersistentWatch>),
    /// A one-shot watch for the data and one for the children of every node.
    Single(Box<SingleWatches>),
}

impl CacheEventSource {
    pub(crate) async fn next(&mut self) -> Option<PersistentEvent> {
        match self {
            Self::Persistent(watch) => watch.next().await,
            Self::Single(watches) => watches.next().await,
        }
    }
}

/// Returns `true` if this server or this client has no persistent watches.
pub(crate) fn is_unsupported(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported || error.code() == Some(ErrorCode::Unimplemented)
}

/// The purpose of a watch.
type WatchPurpose = (Box<str>, ReadKind);

/// One-shot watches. After a reconnect the client sets them again, and the server reports missed
/// changes.
pub(crate) struct SingleWatches {
    zk: CuratorFramework,
    root: String,
    watches: FuturesUnordered<BoxFuture<'static, (WatchPurpose, Result<WatchedEvent, WatchEnded>)>>,
    /// The purpose of each.
    places: BTreeSet<WatchPurpose>,
    states: Pin<Box<dyn Stream<Item = ConnectionStatus> + Send>>,
    /// The connection to which the events belong.
    status: ConnectionStatus,
    /// The first request after a reconnect. Its response comes after the missed events.
    first: Option<BoxFuture<'static, Result<(), Error>>>,
    /// The result of that request.
    caught_up: Option<Result<(), Error>>,
}

impl SingleWatches {
    /// Returns watches of the session to which `zk` is bound; `status` was read before the binding.
    pub(crate) fn new(zk: CuratorFramework, root: String, status: ConnectionStatus) -> Self {
        let states = Box::pin(zk.states().into_stream());
        let (watches, places) = (FuturesUnordered::new(), BTreeSet::new());
        Self { zk, root, watches, places, states, status, first: None, caught_up: None }
    }

    /// Adds missing watches. A fired watch that was not processed leads to another read.
    pub(crate) fn add(&mut self, watches: Vec<(WatchPurpose, Watch)>) {
        for (place, watch) in watches {
            if self.places.insert(place.clone()) {
                self.watches.push(Box::pin(async move { (place, watch.await) }));
            }
        }
    }

    async fn next(&mut self) -> Option<PersistentEvent> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<PersistentEvent>> {
        loop {
            // The ready ones, before the report that all have arrived.
            if let Poll::Ready(Some((place, fired))) = self.watches.poll_next_unpin(cx) {
                self.places.remove(&place);
                return Poll::Ready(Some(match fired {
                    Ok(event) => PersistentEvent::Changed(to_read(event)),
                    Err(why) => PersistentEvent::Ended(why),
                }));
            }
            match self.caught_up.take() {
                Some(Ok(())) => {
                    return Poll::Ready(Some(PersistentEvent::Rearmed { unchanged: true }));
                }
                Some(Err(error)) => {
                    debug!(path = self.root, %error, "the watches have ended");
                    return Poll::Ready(Some(PersistentEvent::Ended(WatchEnded::SessionLost)));
                }
                None => {}
            }
            if let Some(first) = &mut self.first
                && let Poll::Ready(answer) = first.as_mut().poll(cx)
            {
                (self.first, self.caught_up) = (None, Some(answer));
                continue;
            }
            let Some(status) = ready!(self.states.as_mut().poll_next(cx)) else {
                return Poll::Ready(Some(PersistentEvent::Ended(WatchEnded::Closed)));
            };
            let before = std::mem::replace(&mut self.status, status);
            if self.status.session_epoch != before.session_epoch {
                return Poll::Ready(Some(PersistentEvent::Ended(WatchEnded::SessionLost)));
            }
            // Two transitions may appear as one, with a lost connection in between.
            if self.status.epoch != before.epoch {
                self.first = self.status.state.is_connected().then(|| self.catch_up());
                if before.state.is_connected() {
                    return Poll::Ready(Some(PersistentEvent::Disarmed));
                }
            }
        }
    }

    /// Sends a request until it has a response. An error means that the session is over, or the
    /// framework is closed.
    fn catch_up(&self) -> BoxFuture<'static, Result<(), Error>> {
        let (zk, root) = (self.zk.clone(), self.root.clone());
        Box::pin(async move {
            while let Err(error) = zk.exists(root.as_str()).await {
                zk.wait_for_recovery(error).await?;
            }
            Ok(())
        })
    }
}

/// Converts the event to a reason to read the node. A deletion may arrive after a response that
/// shows the next node at the path.
fn to_read(event: WatchedEvent) -> WatchedEvent {
    match event.event_type {
        EventType::NodeDeleted => {
            let zxid = event.zxid();
            WatchedEvent::new(EventType::NodeDataChanged, event.path).with_zxid(zxid)
        }
        _ => event,
    }
}

/// Reads nodes, and sets a watch on each.
pub(crate) async fn read_watched(
    zk: CuratorFramework,
    root: &str,
    jobs: &[CacheRead],
    decompressed: Option<bool>,
) -> (Vec<Result<ReadResult, Error>>, Vec<(WatchPurpose, Watch)>) {
    let reads = jobs.iter().map(|job| async {
        match job.what {
            ReadKind::Data => data(&zk, root, &job.path, decompressed).await,
            ReadKind::Names => names(&zk, &job.path).await,
        }
    });
    let (mut results, mut watches) =
        (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
    for (job, (result, watch)) in jobs.iter().zip(join_all(reads).await) {
        results.push(result);
        watches.extend(watch.map(|watch| ((job.path.clone(), job.what), watch)));
    }
    (results, watches)
}

async fn data(
    zk: &CuratorFramework,
    root: &str,
    path: &str,
    decompressed: Option<bool>,
) -> (Result<ReadResult, Error>, Option<Watch>) {
    loop {
        let mut read = zk.get_data(path);
        match decompressed {
            Some(true) => read = read.decompressed(),
            Some(false) => read = read.undecompressed(),
            None => {}
        }
        let absent = match read.watched().await {
            Ok(Watched { value: (data, stat), watch, .. }) => {
                let is_null = false; // A cache does not tell null data from empty data.
                return (Ok(ReadResult::Data { data, is_null, stat }), Some(watch));
            }
            Err(error) if error.kind() == ErrorKind::NoNode => error,
            Err(error) => return (Err(error), None),
        };
        if path != root {
            // The watch on the children of its parent reports its creation.
            return (Err(absent), None);
        }
        match zk.exists(path).watched().await {
            Ok(Watched { value: None, watch, .. }) => return (Err(absent), Some(watch)),
            // The node has been created in between.
            Ok(_) => {}
            Err(error) => return (Err(error), None),
        }
    }
}

async fn names(zk: &CuratorFramework, path: &str) -> (Result<ReadResult, Error>, Option<Watch>) {
    match zk.children(path).watched().await {
        Ok(Watched { value: (names, _), watch, .. }) => {
            (Ok(ReadResult::Children { names }), Some(watch))
        }
        Err(error) => (Err(error), None),
    }
}
