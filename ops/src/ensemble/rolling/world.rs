//! A simulated ensemble, as the servers report it, for the tests.

use std::time::Duration;

use proptest::prelude::*;
use zk_curator::ensemble::EnsembleConfig;

use super::doubt::RollingDoubt;
use super::observation::{self, Members, Observation, ObservedServer, ServerState};
use crate::ensemble::members::EnsembleMembers;
use crate::ensemble::probe::ProbedServer;
use crate::ensemble::trouble::ProbeTrouble;
use crate::ensemble::words::ServerMode;

/// The time between two observations.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// The shortest time from the begin of a command until its server begins a role.
const SHORTEST_RESTART: Duration = Duration::from_millis(50);

/// The fault of an observation. It concerns the server with this number, counted round.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Unreachable(usize),
    Late(usize),
    NotServing(usize),
    Refused(usize),
    /// The server is not in the observation.
    Missing(usize),
    NoId(usize),
    OtherId(usize),
    NoRole(usize),
    ReadOnly(usize),
    Behind(usize),
    NoZxid(usize),
    AlsoLeads(usize),
    NoLeader,
    Back,
    OtherMembers,
    NoMembers,
    Weighted,
    Finding,
    /// The leadership moves to another server, if it votes. This is not visible as a fault.
    Elect(usize),
}

pub(super) fn faults() -> impl Strategy<Value = Fault> {
    let server = 0..7_usize;
    prop_oneof![
        server.clone().prop_map(Fault::Unreachable),
        server.clone().prop_map(Fault::Late),
        server.clone().prop_map(Fault::NotServing),
        server.clone().prop_map(Fault::Refused),
        server.clone().prop_map(Fault::Missing),
        server.clone().prop_map(Fault::NoId),
        server.clone().prop_map(Fault::OtherId),
        server.clone().prop_map(Fault::NoRole),
        server.clone().prop_map(Fault::ReadOnly),
        server.clone().prop_map(Fault::Behind),
        server.clone().prop_map(Fault::NoZxid),
        server.clone().prop_map(Fault::AlsoLeads),
        Just(Fault::NoLeader),
        Just(Fault::Back),
        Just(Fault::OtherMembers),
        Just(Fault::NoMembers),
        Just(Fault::Weighted),
        Just(Fault::Finding),
        server.prop_map(Fault::Elect),
    ]
}

/// The outcome of the command of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The server is down for this many observations.
    Restarts(u8),
    /// The server stays down.
    StaysDown,
    /// The command does nothing.
    Nothing,
    /// The server comes back with the id of another member.
    OtherMember,
    /// The server comes back without its last transactions.
    Older,
    /// The command fails.
    Fails,
}

pub(super) fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => (0..4_u8).prop_map(Fate::Restarts),
        1 => Just(Fate::StaysDown),
        1 => Just(Fate::Nothing),
        1 => Just(Fate::OtherMember),
        1 => Just(Fate::Older),
        1 => Just(Fate::Fails),
    ]
}

/// A simulated server.
#[derive(Debug, Clone)]
struct SimulatedServer {
    server: ProbedServer,
    /// The observations for which it is still down.
    down: u32,
    /// The begin of its role.
    since: Duration,
    /// The begin of its process.
    process_since: Duration,
    /// The number of times that its process has looked for a leader.
    looked: u64,
    /// The begin of an epoch, which it has received with a snapshot.
    snapshot: i64,
    /// The id that it reports.
    id: u64,
    /// The transactions that it lacks.
    lost: i64,
}

/// A simulated ensemble.
#[derive(Debug, Clone)]
pub(super) struct World {
    servers: Vec<SimulatedServer>,
    leader: usize,
    /// The last transaction of the leader, or the begin of its epoch, and the last transaction of
    /// the others.
    zxid: i64,
    before: i64,
    /// No client writes.
    pub(super) is_idle: bool,
    pub(super) now: Duration,
    /// Servers report the age of their role, as those since 3.6 do.
    reports_uptime: bool,
    /// Servers report counters of their processes, as those since 3.6 do.
    pub(super) has_counters: bool,
    /// A server that restarts receives a snapshot.
    pub(super) sends_snapshots: bool,
    /// The microseconds that the clocks of the servers lose in a second.
    pub(super) lost_per_second: u32,
}

