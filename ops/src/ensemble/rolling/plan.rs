//! The decisions of a rolling restart, without I/O: from observations to the next restart.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::flw::ServerMode;
use super::super::members::EnsembleMembers;
use super::super::probe::{Server, Trouble};
use super::doubt::{Doubt, RestartError};
use super::events::{
    RestartResult, RestartRow, RollingEffect, RollingEnd, RollingInput, RollingProgress,
    RollingRules,
};
use super::observation::{self, Members, Observation, ServerState};

/// The observations in a row without a doubt before the next restart.
pub(crate) const STABLE: u32 = 3;

/// A restart.
#[derive(Debug, Clone)]
struct Restart {
    server: Server,
    role: ServerMode,
    before: ServerState,
    /// The time of the observation before it.
    began: Duration,
    /// `true` if the server is known to have restarted.
    has_restarted: bool,
    result: RestartResult,
    took: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RollingState {
    /// No server was restarted yet.
    Checking,
    /// The command of the last restart runs.
    Restarting {
        is_stopping: bool,
    },
    /// The last restart has to come to its end before this time.
    Waiting {
        until: Duration,
        /// The number of observations in a row without a doubt, and the time of the first.
        in_order: Option<(u32, Duration)>,
        doubts: Vec<Doubt>,
    },
    Ended(RollingEnd),
}

/// A rolling restart.
#[derive(Debug)]
pub(crate) struct Rolling {
    rules: RollingRules,
    servers: Vec<Server>,
    members: Members,
    /// The doubts about the servers that were found.
    unusual: Vec<Doubt>,
    left: BTreeSet<u64>,
    restarts: Vec<Restart>,
    /// `true` if a leader has reported its last transaction before the present observation.
    has_leader: bool,
    /// The greatest transaction that a leader had then.
    goal: Option<i64>,
    last: Option<Observation>,
    state: RollingState,
}

impl Rolling {
    /// Creates the restart of these servers. Begin with a thorough observation.
    pub(crate) fn new(found: &EnsembleMembers, rules: RollingRules) -> Self {
        let members = found.config.as_ref().map(observation::members).unwrap_or_default();
        let mut unusual = Vec::new();
        if !members.is_empty() {
            let strangers = found.servers.iter().filter(|server| server.id.is_none());
            unusual.extend(strangers.cloned().map(Doubt::NotAMember));
        }
        if !found.unknown.is_empty() {
            unusual.push(Doubt::NoAddress(found.unknown.clone()));
        }
        Self {
            left: rules.targets.clone(),
            rules,
            servers: found.servers.clone(),
            members,
            unusual,
            restarts: Vec::new(),
            has_leader: false,
            goal: None,
            last: None,
            state: RollingState::Checking,
        }
    }

