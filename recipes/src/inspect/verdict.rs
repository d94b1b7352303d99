use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use zk_curator::SessionId;

use super::details::Details;
use super::finding::{Contender, Finding, RecipeKind, Role};
use super::session::{Connection, Sessions};
use crate::order::is_in_order;
use crate::queue::jobs::JobPhase;

/// From this sequence number on, the end of the numbers is near: 93 % of them are used.
const NEAR_THE_END: i32 = 2_000_000_000;

/// A statement about a [`Finding`]. Its [`Display`](fmt::Display) is a sentence in plain English.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// No contender holds or waits.
    Free,
    /// A contender holds, and nothing is known to be wrong with it.
    Held {
        /// The holder.
        holder: Owner,
    },
    /// This process holds.
    HeldByUs {
        /// The holder.
        holder: Owner,
    },
    /// There is room, and the first waiter has not taken it.
    NotTaken {
        /// The first waiter.
        waiter: Owner,
    },
    /// The session of a contender has no connection. It ends unless its client connects again.
    Dying {
        /// The contender.
        owner: Owner,
        /// `true` if it holds, `false` if it waits.
        holds: bool,
        /// The maximum time until the end.
        within: Duration,
    },
    /// The session of a contender has a connection, but its client has been silent for more than
    /// two thirds of the timeout: it is stopped, or the network is cut.
    Silent {
        /// The contender.
        owner: Owner,
        /// `true` if it holds, `false` if it waits.
        holds: bool,
        /// The least time for which it has been silent.
        since: Duration,
        /// The maximum time until the end.
        within: Duration,
    },
    /// The session of a contender has no connection to any server, and its timeout is unknown.
    Orphan {
        /// The contender.
        owner: Owner,
        /// `true` if it holds, `false` if it waits.
        holds: bool,
    },
    /// The session of a contender has no connection, and another contender with the same label has
    /// one: perhaps the client has a new session, and its old node remains until the old session
    /// ends. Several clients may have one label, such as the address of their host.
    FormerSession {
        /// The contender with the old session.
        owner: Owner,
        /// The contender with the new session.
        successor: Owner,
    },
    /// Several contenders belong to one session: several tasks of one process, or a task that waits
    /// for itself.
    SameSession {
        /// The session.
        session: SessionId,
        /// The paths of the contenders.
        paths: Vec<String>,
    },
    /// The node of a contender [is persistent](Contender::is_persistent): no session will ever
    /// remove it. Find out who made it, and delete it.
    Persistent {
        /// The contender.
        owner: Owner,
        /// `true` if it holds, `false` if it waits.
        holds: bool,
    },
    /// A contender waits for a node that no session will ever remove.
    Stuck {
        /// The contender.
        waiter: Owner,
        /// The path of the persistent node.
        on: String,
    },
    /// A contender was asked to let go, and has not done so.
    Revoked {
        /// The contender.
        owner: Owner,
    },
    /// The session of a waiter watches nothing at the recipe: it will not notice its turn.
    NoWatch {
        /// The waiter.
        waiter: Owner,
    },
    /// The server will soon run out of sequence numbers, or already has. Clients that compare the
    /// names break then.
    SequenceEnds {
        /// The highest number.
        highest: i32,
        /// `true` if the numbers no longer show the order of the contenders.
        has_ended: bool,
    },
    /// Curator's and kazoo's contenders are in one lock. They exclude each other only if one side
    /// is set up for the names of the other.
    MixedLock,
    /// Nodes do not belong to the recipe.
    Foreign {
        /// The number of these nodes.
        nodes: usize,
    },
}

/// A contender in a [`Verdict`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// The path of its node.
    pub path: String,
    /// Its label; empty if it has none.
    pub label: String,
    /// Its session.
    pub session: Option<SessionId>,
    /// The connection of the session, if one was found.
    pub connection: Option<Connection>,
}

/// Judges a recipe by its nodes and by the known facts about sessions. Sends nothing.
///
/// The verdicts about persistent nodes come first, then those about holders, about waiters, and
/// about the recipe.
#[must_use]
pub fn verdicts(finding: &Finding, sessions: &Sessions) -> Vec<Verdict> {
    let judge = Judge { finding, sessions };
    let mut verdicts: Vec<_> = judge.free().into_iter().collect();
    verdicts.extend(finding.holders.iter().flat_map(|holder| judge.holder(holder)));
    verdicts.extend(finding.waiting.iter().flat_map(|waiter| judge.waiter(waiter)));
    verdicts.extend(judge.same_session());
    verdicts.extend(judge.sequence());
    if finding.details == Details::MixedLock {
        verdicts.push(Verdict::MixedLock);
    }
    verdicts.sort_by_key(|verdict| !matches!(verdict, Verdict::Persistent { .. }));
    let nodes = finding.ignored.len();
    if nodes > 0 && finding.kind != RecipeKind::Unknown {
        verdicts.push(Verdict::Foreign { nodes });
    }
    verdicts
}

