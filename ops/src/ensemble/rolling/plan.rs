//! The decisions of a rolling restart, without I/O: from observations to the next restart.

use std::collections::BTreeSet;
use std::time::Duration;

use super::doubt::RollingDoubt;
use super::events::{RollingEffect, RollingInput, RollingRules};
use super::evidence::RestartRecord;
use super::observation::{self, Members, Observation, is_transaction};
use super::report::{
    RollingEnd, RollingOutcome, RollingProgress, RollingReport, RollingRestartError, RollingRow,
};
use crate::ensemble::members::EnsembleMembers;
use crate::ensemble::probe::ProbedServer;
use crate::ensemble::words::ServerMode;

/// The observations in a row without a doubt, and without a new role, before the next restart.
pub(super) const STABLE: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
enum RollingState {
    /// No server was restarted yet.
    Checking,
    /// The last restart has not returned yet.
    Restarting {
        is_stopping: bool,
    },
    /// The last restart has to come to its end before this time.
    Waiting {
        until: Duration,
        /// The number of observations in a row without a doubt and without a new role, and the time
        /// of the first.
        in_order: Option<(u32, Duration)>,
        doubts: Vec<RollingDoubt>,
    },
    Ended(RollingEnd),
}

/// Decides about the restarts of a run.
#[derive(Debug)]
pub(super) struct RollingPlanner {
    rules: RollingRules,
    servers: Vec<ProbedServer>,
    members: Members,
    /// The doubts about the servers that were found, and about those to restart.
    unusual: Vec<RollingDoubt>,
    left: BTreeSet<u64>,
    restarts: Vec<RestartRecord>,
    /// `true` if a leader has reported its last transaction before the present observation.
    has_leader: bool,
    /// The greatest transaction that a leader had then.
    led: Option<i64>,
    /// The greatest transaction that any member had then.
    goal: Option<i64>,
    last: Option<Observation>,
    state: RollingState,
}

impl RollingPlanner {
    /// Creates the restart of these servers. Begin with a thorough observation.
    pub(super) fn new(found: &EnsembleMembers, rules: RollingRules) -> Self {
        let members = found.config.as_ref().map(observation::members).unwrap_or_default();
        let mut unusual = Vec::new();
        if !members.is_empty() {
            let strangers = found.servers.iter().filter(|server| server.id.is_none());
            unusual.extend(strangers.cloned().map(RollingDoubt::NotAMember));
        }
        let known: BTreeSet<_> = found.servers.iter().filter_map(|server| server.id).collect();
        let is_strange = |id: &u64| !known.contains(id) && !found.unknown.contains(id);
        let strange: Vec<_> = rules.targets.iter().copied().filter(is_strange).collect();
        if !strange.is_empty() {
            unusual.push(RollingDoubt::NoSuchMember(strange));
        }
        let unknown = found.without_address();
        if !unknown.is_empty() {
            unusual.push(RollingDoubt::NoAddress(unknown));
        }
        if !found.displaced.is_empty() {
            unusual.push(RollingDoubt::Displaced(found.displaced.clone()));
        }
        Self {
            left: rules.targets.clone(),
            rules,
            servers: found.servers.clone(),
            members,
            unusual,
            restarts: Vec::new(),
            has_leader: false,
            led: None,
            goal: None,
            last: None,
            state: RollingState::Checking,
        }
    }

