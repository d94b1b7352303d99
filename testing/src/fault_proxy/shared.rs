//! [`Shared`]: the state that the connections of a proxy share.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_curator_client::SessionCredentials;
use zk_curator_client::internal::{Locked, Signal};

use super::connection;
use super::traffic::Live;
use crate::rule::Rules;

/// The pause before the next attempt to accept a connection, after the system has run out of
/// resources.
const PAUSE: Duration = Duration::from_millis(50);

/// The treatment of the bytes of one direction of a [`FaultProxy`](crate::FaultProxy).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Bytes pass.
    Open,
    /// Bytes and the end of the connection wait, as in a network that retransmits them later.
    Stalled,
    /// Bytes are discarded. The rest of the stream is unusable: call
    /// [`FaultProxy::cut`](crate::FaultProxy::cut) before bytes pass again.
    Lost,
}

/// Counts of a [`FaultProxy`](crate::FaultProxy).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Connection attempts, including refused ones.
    pub connections: u64,
    /// Frames forwarded to servers, including handshakes and pings.
    pub requests: u64,
    /// Frames received from clients, including those that wait, were refused or discarded.
    pub received: u64,
}

/// The state of a proxy.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) conditions: Signal<Conditions>,
    pub(super) counts: Signal<ProxyCounts>,
    pub(super) traffic: Signal<Live>,
    pub(super) rules: Arc<Rules>,
    /// The session that a server granted on the last connection.
    pub(super) granted: Locked<Option<SessionCredentials>>,
    /// The maximum length of a request that is decoded, in bytes.
    pub(super) frame_limit: usize,
}

/// The faults of all connections of a proxy.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) down: bool,
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    pub(super) delay: Duration,
    /// Ends the present connections.
    pub(super) cut: CancellationToken,
}

impl Conditions {
    pub(super) const fn new(cut: CancellationToken) -> Self {
        Self { down: false, requests: Flow::Open, replies: Flow::Open, delay: Duration::ZERO, cut }
    }

    pub(super) const fn requests(&self) -> Flow {
        self.requests
    }

    pub(super) const fn replies(&self) -> Flow {
        self.replies
    }
}

impl Shared {
    pub(super) fn new(cut: CancellationToken, frame_limit: usize) -> Self {
        Self {
            conditions: Signal::new(Conditions::new(cut)),
            counts: Signal::default(),
            traffic: Signal::default(),
            rules: Arc::default(),
            granted: Locked::default(),
            frame_limit,
        }
    }

    /// Accepts and serves connections to one server.
    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener, server: Arc<str>) {
        loop {
            let (client, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a proxy accepts no connection");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            self.counts.modify(|counts| counts.connections += 1);
            let cut = |now: &Conditions| (!now.down).then(|| now.cut.child_token());
            if let Some(cut) = self.conditions.look(cut) {
                let server = Arc::clone(&server);
                tokio::spawn(connection::serve(Arc::clone(&self), client, peer, server, cut));
            }
        }
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
