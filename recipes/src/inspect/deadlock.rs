//! Deadlocks between sessions: a wait-for graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use zk_curator::{FencingToken, SessionId};

use super::finding::{Contender, Finding, RecipeKind, Role};

/// The result of [`deadlocks`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Deadlocks {
    /// The cycles, one for each group of sessions that wait for each other.
    pub cycles: Vec<Cycle>,
    /// Waits of a session for itself: a lock that is not re-entrant, or several tasks of one
    /// process, which are no deadlock.
    pub behind_themselves: Vec<Wait>,
    /// The number of sessions that cannot continue, in a cycle or behind one.
    pub stuck: usize,
}

/// Sessions that wait for each other, each for the next one, and the last one for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cycle {
    /// The waits, from the lowest session on.
    pub waits: Vec<Wait>,
    /// The contender whose removal lets the most sessions continue.
    pub victim: Victim,
}

/// A contender that waits for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The path of the lock.
    pub lock: String,
    /// The path of the node that waits.
    pub waiter: String,
    /// The session that waits.
    pub waiter_session: SessionId,
    /// The label of the waiter.
    pub waiter_label: String,
    /// The path of the node that is waited for, which holds or also waits.
    pub holder: String,
    /// The session that is waited for.
    pub holder_session: SessionId,
    /// The label of the holder.
    pub holder_label: String,
}

/// A contender whose removal breaks a [`Cycle`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Victim {
    /// The path of its node.
    pub path: String,
    /// Its fencing token, if its node was read.
    pub token: Option<FencingToken>,
    /// The number of sessions that can continue after its removal.
    pub frees: usize,
}

/// Finds sessions that wait for each other in locks, read/write locks and semaphores. Sends
/// nothing.
///
/// A contender that waits for a lock waits for the contenders in front of it, and a contender that
/// holds does not let go while its session waits in another lock. A contender that waits for a
/// semaphore waits until any of the leases ends, so it is stuck only if all their holders are.
/// Elections are left out, because candidates do other work while they wait; a `LeaderSelector` has
/// the nodes of a mutex, and is included.
///
/// The command of a `zkc lock` may be another one, with a session of its own. The label of that
/// ends with a [mark](super::within_mark), and the outer one does not let go before it ends. So a
/// candidate of an election that has a mark is included, as that of a `zkc elect`.
///
/// The graph is about sessions, not tasks. A process that uses one session for independent tasks
/// may appear in a cycle that is not a deadlock, because one task will release what another one
/// waits for. Check the labels before you break a lock.
#[must_use]
pub fn deadlocks(findings: &[Finding]) -> Deadlocks {
    let graph = Graph::of(findings);
    let stuck = graph.stuck(None);
    let edges: Vec<Vec<Edge>> =
        (0..graph.waits.len()).map(|from| graph.edges(from, &stuck)).collect();
    let mut cycles = Vec::new();
    let mut seen = BTreeSet::new();
    for start in (0..graph.waits.len()).filter(|wait| stuck[*wait]) {
        if seen.contains(&start) {
            continue;
        }
        let Some(cycle) = shortest_cycle(&edges, start) else { continue };
        seen.extend(group(&edges, start));
        let mut waits: Vec<_> = cycle.iter().map(|edge| graph.wait(edge)).collect();
        let sessions = waits.iter().map(|wait| wait.waiter_session).enumerate();
        let lowest = sessions.min_by_key(|(_, session)| *session);
        waits.rotate_left(lowest.map_or(0, |(place, _)| place));
        cycles.push(Cycle { waits, victim: graph.victim(&cycle, &stuck) });
    }
    let behind_themselves =
        graph.waits.iter().filter_map(|wait| Some(wait.on(wait.own?))).collect();
    Deadlocks { cycles, behind_themselves, stuck: graph.sessions(&stuck).len() }
}

/// A contender that waits, and the contenders that it waits for.
struct BlockedWaiter<'a> {
    lock: &'a Finding,
    waiter: &'a Contender,
    session: SessionId,
    blockers: Vec<&'a Contender>,
    /// `true` if the end of one of the blockers is enough.
    any: bool,
    /// A contender of the same session in front, unless the session may have several.
    own: Option<&'a Contender>,
}

/// The wait of a contender for another one, which cannot let go before a third one, or itself, is
/// granted.
#[derive(Clone, Copy)]
struct Edge {
    /// The index of the wait.
    from: usize,
    /// The index of the blocker in that wait.
    blocker: usize,
    /// The index of the wait of the blocker, or of another contender of its session.
    to: usize,
}