    /// Returns the end of the run, once it has ended.
    pub(crate) const fn end(&self) -> Option<&RollingEnd> {
        match &self.state {
            RollingState::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns `true` if the command of a server was started.
    pub(crate) const fn has_begun(&self) -> bool {
        !self.restarts.is_empty()
    }

    /// Returns all servers: first the restarted ones, then the rest in its order, then the servers
    /// that are left out.
    pub(crate) fn rows(&self) -> Vec<RestartRow> {
        let mut rows: Vec<_> = self.restarts.iter().zip(1..).map(restarted).collect();
        let (mut left, others): (Vec<_>, Vec<_>) = self
            .servers
            .iter()
            .filter(|server| self.restarts.iter().all(|restart| restart.server != **server))
            .partition(|server| server.id.is_some_and(|id| self.left.contains(&id)));
        left.sort_by_key(|server| self.rank(server));
        let begun = rows.len();
        let left = left.into_iter().zip(begun + 1..);
        rows.extend(left.map(|(server, number)| RestartRow {
            number: Some(number),
            result: RestartResult::Left,
            ..self.row(server)
        }));
        rows.extend(others.into_iter().map(|server| self.row(server)));
        rows
    }

    /// Returns the row of a server that is left out.
    fn row(&self, server: &Server) -> RestartRow {
        let state = self.last.as_ref().zip(server.id).and_then(|(seen, id)| seen.state(id).ok());
        RestartRow {
            server: server.clone(),
            number: None,
            role: state.and_then(|state| state.mode.clone()),
            uptime: state.and_then(|state| state.uptime),
            result: RestartResult::LeftOut,
            took: None,
        }
    }

    /// Returns the place of a server in the order, by its last role.
    fn rank(&self, server: &Server) -> (u8, Option<u64>) {
        let mode = self.last.as_ref().zip(server.id).and_then(|(seen, id)| seen.mode(id));
        (rank(mode), server.id)
    }

    /// Decides what happens after an input.
    pub(crate) fn step(&mut self, input: RollingInput) -> Vec<RollingEffect> {
        match input {
            RollingInput::Observed(seen) => self.observed(seen),
            RollingInput::CommandEnded { at, result } => self.command_ended(at, result),
            RollingInput::StopRequested => self.stop_requested(),
        }
    }

    fn observed(&mut self, seen: Observation) -> Vec<RollingEffect> {
        let mut effects = Vec::new();
        effects.extend(self.note_restart(&seen));
        let doubts = self.judge(&seen);
        // Before the first observation with a leader, the others cannot be compared with it.
        let is_in_order = doubts.is_empty() && self.has_leader;
        let greatest = seen.leaders().filter_map(|leader| leader.zxid).max();
        self.has_leader |= greatest.is_some();
        self.goal = self.goal.max(greatest.filter(|zxid| is_transaction(*zxid)));
        self.last = Some(seen.clone());
        effects.extend(match self.state.clone() {
            RollingState::Checking if !doubts.is_empty() => {
                self.finish(RollingEnd::Doubtful(doubts))
            }
            RollingState::Checking if is_in_order && seen.is_thorough => self.begin(&seen),
            RollingState::Checking => vec![RollingEffect::Observe { is_thorough: true }],
            RollingState::Restarting { .. } => vec![RollingEffect::Observe { is_thorough: false }],
            RollingState::Waiting { until, in_order, doubts: before } => {
                let in_order = is_in_order.then(|| match in_order {
                    Some((count, since)) => (count + 1, since),
                    None => (1, seen.at),
                });
                self.waited(&seen, until, in_order, &before, doubts)
            }
            RollingState::Ended(_) => vec![RollingEffect::End],
        });
        effects
    }

    /// Begins with the first server.
    fn begin(&mut self, seen: &Observation) -> Vec<RollingEffect> {
        if let Some(least) = self.rules.least_age {
            let uptime = |id: u64| seen.state(id).ok().and_then(|state| state.uptime);
            let unknown = self.left.iter().filter(|id| uptime(**id).is_none());
            let unknown: Vec<_> = unknown.filter_map(|id| self.server(*id)).cloned().collect();
            if !unknown.is_empty() {
                let doubts = unknown.into_iter().map(Doubt::NoUptime).collect();
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
            return self.finish(RollingEnd::Doubtful(vec![Doubt::TooFewVoters(self.voters())]));
        };
        let state = seen.state(id).ok().cloned();
        let Some((role, before)) = state.and_then(|state| Some((state.mode.clone()?, state)))
        else {
            return self
                .finish(RollingEnd::Doubtful(vec![Doubt::WrongRole { server, mode: None }]));
        };
        self.left.remove(&id);
        self.restarts.push(Restart {
            server: server.clone(),
            role: role.clone(),
            before,
            began: seen.at,
            has_restarted: false,
            result: RestartResult::Failed,
            took: None,
        });
        self.state = RollingState::Restarting { is_stopping: false };
        let number = self.restarts.len();
        let total = number + self.left.len();
        let news = RollingProgress::Restarting { server: server.clone(), role, number, total };
        vec![RollingEffect::Report(news), RollingEffect::Restart(server)]
    }

    fn command_ended(
        &mut self,
        at: Duration,
        result: Result<(), RestartError>,
    ) -> Vec<RollingEffect> {
        let RollingState::Restarting { is_stopping } = self.state else {
            return vec![RollingEffect::Observe { is_thorough: false }];
        };
        if let Err(error) = result {
            return self.finish(RollingEnd::CommandFailed(error));
        }
        if let Some(restart) = self.restarts.last_mut() {
            restart.result = RestartResult::Unchecked;
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
            RollingState::Restarting { is_stopping: true } => vec![RollingEffect::Kill],
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
        before: &[Doubt],
        doubts: Vec<Doubt>,
    ) -> Vec<RollingEffect> {
        let is_settled = in_order.is_some_and(|(count, since)| {
            count >= STABLE && seen.at >= since.saturating_add(self.rules.pause)
        });
        if is_settled && seen.is_thorough {
            if let Some(restart) = self.restarts.last_mut() {
                restart.result = RestartResult::Restarted;
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
                (true, true) => vec![Doubt::Unsettled],
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
        if let RollingEnd::Doubtful(doubts) = &end
            && let Some(restart) = self.restarts.last_mut()
            && doubts.contains(&Doubt::NotRestarted(restart.server.clone()))
        {
            restart.result = RestartResult::Failed;
        }
        self.state = RollingState::Ended(end);
        vec![RollingEffect::End]
    }

    /// Notes that the last server has restarted, or serves again.
    fn note_restart(&mut self, seen: &Observation) -> Option<RollingEffect> {
        if matches!(self.state, RollingState::Ended(_)) {
            return None;
        }
        let restart = self.restarts.last_mut().filter(|restart| restart.took.is_none())?;
        let state = seen.state(restart.server.id?);
        restart.has_restarted |= shows_restart(restart, state, seen.at);
        let is_back = restart.has_restarted
            && state.is_ok_and(|state| state.mode.is_some() && state.id == restart.server.id);
        is_back.then(|| {
            let took = seen.at.saturating_sub(restart.began);
            restart.took = Some(took);
            let server = restart.server.clone();
            RollingEffect::Report(RollingProgress::Back { server, took })
        })
    }

    fn server(&self, id: u64) -> Option<&Server> {
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
    fn judge(&self, seen: &Observation) -> Vec<Doubt> {
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

    fn judge_members(&self, seen: &Observation) -> Vec<Doubt> {
        if self.members.is_empty() {
            let modes = seen.servers.iter().filter_map(|server| server.state.as_ref().ok());
            let mut modes = modes.map(|state| &state.mode);
            let is_alone = modes.any(|mode| *mode == Some(ServerMode::Standalone));
            let doubt = if is_alone { Doubt::Standalone } else { Doubt::MembersUnknown };
            return std::iter::once(doubt).chain(seen.troubles()).collect();
        }
        let mut doubts = Vec::new();
        if seen.is_weighted {
            doubts.push(Doubt::Weighted);
        }
        if seen.members.iter().any(|members| *members != self.members) {
            doubts.push(Doubt::MembersChanged);
        } else if seen.is_thorough && seen.members.is_empty() {
            doubts.push(Doubt::MembersUnknown);
        }
        let voters = self.voters();
        let votes = |id: &u64| self.members.get(id).is_some_and(|votes| *votes);
        if self.left.iter().any(votes) && voters.saturating_sub(1) * 2 <= voters {
            doubts.push(Doubt::TooFewVoters(voters));
        }
        doubts
    }

    fn judge_server(&self, server: &Server, seen: &Observation) -> Option<Doubt> {
        let id = server.id?;
        let state = match seen.state(id) {
            Ok(state) => state,
            Err(trouble) => {
                let (server, trouble) = (server.clone(), trouble.clone());
                return Some(Doubt::NotServing { server, trouble });
            }
        };
        let server = server.clone();
        match state.id {
            None => return Some(Doubt::NoId(server)),
            Some(other) if other != id => return Some(Doubt::OtherMember { server, id: other }),
            Some(_) => {}
        }
        let votes = self.members.get(&id).is_some_and(|votes| *votes);
        let is_expected = match &state.mode {
            Some(ServerMode::Leader | ServerMode::Follower) => votes,
            Some(ServerMode::Observer) => !votes,
            _ => false,
        };
        if !is_expected {
            return Some(Doubt::WrongRole { server, mode: state.mode.clone() });
        }
        match (state.zxid, self.goal) {
            (None, _) => Some(Doubt::NoZxid(server)),
            // The leader is judged by itself.
            (Some(_), _) if state.mode == Some(ServerMode::Leader) => None,
            (Some(zxid), Some(goal)) if zxid < goal => Some(Doubt::Behind(server)),
            _ => None,
        }
    }

    fn judge_leader(&self, seen: &Observation) -> Option<Doubt> {
        let leaders: Vec<_> = seen.leaders().collect();
        match leaders.as_slice() {
            [] => Some(Doubt::NoLeader),
            [leader] => {
                let (now, before) = leader.zxid.zip(self.goal)?;
                (now < before).then_some(Doubt::WentBack { before, now })
            }
            several => Some(Doubt::Leaders(several.len())),
        }
    }

    /// Judges the last restart.
    fn judge_restart(&self, seen: &Observation) -> Option<Doubt> {
        let restart = self.restarts.last()?;
        if !restart.has_restarted {
            return Some(Doubt::NotRestarted(restart.server.clone()));
        }
        let now = seen.state(restart.server.id?).ok()?.zxid?;
        let before = restart.before.zxid.filter(|zxid| is_transaction(*zxid));
        let is_older = before.is_some_and(|before| now < before);
        is_older.then(|| Doubt::OlderData(restart.server.clone()))
    }
}

fn restarted((restart, number): (&Restart, usize)) -> RestartRow {
    RestartRow {
        server: restart.server.clone(),
        number: Some(number),
        role: Some(restart.role.clone()),
        uptime: restart.before.uptime,
        result: restart.result,
        took: restart.took,
    }
}

/// Returns `false` for the number with which an epoch begins. A new leader reports it before the
/// first transaction of its epoch, while the others still report their last transaction.
const fn is_transaction(zxid: i64) -> bool {
    zxid & 0xffff_ffff != 0
}

/// Returns the place of a role in the order.
const fn rank(mode: Option<&ServerMode>) -> u8 {
    match mode {
        Some(ServerMode::Observer) => 0,
        Some(ServerMode::Leader) => 2,
        _ => 1,
    }
}

/// Returns `true` if a response proves a restart: no process listens, or the role is younger than
/// the command. Servers before 3.6 do not report the age of their role, but their count of packets
/// begins again.
fn shows_restart(restart: &Restart, state: Result<&ServerState, &Trouble>, at: Duration) -> bool {
    match state {
        Err(Trouble::Unreachable(why)) => why.contains("refused"),
        Err(_) => false,
        Ok(ServerState { uptime: Some(uptime), .. }) => *uptime <= at.saturating_sub(restart.began),
        Ok(ServerState { received, .. }) => {
            received.zip(restart.before.received).is_some_and(|(now, before)| now < before)
        }
    }
}
