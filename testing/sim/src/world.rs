//! The world of a simulated run: servers, hosts and processes, and the effects of the faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_curator_client::internal::{Locked, sleep, sleep_until};
use zk_curator_client::{CreateMode, ErrorCode, NeverSuspended, Spawn, ZooKeeper};
use zk_curator_proto::OpCode;
use zk_curator_testing::rule::path_matches;
use zk_curator_testing::{
    Direction, LagGuard, MemoryConnector, RuleGuard, RuleRequest, SequenceOverflow, TestCluster,
    TestServer, Verdict, WriteKind, ZooKeeperVersion,
};

use super::census::{Counted, TaskCounter};
use super::checkers::Violation;
use super::client::{Client, ClientParts, Ending, Failure, Lived, Rounds, Run, Workload};
use super::faults::{Fault, FaultAction, FaultKind};
use super::history::{Cache, Discovery, Event, Lifecycle, Name, Operator, ProcessId, Written};
use super::looks::ExistenceChecks;
use super::options::{self, ClientSettings, Setting};
use super::outcome::Injected;
use super::process::{Load, Process};
use super::seed;
use super::sim::Sim;
use super::watch::{ProcessWatch, Watch};

/// The time that the clocks of the servers show at the start of every run.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
/// The granularity with which servers end sessions.
const TICK: Duration = Duration::from_millis(50);
/// The interval at which servers look for empty containers.
const REAPING: Duration = Duration::from_secs(2);
/// A workload, its servers, and the faults that affect them.
pub(super) struct World<'a> {
    sim: &'a Sim,
    schedule: &'a [(usize, Fault)],
    settings: &'a [(usize, Setting)],
    run: Run,
    cluster: TestCluster,
    watch: Arc<Watch>,
    census: TaskCounter,
    seats: Vec<ClientSlot>,
    active: BTreeSet<usize>,
    rules: BTreeMap<usize, RuleGuard>,
    lags: BTreeMap<usize, LagGuard>,
    /// The numbers of the servers that are stopped.
    held: BTreeSet<usize>,
    /// The numbers of the servers that are cut off from the other servers.
    isolated: BTreeSet<usize>,
    begun: BTreeMap<FaultKind, u64>,
    injected: Vec<Injected>,
    /// The requests for nodes that an operator may delete; `None` if there is no operator.
    looks: Option<ExistenceChecks>,
    /// Refuses requests that older servers do not know.
    _refused: Option<RuleGuard>,
}

/// The state of a client that outlasts its lives.
struct ClientSlot {
    number: u32,
    incarnation: Arc<AtomicU32>,
    begun: Rounds,
    /// The handle that ends the present life before its work is done.
    ending: Arc<Locked<Arc<Ending>>>,
    process: Option<Process>,
    /// The processes that were killed, or have finished.
    former: Vec<Process>,
    /// The present machine of the client.
    host: Arc<Locked<MemoryConnector>>,
    /// The earlier machines of the client.
    former_hosts: Vec<MemoryConnector>,
    /// The latency of the network of the client.
    latency: Option<RangeInclusive<Duration>>,
    finished: bool,
    paused: Arc<AtomicBool>,
}

impl ClientSlot {
    fn who(&self) -> ProcessId {
        ProcessId::Client {
            number: self.number,
            incarnation: self.incarnation.load(Ordering::Relaxed),
        }
    }

    fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    fn host(&self) -> MemoryConnector {
        self.host.lock().clone()
    }
}

/// The end of a run.
pub(super) struct End {
    pub(super) run: Run,
    pub(super) begun: BTreeMap<FaultKind, u64>,
    pub(super) injected: Vec<Injected>,
    pub(super) requests: u64,
    pub(super) sessions: u64,
    pub(super) polls: u64,
}

