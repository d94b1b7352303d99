//! The world of a simulated run: servers, hosts and processes, and the effects of the faults.

mod faults;
mod operator;
mod plan;
mod seats;
mod slot;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_curator_client::internal::{sleep, sleep_until};
use zk_curator_client::{CreateMode, ErrorCode, NeverSuspended, ZooKeeper};
use zk_curator_proto::OpCode;
use zk_curator_testing::{
    LagGuard, RuleGuard, SequenceOverflow, TestCluster, TestServer, Verdict, ZooKeeperVersion,
};

use super::census::TaskCounter;
use super::checkers::Violation;
use super::client::Failure;
use super::exhaust::{DecisionPoint, PointFault, PointRecorder};
use super::faults::{Fault, FaultKind};
use super::looks::ExistenceChecks;
use super::options::{self, Setting};
use super::outcome::Injected;
use super::process::Process;
use super::seed;
use super::shared_run::{EPOCH, Run};
use super::sim::Sim;
use super::watch::Watch;
use slot::ClientSlot;

/// The granularity with which servers end sessions.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// The interval at which servers look for empty containers.
const REAPING: Duration = Duration::from_secs(2);

/// A workload, its servers, and the faults that affect them.
pub(super) struct World<'a> {
    sim: &'a Sim,
    schedule: Vec<(usize, Fault)>,
    settings: &'a [(usize, Setting)],
    run: Run,
    /// The decision points, if faults happen at them.
    points: Option<Arc<PointRecorder>>,
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
    hits: BTreeMap<FaultKind, u64>,
    injected: Vec<Injected>,
    /// The time since the start of the run at which the last fault of a plan was over.
    undisturbed_since: Duration,
    /// The time from then to the end of the last client.
    waited: Duration,
    /// The requests for nodes that an operator may delete; `None` if there is no operator.
    looks: Option<ExistenceChecks>,
    /// Refuses requests that older servers do not know, and counts decision points.
    _permanent: Vec<RuleGuard>,
}

/// The end of a run.
pub(super) struct End {
    pub(super) run: Run,
    pub(super) faults: Vec<(usize, Fault)>,
    pub(super) points: Vec<DecisionPoint>,
    pub(super) unplayed: Option<(u32, PointFault)>,
    pub(super) undisturbed_since: Duration,
    /// The hash of what the servers wrote.
    pub(super) writes: u64,
    pub(super) begun: BTreeMap<FaultKind, u64>,
    pub(super) hits: BTreeMap<FaultKind, u64>,
    pub(super) injected: Vec<Injected>,
    /// The time from the end of the last fault of a plan, or from the end of the time for faults
    /// if clients wait for that, to the end of the last client.
    pub(super) waited: Duration,
    pub(super) requests: u64,
    pub(super) sessions: u64,
    pub(super) polls: u64,
}

impl<'a> World<'a> {
    /// Creates a world with running servers, and processes that have not started.
    pub(super) async fn new(sim: &'a Sim, settings: &'a [(usize, Setting)]) -> io::Result<Self> {
        let has = |wanted: Setting| settings.iter().any(|(_, setting)| *setting == wanted);
        let cluster = servers(sim, has(Setting::ReadOnlyServers)).await?;
        let refused = has(Setting::NoLastingWatches).then(|| {
            cluster.rule(|request| match request.is(OpCode::AddWatch) {
                true => Verdict::Refuse(ErrorCode::Unimplemented),
                false => Verdict::Pass,
            })
        });
        let plan = sim.plan.as_ref();
        let points = plan.map(|plan| Arc::new(PointRecorder::new(plan)));
        let run = points.clone().map_or_else(Run::new, Run::by_points);
        let watch = Arc::new(Watch::new(run.clone()));
        let seats = sim.numbers().map(|number| ClientSlot::new(number, &cluster)).collect();
        let mut world = Self {
            sim,
            schedule: sim.schedule(),
            settings,
            run,
            points,
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
            hits: BTreeMap::new(),
            injected: Vec::new(),
            undisturbed_since: Duration::ZERO,
            waited: Duration::ZERO,
            looks: None,
            _permanent: refused.into_iter().collect(),
        };
        if let Some(points) = world.points.clone() {
            let rule = world.count_requests(points);
            world._permanent.push(rule);
        }
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
        let writes = self.points.as_ref().map(|_| self.hash_of_writes()).unwrap_or_default();
        End {
            points: self.points.as_ref().map(|points| points.take()).unwrap_or_default(),
            unplayed: self.points.as_ref().and_then(|points| points.unplayed()),
            undisturbed_since: self.undisturbed_since,
            writes,
            faults: self.schedule,
            requests: probe.members().iter().map(|member| member.probe.total_requests()).sum(),
            sessions: self.seats.iter().map(|seat| seat.host().sessions().len() as u64).sum(),
            polls: self.watch.polls(),
            run: self.run,
            begun: self.begun,
            hits: self.hits,
            injected: self.injected,
            waited: self.waited,
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
        let goes_on = match self.points.clone() {
            Some(points) => self.play_plan(&points).await,
            None => self.play_schedule().await,
        };
        if !goes_on {
            return Ok(());
        }
        // Ends every fault, even before its time.
        for index in std::mem::take(&mut self.active) {
            self.put_right(index);
        }
        if self.run.cancelled() > 0 {
            self.hit(FaultKind::Cancel);
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
        if self.points.is_some() {
            self.waited = self.run.elapsed().saturating_sub(self.undisturbed_since);
        }
        self.no_task_is_left().await?;
        self.nothing_is_left().await?;
        self.check_no_foreign_deletes()
    }

    /// Lets the faults happen at their times, until the last one is over or all clients have
    /// finished. Returns `false` if the run has failed.
    async fn play_schedule(&mut self) -> bool {
        let began = Instant::now();
        for (at, index, begins) in self.timeline() {
            tokio::select! {
                biased;
                () = self.run.failed() => return false,
                () = self.watch.all_finished(self.seats.len()) => return true,
                () = sleep_until(began + at) => {}
            }
            self.take_note_of_finished();
            if begins {
                self.begin(index).await;
            } else {
                self.end(index).await;
            }
        }
        true
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
                // It may have stopped for a fault.
                seat.process.iter().for_each(Process::resume);
                seat.former.extend(seat.process.take());
            }
        }
    }
}

/// Starts the servers of a run.
async fn servers(sim: &Sim, read_only: bool) -> io::Result<TestCluster> {
    let is_latest = sim.has_releases && seed::rng(sim.seed, "release", 0).bool();
    let overflow = match seed::rng(sim.seed, "overflow", 0).bool() {
        true => SequenceOverflow::WrapsAround,
        false => SequenceOverflow::Sticks,
    };
    let servers = TestServer::builder()
        .version(if is_latest { ZooKeeperVersion::V3_9 } else { ZooKeeperVersion::V3_8 })
        .read_only(read_only)
        .keep_writes(true)
        .sequence_overflow(overflow)
        .tick_time(TICK)
        .wall_clock(SystemTime::UNIX_EPOCH + EPOCH)
        .container_check_interval(REAPING);
    let cluster = TestCluster::builder(sim.servers).settings(servers).tcp(false).start().await?;
    if !sim.clocks_differ.is_zero() {
        let most = i64::try_from(sim.clocks_differ.as_millis()).unwrap_or(i64::MAX);
        for (number, server) in (0..).zip(cluster.members()) {
            server.shift_wall_clock(seed::rng(sim.seed, "clock", number).i64(0..=most));
        }
    }
    Ok(cluster)
}
