//! [`Peer`]: the quorum's view of a member.

/// The role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A single server.
    Standalone,
    Leader,
    Follower,
    /// Without a leader.
    Looking,
}

/// A delay of the application of transactions by a member.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lag {
    /// The number of the lag.
    pub(super) number: u64,
    /// Milliseconds from commit to application; `None` until the lag ends.
    pub(super) delay: Option<u64>,
}

/// The quorum's view of a member.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) role: Role,
    /// The epoch of the leader that the member is or follows.
    pub(super) epoch: i64,
    /// `true` if it serves reads without a quorum.
    pub(super) read_only: bool,
    /// `true` if it runs.
    pub(super) up: bool,
    /// `true` if it is suspended.
    pub(super) held: bool,
    /// `true` if it was set to read-only, which cuts its links to other members.
    pub(super) is_apart: bool,
    /// Connected members have the same number here.
    pub(super) side: usize,
    /// The present lags.
    pub(super) lags: Vec<Lag>,
    /// The number of log entries it has.
    pub(super) logged: u64,
    /// The number of log entries it has applied.
    pub(super) applied: u64,
}

impl Peer {
    /// Creates a member that does not run yet.
    pub(super) const fn new(role: Role, read_only: bool) -> Self {
        Self {
            role,
            epoch: 0,
            read_only,
            up: false,
            held: false,
            is_apart: read_only,
            side: 0,
            lags: Vec::new(),
            logged: 0,
            applied: 0,
        }
    }

    /// Returns `true` if it can belong to a majority.
    pub(super) const fn takes_part(&self) -> bool {
        self.up && !self.held && !self.is_apart
    }

    /// Returns the time at which it applies an entry that was committed at this time; `None` during
    /// a lag without end.
    pub(super) fn due(&self, committed: u64) -> Option<u64> {
        let later = |due: u64, lag: &Lag| Some(due.max(committed.saturating_add(lag.delay?)));
        self.lags.iter().try_fold(committed, later)
    }
}