impl<'a> World<'a> {
    /// Creates a world with running servers, and processes that have not started.
    pub(super) async fn new(
        sim: &'a Sim,
        schedule: &'a [(usize, Fault)],
        settings: &'a [(usize, Setting)],
    ) -> io::Result<Self> {
        let wraps = seed::rng(sim.seed, "overflow", 0).bool();
        let has = |wanted: Setting| settings.iter().any(|(_, setting)| *setting == wanted);
        let is_latest = sim.has_releases && seed::rng(sim.seed, "release", 0).bool();
        let servers = TestServer::builder()
            .version(if is_latest { ZooKeeperVersion::V3_9 } else { ZooKeeperVersion::V3_8 })
            .read_only(has(Setting::ReadOnlyServers))
            .keep_writes(true)
            .sequence_overflow(if wraps {
                SequenceOverflow::WrapsAround
            } else {
                SequenceOverflow::Sticks
            })
            .tick_time(TICK)
            .wall_clock(SystemTime::UNIX_EPOCH + EPOCH)
            .container_check_interval(REAPING);
        let cluster =
            TestCluster::builder(sim.servers).settings(servers).tcp(false).start().await?;
        if !sim.clocks_differ.is_zero() {
            let most = i64::try_from(sim.clocks_differ.as_millis()).unwrap_or(i64::MAX);
            for (number, server) in (0..).zip(cluster.members()) {
                server.shift_wall_clock(seed::rng(sim.seed, "clock", number).i64(0..=most));
            }
        }
        let refused = has(Setting::NoLastingWatches).then(|| {
            cluster.rule(|request| match request.is(OpCode::AddWatch) {
                true => Verdict::Refuse(ErrorCode::Unimplemented),
                false => Verdict::Pass,
            })
        });
        let run = Run::new();
        let watch = Arc::new(Watch::new(run.clone()));
        let seat = |number| ClientSlot {
            number,
            incarnation: Arc::default(),
            begun: Rounds::default(),
            ending: Arc::default(),
            process: None,
            former: Vec::new(),
            host: Arc::new(Locked::new(cluster.connector())),
            former_hosts: Vec::new(),
            latency: None,
            finished: false,
            paused: Arc::default(),
        };
        let seats = sim.numbers().map(seat).collect();
        let mut world = Self {
            sim,
            schedule,
            settings,
            run,
            cluster,
            watch,
            census: TaskCounter::here(),
            seats,
            active: BTreeSet::new(),
            rules: BTreeMap::new(),
            lags: BTreeMap::new(),
            held: BTreeSet::new(),
            isolated: BTreeSet::new(),
            begun: BTreeMap::new(),
            injected: Vec::new(),
            looks: None,
            _refused: refused,
        };
        if !sim.operated.is_empty() {
            let operated = sim.operated.iter().map(|pattern| world.on_server(pattern)).collect();
            let settled = sim.settled.iter();
            let settled = settled.map(|(claims, nodes)| {
                let is_path = nodes.starts_with('/');
                (
                    world.on_server(claims),
                    if is_path { world.on_server(nodes) } else { nodes.clone() },
                )
            });
            world.looks =
                Some(ExistenceChecks::follow(&world.cluster, operated, settled.collect()));
        }
        Ok(world)
    }

    /// Plays the run to its end.
    pub(super) async fn play(mut self) -> End {
        let violated = match self.prepare().await {
            Ok(()) => self.perform().await,
            Err(error) => Err(Violation::new("start", error.to_string(), Vec::new())),
        };
        if let Err(violation) = violated {
            self.run.fail(violation);
        }
        for seat in &self.seats {
            seat.ending.lock().silence();
            for process in seat.former.iter().chain(&seat.process) {
                process.kill();
            }
        }
        self.record_journal();
        let probe = self.cluster.probe();
        End {
            requests: probe.members().iter().map(|member| member.probe.total_requests()).sum(),
            sessions: self.seats.iter().map(|seat| seat.host().sessions().len() as u64).sum(),
            polls: self.watch.polls(),
            run: self.run,
            begun: self.begun,
            injected: self.injected,
        }
    }