struct Graph<'a> {
    waits: Vec<BlockedWaiter<'a>>,
    /// The waits of each session, and of the sessions for whose end it waits.
    by_session: BTreeMap<SessionId, Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn of(findings: &'a [Finding]) -> Self {
        let waits: Vec<_> = findings.iter().flat_map(waits_of).collect();
        let contenders = findings.iter().flat_map(|one| one.holders.iter().chain(&one.waiting));
        let outer: BTreeMap<_, _> =
            contenders.filter_map(|one| Some((one.session?, one.within?))).collect();
        let mut by_session = BTreeMap::<SessionId, Vec<usize>>::new();
        for (index, wait) in waits.iter().enumerate() {
            let above = |session: &SessionId| outer.get(session).copied();
            // Labels may say anything, also that two sessions are within each other.
            let mut seen = BTreeSet::new();
            let all = std::iter::successors(Some(wait.session), above);
            for session in all.take_while(|session| seen.insert(*session)) {
                by_session.entry(session).or_default().push(index);
            }
        }
        Self { waits, by_session }
    }

    /// The waits that must end before a blocker in a lock lets go: its own, and those of its
    /// session in other locks. In one lock, the contenders of a session are granted one after the
    /// other. Waits of a session behind itself are reported apart. A session within that of the
    /// blocker has to end first, whatever it waits for.
    fn before(&self, lock: &Finding, blocker: &Contender) -> impl Iterator<Item = usize> {
        let of_session = blocker.session.and_then(|session| self.by_session.get(&session));
        of_session.into_iter().flatten().copied().filter(move |wait| {
            let BlockedWaiter { lock: other, waiter, own, session, .. } = &self.waits[*wait];
            let is_within = blocker.session != Some(*session);
            waiter.path == blocker.path || ((is_within || other.path != lock.path) && own.is_none())
        })
    }

    /// For each wait, `true` if it never ends, even if the contender at the path `removed` is gone.
    fn stuck(&self, removed: Option<&str>) -> Vec<bool> {
        let mut stuck = vec![true; self.waits.len()];
        let mut has_changed = true;
        while std::mem::take(&mut has_changed) {
            for (index, wait) in self.waits.iter().enumerate() {
                if stuck[index] && !self.is_stuck(wait, &stuck, removed) {
                    stuck[index] = false;
                    has_changed = true;
                }
            }
        }
        stuck
    }

    fn is_stuck(&self, wait: &BlockedWaiter<'_>, stuck: &[bool], removed: Option<&str>) -> bool {
        let is_removed = |contender: &Contender| removed == Some(contender.path.as_str());
        let keeps = |blocker: &Contender| {
            !is_removed(blocker) && self.before(wait.lock, blocker).any(|before| stuck[before])
        };
        if is_removed(wait.waiter) {
            false
        } else if wait.any {
            // A lease of its own session may be released by another task.
            let is_other = |blocker: &Contender| blocker.session != Some(wait.session);
            !wait.blockers.is_empty()
                && wait.blockers.iter().all(|blocker| is_other(blocker) && keeps(blocker))
        } else {
            wait.others().any(|(_, blocker)| keeps(blocker))
        }
    }

    fn edges(&self, from: usize, stuck: &[bool]) -> Vec<Edge> {
        let wait = &self.waits[from];
        let others = wait.others().filter(|_| stuck[from]);
        let edges = others.flat_map(|(blocker, contender)| {
            let before = self.before(wait.lock, contender).filter(|before| stuck[*before]);
            before.map(move |to| Edge { from, blocker, to })
        });
        edges.collect()
    }

    fn sessions(&self, stuck: &[bool]) -> BTreeSet<SessionId> {
        let waits = self.waits.iter().zip(stuck);
        waits.filter(|(_, is_stuck)| **is_stuck).map(|(wait, _)| wait.session).collect()
    }

    /// The contender that is waited for in a cycle whose removal frees the most sessions; of
    /// several the latest, which has lost the least.
    fn victim(&self, cycle: &[Edge], stuck: &[bool]) -> Victim {
        let all = self.sessions(stuck).len();
        let victims = cycle.iter().map(|edge| {
            let blocker = self.waits[edge.from].blockers[edge.blocker];
            let frees = all - self.sessions(&self.stuck(Some(&blocker.path))).len();
            Victim { path: blocker.path.clone(), token: blocker.token(), frees }
        });
        victims
            .max_by_key(|victim| (victim.frees, victim.token))
            .expect("invariant: a cycle has an edge")
    }

    fn wait(&self, edge: &Edge) -> Wait {
        let wait = &self.waits[edge.from];
        wait.on(wait.blockers[edge.blocker])
    }
}

