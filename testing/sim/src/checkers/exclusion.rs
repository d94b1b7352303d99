//! What locks, semaphores and elections promise: tokens, uses, and who believes what at the same time.

mod limit;

use std::collections::BTreeMap;
use std::time::Duration;

use limit::Limits;

use super::holds::{Hold, Patience, Resource, find_overlap, resources};
use super::{Checker, Violation};
use crate::History;
use crate::history::Mode;

/// That holders exclude each other, as far as anything can that holds by a session of ZooKeeper.
///
/// # What can be promised
/// The server ends a session when it has not heard of it for the session timeout, and only then gives to others what it
/// held. A client counts from the sending of its last request that was answered, which is no later than when the server
/// heard of it; so it says LOST first. Nothing that happens to messages changes that, nor a jump of everybody's clock: it
/// makes both timers due at the same moment, in which either may be seen first. Two beliefs that meet in one moment
/// therefore do not overlap, nor do those that overlap for no longer than the [slack](Self::slack).
///
/// There are five ways to believe without right, all of which the history shows:
/// * The process was [stopped](crate::Event::Paused): others may hold what it believes to hold, until it
///   [goes on](crate::Event::Resumed). From then on its own clock says LOST, if it was for too long.
/// * Its session was ended [by force](crate::Event::Expired): until it has heard of that, which takes as long as it is
///   without a connection, the session timeout at most: the [notice](Self::notice). This is about what it began to acquire
///   before.
/// * What it holds is [taken by force](crate::Event::Seized), and may be gone from then on.
/// * An operator has [deleted](crate::Event::Removed) the node that it holds it by.
/// * A client has deleted that node [in place of its own](crate::Event::Overtaken).
///
/// Against the first two, [`Released`](crate::Event::Released) is proof: the hold was rightful all the time.
///
/// A holder without right is harmless if it comes with its fencing token. So, without any exception, a resource
/// never accepts a use with a token that is lower than that of a use before, where the two exclude each other. Tokens grow
/// from grant to grant, in the order in which clients heard of them, except for one that was stopped, expired or
/// robbed between its attempt and the answer: it hears of a grant that is history. Leases of a semaphore do not exclude
/// each other: their tokens are merely different.
#[derive(Debug, Clone)]
pub struct Exclusion {
    name: &'static str,
    modes: &'static [Mode],
    /// How many holds that are not alone there may be.
    limit: usize,
    /// The object that has the limit, if it changes: `limit` is the one at first.
    limited_by: Option<&'static str>,
    same_token: SameToken,
    patience: Patience,
}

/// Who may hold something with a token that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SameToken {
    Nobody,
    /// The process that had it last.
    SameProcess,
    /// The process that had it last, but now together with others.
    DowngradedHere,
}

impl SameToken {
    fn allows(self, before: &Hold, hold: &Hold) -> bool {
        before.who == hold.who
            && match self {
                Self::Nobody => false,
                Self::SameProcess => true,
                Self::DowngradedHere => is_alone(before.mode) && !is_alone(hold.mode),
            }
    }
}

const fn is_alone(mode: Mode) -> bool {
    matches!(mode, Mode::Exclusive | Mode::Leader)
}

impl Exclusion {
    const fn new(name: &'static str, modes: &'static [Mode], limit: usize, same_token: SameToken) -> Self {
        let patience = Patience { slack: Duration::ZERO, notice: Duration::MAX };
        Self { name, modes, limit, limited_by: None, same_token, patience }
    }

    /// Of a mutex: one holder of each resource at a time, of those in [`Mode::Exclusive`]; each with a token of its own.
    #[must_use]
    pub const fn mutual() -> Self {
        Self::new("mutual exclusion", &[Mode::Exclusive], 0, SameToken::Nobody)
    }

    /// Of a mutex that a process passes on among its tasks, together with the token.
    #[must_use]
    pub const fn handed_over() -> Self {
        Self { same_token: SameToken::SameProcess, ..Self::mutual() }
    }

    /// Of a semaphore: this number of holders of each resource in [`Mode::Lease`].
    #[must_use]
    pub const fn at_most(leases: usize) -> Self {
        Self::new("limited leases", &[Mode::Lease], leases, SameToken::Nobody)
    }

    /// The limit is the value of a shared object that is [set](crate::history::Operation::Set), and has the limit of
    /// [`at_most`](Self::at_most) at first. There are no more leases than it may have allowed while the last of them was acquired.
    #[must_use]
    pub const fn limited_by(mut self, object: &'static str) -> Self {
        self.limited_by = Some(object);
        self
    }

