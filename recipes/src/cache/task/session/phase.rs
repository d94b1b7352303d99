//! The phase of a session: how far it has caught up with its server.

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use zk_curator::internal::sleep_until;
use zk_curator::{Error, WatchedEvent};

use super::super::requests::CheckpointAnswer;
use crate::cache::state::StaleCause;
use crate::cache::told::CheckpointStanding;

/// The changes that the server has found.
pub(super) type Compared = Result<Vec<WatchedEvent>, Error>;

/// The phase of a session.
///
/// ```text
/// Ahead ──► Behind ──► Comparing ──► Current
///   │          └────────────────────────▲
///   └───────────────────────────────────┘
/// ```
/// A lost connection leads from each phase to `Disarmed`, and its end to `Ahead`, `Behind` or
/// `Current`.
pub(super) enum CachePhase {
    /// There is no connection: the watch reports nothing.
    Disarmed {
        /// `true` if the next server may be behind the contents.
        is_ahead: bool,
        /// The time at which earlier missed changes are read, if there are any.
        resync: Option<Instant>,
    },
    /// The contents may be newer than the connected server: in another session, or after a
    /// reconnect if events came after the last response, because a reconnect only requires a server
    /// that has that response. Nothing is read until a quorum has responded.
    Ahead {
        /// The request to the quorum; `None` during a pause.
        gate: Option<BoxFuture<'static, CheckpointAnswer>>,
        /// The time at which missed changes are read, if there are any.
        resync: Option<Instant>,
    },
    /// Changes may have been missed, and no reads are requested yet. They are requested at this
    /// time.
    Behind { resync: Instant },
    /// The server compares, to find the changes.
    Comparing(BoxFuture<'static, Compared>),
    /// All missed changes are read, or are being read.
    Current,
    /// The session is over. The contents are stale for this reason.
    Stopped(Result<StaleCause, Error>),
}

/// The end of the wait of a phase.
pub(super) enum PhaseStep {
    /// The quorum has responded.
    Gate(CheckpointAnswer),
    /// The missed changes are due to be read.
    Resync,
    /// The server has compared.
    Compared(Compared),
}

impl CachePhase {
    /// Schedules the catch-up for this time, or for the response of a quorum after it.
    pub(super) const fn new(is_ahead: bool, resync: Option<Instant>) -> Self {
        match resync {
            resync if is_ahead => Self::Ahead { gate: None, resync },
            Some(resync) => Self::Behind { resync },
            None => Self::Current,
        }
    }

    pub(super) const fn standing(&self) -> CheckpointStanding {
        match self {
            Self::Disarmed { .. } | Self::Stopped(_) => CheckpointStanding::Disarmed,
            Self::Ahead { .. } => CheckpointStanding::Ahead,
            Self::Behind { .. } | Self::Comparing(_) => CheckpointStanding::Behind,
            Self::Current => CheckpointStanding::Current,
        }
    }

    /// Returns `true` if changes may have been missed, and no reads are requested yet.
    pub(super) const fn has_resync(&self) -> bool {
        match self {
            Self::Disarmed { resync, .. } | Self::Ahead { resync, .. } => resync.is_some(),
            Self::Behind { .. } => true,
            Self::Comparing(_) | Self::Current | Self::Stopped(_) => false,
        }
    }

    pub(super) const fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }

    /// Processes the loss of the connection. Returns `true` if the next server may be behind the
    /// contents, which were ahead before, or may be newer than the last response.
    pub(super) fn disconnected(&mut self, is_newer: bool) -> bool {
        let (is_ahead, resync) = match self {
            Self::Disarmed { is_ahead, resync } => (*is_ahead, *resync),
            Self::Ahead { resync, .. } => (true, *resync),
            Self::Behind { resync } => (false, Some(*resync)),
            // Changes after the comparison would be missed.
            Self::Comparing(_) => (false, Some(Instant::now())),
            Self::Current => (false, None),
            Self::Stopped(_) => return false,
        };
        let is_ahead = is_ahead || is_newer;
        *self = Self::Disarmed { is_ahead, resync };
        is_ahead
    }

    /// The watch is armed again.
    pub(super) fn rearmed(&mut self) {
        if let Self::Disarmed { is_ahead, resync } = *self {
            *self = Self::new(is_ahead, resync);
        }
    }

    /// A quorum has responded.
    pub(super) fn gate_opened(&mut self) {
        if let Self::Ahead { resync, .. } = *self {
            *self = Self::new(false, resync);
        }
    }

    /// Changes may have been missed. They are read at this time.
    pub(super) fn missed(&mut self, at: Instant) {
        match self {
            Self::Disarmed { resync, .. } | Self::Ahead { resync, .. } => *resync = Some(at),
            Self::Behind { .. } | Self::Comparing(_) | Self::Current => {
                *self = Self::Behind { resync: at };
            }
            Self::Stopped(_) => {}
        }
    }

    /// A caller waits, so the random pause does not apply.
    pub(super) fn hurry(&mut self) {
        if let Self::Behind { resync } = self {
            *resync = Instant::now();
        }
    }

    /// Waits for the next step; forever if there is none. Cancel safe.
    pub(super) async fn next(&mut self) -> PhaseStep {
        match self {
            Self::Ahead { gate: Some(request), .. } => {
                let answered = request.await;
                if let Self::Ahead { gate, .. } = self {
                    *gate = None;
                }
                PhaseStep::Gate(answered)
            }
            Self::Behind { resync } => {
                sleep_until(*resync).await;
                PhaseStep::Resync
            }
            Self::Comparing(comparison) => {
                let compared = comparison.await;
                *self = Self::Current;
                PhaseStep::Compared(compared)
            }
            Self::Ahead { gate: None, .. }
            | Self::Disarmed { .. }
            | Self::Current
            | Self::Stopped(_) => std::future::pending().await,
        }
    }
}