impl<'a> BlockedWaiter<'a> {
    /// The blockers of other sessions. A wait behind its own session is reported apart.
    fn others(&self) -> impl Iterator<Item = (usize, &'a Contender)> {
        let own = Some(self.session);
        self.blockers.iter().copied().enumerate().filter(move |(_, one)| one.session != own)
    }

    fn on(&self, blocker: &Contender) -> Wait {
        Wait {
            lock: self.lock.path.clone(),
            waiter: self.waiter.path.clone(),
            waiter_session: self.session,
            waiter_label: self.waiter.label_str().into_owned(),
            holder: blocker.path.clone(),
            holder_session: blocker.session.unwrap_or(self.session),
            holder_label: blocker.label_str().into_owned(),
        }
    }
}

/// The waits in a recipe.
fn waits_of(lock: &Finding) -> Vec<BlockedWaiter<'_>> {
    let is_lock =
        matches!(lock.kind, RecipeKind::Mutex | RecipeKind::ReadWriteLock | RecipeKind::Semaphore);
    let is_semaphore = lock.kind == RecipeKind::Semaphore;
    let is_election = lock.kind == RecipeKind::LeaderLatch;
    let mut first = BTreeMap::new();
    for holder in lock.holders.iter().filter(|_| !is_semaphore) {
        first.entry(holder.session).or_insert(holder);
    }
    let waits = |waiter: &&Contender| is_lock || is_election && waiter.within.is_some();
    let waiting = lock.waiting.iter().filter(waits);
    let blocked = waiting.filter_map(|waiter| {
        let session = waiter.session?;
        let on = lock.waiting.iter().find(|other| Some(&other.path) == waiter.waits_on.as_ref());
        let holders = lock.holders.iter().filter(|holder| blocks(lock, holder, waiter));
        // The first in line of a semaphore waits for a lease, the others for their turn.
        let any = is_semaphore && on.is_none();
        let holders = holders.filter(|_| any || !is_semaphore);
        let own = *first.entry(waiter.session).or_insert(waiter);
        let own = Some(own).filter(|own| own.path != waiter.path && !is_semaphore);
        Some(BlockedWaiter {
            lock,
            waiter,
            session,
            blockers: holders.chain(on).collect(),
            any,
            own,
        })
    });
    blocked.collect()
}

/// Returns `true` if a holder of a lock excludes a waiter.
fn blocks(lock: &Finding, holder: &Contender, waiter: &Contender) -> bool {
    lock.kind != RecipeKind::ReadWriteLock
        || holder.role == Role::Writer
        || waiter.role == Role::Writer
}

/// The shortest way from a wait back to itself.
fn shortest_cycle(edges: &[Vec<Edge>], start: usize) -> Option<Vec<Edge>> {
    let mut came_by = BTreeMap::<usize, Edge>::new();
    let mut next = VecDeque::from([start]);
    while let Some(wait) = next.pop_front() {
        for edge in &edges[wait] {
            if came_by.contains_key(&edge.to) {
                continue;
            }
            came_by.insert(edge.to, *edge);
            if edge.to != start {
                next.push_back(edge.to);
                continue;
            }
            let before =
                |edge: &Edge| came_by.get(&edge.from).filter(|_| edge.from != start).copied();
            let mut cycle: Vec<_> = std::iter::successors(Some(*edge), before).collect();
            cycle.reverse();
            return Some(cycle);
        }
    }
    None
}

/// The waits that a wait depends on, directly or not, and that depend on it.
fn group(edges: &[Vec<Edge>], start: usize) -> BTreeSet<usize> {
    let mut turned = vec![Vec::new(); edges.len()];
    for edge in edges.iter().flatten() {
        turned[edge.to].push(edge.from);
    }
    let forwards = reached(start, |wait| edges[wait].iter().map(|edge| edge.to).collect());
    let backwards = reached(start, |wait| turned[wait].clone());
    forwards.intersection(&backwards).copied().collect()
}

fn reached(start: usize, next: impl Fn(usize) -> Vec<usize>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([start]);
    let mut todo = vec![start];
    while let Some(wait) = todo.pop() {
        todo.extend(next(wait).into_iter().filter(|wait| reached.insert(*wait)));
    }
    reached
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |label: &str, session: SessionId| match label {
            "" => session.to_string(),
            label => format!("{label} ({session})"),
        };
        write!(
            f,
            "{} waits in {} for {}",
            named(&self.waiter_label, self.waiter_session),
            self.lock,
            named(&self.holder_label, self.holder_session),
        )
    }
}