struct Judge<'a> {
    finding: &'a Finding,
    sessions: &'a Sessions,
}

impl Judge<'_> {
    fn owner(&self, contender: &Contender) -> Owner {
        Owner {
            path: contender.path.clone(),
            label: contender.label_str().into_owned(),
            session: contender.session,
            connection: contender.session.and_then(|id| self.sessions.connection(id)).cloned(),
        }
    }

    /// The verdict about room that no contender has taken.
    fn free(&self) -> Option<Verdict> {
        let Finding { kind, holders, waiting, .. } = self.finding;
        let is_idle = holders.is_empty() && waiting.is_empty();
        let waiter = match kind {
            RecipeKind::Mutex | RecipeKind::ReadWriteLock | RecipeKind::LeaderLatch if is_idle => {
                return Some(Verdict::Free);
            }
            RecipeKind::Semaphore if is_idle => return Some(Verdict::Free),
            RecipeKind::Semaphore if self.has_room() => waiting.first(),
            RecipeKind::LockingQueue | RecipeKind::Jobs => {
                let idle = waiting.iter().find(|one| one.role == Role::Consumer);
                idle.filter(|_| waiting.iter().any(is_claimable))
            }
            _ => None,
        };
        waiter.map(|waiter| Verdict::NotTaken { waiter: self.owner(waiter) })
    }

    fn has_room(&self) -> bool {
        let Finding { holders, details, .. } = self.finding;
        match details {
            Details::Semaphore { limit: Some(limit) } => {
                u32::try_from(holders.len()).is_ok_and(|held| held < *limit)
            }
            _ => holders.is_empty(),
        }
    }

    /// Returns `true` if holders keep something from others.
    const fn excludes(&self) -> bool {
        !matches!(
            self.finding.kind,
            RecipeKind::Group
                | RecipeKind::Service
                | RecipeKind::Partitioner
                | RecipeKind::DoubleBarrier
                | RecipeKind::TwoPhaseCommit
        )
    }

    fn holder(&self, holder: &Contender) -> Vec<Verdict> {
        let mut verdicts = self.session(holder, true);
        if verdicts.is_empty() && holder.session.is_some() && self.excludes() {
            let is_own = holder.session.is_some_and(|id| self.sessions.is_own(id));
            let holder = self.owner(holder);
            verdicts.push(if is_own {
                Verdict::HeldByUs { holder }
            } else {
                Verdict::Held { holder }
            });
        }
        if holder.is_revoked {
            verdicts.push(Verdict::Revoked { owner: self.owner(holder) });
        }
        verdicts
    }

    fn waiter(&self, waiter: &Contender) -> Vec<Verdict> {
        let mut verdicts = self.session(waiter, false);
        // A session without a connection has no watches.
        let id = waiter.session.filter(|_| verdicts.is_empty() && waiter.waits_on.is_some());
        // The lock of kazoo's semaphore is not below it.
        let directory = waiter.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let watches = |path| self.sessions.watches_below(id?, path);
        if watches(&self.finding.path) == Some(false) && watches(directory) == Some(false) {
            verdicts.push(Verdict::NoWatch { waiter: self.owner(waiter) });
        }
        verdicts.extend(self.stuck(waiter));
        verdicts
    }

    fn stuck(&self, waiter: &Contender) -> Option<Verdict> {
        let on = waiter.waits_on.as_ref()?;
        let mut contenders = self.finding.holders.iter().chain(&self.finding.waiting);
        let is_stuck = contenders.any(|other| other.is_persistent && other.path == *on);
        is_stuck.then(|| Verdict::Stuck { waiter: self.owner(waiter), on: on.clone() })
    }

    /// Verdicts about a session without a connection, or with a silent one.
    fn session(&self, contender: &Contender, holds: bool) -> Vec<Verdict> {
        if contender.is_persistent {
            return vec![Verdict::Persistent { owner: self.owner(contender), holds }];
        }
        let Some(id) = contender.session else { return Vec::new() };
        let silence = self.sessions.silent_for(id).zip(self.sessions.expires_within(id));
        if let Some((since, within)) = silence.filter(|_| self.sessions.connection(id).is_some()) {
            let owner = self.owner(contender);
            return vec![Verdict::Silent { owner, holds, since, within }];
        }
        if self.sessions.is_disconnected(id) != Some(true) {
            return Vec::new();
        }
        let owner = self.owner(contender);
        let mut verdicts = Vec::new();
        if let Some(successor) = self.successor(contender) {
            let (owner, successor) = (owner.clone(), self.owner(successor));
            verdicts.push(Verdict::FormerSession { owner, successor });
        }
        verdicts.push(match self.sessions.expires_within(id) {
            Some(within) => Verdict::Dying { owner, holds, within },
            None => Verdict::Orphan { owner, holds },
        });
        verdicts
    }

    /// The contender of the same client in another session, which is connected.
    fn successor(&self, former: &Contender) -> Option<&Contender> {
        self.finding.holders.iter().chain(&self.finding.waiting).find(|other| {
            other.label == former.label
                && !former.label.is_empty()
                && other.session != former.session
                && other.session.is_some_and(|id| self.sessions.connection(id).is_some())
        })
    }

    fn same_session(&self) -> Vec<Verdict> {
        if !matches!(
            self.finding.kind,
            RecipeKind::Mutex | RecipeKind::ReadWriteLock | RecipeKind::LeaderLatch
        ) {
            return Vec::new();
        }
        let mut paths = BTreeMap::<SessionId, Vec<String>>::new();
        for contender in self.finding.holders.iter().chain(&self.finding.waiting) {
            if let Some(session) = contender.session {
                paths.entry(session).or_default().push(contender.path.clone());
            }
        }
        let several = paths.into_iter().filter(|(_, paths)| paths.len() > 1);
        several.map(|(session, paths)| Verdict::SameSession { session, paths }).collect()
    }

    fn sequence(&self) -> Option<Verdict> {
        let numbers = || {
            self.finding.holders.iter().chain(&self.finding.waiting).filter_map(|one| one.sequence)
        };
        let highest = numbers().max()?;
        let has_ended = numbers().any(|number| !is_in_order(i64::from(number)));
        (has_ended || highest >= NEAR_THE_END)
            .then_some(Verdict::SequenceEnds { highest, has_ended })
    }
}

