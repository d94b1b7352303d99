//! [`Exhaustion`]: plays all plans with up to a number of faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use zk_curator_client::internal::Locked;

use super::extension::extensions;
use super::plan::FaultPlan;
use super::progress::ExplorationRecord;
use super::unit::{ExplorationUnit, PlayedPlan};
use crate::checkers::Violation;
use crate::history::Event;
use crate::outcome::{Outcome, RunStats};
use crate::sim::Sim;

/// The granularity with which servers end sessions.
const TICK: Duration = Duration::from_millis(50);
/// The sum of the pauses between the retries of an operation of a client.
const RETRIES: Duration = Duration::from_secs(4);

/// All runs of a [`Sim`] with up to a number of faults at its decision points.
///
/// Plans with one fault are played first, then those with two, and so on. Each plan with another
/// fault extends a plan that was played, at a point that this run reached, and not before its last
/// fault: so every set of faults is played once. Left out are:
///
/// * repeated pings of a client while no client does anything else: faults at them are the same as
///   at the first repetition, but later;
/// * the end of a session when its client wakes up, if a request comes later: until then the
///   servers do not change, and the session ends before that request, too;
/// * a lost request after which the client is cut off: it is lost if the client is cut off when it
///   wakes up to send it, too;
/// * extensions of plans without faults that last whose run is the same, point by point, write by
///   write and event by event, as that of another plan: their extensions are the same.
#[derive(Debug)]
#[must_use = "nothing happens before it is explored"]
pub struct Exhaustion {
    sim: Sim,
    faults: usize,
    jobs: usize,
    part: (u64, u64),
    most: u64,
    keep_going: bool,
    progress: Option<PathBuf>,
}

/// The result of an [`Exhaustion`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Explored {
    /// The number of plans that were played, with each number of faults, from zero.
    pub runs: Vec<u64>,
    /// The part of the runs that was played, from zero, and the number of parts.
    pub part: (u64, u64),
    /// The number of decision points of the run without faults.
    pub points: usize,
    /// The number of different runs, by their points, writes and events.
    pub states: usize,
    /// The number of runs with each kind of fault at their last point.
    pub kinds: BTreeMap<&'static str, u64>,
    /// The figures of all runs that this process played.
    pub stats: RunStats,
    /// The runs with violations.
    pub flaws: Vec<Flaw>,
}

/// A run with a violation.
#[derive(Debug)]
#[non_exhaustive]
pub struct Flaw {
    /// The faults of the run.
    pub plan: FaultPlan,
    /// The outcome of the run, with the violation.
    pub outcome: Outcome,
}

impl Exhaustion {
    /// Plays one fault per run, on one thread.
    pub fn new(sim: Sim) -> Self {
        Self {
            sim,
            faults: 1,
            jobs: 1,
            part: (0, 1),
            most: u64::MAX,
            keep_going: false,
            progress: None,
        }
    }

    /// Returns the seed whose run without faults has the most decision points: its clients have the
    /// most to do with each other. `None` if there are no seeds.
    pub fn busiest(sim: impl Fn(u64) -> Sim, seeds: Range<u64>) -> Option<u64> {
        let points = |seed: &u64| {
            let run = sim(*seed).plan(FaultPlan::default()).run();
            (run.points.len(), Reverse(*seed))
        };
        seeds.max_by_key(points)
    }

    /// Returns the seed whose run without faults has the fewest decision points among those in
    /// which the clients achieve the most kinds of what the workload
    /// [achieves](Sim::achieves). `None` if there are no seeds.
    pub fn smallest(sim: impl Fn(u64) -> Sim, seeds: Range<u64>) -> Option<u64> {
        let size = |seed: &u64| {
            let sim = sim(*seed).plan(FaultPlan::default());
            let run = sim.run();
            let has = |what: &&&str| run.stats.achieved.contains_key(**what);
            (Reverse(sim.achieves.iter().filter(has).count()), run.points.len(), *seed)
        };
        seeds.min_by_key(size)
    }

