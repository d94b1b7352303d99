//! [`Exhaustion`]: plays all plans with up to a number of faults.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, io};

use zk_curator_client::internal::Locked;

use super::extension::extensions;
use super::fault::PointFault;
use super::plan::FaultPlan;
use super::progress::ExplorationRecord;
use super::unit::{ExplorationUnit, PlayedPlan};
use crate::checkers::Violation;
use crate::client::{CONNECTION_TIMEOUT, LONGEST_PAUSE, MAX_RETRIES};
use crate::history::Event;
use crate::outcome::{Outcome, RunStats};
use crate::seed;
use crate::sim::Sim;
use crate::world::TICK;

/// All runs of a [`Sim`] with up to a number of faults at its decision points.
///
/// Plans with one fault are played first, then those with two, and so on. Each plan with another
/// fault extends a plan that was played, at a point that this run reached, and not before its last
/// fault: so every set of faults is played once.
#[derive(Debug)]
#[must_use = "nothing happens before it is explored"]
pub struct Exhaustion {
    sim: Sim,
    faults: usize,
    jobs: usize,
    part: (u64, u64),
    most: u64,
    kinds: Option<BTreeSet<String>>,
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
    /// The figures of the runs with faults that this process played.
    pub stats: RunStats,
    /// The achievements of the run without faults.
    pub achieved: BTreeSet<&'static str>,
    /// The time in which all clients have to finish after the last fault.
    pub bound: Duration,
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
            kinds: None,
            keep_going: false,
            progress: None,
        }
    }

    /// Returns the seed whose run without faults has the most decision points: its clients have the
    /// most to do with each other. A run with a violation comes first. `None` if there are no seeds.
    pub fn busiest(sim: impl Fn(u64) -> Sim, seeds: Range<u64>) -> Option<u64> {
        let points = |seed: &u64| {
            let run = sim(*seed).plan(FaultPlan::default()).run();
            (run.violation.is_some(), run.points.len(), Reverse(*seed))
        };
        seeds.max_by_key(points)
    }

    /// Returns the seed whose run without faults has the fewest decision points among those in
    /// which the clients achieve the most kinds of what the workload
    /// [achieves](Sim::achieves). A run with a violation comes first. `None` if there are no seeds.
    pub fn smallest(sim: impl Fn(u64) -> Sim, seeds: Range<u64>) -> Option<u64> {
        let size = |seed: &u64| {
            let sim = sim(*seed).plan(FaultPlan::default());
            let run = sim.run();
            let has = |what: &&&str| run.stats.achieved.contains_key(**what);
            let achieved = sim.achieves.iter().filter(has).count();
            (run.violation.is_none(), Reverse(achieved), run.points.len(), *seed)
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

    /// Plays only faults of these [kinds](PointFault::kind). Default: all.
    pub fn kinds<K: Into<String>>(mut self, kinds: impl IntoIterator<Item = K>) -> Self {
        self.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// Continues after a violation. Default: `false`.
    pub const fn keep_going(mut self, keep_going: bool) -> Self {
        self.keep_going = keep_going;
        self
    }

    /// Writes what was played to this file, and leaves out what the file says was played by an
    /// earlier exploration of the same runs, by the same program. Default: none.
    pub fn progress(mut self, file: impl Into<PathBuf>) -> Self {
        self.progress = Some(file.into());
        self
    }

    /// Plays the runs. Calls `level` with the number of faults and of runs before those runs begin,
    /// and `run` after each run, with its plan and its violation.
    ///
    /// # Errors
    /// The progress file cannot be read or written, or belongs to other runs.
    pub fn explore(
        &self,
        level: impl Fn(usize, u64),
        run: impl Fn(&FaultPlan, Option<&Violation>) + Sync,
    ) -> io::Result<Explored> {
        let none = FaultPlan::default();
        let root = self.play(&none, None);
        let ledger = match &self.progress {
            Some(file) => ExplorationRecord::open(file, &self.title(&root)?)?,
            None => ExplorationRecord::none(),
        };
        let bound = self.bound(&root);
        let mut explored = Explored {
            runs: vec![1],
            part: (0, 1),
            points: root.points.len(),
            achieved: root.stats.achieved.keys().copied().collect(),
            bound,
            ..Explored::default()
        };
        if let Some(violation) = &root.violation {
            run(&none, Some(violation));
            explored.flaws.push(Flaw { plan: none, outcome: root });
            return Ok(explored);
        }
        let mut seen: BTreeSet<u64> = [trace(&root)].into();
        let extensions = self.extensions(&none, &root).len() as u64;
        let mut frontier = vec![PlayedPlan { plan: none, extensions }];
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
                units: frontier.iter().flat_map(|played| played.units(part.1)).collect(),
                ledger: &ledger,
                bound,
                next: AtomicUsize::new(0),
                stop: AtomicBool::new(false),
                done: Locked::default(),
                run: &run,
            };
            let units = explored.add(tour.go())?;
            seen.extend(units.values().flat_map(|unit| unit.traces.iter().copied()));
            frontier = units.into_values().flat_map(|unit| unit.played).collect();
            if !explored.flaws.is_empty() && !self.keep_going {
                break;
            }
        }
        explored.states = seen.len();
        Ok(explored)
    }

    /// Returns the plans that extend this one.
    fn extensions(&self, plan: &FaultPlan, run: &Outcome) -> Vec<FaultPlan> {
        let mut found = extensions(plan, &run.points);
        if let Some(kinds) = &self.kinds {
            let last = |plan: &FaultPlan| plan.faults().last().map(|(_, fault)| fault.kind());
            found.retain(|plan| last(plan).is_some_and(|kind| kinds.contains(kind)));
        }
        found
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
        // Some clients only wait until there are no more faults.
        let active = root.points.iter().rfind(|point| point.is_activity());
        let active = active.map(|point| point.at).unwrap_or_default();
        let end = root.undisturbed_since + root.stats.longest_wait;
        let rest = end.saturating_sub(root.undisturbed_since.max(active));
        let connection = self.sim.session_timeout * CONNECTION_TIMEOUT;
        let faults = self.sim.session_timeout + TICK + connection + LONGEST_PAUSE * MAX_RETRIES;
        (active + rest + faults).max(self.sim.patience.unwrap_or_default())
    }

    /// Describes the runs, for the progress file: what they are, and the program that plays them.
    fn title(&self, root: &Outcome) -> io::Result<String> {
        let (part, of) = self.part;
        let mut program = DefaultHasher::new();
        fs::read(env::current_exe()?)?.hash(&mut program);
        (self.sim.servers, &self.sim.achieves, &self.kinds).hash(&mut program);
        Ok(format!(
            "{} --faults {} --part {part}/{of} --most {}, program {:016x}, trace {:016x}",
            self.sim.arguments(),
            self.faults,
            self.most,
            program.finish(),
            trace(root)
        ))
    }

    /// Returns what the run without faults achieved, and none of those with faults.
    #[must_use]
    pub fn missing(&self, explored: &Explored) -> Option<String> {
        // Runs that are continued have their figures elsewhere.
        let is_new = explored.stats.runs > 0;
        let has = |what: &&&str| explored.stats.achieved.contains_key(**what);
        let wanted = self.sim.achieves.iter().filter(|what| explored.achieved.contains(**what));
        let missing: Vec<_> = wanted.filter(|what| is_new && !has(what)).copied().collect();
        (!missing.is_empty()).then(|| missing.join(", "))
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
    ///
    /// # Errors
    /// There is no violation, but this fault could not happen either: the run does not reach its
    /// point, or the point is of another kind.
    pub fn replay(&self, plan: &FaultPlan) -> Result<Option<Flaw>, (u32, PointFault)> {
        let bound = self.bound(&self.play(&FaultPlan::default(), None));
        let outcome = self.play(plan, Some(bound));
        match (&outcome.violation, outcome.unplayed) {
            (Some(_), _) => Ok(Some(Flaw { plan: plan.clone(), outcome })),
            (None, Some(unplayed)) => Err(unplayed),
            (None, None) => Ok(None),
        }
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

/// Returns a number that decides in which part a plan is.
fn number_of(plan: &FaultPlan) -> u64 {
    // As stable as seeds are, whatever the compiler.
    seed::of(0, &plan.to_string(), 0)
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
    /// The plans to extend, each with the numbers of some of its extensions.
    units: Vec<(&'a FaultPlan, Range<usize>)>,
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

impl<R: Fn(&FaultPlan, Option<&Violation>) + Sync> ExplorationLevel<'_, R> {
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
            let Some((plan, numbers)) = self.units.get(number) else { return };
            if let Some(unit) = self.ledger.unit(self.faults, number) {
                self.done.lock().units.insert(number, unit);
                continue;
            }
            let Some(unit) = self.extend(plan, numbers) else { return };
            let is_sound = unit.violations == 0;
            let written =
                if is_sound { self.ledger.write(self.faults, number, &unit) } else { Ok(()) };
            let mut done = self.done.lock();
            done.units.insert(number, unit);
            if let Err(error) = written {
                done.broken = Some(error);
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Plays extensions of a plan; `None` if the exploration stops meanwhile.
    fn extend(&self, plan: &FaultPlan, numbers: &Range<usize>) -> Option<ExplorationUnit> {
        let exhaustion = self.exhaustion;
        let base = exhaustion.play(plan, None);
        let is_last = self.faults == exhaustion.faults;
        let (part, of) = self.part;
        let mut unit = ExplorationUnit::default();
        let extensions = exhaustion.extensions(plan, &base).into_iter();
        for plan in extensions.skip(numbers.start).take(numbers.len()) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if number_of(&plan) % of != part {
                continue;
            }
            let mut outcome = exhaustion.play(&plan, Some(self.bound));
            unit.runs += 1;
            unit.traces.push(trace(&outcome));
            if !is_last {
                let extensions = exhaustion.extensions(&plan, &outcome).len() as u64;
                unit.played.push(PlayedPlan { plan: plan.clone(), extensions });
            }
            if outcome.violation.is_none() {
                outcome.violation = differs(&plan, &base, &outcome);
            }
            (self.run)(&plan, outcome.violation.as_ref());
            unit.violations += u64::from(outcome.violation.is_some());
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
