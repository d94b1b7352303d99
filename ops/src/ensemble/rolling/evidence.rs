//! The restart of one server, and the evidence for it.

use std::time::Duration;

use super::observation::{Observation, ServerState, is_less, is_transaction};
use super::report::{RollingOutcome, RollingRow};
use crate::ensemble::probe::ProbedServer;
use crate::ensemble::words::ServerMode;

/// The restart of a server.
#[derive(Debug, Clone)]
pub(super) struct RestartRecord {
    pub(super) server: ProbedServer,
    role: ServerMode,
    before: ServerState,
    /// The epoch before it.
    epoch: Option<i64>,
    /// The time of the observation before it.
    began: Duration,
    /// `true` if the server is known to have restarted.
    pub(super) has_restarted: bool,
    pub(super) outcome: RollingOutcome,
    took: Option<Duration>,
}

impl RestartRecord {
    /// Begins the restart of a server with this state in the last observation.
    pub(super) fn begin(
        server: ProbedServer,
        role: ServerMode,
        before: ServerState,
        seen: &Observation,
    ) -> Self {
        Self {
            server,
            role,
            before,
            epoch: seen.epoch(),
            began: seen.at,
            has_restarted: false,
            outcome: RollingOutcome::Failed,
            took: None,
        }
    }

    /// Notes the evidence in an observation. Returns the time that the restart has taken, when the
    /// server serves again for the first time.
    pub(super) fn note(&mut self, seen: &Observation) -> Option<Duration> {
        if self.took.is_some() {
            return None;
        }
        self.has_restarted |= self.is_shown(seen);
        let state = seen.state(self.server.id?).ok()?;
        let is_back = self.has_restarted && state.mode.is_some() && state.id == self.server.id;
        self.took = is_back.then(|| seen.at.saturating_sub(self.began));
        self.took
    }

    /// Returns `true` if the server has lost transactions that it had before.
    pub(super) fn is_older(&self, seen: &Observation) -> bool {
        let state = self.server.id.and_then(|id| seen.state(id).ok());
        let now = state.and_then(|state| state.zxid);
        let before = self.before.zxid.filter(|zxid| is_transaction(*zxid));
        now.zip(before).is_some_and(|(now, before)| now < before)
    }

    /// Returns `true` if a response shows the restart: no process listens, or the server has a new
    /// role in another process.
    ///
    /// Apache ZooKeeper creates a server object for each role, so a role ends with an election or a
    /// lost connection to the leader as well as with the process.
    fn is_shown(&self, seen: &Observation) -> bool {
        let Some(id) = self.server.id else { return false };
        match seen.state(id) {
            Err(trouble) => trouble.is_refused(),
            Ok(now) if now.id != self.server.id || !self.has_new_role(now, seen) => false,
            // Without counters of the process, a role that began in the same epoch is new because
            // of the restart, or because the server has lost its leader for a moment. The restart
            // of a leader always begins an epoch.
            Ok(now) => is_other_process(&self.before, now).unwrap_or_else(|| {
                let is_same = self.epoch.is_some() && self.epoch == seen.epoch();
                self.role == ServerMode::Leader || is_same
            }),
        }
    }

    /// Returns `true` if the role began after the last observation before the restart. The same
    /// role has at least its age then and the time between the two responses, which is at least
    /// that between the end of one observation and the begin of the other.
    fn has_new_role(&self, now: &ServerState, seen: &Observation) -> bool {
        let least = seen.asked.saturating_sub(self.began);
        now.is_new_role(&self.before, least, seen.at.saturating_sub(self.began))
    }

    /// Returns the row of the server in the report.
    pub(super) fn row(&self, number: usize) -> RollingRow {
        RollingRow {
            server: self.server.clone(),
            number: Some(number),
            role: Some(self.role.clone()),
            uptime: self.before.uptime,
            outcome: self.outcome,
            took: self.took,
        }
    }
}

/// Returns `true` if a server with a new role is another process; `None` if it does not report
/// counters of its process.
///
/// The same process has looked for a leader again before its new role, and no counter of it becomes
/// less. Only a reconfiguration that moves the leadership gives a process a new role without that.
fn is_other_process(before: &ServerState, now: &ServerState) -> Option<bool> {
    let [looked_before, ..] = before.of_process;
    let [looked, ..] = now.of_process;
    let has_not_looked = looked.zip(looked_before).map(|(now, before)| now <= before)?;
    let mut counters = now.of_process.into_iter().zip(before.of_process);
    Some(has_not_looked || counters.any(|(now, before)| is_less(now, before)))
}
