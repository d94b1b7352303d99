//! The faults: what they do to the servers and to the network.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use zk_curator_client::ErrorCode;
use zk_curator_client::internal::Locked;
use zk_curator_testing::{RuleRequest, Verdict};

use super::World;
use super::slot::ClientSlot;
use crate::faults::{FaultAction, FaultKind};
use crate::history::{Event, Lifecycle, ProcessId};
use crate::outcome::Injected;
use crate::seed;

impl World<'_> {
    /// Records that a fault begins or ends, and returns the place of the record.
    fn note(&self, index: usize, what: &str) -> usize {
        let (number, fault) = &self.schedule[index];
        let text = format!("[{number}] {}{what}", fault.action);
        let place = self.run.place();
        self.run.record(ProcessId::World, Event::Fault { text });
        place
    }

    /// Counts a fault that has hit a client.
    pub(super) fn hit(&mut self, kind: FaultKind) {
        *self.hits.entry(kind).or_default() += 1;
    }

    /// Returns `true` if a fault hits a client when it begins. Others are counted when they hit.
    fn hits_at_once(&self, action: &FaultAction) -> bool {
        match action {
            FaultAction::LoseRequests { .. }
            | FaultAction::LoseReplies { .. }
            | FaultAction::DelayRequests { .. }
            | FaultAction::Throttle { .. }
            | FaultAction::Expire { .. }
            | FaultAction::Disconnect { .. }
            | FaultAction::Operate { .. }
            | FaultAction::Cancel { .. } => false,
            FaultAction::CutLink { client, .. }
            | FaultAction::CutClient { client, .. }
            | FaultAction::SlowNetwork { client, .. }
            | FaultAction::PauseClient { client }
            | FaultAction::KillClient { client, .. }
            | FaultAction::Busy { client, .. }
            | FaultAction::Close { client, .. } => {
                self.seats.iter().any(|seat| seat.number == *client && !seat.finished)
            }
            // The run is over when all clients have finished.
            FaultAction::IsolateServer { .. }
            | FaultAction::KillServer { .. }
            | FaultAction::StopServer { .. }
            | FaultAction::Outage
            | FaultAction::ChangeLeader
            | FaultAction::Lag { .. }
            | FaultAction::ReapContainers
            | FaultAction::Jump { .. } => true,
        }
    }

    pub(super) async fn begin(&mut self, index: usize) {
        let fault = self.schedule[index].1.clone();
        *self.begun.entry(fault.action.kind()).or_default() += 1;
        if self.hits_at_once(&fault.action) {
            self.hit(fault.action.kind());
        }
        let begins = self.note(index, "");
        self.injected.push(Injected { fault: self.schedule[index].0, begins, ends: None });
        match &fault.action {
            FaultAction::Disconnect { client } => {
                for session in self.sessions_of(*client) {
                    if self.cluster.disconnect(session) {
                        self.hit(FaultKind::Disconnect);
                    }
                }
            }
            FaultAction::ChangeLeader => drop(self.cluster.change_leader()),
            FaultAction::Expire { client } => self.expire(*client),
            FaultAction::Operate { place } => {
                let has_deleted = self.operator().delete_at(*place);
                if has_deleted {
                    self.hit(FaultKind::Operator);
                }
            }
            FaultAction::Close { client, late } => {
                if let Some(seat) = self.seat(*client).filter(|seat| seat.process.is_some()) {
                    seat.ending.lock().ask(*late);
                }
            }
            FaultAction::ReapContainers => drop(self.cluster.reap_containers()),
            FaultAction::Jump { by } => self.jump(*by).await,
            FaultAction::LoseRequests { client, one_in } => {
                self.rule(index, *client, *one_in, None);
            }
            FaultAction::LoseReplies { client, one_in } => self.rule(index, *client, *one_in, None),
            FaultAction::DelayRequests { client, one_in, most } => {
                self.rule(index, *client, *one_in, Some(*most));
            }
            FaultAction::Throttle { server, one_in } => self.throttle(index, *server, *one_in),
            FaultAction::Lag { server, by } if *server < self.sim.servers => {
                let lag = match by {
                    Some(by) => self.cluster.lag_by(*server, *by),
                    None => self.cluster.lag(*server),
                };
                self.lags.insert(index, lag);
            }
            _ => {}
        }
        if !fault.action.is_at_once() {
            self.active.insert(index);
            self.reconcile().await;
        }
    }

    pub(super) async fn end(&mut self, index: usize) {
        if self.active.remove(&index) {
            self.put_right(index);
            self.reconcile().await;
        }
    }

    pub(super) fn put_right(&mut self, index: usize) {
        let (ends, number) = (self.note(index, ": over"), self.schedule[index].0);
        if let Some(injected) = self.injected.iter_mut().find(|injected| injected.fault == number) {
            injected.ends = Some(ends);
        }
        if self.rules.remove(&index).is_some_and(|rule| rule.hits() > 0) {
            self.hit(self.schedule[index].1.action.kind());
        }
        self.lags.remove(&index);
    }

    fn expire(&mut self, client: u32) {
        for session in self.sessions_of(client) {
            if self.cluster.expire(session) {
                self.hit(FaultKind::Expire);
                let who = self.seat(client).map_or(ProcessId::World, ClientSlot::who);
                self.run.record(who, Lifecycle::Expired);
            }
        }
    }

    fn seat(&self, client: u32) -> Option<&ClientSlot> {
        self.seats.iter().find(|seat| seat.number == client)
    }

    fn sessions_of(&self, client: u32) -> Vec<i64> {
        self.seat(client).map(|seat| seat.host().sessions()).unwrap_or_default()
    }

    /// Installs the rule of a fault.
    fn rule(&mut self, index: usize, client: u32, one_in: u32, late: Option<Duration>) {
        let Some(seat) = self.seat(client) else { return };
        let host = Arc::clone(&seat.host);
        let (number, fault) = &self.schedule[index];
        let loses_reply = fault.action.kind() == FaultKind::LoseReplies;
        let rng = Locked::new(seed::rng(self.sim.seed, "rule", *number as u64));
        let rule = self.cluster.rule(move |request| {
            let sessions = host.lock().sessions();
            if !sessions.contains(&request.session_id()) {
                return Verdict::Pass;
            }
            let mut rng = rng.lock();
            match late {
                _ if rng.u32(..one_in) > 0 => Verdict::Pass,
                Some(most) => Verdict::Delay(moment(&mut rng, most)),
                None if loses_reply => Verdict::LoseReply,
                None => Verdict::LoseRequest,
            }
        });
        self.rules.insert(index, rule);
    }

    /// Installs the rule of an overloaded server, or of all servers.
    fn throttle(&mut self, index: usize, server: Option<usize>, one_in: u32) {
        let rng = Locked::new(seed::rng(self.sim.seed, "throttle", self.schedule[index].0 as u64));
        let decide = move |request: &RuleRequest<'_>| {
            let mut rng = rng.lock();
            if request.is_throttlable() && rng.u32(..one_in) == 0 {
                Verdict::Refuse(ErrorCode::Throttled)
            } else {
                Verdict::Pass
            }
        };
        let rule = match server {
            None => self.cluster.rule(decide),
            Some(server) if server < self.sim.servers => self.cluster.member(server).rule(decide),
            Some(_) => return,
        };
        self.rules.insert(index, rule);
    }

    /// Advances the time while nothing runs.
    async fn jump(&self, by: Duration) {
        let running =
            || self.seats.iter().filter(|seat| !seat.is_paused() && seat.process.is_some());
        for seat in running() {
            self.run.record(seat.who(), Lifecycle::Paused);
        }
        tokio::time::advance(by).await;
        for seat in running() {
            self.run.record(seat.who(), Lifecycle::Resumed);
        }
    }

    /// Puts the world into the state that the active faults require.
    pub(super) async fn reconcile(&mut self) {
        let schedule = &self.schedule;
        let active: Vec<_> =
            self.active.iter().map(|index| schedule[*index].1.action.clone()).collect();
        let active: Vec<_> = active.iter().collect();
        self.reconcile_servers(&active).await;
        let one_in = active.iter().filter_map(|action| match action {
            FaultAction::Cancel { one_in } => Some(*one_in),
            _ => None,
        });
        self.run.set_cancelling(one_in.min().unwrap_or(0));
        for at in 0..self.seats.len() {
            self.reconcile_client(at, &active);
        }
    }

    async fn reconcile_servers(&mut self, active: &[&FaultAction]) {
        for server in 0..self.sim.servers {
            let is = |action: &FaultAction| active.contains(&action);
            let member = self.cluster.member(server);
            let up = !is(&FaultAction::KillServer { server }) && !is(&FaultAction::Outage);
            if up != member.is_running() {
                if up {
                    // A restart in memory cannot fail: no port can be in use.
                    drop(member.restart().await);
                } else {
                    member.stop().await;
                }
            }
            let held = is(&FaultAction::StopServer { server });
            if held && self.held.insert(server) {
                member.hold();
            } else if !held && self.held.remove(&server) {
                member.release();
            }
        }
        // Each isolated server is in a partition of its own.
        let isolated: BTreeSet<usize> = active
            .iter()
            .filter_map(|action| match action {
                FaultAction::IsolateServer { server } => Some(*server),
                _ => None,
            })
            .collect();
        if isolated != self.isolated {
            let sides: Vec<Vec<usize>> = isolated.iter().map(|server| vec![*server]).collect();
            let sides: Vec<&[usize]> = sides.iter().map(Vec::as_slice).collect();
            self.cluster.partition(&sides);
            self.isolated = isolated;
        }
    }
}

fn moment(rng: &mut fastrand::Rng, most: Duration) -> Duration {
    Duration::from_micros(rng.u64(0..=u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
}