impl World {
    /// Creates an ensemble whose members with a vote come first. The last one of them leads.
    pub(super) fn new(voters: usize, observers: usize, reports_uptime: bool) -> Self {
        let servers = (0..voters + observers).map(|place| {
            let id = place as u64 + 1;
            let port = u16::try_from(id).expect("a small number");
            let server = ProbedServer {
                host: "zk".to_owned(),
                port,
                id: Some(id),
                observer: place >= voters,
            };
            SimulatedServer {
                server,
                down: 0,
                since: Duration::ZERO,
                process_since: Duration::ZERO,
                looked: 1,
                snapshot: 0,
                id,
                lost: 0,
            }
        });
        Self {
            servers: servers.collect(),
            leader: voters - 1,
            zxid: 0x1_0000_0064,
            before: 0x1_0000_0064,
            is_idle: false,
            now: Duration::from_secs(3_600),
            reports_uptime,
            has_counters: reports_uptime,
            sends_snapshots: false,
            lost_per_second: 0,
        }
    }

    /// Returns the servers with their configuration.
    pub(super) fn found(&self) -> EnsembleMembers {
        let line = |server: &ProbedServer| {
            let role = if server.observer { "observer" } else { "participant" };
            format!("server.{}=zk:2888:3888:{role};{}\n", server.port, server.port)
        };
        let text: String = self.servers.iter().map(|server| line(&server.server)).collect();
        let config = EnsembleConfig::parse(text.as_bytes()).expect("a configuration");
        let servers = self.servers.iter().map(|server| server.server.clone()).collect();
        EnsembleMembers { servers, config: Some(config), ..EnsembleMembers::default() }
    }

    pub(super) fn members(&self) -> Members {
        observation::members(&self.found().config.expect("a configuration"))
    }

    /// Returns the id of the leader.
    pub(super) fn leader(&self) -> u64 {
        self.leader as u64 + 1
    }

    /// Returns `true` if all servers serve, whatever an observation shows.
    pub(super) fn is_up(&self) -> bool {
        self.servers.iter().all(|server| server.down == 0)
    }

    /// Moves the leadership to a server that votes and serves.
    pub(super) fn elect(&mut self, to: usize) {
        let is_able = self
            .servers
            .get(to)
            .is_some_and(|server| !server.server.observer && server.down == 0 && server.lost == 0);
        if !is_able || to == self.leader {
            return;
        }
        self.leader = to;
        // The new leader has everything, and the others get it from there.
        self.catch_up();
        self.zxid = ((self.zxid >> 32) + 1) << 32;
        for server in &mut self.servers {
            server.since = self.now;
            server.looked += 1;
        }
    }

    fn catch_up(&mut self) {
        if self.zxid & 0xffff_ffff != 0 {
            self.before = self.zxid;
        }
    }

    /// Runs the command of a server. Returns `false` if it fails.
    pub(super) fn restart(&mut self, id: u64, fate: Fate) -> bool {
        let place = usize::try_from(id - 1).expect("a small number");
        let down = match fate {
            Fate::Restarts(down) => u32::from(down),
            Fate::StaysDown => u32::MAX,
            Fate::OtherMember | Fate::Older => 1,
            Fate::Nothing | Fate::Fails => return fate != Fate::Fails,
        };
        if place == self.leader {
            let voters = self.servers.iter().filter(|server| !server.server.observer).count();
            self.elect((place + 1) % voters);
        }
        self.now += SHORTEST_RESTART;
        let epoch = self.zxid >> 32 << 32;
        let server = &mut self.servers[place];
        server.down = down;
        server.since = self.now + EVERY * down.min(1_000);
        server.process_since = server.since;
        server.looked = 1;
        if self.sends_snapshots {
            server.snapshot = epoch;
        }
        if fate == Fate::OtherMember {
            server.id += 50;
        }
        if fate == Fate::Older {
            server.lost = 1_000_000;
        }
        true
    }

    /// Lets a second pass, and asks all servers.
    pub(super) fn observe(&mut self, faults: &[Fault], is_thorough: bool) -> Observation {
        self.now += EVERY;
        self.catch_up();
        if !self.is_idle {
            self.zxid += 2;
        }
        let count = self.servers.len();
        for fault in faults {
            if let Fault::Elect(to) = fault {
                self.elect(to % count);
            }
        }
        let servers = (0..count).map(|place| self.report(place)).collect();
        for server in &mut self.servers {
            server.down = server.down.saturating_sub(u32::from(server.down < u32::MAX));
        }
        let mut seen = Observation {
            asked: self.now,
            at: self.now,
            servers,
            members: vec![self.members(); count],
            is_weighted: false,
            findings: Vec::new(),
            is_thorough,
        };
        let before = self.before;
        faults.iter().for_each(|fault| apply(*fault, &mut seen, before));
        seen
    }

