//! The parts of the state of a session.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zk_curator_proto::{Request, bounded};

use crate::config::ZooKeeperBuilder;
use crate::session::{RequestSubmission, SessionState};
use crate::watch::AskedWatch;
use crate::{Error, HostPort, SessionInfo};

/// Stands for "never" where a deadline is too far away to be a point in time.
pub(super) const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionPhase {
    /// No attempt is pending; the next one starts at this time.
    Waiting { until: Instant },
    /// The driver opens connections; it tries the next host at this time.
    Connecting { next: Instant },
    /// A connection is open; the provider is supplying its credentials.
    Asking { deadline: Instant },
    /// A connection is open; the driver computes the first token for SASL.
    Preparing { deadline: Instant },
    /// The connect request was sent.
    Handshaking { sent_at: Instant, deadline: Instant },
    /// A server has accepted the session; the driver computes the next token for SASL.
    Proving { deadline: Instant },
    /// The server has opened another session than the requested one; the client ends that session.
    Rejecting { deadline: Instant },
    /// A server has accepted the session; the client has sent a token for SASL.
    Authenticating { xid: i32, sent_at: Instant, deadline: Instant },
    /// A server serves the session.
    Connected,
    /// The session is over.
    Ended(SessionState),
}

/// The transaction that an earlier session has seen. Servers that have not applied it refuse this
/// client.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) zxid: i64,
    /// The time since which servers were reached and refused the session.
    pub(super) refused_since: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct ConnectAttempt {
    pub(super) host: HostPort,
    /// The time at which a server must have accepted the session.
    pub(super) deadline: Instant,
}

#[derive(Debug, Clone)]
pub(super) struct GrantedSession {
    pub(super) info: SessionInfo,
    pub(super) password: Bytes,
}

#[derive(Debug)]
pub(super) struct Queued {
    pub(super) deadline: Instant,
    pub(super) submission: RequestSubmission,
    pub(super) body: Box<[u8]>,
}

#[derive(Debug)]
pub(super) struct RequestInFlight {
    pub(super) xid: i32,
    pub(super) sent_at: Instant,
    pub(super) what: SentRequest,
    /// The length of the request in bytes, if a caller waits for the response; else 0.
    pub(super) length: usize,
    /// The node whose data or children were requested; its response can have any length.
    pub(super) reads: Option<Box<str>>,
    /// The form in which its watch was requested.
    pub(super) asked: AskedWatch,
}

#[derive(Debug)]
pub(super) enum SentRequest {
    /// A caller waits for the response.
    Request(RequestSubmission),
    /// Ends the session.
    Close,
    /// Removes unused watches. Its response is ignored.
    Removal,
    /// Re-arms watches that others have replaced on the server.
    Repair(Box<Request>),
}

/// The kind of the current server, and the deadline for finding one.
#[derive(Debug)]
pub(super) struct Reach {
    /// `true` if read-only servers are accepted.
    pub(super) read_only_allowed: bool,
    /// `true` if the current server is read-only.
    pub(super) read_only: bool,
    /// `true` if the ensemble knows the session, and not only a read-only server.
    pub(super) of_ensemble: bool,
    /// The time of the next search for a writable server, and the number of searches so far.
    pub(super) look_at: Instant,
    pub(super) looks: u32,
    /// The time at which the first server must be reached.
    pub(super) deadline: Option<Instant>,
}

impl Reach {
    pub(super) fn new(config: &ZooKeeperBuilder, now: Instant) -> Self {
        Self {
            read_only_allowed: config.read_only,
            read_only: false,
            of_ensemble: config.resume.is_some(),
            look_at: now,
            looks: 0,
            deadline: config.connect_deadline.map(|deadline| after(now, deadline)),
        }
    }
}

/// When the server and the driver were heard of.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) last_sent: Instant,
    pub(super) last_response: Instant,
    /// The last time that the driver woke up late, and the delay.
    pub(super) late: Option<(Instant, Duration)>,
    /// The time at which the last request with a response was sent, at the earliest: the server has
    /// seen the session at this time or later.
    pub(super) seen_alive: Instant,
    /// The time at which the last connection was lost, or the session was granted.
    pub(super) lost_at: Instant,
}

impl Times {
    pub(super) const fn new(now: Instant) -> Self {
        Self { last_sent: now, last_response: now, late: None, seen_alive: now, lost_at: now }
    }
}

#[derive(Debug)]
pub(super) struct Farewell {
    pub(super) deadline: Instant,
    pub(super) waiters: Vec<oneshot::Sender<Result<(), Error>>>,
}

#[derive(Debug)]
pub(super) struct SessionClosing {
    /// `true` if the session stays alive.
    pub(super) detach: bool,
    pub(super) deadline: Instant,
    pub(super) sent: bool,
    pub(super) acknowledged: bool,
    pub(super) waiters: Vec<oneshot::Sender<Result<(), Error>>>,
}

/// Returns `now + delay`, or the far future.
pub(super) fn after(now: Instant, delay: Duration) -> Instant {
    now + bounded(delay)
}