    /// Records how the servers changed the nodes that the checkers ask for.
    fn record_journal(&self) {
        if self.sim.journal.is_empty() && self.sim.instances.is_empty() {
            return;
        }
        let now = self.run.elapsed();
        for write in self.cluster.writes() {
            let Some(path) = write.path.strip_prefix(options::below(self.settings)) else {
                continue;
            };
            if self.sim.journal.iter().any(|pattern| path_matches(pattern, path)) {
                let czxid = (write.kind != WriteKind::Deleted).then_some(write.czxid);
                let (zxid, path) = (write.zxid, Name::from(path));
                self.run.record(ProcessId::World, Cache::Applied { zxid, path, czxid });
            }
            if self.sim.instances.iter().any(|pattern| path_matches(pattern, path)) {
                let how = match write.kind {
                    WriteKind::Created => Written::Created,
                    WriteKind::Deleted if write.ends_session => Written::Expired,
                    WriteKind::Deleted => Written::Deleted,
                    _ => continue,
                };
                let at = now.saturating_sub(write.at.elapsed());
                let (zxid, path, czxid) = (write.zxid, Name::from(path), write.czxid);
                let written = Discovery::Written { at, zxid, path, czxid, how };
                self.run.record(ProcessId::World, written);
            }
        }
    }

    /// Creates the nodes that exist from the start.
    async fn prepare(&self) -> Result<(), Failure> {
        let nodes = self.initial_nodes();
        if nodes.is_empty() {
            return Ok(());
        }
        let zk = ZooKeeper::builder(self.cluster.connect_string())
            .connector(Arc::new(self.cluster.connector()))
            .clock(Arc::<NeverSuspended>::default())
            .seed(seed::of(self.sim.seed, "prepare", 0))
            .connect()?;
        for path in &nodes {
            let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
            for end in ends {
                zk.create(
                    &path[..end],
                    b"",
                    &zk_curator_client::Acl::open_unsafe(),
                    CreateMode::Persistent,
                )
                .await
                .map(drop)
                .or_else(|error| match error.code() {
                    Some(ErrorCode::NodeExists) => Ok(()),
                    _ => Err(error),
                })?;
            }
        }
        zk.close().await?;
        for (number, path) in (0..).zip(&self.sim.near_overflow) {
            let path = &self.on_server(path);
            let left = seed::rng(self.sim.seed, "sequence", number).i32(0..40);
            self.cluster
                .set_sequence(path, i32::MAX - left)
                .map_err(|code| format!("{path}: {code:?}"))?;
        }
        Ok(())
    }

    /// Returns the path, or the pattern of paths, by which the servers know a client's path.
    fn on_server(&self, path: &str) -> String {
        format!("{}{path}", options::below(self.settings))
    }

    /// Returns the nodes that exist from the start.
    fn initial_nodes(&self) -> Vec<String> {
        let below = Some(options::below(self.settings)).filter(|below| !below.is_empty());
        let nodes = self.sim.nodes.iter().map(|node| self.on_server(node));
        below.map(str::to_owned).into_iter().chain(nodes).collect()
    }

    async fn perform(&mut self) -> Result<(), Violation> {
        self.reconcile().await;
        let began = Instant::now();
        for (at, index, begins) in self.timeline() {
            tokio::select! {
                biased;
                () = self.run.failed() => return Ok(()),
                () = self.watch.all_finished(self.seats.len()) => break,
                () = sleep_until(began + at) => {}
            }
            self.take_note_of_finished();
            if begins {
                self.begin(index).await;
            } else {
                self.end(index).await;
            }
        }
        // Ends every fault, even before its time.
        for index in std::mem::take(&mut self.active) {
            self.put_right(index);
        }
        self.reconcile().await;
        self.run.end_faults();
        let patience = self.sim.patience();
        tokio::select! {
            biased;
            () = self.run.failed() => return Ok(()),
            () = self.watch.all_finished(self.seats.len()) => {}
            () = sleep(patience) => {
                self.take_note_of_finished();
                return Err(self.hang(patience));
            }
        }
        self.take_note_of_finished();
        self.no_task_is_left().await?;
        self.nothing_is_left().await?;
        self.check_no_foreign_deletes()
    }

    /// Returns the begins and the ends of the faults, in the order of their time.
    fn timeline(&self) -> Vec<(Duration, usize, bool)> {
        let mut timeline = Vec::new();
        for (index, (_, fault)) in self.schedule.iter().enumerate() {
            timeline.push((fault.at, index, true));
            if !fault.action.is_at_once() {
                timeline.push((fault.at + fault.lasts, index, false));
            }
        }
        timeline.sort_by_key(|(at, index, begins)| (*at, *index, !begins));
        timeline
    }

