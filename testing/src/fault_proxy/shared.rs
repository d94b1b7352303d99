//! [`Shared`]: the state that the connections of a proxy share. [`Route`]: that of one server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use zk_curator_client::SessionCredentials;
use zk_curator_client::internal::{Locked, Signal, sleep};

use super::traffic::Live;
use crate::rule::Rules;

/// The treatment of the bytes of one direction of a [`FaultProxy`](crate::FaultProxy).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Bytes pass.
    Open,
    /// Bytes and the end of the connection wait, as in a network that retransmits them later. A
    /// connection that the client closes before its handshake was forwarded ends.
    Stalled,
    /// Bytes are discarded. The rest of the stream is unusable: call
    /// [`FaultProxy::cut`](crate::FaultProxy::cut) before bytes pass again.
    Lost,
}

/// Counts of a [`FaultProxy`](crate::FaultProxy).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Connection attempts, including those that are closed immediately.
    pub connections: u64,
    /// Frames forwarded to servers, including handshakes and pings.
    pub requests: u64,
    /// Frames received from clients, including those that wait, were refused or discarded.
    pub received: u64,
}

/// The state of a proxy.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) counts: Signal<ProxyCounts>,
    pub(super) traffic: Signal<Live>,
    /// The session that a server granted on the last connection.
    pub(super) granted: Locked<Option<SessionCredentials>>,
    /// The maximum length of a request that is decoded, in bytes.
    pub(super) frame_limit: usize,
}

/// The faults of the connections to one server.
#[derive(Debug)]
pub(super) struct Route {
    /// The number of the server.
    pub(super) number: usize,
    /// The server, `host:port`.
    pub(super) server: String,
    /// The address of the proxy.
    pub(super) address: SocketAddr,
    pub(super) conditions: Signal<Conditions>,
    pub(super) rules: Arc<Rules>,
    /// The room for further connections.
    room: Arc<Semaphore>,
    /// Ends the proxy.
    end: CancellationToken,
}

/// The admission of a connection.
pub(super) struct Admission {
    /// Cuts the connection.
    pub(super) cut: CancellationToken,
    /// Makes room when it is dropped.
    _room: OwnedSemaphorePermit,
}

/// The faults of the network.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) down: bool,
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    pub(super) delay: Duration,
    /// Ends the present connections.
    cut: CancellationToken,
}

impl Conditions {
    pub(super) const fn requests(&self) -> Flow {
        self.requests
    }

    pub(super) const fn replies(&self) -> Flow {
        self.replies
    }
}

impl Shared {
    pub(super) fn new(frame_limit: usize) -> Self {
        Self {
            counts: Signal::default(),
            traffic: Signal::default(),
            granted: Locked::default(),
            frame_limit,
        }
    }
}

impl Route {
    pub(super) fn new(
        number: usize,
        server: String,
        address: SocketAddr,
        down: bool,
        connection_limit: usize,
        end: CancellationToken,
    ) -> Self {
        let conditions = Conditions {
            down,
            requests: Flow::Open,
            replies: Flow::Open,
            delay: Duration::ZERO,
            cut: end.child_token(),
        };
        let conditions = Signal::new(conditions);
        let room = Arc::new(Semaphore::new(connection_limit));
        Self { number, server, address, conditions, rules: Arc::default(), room, end }
    }

    /// Changes the faults of the network.
    pub(super) fn change(&self, change: impl FnOnce(&mut Conditions)) {
        self.conditions.modify(change);
    }

    /// Cuts the connections to all these servers. None of them is cut again that a client makes to
    /// one server when it has lost another.
    pub(super) fn cut<'a>(routes: impl IntoIterator<Item = &'a Arc<Self>>) {
        let cuts: Vec<_> = routes
            .into_iter()
            .map(|route| {
                let next = route.end.child_token();
                route.conditions.modify(|now| std::mem::replace(&mut now.cut, next))
            })
            .collect();
        cuts.iter().for_each(CancellationToken::cancel);
    }

    /// Admits a new connection. Returns `None` while connections are refused, or too many are open.
    pub(super) fn admit(&self) -> Option<Admission> {
        let cut = self.conditions.look(|now| (!now.down).then(|| now.cut.child_token()))?;
        if let Ok(room) = Arc::clone(&self.room).try_acquire_owned() {
            return Some(Admission { cut, _room: room });
        }
        tracing::warn!(server = self.server, "closed a new connection: there are too many");
        None
    }

    /// Waits for the present delay.
    pub(super) async fn delay(&self) {
        let delay = self.conditions.look(|now| now.delay);
        if !delay.is_zero() {
            sleep(delay).await;
        }
    }

    /// Waits until a direction is not stalled, and returns its flow.
    pub(super) async fn opens(&self, flow: impl Fn(&Conditions) -> Flow) -> Flow {
        self.conditions.find(|now| Some(flow(now)).filter(|flow| *flow != Flow::Stalled)).await
    }
}
