//! The changes since a transaction, which a server reports when watches are set again.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use zk_curator_proto::Request;
use zk_curator_proto::records::SetWatches;

use super::registry::{Chunk, chunks};
use super::{WatchKind, WatchedEvent};
use crate::answer::nothing;
use crate::path::validate;
use crate::{DisconnectedPolicy, Error, ZooKeeper};

/// The maximum number of watches in one session. Each takes about 324 bytes of heap on the server
/// until the session is closed.
const PER_SESSION: usize = 50_000;

/// The maximum number of requests in flight.
const IN_FLIGHT: usize = 8;

/// The longest session timeout to request. The session is useless without its connection, and its
/// watches end with the connection.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Nodes and the transaction up to which their state is known, for [`ZooKeeper::changes_since`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangesSince {
    /// The transaction up to which the state of the nodes is known.
    pub zxid: i64,
    /// A transaction that the server must have applied, in addition to those that the client has
    /// [seen](ZooKeeper::last_zxid_seen); 0 for none.
    pub not_before: i64,
    /// The nodes whose data may have changed.
    pub data: Vec<String>,
    /// The nodes whose children may have been created or deleted.
    pub children: Vec<String>,
}

impl ChangesSince {
    /// Returns a question without nodes.
    #[must_use]
    pub fn new(zxid: i64) -> Self {
        Self { zxid, ..Self::default() }
    }
}

impl ZooKeeper {
    /// Returns which of many nodes have changed after a transaction. The server compares the zxids
    /// itself, and reports only the changes. For the data of 50,000 unchanged nodes the request
    /// contains their paths and 4 bytes each, and the response is empty.
    ///
    /// | event | reported for |
    /// |---|---|
    /// | [`NodeDataChanged`](crate::EventType::NodeDataChanged) | a node of [`data`](ChangesSince::data) whose `mzxid` is greater: it was written, or deleted and created again |
    /// | [`NodeChildrenChanged`](crate::EventType::NodeChildrenChanged) | a node of [`children`](ChangesSince::children) whose `pzxid` is greater |
    /// | [`NodeDeleted`](crate::EventType::NodeDeleted) | a node of either that does not exist, whenever it was deleted |
    ///
    /// The events are in the server's order, each occurs once, and they have no transaction.
    /// Changes that happen during the comparison may be reported as well. The compared state is no
    /// older than everything that this client has seen, and than
    /// [`not_before`](ChangesSince::not_before). If a persistent watch was re-armed before the
    /// call, no change is missed: this call or the watch reports it.
    ///
    /// The server treats the request like a client that sets its watches again after a reconnect.
    /// The client sends it in a separate session with the same servers, credentials and identities.
    /// This costs two transactions, and memory on the server until the response arrives. More than
    /// 50,000 nodes take several of these sessions, one after another.
    ///
    /// # Errors
    /// * [`Error::NotConnected`] if no server with the required transactions was reached in the
    ///   time for which requests [wait for a connection](DisconnectedPolicy).
    /// * [`Error::ConnectionLoss`] if a connection was lost; there are no partial results.
    /// * [`Error::DeadlineExceeded`] after the deadline of the handle.
    /// * Other errors as for requests of this client.
    ///
    /// # Cancel safety
    /// Nothing changes on the server. The separate session is closed in the background.
    pub async fn changes_since(&self, question: &ChangesSince) -> Result<Vec<WatchedEvent>, Error> {
        let changes = Box::pin(self.find_changes(question));
        match self.deadline() {
            None => changes.await,
            Some(deadline) => {
                let late = |_| Err(Error::DeadlineExceeded { sent: false });
                timeout(deadline, changes).await.unwrap_or_else(late)
            }
        }
    }

    async fn find_changes(&self, question: &ChangesSince) -> Result<Vec<WatchedEvent>, Error> {
        let data = question.data.iter().map(|path| (path, WatchKind::Data));
        let children = question.children.iter().map(|path| (path, WatchKind::Child));
        let watches: Vec<_> = data.chain(children).collect();
        for (path, _) in &watches {
            validate(path)?;
        }
        let not_before = question.not_before.max(self.last_zxid_seen());
        let mut changes = Vec::new();
        let mut told = BTreeSet::new();
        for watches in watches.chunks(PER_SESSION) {
            for event in self.set_watches_beside(question.zxid, not_before, watches).await? {
                // Both watches on a node report its deletion.
                if told.insert((event.event_type as i32, event.path.clone())) {
                    changes.push(event);
                }
            }
        }
        Ok(changes)
    }

    /// Sets watches in a separate session, and returns the events that fired during that.
    async fn set_watches_beside(
        &self,
        since: i64,
        not_before: i64,
        watches: &[(&String, WatchKind)],
    ) -> Result<Vec<WatchedEvent>, Error> {
        let (sender, mut fired) = mpsc::unbounded_channel();
        let beside = self.open_beside(not_before, sender)?;
        beside.connected().await?;
        if beside.lost_history().is_some() {
            // After a session timeout the client has accepted a server that lags behind.
            return Err(Error::NotConnected);
        }
        let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
        for request in self.frames(since, watches) {
            if in_flight.len() == IN_FLIGHT
                && let Some(first) = in_flight.pop_front()
            {
                first.await?;
            }
            in_flight.push_back(beside.submit(&request, nothing));
        }
        for answer in in_flight {
            answer.await?;
        }
        // The server sent them before the responses.
        let changes = std::iter::from_fn(|| fired.try_recv().ok()).collect();
        // The watches end with the connection. If no server receives the request, the session ends
        // after its timeout.
        drop(beside.close().await);
        Ok(changes)
    }

    /// Returns the requests that set the watches.
    fn frames(&self, relative_zxid: i64, watches: &[(&String, WatchKind)]) -> Vec<Request> {
        let watches = watches.iter().map(|(path, kind)| (self.below_chroot(path), *kind));
        let request = |chunk: Chunk| {
            Request::SetWatches(SetWatches {
                relative_zxid,
                data_watches: chunk.data,
                exist_watches: chunk.exist,
                child_watches: chunk.child,
            })
        };
        chunks(watches, self.queue().max_frame).map(request).collect()
    }

    /// Opens another session, which passes on all its events.
    fn open_beside(
        &self,
        not_before: i64,
        events: mpsc::UnboundedSender<WatchedEvent>,
    ) -> Result<Self, Error> {
        let mut settings = self.settings().clone();
        let patience = match settings.disconnected {
            DisconnectedPolicy::Wait(patience) if !patience.is_zero() => patience,
            _ => settings.session_timeout,
        };
        settings.resume = None;
        settings.events = Some(events);
        let timeout = settings.session_timeout.min(LONGEST_TIMEOUT);
        let settings = settings
            .session_timeout(timeout)
            .connect_deadline(patience)
            // A lost connection fails the requests.
            .disconnected(DisconnectedPolicy::FailFast)
            // The limits are for the requests of the caller.
            .queue_limits(usize::MAX, usize::MAX)
            .last_zxid_seen(not_before)
            .read_only(false);
        self.connect_beside(settings)
    }
}