    /// Sets the largest number of faults of a run. Default: 1.
    pub const fn faults(mut self, faults: usize) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the number of threads. Default: 1.
    pub const fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs;
        self
    }

    /// Plays only this part, counted from zero, of a number of parts of the runs with the most
    /// faults. Runs with fewer faults are played in every part. Default: all.
    pub const fn part(mut self, part: u64, of: u64) -> Self {
        self.part = (part, of);
        self
    }

    /// Plays at most about this number of runs with each number of faults: if there are more, they
    /// are divided into as many parts as that takes, of which one is played and extended. The
    /// number of the [`part`](Self::part) then decides which: one number after the other plays all
    /// in turn. Default: all.
    pub const fn at_most(mut self, runs: u64) -> Self {
        self.most = runs;
        self
    }

    /// Continues after a violation. Default: `false`.
    pub const fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Writes what was played to this file, and leaves out what the file says was played by an
    /// earlier exploration of the same runs. Default: none.
    pub fn progress(mut self, file: impl Into<PathBuf>) -> Self {
        self.progress = Some(file.into());
        self
    }

    /// Plays the runs. Calls `level` with the number of faults and of runs before those runs begin,
    /// and `run` after each run.
    ///
    /// # Errors
    /// The progress file cannot be read or written, or belongs to other runs.
    pub fn explore(
        &self,
        level: impl Fn(usize, u64),
        run: impl Fn() + Sync,
    ) -> io::Result<Explored> {
        let none = FaultPlan::default();
        let root = self.play(&none, None);
        let first = PlayedPlan {
            plan: none.clone(),
            trace: trace(&root),
            extensions: extensions(&none, &root.points).len() as u64,
        };
        let mut explored = Explored {
            runs: vec![1],
            part: (0, 1),
            points: root.points.len(),
            ..Explored::default()
        };
        explored.stats.add(&root.stats);
        let ledger = match &self.progress {
            Some(file) => ExplorationRecord::open(file, &self.title(first.trace))?,
            None => ExplorationRecord::none(),
        };
        if root.violation.is_some() {
            explored.flaws.push(Flaw { plan: none, outcome: root });
            return Ok(explored);
        }
        let bound = self.bound(&root);
        let mut seen: BTreeSet<u64> = [first.trace].into();
        let mut frontier = vec![first];
        for faults in 1..=self.faults {
            let runs: u64 = frontier.iter().map(|played| played.extensions).sum();
            let part = self.part_of(faults, runs, explored.part.1);
            explored.part.1 *= part.1;
            explored.part.0 = self.part.0 % explored.part.1;
            level(faults, runs / part.1);
            let tour = ExplorationLevel {
                exhaustion: self,
                faults,
                part,
                frontier: &frontier,
                ledger: &ledger,
                bound,
                next: AtomicUsize::new(0),
                stop: AtomicBool::new(false),
                done: Locked::default(),
                run: &run,
            };
            let units = explored.add(tour.go())?;
            let reached = units.values().flat_map(|unit| unit.traces.iter().copied());
            let reached: Vec<u64> = reached.collect();
            let played = units.into_values().flat_map(|unit| unit.played).collect();
            frontier = worth_extending(played, &seen);
            seen.extend(reached);
            if !explored.flaws.is_empty() && !self.keep_going {
                break;
            }
        }
        explored.states = seen.len();
        Ok(explored)
    }

    /// Plays a run with these faults, whose clients have this time to finish after the last fault.
    fn play(&self, plan: &FaultPlan, bound: Option<Duration>) -> Outcome {
        let mut outcome = self.sim.clone().plan(plan.clone()).run();
        let waited = outcome.stats.longest_wait;
        if let Some(bound) = bound.filter(|bound| waited > *bound) {
            outcome.violation.get_or_insert_with(|| {
                let broken =
                    format!("the clients finish {waited:?} after the last fault, not in {bound:?}");
                Violation::new("liveness", broken, Vec::new())
            });
        }
        outcome
    }

    /// Returns the time in which all clients finish after the last fault: that of the run without
    /// faults; a session timeout, and the tick of the servers, until the session of a client that
    /// is gone has ended; the connection timeout; and all pauses of the retries of an operation.
    fn bound(&self, root: &Outcome) -> Duration {
        let session = self.sim.session_timeout;
        let without_faults =
            root.history.records().last().map(|record| record.at).unwrap_or_default();
        let bound = without_faults + session + TICK + session * 2 + RETRIES;
        bound.max(self.sim.patience.unwrap_or_default())
    }

    /// Describes the runs, for the progress file.
    fn title(&self, trace: u64) -> String {
        let (part, of) = self.part;
        format!(
            "{} --faults {} --part {part}/{of} --most {}, trace {trace:016x}",
            self.sim.arguments(),
            self.faults,
            self.most
        )
    }

    /// Returns what the clients should have achieved in these runs, if they have achieved none of
    /// it.
    #[must_use]
    pub fn missing(&self, explored: &Explored) -> Option<String> {
        let achieves = &self.sim.achieves;
        let has = achieves.iter().any(|what| explored.stats.achieved.contains_key(what));
        // Runs that are continued have their figures elsewhere.
        let is_new = explored.stats.runs > 1;
        (is_new && !has && !achieves.is_empty()).then(|| achieves.join(", "))
    }

    /// Returns the part to play of these runs, and the number of their parts. The runs with fewer
    /// faults had this number of parts: with as many nights as the product, all are played.
    const fn part_of(&self, faults: usize, runs: u64, parts: u64) -> (u64, u64) {
        let (part, wanted) = self.part;
        let needed = runs.div_ceil(self.most);
        let of = if faults == self.faults && wanted > needed { wanted } else { needed };
        // Without runs there is one part.
        let of = if of == 0 { 1 } else { of };
        (part / parts % of, of)
    }

    /// Plays a plan again. Returns `None` if it has no violation.
    #[must_use]
    pub fn replay(&self, plan: &FaultPlan) -> Option<Flaw> {
        let bound = self.bound(&self.play(&FaultPlan::default(), None));
        let outcome = self.play(plan, Some(bound));
        outcome.violation.is_some().then(|| Flaw { plan: plan.clone(), outcome })
    }

    /// Leaves out faults that the violation does not need.
    pub fn shrink(&self, flaw: Flaw) -> Flaw {
        let bound = Some(self.bound(&self.play(&FaultPlan::default(), None)));
        let checker = |outcome: &Outcome| outcome.violation.as_ref().map(|found| found.checker);
        let wanted = checker(&flaw.outcome);
        let mut smallest = flaw;
        'smaller: loop {
            for plan in smallest.plan.smaller().collect::<Vec<_>>() {
                let outcome = self.play(&plan, bound);
                if checker(&outcome) == wanted {
                    smallest = Flaw { plan, outcome };
                    continue 'smaller;
                }
            }
            return smallest;
        }
    }
}