/// Returns `true` for an item or a job that a consumer could claim now.
fn is_claimable(waiting: &Contender) -> bool {
    let pending = JobPhase::Pending.directory();
    waiting.role == Role::Item
        || (waiting.role == Role::Job && waiting.name.split('/').next() == Some(pending))
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.rsplit_once('/').map_or(&*self.path, |(_, name)| name);
        match &*self.label {
            "" => write!(f, "{name}")?,
            label => write!(f, "{label} ({name})")?,
        }
        if let Some(session) = self.session {
            write!(f, ", session {session}")?;
        }
        match &self.connection {
            Some(Connection { server, address }) => write!(f, ", from {address} at {server}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Verdict {
    #[expect(clippy::too_many_lines, reason = "a list of texts")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |holds: bool| if holds { "held by" } else { "waited for by" };
        match self {
            Self::Free => write!(f, "free: no contender holds or waits"),
            Self::Held { holder } => write!(f, "held by {holder}"),
            Self::HeldByUs { holder } => write!(f, "held by this process: {holder}"),
            Self::NotTaken { waiter } => {
                write!(f, "free, but not taken by the first waiter, {waiter}")
            }
            Self::Dying { owner, holds, within } => write!(
                f,
                "{} {owner}, which has no connection: gone in at most {} s unless it reconnects",
                verb(*holds),
                within.as_millis().div_ceil(1000),
            ),
            Self::Silent { owner, holds, since, within } => write!(
                f,
                "{} {owner}, silent for at least {} s: gone in at most {} s unless it continues",
                verb(*holds),
                since.as_secs(),
                within.as_millis().div_ceil(1000),
            ),
            Self::Orphan { owner, holds } => write!(
                f,
                "{} {owner}, which has no connection to any server: gone when its session expires",
                verb(*holds),
            ),
            Self::FormerSession { owner, successor } => write!(
                f,
                "{owner} is perhaps of an earlier session of the same client: {successor} has the same label",
            ),
            Self::SameSession { session, paths } => write!(
                f,
                "session {session} has {} contenders: several tasks of one process, or a task that waits for itself",
                paths.len(),
            ),
            Self::Persistent { owner, holds } => write!(
                f,
                "persistent: no session will ever remove it ({} {owner}); find out who made it, then delete it",
                verb(*holds),
            ),
            Self::Stuck { waiter, on } => {
                write!(f, "{waiter} waits for {on}, which no session will ever remove")
            }
            Self::Revoked { owner } => {
                write!(f, "{owner} was asked to release it, and has not yet")
            }
            Self::NoWatch { waiter } => {
                write!(f, "{waiter} watches nothing here: it does not notice when its turn comes")
            }
            Self::SequenceEnds { highest, has_ended: false } => write!(
                f,
                "the sequence numbers, now at {highest}, end at 2147483647: clients that compare names break then",
            ),
            Self::SequenceEnds { has_ended: true, .. } => write!(
                f,
                "the sequence numbers have ended: clients that compare names see another order",
            ),
            Self::MixedLock => write!(
                f,
                "contenders of Curator and of kazoo: they exclude each other only if one side knows the names of the other",
            ),
            Self::Foreign { nodes: 1 } => write!(f, "one node does not belong to it"),
            Self::Foreign { nodes } => write!(f, "{nodes} nodes do not belong to it"),
        }
    }
}