    fn report(&self, place: usize) -> ObservedServer {
        let simulated = &self.servers[place];
        let server = simulated.server.clone();
        if simulated.down > 0 {
            let trouble = ProbeTrouble::Unreachable("connection refused".to_owned());
            return ObservedServer { server, state: Err(trouble) };
        }
        let (mode, zxid) = match place {
            _ if place == self.leader => (ServerMode::Leader, self.zxid),
            // A follower is asked before the leader.
            _ if server.observer => (ServerMode::Observer, self.before.max(simulated.snapshot)),
            _ => (ServerMode::Follower, self.before.max(simulated.snapshot)),
        };
        let age = self.now.saturating_sub(simulated.since);
        let age = age - age / 1_000_000 * self.lost_per_second;
        let ms = |age: Duration| u64::try_from(age.as_millis()).expect("a short time");
        let connections = ms(self.now.saturating_sub(simulated.process_since));
        let counters = [simulated.looked, connections, connections * 10].map(Some);
        let state = ServerState {
            id: Some(simulated.id),
            mode: Some(mode),
            zxid: Some(zxid - simulated.lost),
            uptime: self.reports_uptime.then_some(age),
            received: Some(ms(age)),
            of_process: if self.has_counters { counters } else { [None; 3] },
        };
        ObservedServer { server, state: Ok(state) }
    }
}

/// Changes an observation.
fn apply(fault: Fault, seen: &mut Observation, before: i64) {
    let led = |server: &ObservedServer| {
        let mode = server.state.as_ref().ok().and_then(|state| state.mode.as_ref());
        mode == Some(&ServerMode::Leader)
    };
    match fault {
        Fault::Unreachable(place) => {
            lose(seen, place, ProbeTrouble::Unreachable("no route".to_owned()));
        }
        Fault::Late(place) => lose(seen, place, ProbeTrouble::Late),
        Fault::NotServing(place) => lose(seen, place, ProbeTrouble::NotServing),
        Fault::Refused(place) => lose(seen, place, ProbeTrouble::NotListed),
        Fault::Missing(place) => {
            if !seen.servers.is_empty() {
                drop(seen.servers.remove(place % seen.servers.len()));
            }
        }
        Fault::NoId(place) => change(seen, place, |state| state.id = None),
        Fault::OtherId(place) => change(seen, place, |state| state.id = Some(99)),
        Fault::NoRole(place) => change(seen, place, |state| state.mode = None),
        Fault::ReadOnly(place) => {
            change(seen, place, |state| state.mode = Some(ServerMode::ReadOnly));
        }
        Fault::Behind(place) => change(seen, place, |state| state.zxid = Some(before - 10)),
        Fault::NoZxid(place) => change(seen, place, |state| state.zxid = None),
        Fault::AlsoLeads(place) => {
            change(seen, place, |state| state.mode = Some(ServerMode::Leader));
        }
        Fault::NoLeader => {
            if let Some(place) = seen.servers.iter().position(led) {
                change(seen, place, |state| state.mode = Some(ServerMode::Follower));
            }
        }
        Fault::Back => {
            for place in 0..seen.servers.len() {
                change(seen, place, |state| state.zxid = Some(before - 10));
            }
        }
        Fault::OtherMembers => seen.members.push([(1, true), (77, true)].into()),
        Fault::NoMembers => seen.members.clear(),
        Fault::Weighted => seen.is_weighted = true,
        Fault::Finding => {
            let (subject, text) = ("zk:1".to_owned(), "unwell".to_owned());
            seen.findings.push(RollingDoubt::Doctor { subject, text });
        }
        Fault::Elect(_) => {}
    }
}

fn lose(seen: &mut Observation, place: usize, trouble: ProbeTrouble) {
    let count = seen.servers.len().max(1);
    if let Some(server) = seen.servers.get_mut(place % count) {
        server.state = Err(trouble);
    }
}

/// Changes the state of a server that responds.
fn change(seen: &mut Observation, place: usize, change: impl FnOnce(&mut ServerState)) {
    let count = seen.servers.len().max(1);
    if let Some(server) = seen.servers.get_mut(place % count)
        && let Ok(state) = &mut server.state
    {
        change(state);
    }
}