    /// Returns the end of the run, once it has ended.
    pub(super) const fn end(&self) -> Option<&RollingEnd> {
        match &self.state {
            RollingState::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns the report of the run. A run that has not ended was stopped.
    pub(super) fn report(&self) -> RollingReport {
        let end = self.end().cloned().unwrap_or(RollingEnd::Stopped);
        RollingReport { end, rows: self.rows() }
    }

    /// Returns all servers: first the restarted ones, then the rest in its order, then the servers
    /// that are left out.
    pub(super) fn rows(&self) -> Vec<RollingRow> {
        let numbered = self.restarts.iter().zip(1..);
        let mut rows: Vec<_> = numbered.map(|(restart, number)| restart.row(number)).collect();
        let (mut left, others): (Vec<_>, Vec<_>) = self
            .servers
            .iter()
            .filter(|server| self.restarts.iter().all(|restart| restart.server != **server))
            .partition(|server| server.id.is_some_and(|id| self.left.contains(&id)));
        left.sort_by_key(|server| self.rank(server));
        let begun = rows.len();
        let left = left.into_iter().zip(begun + 1..);
        rows.extend(left.map(|(server, number)| RollingRow {
            number: Some(number),
            outcome: RollingOutcome::Left,
            ..self.row(server)
        }));
        rows.extend(others.into_iter().map(|server| self.row(server)));
        rows
    }

    /// Returns the row of a server that is left out.
    fn row(&self, server: &ProbedServer) -> RollingRow {
        let state = self.last.as_ref().zip(server.id).and_then(|(seen, id)| seen.state(id).ok());
        RollingRow {
            server: server.clone(),
            number: None,
            role: state.and_then(|state| state.mode.clone()),
            uptime: state.and_then(|state| state.uptime),
            outcome: RollingOutcome::LeftOut,
            took: None,
        }
    }

    /// Returns the place of a server in the order, by its last role.
    fn rank(&self, server: &ProbedServer) -> (u8, Option<u64>) {
        let mode = self.last.as_ref().zip(server.id).and_then(|(seen, id)| seen.mode(id));
        (rank(mode), server.id)
    }

    /// Decides what happens after an input.
    pub(super) fn step(&mut self, input: RollingInput) -> Vec<RollingEffect> {
        match input {
            RollingInput::Observed(seen) => self.observed(seen),
            RollingInput::RestartEnded { at, result } => self.restart_ended(at, result),
            RollingInput::StopRequested => self.stop_requested(),
        }
    }

    fn observed(&mut self, seen: Observation) -> Vec<RollingEffect> {
        let mut effects = Vec::new();
        effects.extend(self.note_restart(&seen));
        let doubts = self.judge(&seen);
        // Before the first observation with a leader, the others cannot be compared with it.
        let is_in_order = doubts.is_empty() && self.has_leader;
        // A server that restarts between two observations responds to both of them.
        let is_steady = self.last.as_ref().is_none_or(|last| !seen.has_new_role(last));
        self.remember(&seen);
        effects.extend(match self.state.clone() {
            RollingState::Checking if !doubts.is_empty() => {
                self.finish(RollingEnd::Doubtful(doubts))
            }
            RollingState::Checking if is_in_order && seen.is_thorough => self.begin(&seen),
            RollingState::Checking => vec![RollingEffect::Observe { is_thorough: true }],
            RollingState::Restarting { .. } => vec![RollingEffect::Observe { is_thorough: false }],
            RollingState::Waiting { until, in_order, doubts: before } => {
                let in_order = is_in_order.then(|| match in_order.filter(|_| is_steady) {
                    Some((count, since)) => (count + 1, since),
                    None => (1, seen.at),
                });
                self.waited(&seen, until, in_order, &before, doubts)
            }
            RollingState::Ended(_) => vec![RollingEffect::End],
        });
        effects
    }

    /// Keeps what the next observation is compared with.
    fn remember(&mut self, seen: &Observation) {
        let led = seen.leaders().filter_map(|leader| leader.zxid).max();
        self.has_leader |= led.is_some();
        self.led = self.led.max(led.filter(|zxid| is_transaction(*zxid)));
        self.goal = self.goal.max(seen.transactions().max());
        self.last = Some(seen.clone());
    }

    /// Begins with the first server.
    fn begin(&mut self, seen: &Observation) -> Vec<RollingEffect> {
        if let Some(least) = self.rules.least_age {
            let uptime = |id: u64| seen.state(id).ok().and_then(|state| state.uptime);
            let unknown = self.left.iter().filter(|id| uptime(**id).is_none());
            let unknown: Vec<_> = unknown.filter_map(|id| self.server(*id)).cloned().collect();
            if !unknown.is_empty() {
                let doubts = unknown.into_iter().map(RollingDoubt::NoUptime).collect();
                return self.finish(RollingEnd::Doubtful(doubts));
            }
            // The observation is later than the start of the run.
            let least = least.saturating_add(seen.at);
            self.left.retain(|id| uptime(*id).is_some_and(|uptime| uptime >= least));
        }
        if self.rules.is_dry_run {
            return self.finish(RollingEnd::Planned);
        }
        self.proceed(seen)
    }

    /// Restarts the next server. All members serve, and none is in doubt.
    fn proceed(&mut self, seen: &Observation) -> Vec<RollingEffect> {
        let next = self.left.iter().filter_map(|id| self.server(*id));
        let Some(server) = next.min_by_key(|server| self.rank(server)).cloned() else {
            return self.finish(RollingEnd::Done);
        };
        let Some(id) = server.id.filter(|id| self.has_quorum_without(*id, seen)) else {
            return self
                .finish(RollingEnd::Doubtful(vec![RollingDoubt::TooFewVoters(self.voters())]));
        };
        let state = seen.state(id).ok().cloned();
        let Some((role, before)) = state.and_then(|state| Some((state.mode.clone()?, state)))
        else {
            return self.finish(RollingEnd::Doubtful(vec![RollingDoubt::WrongRole {
                server,
                mode: None,
            }]));
        };
        self.left.remove(&id);
        self.restarts.push(RestartRecord::begin(server.clone(), role.clone(), before, seen));
        self.state = RollingState::Restarting { is_stopping: false };
        let number = self.restarts.len();
        let total = number + self.left.len();
        let news = RollingProgress::Restarting { server: server.clone(), role, number, total };
        vec![RollingEffect::Report(news), RollingEffect::Restart(server)]
    }

    fn restart_ended(
        &mut self,
        at: Duration,
        result: Result<(), RollingRestartError>,
    ) -> Vec<RollingEffect> {
        let RollingState::Restarting { is_stopping } = self.state else {
            return vec![RollingEffect::Observe { is_thorough: false }];
        };
        if let Some(restart) = self.restarts.last_mut()
            && (result.is_ok() || restart.has_restarted)
        {
            restart.outcome = RollingOutcome::Unchecked;
        }
        if let Err(error) = result {
            return self.finish(RollingEnd::RestartFailed(error));
        }
        if is_stopping {
            return self.finish(RollingEnd::Stopped);
        }
        let until = at.saturating_add(self.rules.wait).saturating_add(self.rules.pause);
        self.state = RollingState::Waiting { until, in_order: None, doubts: Vec::new() };
        vec![RollingEffect::Observe { is_thorough: false }]
    }

    fn stop_requested(&mut self) -> Vec<RollingEffect> {
        match &mut self.state {
            RollingState::Restarting { is_stopping: true } => vec![RollingEffect::Drop],
            RollingState::Restarting { is_stopping } => {
                *is_stopping = true;
                let running = self.restarts.last().map(|restart| restart.server.clone());
                let news = running.map(RollingProgress::Finishing);
                news.map(RollingEffect::Report).into_iter().collect()
            }
            RollingState::Ended(_) => vec![RollingEffect::End],
            RollingState::Checking | RollingState::Waiting { .. } => {
                self.finish(RollingEnd::Stopped)
            }
        }
    }

    /// Decides after an observation that follows a restart.
    fn waited(
        &mut self,
        seen: &Observation,
        until: Duration,
        in_order: Option<(u32, Duration)>,
        before: &[RollingDoubt],
        doubts: Vec<RollingDoubt>,
    ) -> Vec<RollingEffect> {
        let is_settled = in_order.is_some_and(|(count, since)| {
            count >= STABLE && seen.at >= since.saturating_add(self.rules.pause)
        });
        if is_settled && seen.is_thorough {
            if let Some(restart) = self.restarts.last_mut() {
                restart.outcome = RollingOutcome::Restarted;
            }
            return self.proceed(seen);
        }
        let certain: Vec<_> = doubts.iter().filter(|doubt| doubt.is_final()).cloned().collect();
        if !certain.is_empty() {
            return self.finish(RollingEnd::Doubtful(certain));
        }
        if seen.at >= until && !is_settled {
            let last = match (doubts.is_empty(), before.is_empty()) {
                (false, _) => doubts,
                (true, false) => before.to_vec(),
                (true, true) => vec![RollingDoubt::Unsettled],
            };
            return self.finish(RollingEnd::Doubtful(last));
        }
        let mut effects = Vec::new();
        if !doubts.is_empty() && doubts != before {
            effects.push(RollingEffect::Report(RollingProgress::Waiting(doubts.clone())));
        }
        self.state = RollingState::Waiting { until, in_order, doubts };
        effects.push(RollingEffect::Observe { is_thorough: is_settled });
        effects
    }

    fn finish(&mut self, end: RollingEnd) -> Vec<RollingEffect> {
        if matches!(end, RollingEnd::Doubtful(_))
            && let Some(restart) = self.restarts.last_mut()
            && !restart.has_restarted
        {
            restart.outcome = RollingOutcome::Failed;
        }
        self.state = RollingState::Ended(end);
        vec![RollingEffect::End]
    }

    /// Notes that the last server has restarted, or serves again.
    fn note_restart(&mut self, seen: &Observation) -> Option<RollingEffect> {
        if matches!(self.state, RollingState::Ended(_)) {
            return None;
        }
        let restart = self.restarts.last_mut()?;
        let took = restart.note(seen)?;
        let server = restart.server.clone();
        Some(RollingEffect::Report(RollingProgress::Back { server, took }))
    }

    fn server(&self, id: u64) -> Option<&ProbedServer> {
        self.servers.iter().find(|server| server.id == Some(id))
    }

    fn voters(&self) -> usize {
        self.members.values().filter(|votes| **votes).count()
    }

    /// Returns `true` if more than half of the voting members serve without this one.
    fn has_quorum_without(&self, id: u64, seen: &Observation) -> bool {
        let voting = self.members.iter().filter(|(member, votes)| **votes && **member != id);
        let serves = |member: u64| {
            let has_role =
                matches!(seen.mode(member), Some(ServerMode::Leader | ServerMode::Follower));
            has_role && seen.state(member).is_ok_and(|state| state.id == Some(member))
        };
        voting.filter(|(member, _)| serves(**member)).count() * 2 > self.voters()
    }

    /// Returns every reason not to restart a server now. The findings of the doctor repeat most
    /// others in other words, so they are returned only without others.
    fn judge(&self, seen: &Observation) -> Vec<RollingDoubt> {
        let mut doubts = self.unusual.clone();
        doubts.extend(self.judge_members(seen));
        if !self.members.is_empty() {
            for server in &self.servers {
                doubts.extend(self.judge_server(server, seen));
            }
            doubts.extend(self.judge_leader(seen));
        }
        doubts.extend(self.judge_restart(seen));
        if doubts.is_empty() {
            doubts.clone_from(&seen.findings);
        }
        doubts
    }

    fn judge_members(&self, seen: &Observation) -> Vec<RollingDoubt> {
        if self.members.is_empty() {
            let modes = seen.servers.iter().filter_map(|server| server.state.as_ref().ok());
            let mut modes = modes.map(|state| &state.mode);
            let is_alone = modes.any(|mode| *mode == Some(ServerMode::Standalone));
            let doubt =
                if is_alone { RollingDoubt::Standalone } else { RollingDoubt::MembersUnknown };
            return std::iter::once(doubt).chain(seen.troubles()).collect();
        }
        let mut doubts = Vec::new();
        if seen.is_weighted {
            doubts.push(RollingDoubt::Weighted);
        }
        if seen.members.iter().any(|members| *members != self.members) {
            doubts.push(RollingDoubt::MembersChanged);
        } else if seen.is_thorough && seen.members.is_empty() {
            doubts.push(RollingDoubt::MembersUnknown);
        }
        let voters = self.voters();
        let votes = |id: &u64| self.members.get(id).is_some_and(|votes| *votes);
        if self.left.iter().any(votes) && voters.saturating_sub(1) * 2 <= voters {
            doubts.push(RollingDoubt::TooFewVoters(voters));
        }
        doubts
    }

    fn judge_server(&self, server: &ProbedServer, seen: &Observation) -> Option<RollingDoubt> {
        let id = server.id?;
        let state = match seen.state(id) {
            Ok(state) => state,
            Err(trouble) => {
                let (server, trouble) = (server.clone(), trouble.clone());
                return Some(RollingDoubt::NotServing { server, trouble });
            }
        };
        let server = server.clone();
        match state.id {
            None => return Some(RollingDoubt::NoId(server)),
            Some(other) if other != id => {
                return Some(RollingDoubt::OtherMember { server, id: other });
            }
            Some(_) => {}
        }
        let votes = self.members.get(&id).is_some_and(|votes| *votes);
        let is_expected = match &state.mode {
            Some(ServerMode::Leader | ServerMode::Follower) => votes,
            Some(ServerMode::Observer) => !votes,
            _ => false,
        };
        if !is_expected {
            return Some(RollingDoubt::WrongRole { server, mode: state.mode.clone() });
        }
        let Some(zxid) = state.zxid else { return Some(RollingDoubt::NoZxid(server)) };
        // A leader that has lost transactions is judged by itself.
        let leads = state.mode == Some(ServerMode::Leader);
        let is_judged = leads && self.led.is_some_and(|led| zxid < led);
        let is_behind = self.goal.is_some_and(|goal| zxid < goal) && !is_judged;
        is_behind.then_some(RollingDoubt::Behind(server))
    }

    fn judge_leader(&self, seen: &Observation) -> Option<RollingDoubt> {
        let leaders: Vec<_> = seen.leaders().collect();
        match leaders.as_slice() {
            [] => Some(RollingDoubt::NoLeader),
            [leader] => {
                let (now, before) = leader.zxid.zip(self.led)?;
                (now < before).then_some(RollingDoubt::WentBack { before, now })
            }
            several => Some(RollingDoubt::Leaders(several.len())),
        }
    }

    /// Judges the last restart.
    fn judge_restart(&self, seen: &Observation) -> Option<RollingDoubt> {
        let restart = self.restarts.last()?;
        if !restart.has_restarted {
            return Some(RollingDoubt::NotRestarted(restart.server.clone()));
        }
        restart.is_older(seen).then(|| RollingDoubt::OlderData(restart.server.clone()))
    }
}

/// Returns the place of a role in the order.
const fn rank(mode: Option<&ServerMode>) -> u8 {
    match mode {
        Some(ServerMode::Observer) => 0,
        Some(ServerMode::Leader) => 2,
        _ => 1,
    }
}