    /// Of a read/write lock: readers ([`Mode::Shared`]) share, a writer ([`Mode::Exclusive`]) is alone. A reader may have
    /// the token that it had as a writer.
    #[must_use]
    pub const fn read_write() -> Self {
        let modes = &[Mode::Exclusive, Mode::Shared];
        Self::new("read/write exclusion", modes, usize::MAX, SameToken::DowngradedHere)
    }

    /// Of an election: one leader ([`Mode::Leader`]) of each resource at a time. One that leads again, and nobody has led
    /// in between, may have the token that it had.
    #[must_use]
    pub const fn leader() -> Self {
        Self::new("single leader", &[Mode::Leader], 0, SameToken::SameProcess)
    }

    /// How long two may believe to hold the same without that counting. Default: zero, for simulated time, where a client
    /// that is woken up runs at once. In real time it is what a busy machine makes a client wait.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.patience.slack = slack;
        self
    }

    /// How long a client that is not stopped may take to hear that its session was ended by force: the longest session
    /// timeout. Default: for ever.
    #[must_use]
    pub const fn notice(mut self, notice: Duration) -> Self {
        self.patience.notice = notice;
        self
    }

    fn violation(&self, broken: String, holds: &[&Hold]) -> Violation {
        let mut records: Vec<usize> = holds.iter().flat_map(|hold| hold.proof()).collect();
        records.sort_unstable();
        Violation::new(self.name, broken, records)
    }

    fn tokens_grow(&self, name: &str, resource: &Resource) -> Result<(), Violation> {
        let mut newest: Option<&Hold> = None;
        let mut newest_alone: Option<&Hold> = None;
        let mut by_token: BTreeMap<i64, &Hold> = BTreeMap::new();
        for hold in &resource.holds {
            if let Some(twin) = by_token.insert(hold.token, hold)
                && !self.same_token.allows(twin, hold)
            {
                let broken = format!("two holds of {name} have the same token");
                return Err(self.violation(broken, &[twin, hold]));
            }
            let before = if is_alone(hold.mode) { newest } else { newest_alone };
            if let Some(before) = before.filter(|before| before.token > hold.token && !hold.may_be_stale) {
                let broken = format!("the token of {name} has gone back from one holder to the next");
                return Err(self.violation(broken, &[before, hold]));
            }
            let newer = |newest: Option<&Hold>| newest.is_none_or(|newest| hold.token >= newest.token);
            if newer(newest) {
                newest = Some(hold);
            }
            if is_alone(hold.mode) && newer(newest_alone) {
                newest_alone = Some(hold);
            }
        }
        Ok(())
    }

    fn uses_do_not_go_back(&self, name: &str, resource: &Resource) -> Result<(), Violation> {
        let mut newest = None;
        let mut newest_alone = None;
        for used in resource.uses.iter().filter(|used| used.mode != Mode::Lease) {
            let before = if is_alone(used.mode) { newest } else { newest_alone };
            if let Some((token, place)) = before.filter(|&(token, _)| token > used.token) {
                let broken = format!(
                    "{name} has accepted a use with token {:#x} after one with token {token:#x}",
                    used.token
                );
                return Err(Violation::new(self.name, broken, vec![place, used.place]));
            }
            newest = newest.max(Some((used.token, used.place)));
            if is_alone(used.mode) {
                newest_alone = newest_alone.max(Some((used.token, used.place)));
            }
        }
        Ok(())
    }

    fn beliefs_exclude(
        &self,
        name: &str,
        resource: &Resource,
        limits: Option<&Limits>,
    ) -> Result<(), Violation> {
        let conflict = |others: &[&'_ Hold], hold: &Hold| -> Vec<usize> {
            let against = others.iter().enumerate();
            if is_alone(hold.mode) {
                return against.map(|(index, _)| index).take(1).collect();
            }
            let alone = against.clone().find(|(_, other)| is_alone(other.mode));
            if let Some((index, _)) = alone {
                return vec![index];
            }
            let last = others.iter().copied().chain([hold]).max_by_key(|hold| hold.acquired);
            let limit = limits.zip(last).map_or(self.limit, |(limits, last)| limits.highest(last));
            if others.len() >= limit { (0..others.len()).collect() } else { Vec::new() }
        };
        let overlap = find_overlap(&resource.holds, self.patience, conflict);
        let Some((mut holds, last)) = overlap else { return Ok(()) };
        holds.push(last);
        let broken = format!("{name} is held {} times at once", holds.len());
        Err(self.violation(broken, &holds))
    }
}

impl Checker for Exclusion {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let limits = self.limited_by.map(|object| Limits::of(history, object, self.limit));
        for (name, resource) in resources(history, self.name, self.modes, self.patience)? {
            self.tokens_grow(&name, &resource)?;
            self.uses_do_not_go_back(&name, &resource)?;
            self.beliefs_exclude(&name, &resource, limits.as_ref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