impl Explored {
    /// Adds the runs with one number of faults. Returns what was played.
    fn add(&mut self, result: LevelResult) -> io::Result<BTreeMap<usize, ExplorationUnit>> {
        let LevelResult { units, kinds, stats, flaws, broken } = result;
        if let Some(error) = broken {
            return Err(error);
        }
        self.runs.push(units.values().map(|unit| unit.runs).sum());
        for (kind, count) in kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.stats.add(&stats);
        self.flaws.extend(flaws);
        Ok(units)
    }
}

/// Returns the plans whose extensions are not those of another plan.
fn worth_extending(played: Vec<PlayedPlan>, seen: &BTreeSet<u64>) -> Vec<PlayedPlan> {
    let lasts = |plan: &FaultPlan| plan.faults().iter().any(|(_, fault)| fault.lasts());
    let last = |plan: &FaultPlan| plan.faults().last().map(|(point, _)| *point);
    // The plan with the earliest last fault has the extensions of the others with the same trace.
    let mut earliest: BTreeMap<u64, Option<u32>> = BTreeMap::new();
    for PlayedPlan { plan, trace, .. } in played.iter().filter(|played| !lasts(&played.plan)) {
        let point = earliest.entry(*trace).or_insert_with(|| last(plan));
        *point = (*point).min(last(plan));
    }
    let mut taken = BTreeSet::new();
    let mut is_new = |played: &PlayedPlan| {
        lasts(&played.plan)
            || (!seen.contains(&played.trace)
                && earliest.get(&played.trace) == Some(&last(&played.plan))
                && taken.insert(played.trace))
    };
    played.into_iter().filter(|played| is_new(played)).collect()
}