    fn take_note_of_finished(&mut self) {
        let finished = self.watch.finished();
        for seat in &mut self.seats {
            if finished.contains(&seat.number) && !seat.finished {
                seat.finished = true;
                seat.former.extend(seat.process.take());
            }
        }
    }

    /// Records that a fault begins or ends, and returns the place of the record.
    fn note(&self, index: usize, what: &str) -> usize {
        let (number, fault) = &self.schedule[index];
        let text = format!("[{number}] {}{what}", fault.action);
        let place = self.run.place();
        self.run.record(ProcessId::World, Event::Fault { text });
        place
    }

    async fn begin(&mut self, index: usize) {
        let fault = &self.schedule[index].1;
        *self.begun.entry(fault.action.kind()).or_default() += 1;
        let begins = self.note(index, "");
        self.injected.push(Injected { fault: self.schedule[index].0, begins, ends: None });
        match &fault.action {
            FaultAction::Disconnect { client } => {
                for session in self.sessions_of(*client) {
                    self.cluster.disconnect(session);
                }
            }
            FaultAction::ChangeLeader => drop(self.cluster.change_leader()),
            FaultAction::Expire { client } => {
                for session in self.sessions_of(*client) {
                    if self.cluster.expire(session) {
                        let who = self
                            .seats
                            .iter()
                            .find(|seat| seat.number == *client)
                            .map(ClientSlot::who);
                        self.run.record(who.unwrap_or(ProcessId::World), Lifecycle::Expired);
                    }
                }
            }
            FaultAction::Operate { place } => self.operate(*place),
            FaultAction::Close { client, late } => {
                let seat = self.seats.iter().find(|seat| seat.number == *client);
                if let Some(seat) = seat.filter(|seat| seat.process.is_some()) {
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

    async fn end(&mut self, index: usize) {
        if self.active.remove(&index) {
            self.put_right(index);
            self.reconcile().await;
        }
    }

    fn put_right(&mut self, index: usize) {
        let (ends, number) = (self.note(index, ": over"), self.schedule[index].0);
        if let Some(injected) = self.injected.iter_mut().find(|injected| injected.fault == number) {
            injected.ends = Some(ends);
        }
        self.rules.remove(&index);
        self.lags.remove(&index);
    }

    fn sessions_of(&self, client: u32) -> Vec<i64> {
        let seat = self.seats.iter().find(|seat| seat.number == client);
        seat.map(|seat| seat.host().sessions()).unwrap_or_default()
    }

    /// Deletes one of the nodes that an operator may delete.
    fn operate(&self, place: u16) {
        let may_go: Vec<String> =
            self.sim.operated.iter().map(|pattern| self.on_server(pattern)).collect();
        let probe = self.cluster.probe();
        let mut paths = probe.latest().paths();
        paths.retain(|path| may_go.iter().any(|pattern| path_matches(pattern, path)));
        // Certain writes assume that nobody deletes a receipt before its first read.
        let is_new_receipt = |path: &str| {
            let is_receipt = path.rsplit('/').next().is_some_and(|name| name.starts_with("_r_"));
            is_receipt && probe.latest().stat(path).is_some_and(|stat| stat.version <= 1)
        };
        paths.retain(|path| !is_new_receipt(path));
        paths.sort_unstable();
        let Some(path) = paths.get(paths.len() * usize::from(place) / (1 << 16)) else { return };
        // Without a leader, no node can be deleted.
        if let Ok(removed) = self.cluster.remove(path) {
            let tokens = removed.into_iter().map(|stat| stat.czxid).collect();
            self.run.record(
                ProcessId::World,
                Operator::Removed { path: Name::from(path.as_str()), tokens },
            );
        }
    }

    /// Installs the rule of a fault.
    fn rule(&mut self, index: usize, client: u32, one_in: u32, late: Option<Duration>) {
        let Some(seat) = self.seats.iter().find(|seat| seat.number == client) else {
            return;
        };
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
    async fn reconcile(&mut self) {
        let schedule = self.schedule;
        let active: Vec<_> = self.active.iter().map(|index| &schedule[*index].1.action).collect();
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

    fn reconcile_client(&mut self, at: usize, active: &[&FaultAction]) {
        let seat = &mut self.seats[at];
        if seat.finished {
            return;
        }
        let me = seat.number;
        let killed = active.iter().find_map(|action| match action {
            FaultAction::KillClient { client, silently } if *client == me => Some(*silently),
            _ => None,
        });
        match (&seat.process, killed) {
            (Some(_), Some(silently)) => self.kill(at, silently),
            (None, None) => self.start(at),
            _ => {}
        }
        let ClientSlot { process: Some(process), host, .. } = &self.seats[at] else {
            return;
        };
        let host = host.lock().clone();
        let base = Base::of(self.sim.seed, me);
        let mut load = base.load;
        let mut latency = base.latency;
        for action in active {
            match action {
                FaultAction::Busy { client, most } if *client == me => {
                    load = Load { delays: 3, most: load.most.max(*most), ..load };
                }
                FaultAction::SlowNetwork { client, most } if *client == me => {
                    latency = *latency.start()..=*most.max(latency.end());
                }
                _ => {}
            }
        }
        process.set_load(load);
        for server in 0..self.sim.servers {
            let cuts = active.iter().filter_map(|action| match action {
                FaultAction::CutLink { client, server: of, direction }
                    if *client == me && *of == server =>
                {
                    Some(*direction)
                }
                FaultAction::CutClient { client, direction } if *client == me => Some(*direction),
                _ => None,
            });
            let direction =
                cuts.reduce(|one, other| if one == other { one } else { Direction::Both });
            match direction {
                Some(direction) => host.cut(server, direction),
                None => host.mend(server),
            }
        }
        if self.seats[at].latency.as_ref() != Some(&latency) {
            for server in 0..self.sim.servers {
                let seed = seed::of(self.sim.seed, "latency", u64::from(me) << 8 | server as u64);
                // A new seed at every change, so that earlier draws do not shift later ones.
                let since = self.run.elapsed().as_micros() as u64;
                host.set_latency(server, latency.clone(), seed::of(seed, "since", since));
            }
            self.seats[at].latency = Some(latency);
        }
        let ClientSlot { process: Some(process), .. } = &self.seats[at] else {
            return;
        };
        let stopped = active.contains(&&FaultAction::PauseClient { client: me });
        if stopped {
            process.stop();
        } else {
            process.resume();
        }
        // A delayed process counts as stopped.
        let paused = stopped || load.delays > 0;
        if paused != self.seats[at].is_paused() {
            let event = if paused { Lifecycle::Paused } else { Lifecycle::Resumed };
            self.run.record(self.seats[at].who(), event);
            self.seats[at].paused.store(paused, Ordering::Relaxed);
        }
    }

    fn kill(&mut self, at: usize, silently: bool) {
        let seat = &mut self.seats[at];
        if silently {
            let host = seat.host();
            for server in 0..self.sim.servers {
                host.cut(server, Direction::Both);
            }
        }
        let Some(process) = seat.process.take() else {
            return;
        };
        seat.ending.lock().silence();
        process.kill();
        seat.former.push(process);
        seat.paused.store(false, Ordering::Relaxed);
        self.run.record(seat.who(), Lifecycle::Killed);
        seat.incarnation.fetch_add(1, Ordering::Relaxed);
    }

    fn start(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let number = seat.number;
        seat.latency = None;
        let host = self.cluster.connector();
        let former = std::mem::replace(&mut *seat.host.lock(), host.clone());
        seat.former_hosts.push(former);
        let of_life = of_life(self.sim.seed, seat.who());
        let supervisor = ProcessWatch {
            watch: Arc::clone(&self.watch),
            number,
            incarnation: Arc::clone(&seat.incarnation),
        };
        let load = Base::of(self.sim.seed, number).load;
        let schedule = seed::of(of_life, "schedule", 0);
        let process = Process::new(Arc::new(supervisor), self.census.clone(), schedule, load);
        let parts = ClientParts {
            who: seat.who(),
            clients: self.sim.numbers().count() as u32,
            rounds: self.sim.all_rounds(),
            begun: seat.begun.clone(),
            manner: ClientSettings::of(number, self.settings),
            seed: of_life,
            connect_string: self.cluster.connect_string(),
            connector: Some(Arc::new(Counted { connector: host, census: self.census.clone() })),
            spawner: Some(Arc::new(process.clone())),
            session_timeout: self.sim.session_timeout,
            run: self.run.clone(),
        };
        let (workload, watch) = (self.sim.workload.clone(), Arc::clone(&self.watch));
        let lives = Lives {
            seed: self.sim.seed,
            number,
            incarnation: Arc::clone(&seat.incarnation),
            ending: Arc::clone(&seat.ending),
            paused: Arc::clone(&seat.paused),
        };
        // Comes before the process runs, because it may be asked to end immediately.
        let client = lives.begin(parts.clone());
        process.spawn(Box::pin(async move {
            sleep(client.moment(Duration::from_millis(100))).await;
            lives.live(client, parts, &workload).await;
            watch.finish(number);
        }));
        seat.process = Some(process);
    }

    /// Describes the clients that have not finished, and their last events.
    fn hang(&self, patience: Duration) -> Violation {
        let history = self.run.history();
        let stuck: Vec<_> =
            self.seats.iter().filter(|seat| !seat.finished).map(ClientSlot::who).collect();
        let last =
            |who: &ProcessId| history.records().iter().rposition(|record| record.who == *who);
        let names: Vec<_> = stuck.iter().map(ToString::to_string).collect();
        let broken = format!(
            "{} not finished {patience:?} after the last fault; the servers:\n{}",
            names.join(", "),
            self.cluster.probe()
        );
        Violation::new("liveness", broken, stuck.iter().filter_map(last).collect::<Vec<_>>())
    }

    async fn no_task_is_left(&self) -> Result<(), Violation> {
        let left = || {
            let of_seat = |seat: &ClientSlot| {
                let tasks: usize = seat.former.iter().map(Process::tasks).sum();
                (tasks > 0).then(|| format!("{tasks} of {}", seat.who()))
            };
            self.seats.iter().filter_map(of_seat).collect::<Vec<_>>()
        };
        if !left().is_empty() {
            sleep(self.sim.session_timeout * 2).await;
        }
        match left() {
            left if left.is_empty() => Ok(()),
            left => {
                let broken =
                    format!("clients have finished, but their tasks are left: {}", left.join(", "));
                Err(Violation::new("tasks", broken, Vec::new()))
            }
        }
    }

    /// Checks that an ephemeral node was deleted only with its session, or by the client that
    /// created it.
    fn check_no_foreign_deletes(&self) -> Result<(), Violation> {
        let common: Vec<String> =
            self.sim.common.iter().map(|pattern| self.on_server(pattern)).collect();
        let mut clients = BTreeMap::new();
        for seat in &self.seats {
            let hosts = seat.former_hosts.iter().cloned().chain([seat.host()]);
            clients.extend(
                hosts.flat_map(|host| host.sessions()).map(|session| (session, seat.number)),
            );
        }
        let writes = self.cluster.writes();
        let created = writes.iter().filter(|write| write.kind == WriteKind::Created);
        let creators: BTreeMap<i64, i64> =
            created.map(|write| (write.czxid, write.session)).collect();
        let client = |session: i64| clients.get(&session).copied();
        let deleted =
            writes.iter().filter(|write| write.kind == WriteKind::Deleted && write.is_ephemeral);
        let mut overtaken = BTreeSet::new();
        for write in deleted.filter(|write| !write.ends_session) {
            let creator = creators.get(&write.czxid).and_then(|session| client(*session));
            let (Some(creator), Some(by)) = (creator, client(write.session)) else { continue };
            if creator == by || common.iter().any(|pattern| path_matches(pattern, &write.path)) {
                continue;
            }
            if self
                .looks
                .as_ref()
                .is_some_and(|looks| looks.excuse(write, &writes, &overtaken, &self.run))
            {
                overtaken.insert(write.czxid);
                self.run.record(ProcessId::World, Operator::Overtaken { token: write.czxid });
            } else {
                let broken = format!(
                    "c{by} has deleted {}, which c{creator} had created by {:#x}, by {:#x}",
                    write.path, write.czxid, write.zxid
                );
                return Err(Violation::new("ownership", broken, Vec::new()));
            }
        }
        Ok(())
    }

    async fn nothing_is_left(&self) -> Result<(), Violation> {
        let sessions = || self.cluster.probe().latest().sessions().len();
        for _ in 0..8 {
            if sessions() == 0 {
                break;
            }
            sleep(self.sim.session_timeout / 2).await;
        }
        if sessions() > 0 {
            let broken = format!("sessions are left:\n{}", self.cluster.probe().latest());
            return Err(Violation::new("leftovers", broken, Vec::new()));
        }
        while !self.cluster.reap_containers().is_empty() {}
        let probe = self.cluster.probe();
        let probe = probe.latest();
        let never_used = |path: &String| {
            probe.is_container(path) && probe.stat(path).is_some_and(|stat| stat.cversion == 0)
        };
        let unused: Vec<String> = probe.paths().into_iter().filter(never_used).collect();
        let nodes = self.initial_nodes();
        let leaves: Vec<String> =
            self.sim.leaves.iter().map(|pattern| self.on_server(pattern)).collect();
        let may_stay = |path: &str| {
            let below = format!("{path}/");
            let is_declared = nodes.iter().any(|node| node == path || node.starts_with(&below))
                || leaves.iter().any(|pattern| path_matches(pattern, path));
            // Apache ZooKeeper too keeps a container that never had a child, and its parents.
            let is_unused =
                || unused.iter().any(|unused| unused == path || unused.starts_with(&below));
            is_declared || is_unused()
        };
        let left: Vec<_> = probe.paths().into_iter().filter(|path| !may_stay(path)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let broken = format!("nodes are left: {}\n{probe}", left.join(", "));
        Err(Violation::new("leftovers", broken, Vec::new()))
    }
}

/// The lives of a process: a new one begins whenever the process was asked to close its frameworks.
struct Lives {
    seed: u64,
    number: u32,
    incarnation: Arc<AtomicU32>,
    ending: Arc<Locked<Arc<Ending>>>,
    paused: Arc<AtomicBool>,
}

impl Lives {
    fn begin(&self, parts: ClientParts) -> Client {
        let client = Client::new(parts);
        *self.ending.lock() = Arc::clone(client.ending());
        client
    }

    async fn live(&self, mut client: Client, mut parts: ClientParts, workload: &Workload) {
        while client.live_until_asked(workload).await == Lived::Closed {
            let incarnation = self.incarnation.fetch_add(1, Ordering::Relaxed) + 1;
            parts.who = ProcessId::Client { number: self.number, incarnation };
            parts.seed = of_life(self.seed, parts.who);
            // A fault that slows the process down affects its next life too.
            if self.paused.load(Ordering::Relaxed) {
                parts.run.record(parts.who, Lifecycle::Paused);
            }
            client = self.begin(parts.clone());
        }
    }
}

/// Returns the seed of a life.
fn of_life(seed: u64, who: ProcessId) -> u64 {
    let ProcessId::Client { number, incarnation } = who else { return seed };
    seed::of(seed, "client", u64::from(number) << 32 | u64::from(incarnation))
}

/// The load of the machine and the latency of the network of a client without faults.
struct Base {
    load: Load,
    latency: RangeInclusive<Duration>,
}

impl Base {
    fn of(seed: u64, client: u32) -> Self {
        let mut rng = seed::rng(seed, "base", u64::from(client));
        let yields = [0, 16, 4][rng.usize(..3)];
        let least = Duration::from_micros(rng.u64(0..500));
        let most = least + Duration::from_micros([200, 2_000, 10_000][rng.usize(..3)]);
        Self { load: Load { yields, delays: 0, most: Duration::ZERO }, latency: least..=most }
    }
}

fn moment(rng: &mut fastrand::Rng, most: Duration) -> Duration {
    Duration::from_micros(rng.u64(0..=u64::try_from(most.as_micros()).unwrap_or(u64::MAX)))
}