/// Returns a number that decides in which part a plan is.
fn number_of(plan: &FaultPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    hasher.finish()
}

/// Returns a hash of everything that the clients and the servers did in a run.
fn trace(outcome: &Outcome) -> u64 {
    let mut hasher = DefaultHasher::new();
    outcome.points.hash(&mut hasher);
    outcome.writes.hash(&mut hasher);
    for record in outcome.history.records() {
        if !matches!(record.event, Event::Fault { .. }) {
            (record.at, record.who, record.event.to_string()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The runs with one number of faults.
struct ExplorationLevel<'a, R> {
    exhaustion: &'a Exhaustion,
    faults: usize,
    part: (u64, u64),
    frontier: &'a [PlayedPlan],
    ledger: &'a ExplorationRecord,
    bound: Duration,
    next: AtomicUsize,
    stop: AtomicBool,
    done: Locked<LevelResult>,
    run: &'a R,
}

#[derive(Default)]
struct LevelResult {
    units: BTreeMap<usize, ExplorationUnit>,
    kinds: BTreeMap<&'static str, u64>,
    stats: RunStats,
    flaws: Vec<Flaw>,
    broken: Option<io::Error>,
}

impl<R: Fn() + Sync> ExplorationLevel<'_, R> {
    fn go(self) -> LevelResult {
        std::thread::scope(|scope| {
            for _ in 1..self.exhaustion.jobs {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        std::mem::take(&mut *self.done.lock())
    }

    fn work(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(of) = self.frontier.get(number) else { return };
            if let Some(unit) = self.ledger.unit(self.faults, number) {
                self.done.lock().units.insert(number, unit);
                continue;
            }
            let Some(unit) = self.extend(&of.plan) else { return };
            let written = self.ledger.write(self.faults, number, &unit);
            let mut done = self.done.lock();
            done.units.insert(number, unit);
            if let Err(error) = written {
                done.broken = Some(error);
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Plays the extensions of a plan; `None` if the exploration stops meanwhile.
    fn extend(&self, plan: &FaultPlan) -> Option<ExplorationUnit> {
        let exhaustion = self.exhaustion;
        let base = exhaustion.play(plan, None);
        let is_last = self.faults == exhaustion.faults;
        let (part, of) = self.part;
        let mut unit = ExplorationUnit::default();
        for plan in extensions(plan, &base.points) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if number_of(&plan) % of != part {
                continue;
            }
            let mut outcome = exhaustion.play(&plan, Some(self.bound));
            (self.run)();
            unit.runs += 1;
            let trace = trace(&outcome);
            unit.traces.push(trace);
            if !is_last {
                let extensions = extensions(&plan, &outcome.points).len() as u64;
                unit.played.push(PlayedPlan { plan: plan.clone(), trace, extensions });
            }
            if let (None, Some(violation)) = (&outcome.violation, differs(&plan, &base, &outcome)) {
                outcome.violation = Some(violation);
            }
            let mut done = self.done.lock();
            if let Some((_, fault)) = plan.faults().last() {
                *done.kinds.entry(fault.kind()).or_default() += 1;
            }
            done.stats.add(&outcome.stats);
            if outcome.violation.is_some() {
                done.flaws.push(Flaw { plan, outcome });
                if !exhaustion.keep_going {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        }
        Some(unit)
    }
}

/// Returns a violation if a run is not the same as the one that it extends, up to its last fault.
fn differs(plan: &FaultPlan, base: &Outcome, outcome: &Outcome) -> Option<Violation> {
    let last = plan.faults().last().map_or(0, |(point, _)| *point as usize);
    let same = (base.points.get(..=last)?, outcome.points.get(..=last));
    if same.1 == Some(same.0) {
        return None;
    }
    let place = base.points.iter().zip(&outcome.points).position(|(one, other)| one != other);
    let place = place.unwrap_or(outcome.points.len());
    let broken = format!("the run is not repeatable: it differs at point {place}");
    Some(Violation::new("repeatable", broken, Vec::new()))
}
