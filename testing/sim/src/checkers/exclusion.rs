//! The promises of locks, semaphores and elections: about tokens, uses of resources, and
//! simultaneous holders.

mod limit;

use std::collections::BTreeMap;
use std::time::Duration;

use limit::Limits;

use super::holds::{Held, Patience, Resource, find_overlap, resources};
use super::{Checker, Violation};
use crate::History;
use crate::history::HoldMode;

/// Checks mutual exclusion, as far as sessions of ZooKeeper can guarantee it.
///
/// # The guarantee
/// The server ends a session when it has received nothing from it for the session timeout, and only
/// then grants its holds to other clients. A client counts from the time at which it sent its last
/// request with a response. That is no later than the time at which the server received it, so the
/// client reports LOST first. Delayed or lost messages do not change that. Neither does a jump of
/// all clocks: both timers are then due at the same moment, and either may be seen first. So two
/// holds that meet in one moment do not count as an overlap, nor do holds that overlap for no
/// longer than the [slack](Self::slack).
///
/// A client may believe to hold a resource wrongly in five cases, all of which the history shows:
/// * Its process was [stopped](crate::history::Lifecycle::Paused). Other clients may hold the
///   resource until the process is [resumed](crate::history::Lifecycle::Resumed). From then on its
///   own clock reports LOST if the stop was too long.
/// * Its session was [expired by force](crate::history::Lifecycle::Expired). The client may not
///   learn of this until it is connected again, at most for the session timeout: the
///   [notice](Self::notice). This covers holds that it began to acquire before the expiry.
/// * Another client [takes](crate::history::Hold::Seized) its hold by force, and the hold may be
///   gone from then on.
/// * An operator has [deleted](crate::history::Operator::Removed) the node of its hold. This
///   excuses the holder, but not a client to which the hold is granted after the faults, by that
///   node.
/// * Another client has deleted that node
///   [in place of its own](crate::history::Operator::Overtaken).
///
/// In the first two cases, [`Released`](crate::history::Hold::Released) proves that the hold was
/// valid all the time.
///
/// A client with an invalid hold does no harm if it sends its fencing token. So the following holds
/// without exception: if two uses exclude each other, a resource never accepts a use whose token is
/// lower than that of an earlier use. Tokens grow from grant to grant, in the order in which
/// clients learnt of the grants. The exception is a client that was stopped, expired or robbed
/// between its attempt and the response: it learns late of a grant that is over. Leases of a
/// semaphore do not exclude each other, so their tokens only have to differ.
#[derive(Debug, Clone)]
pub struct Exclusion {
    name: &'static str,
    modes: &'static [HoldMode],
    /// The maximum number of non-exclusive holds.
    limit: usize,
    /// The object whose value is the limit, if the limit changes. `limit` is then the first one.
    limited_by: Option<&'static str>,
    same_token: SameToken,
    /// The last bits of a token that are the turn of its holder; the others are those of the node.
    turn_bits: u32,
    patience: Patience,
}

/// The holders that may have the token of an earlier hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SameToken {
    Nobody,
    /// The process that had the token last.
    SameProcess,
    /// The process that had the token last, now together with other holders.
    DowngradedHere,
}

impl SameToken {
    fn allows(self, before: &Held, hold: &Held) -> bool {
        before.who == hold.who
            && match self {
                Self::Nobody => false,
                Self::SameProcess => true,
                Self::DowngradedHere => is_alone(before.mode) && !is_alone(hold.mode),
            }
    }
}

const fn is_alone(mode: HoldMode) -> bool {
    matches!(mode, HoldMode::Exclusive | HoldMode::Leader)
}

impl Exclusion {
    const fn new(
        name: &'static str,
        modes: &'static [HoldMode],
        limit: usize,
        same_token: SameToken,
    ) -> Self {
        let patience = Patience { slack: Duration::ZERO, notice: Duration::MAX };
        Self { name, modes, limit, limited_by: None, same_token, turn_bits: 0, patience }
    }

    /// Checks a mutex: each resource has one holder at a time in [`HoldMode::Exclusive`], and each
    /// hold has a token of its own.
    #[must_use]
    pub const fn mutual() -> Self {
        Self::new("mutual exclusion", &[HoldMode::Exclusive], 0, SameToken::Nobody)
    }

    /// Checks a mutex that a process passes on between its tasks, together with the token.
    #[must_use]
    pub const fn handed_over() -> Self {
        Self { same_token: SameToken::SameProcess, ..Self::mutual() }
    }

    /// Checks a mutex that a process passes on between its tasks, which have
    /// [tokens of their own](Self::turn_token).
    #[must_use]
    pub const fn in_turns() -> Self {
        Self { turn_bits: 16, ..Self::mutual() }
    }

    /// Returns the token of a holder for [`in_turns`](Self::in_turns): that of the node, and the
    /// number of the turn, below 65,536.
    #[must_use]
    pub const fn turn_token(node: i64, turn: u32) -> i64 {
        (node << Self::in_turns().turn_bits) | turn as i64
    }

    /// Checks a semaphore: each resource has at most this number of holders in
    /// [`HoldMode::Permit`].
    #[must_use]
    pub const fn at_most(permits: usize) -> Self {
        Self::new("limited permits", &[HoldMode::Permit], permits, SameToken::Nobody)
    }

    /// Takes the limit from the value of a shared object that clients
    /// [set](crate::history::Operation::Set). The limit at first is that of
    /// [`at_most`](Self::at_most). The number of permits must not exceed the highest limit that may
    /// have been in force while the last of them was acquired.
    #[must_use]
    pub const fn limited_by(mut self, object: &'static str) -> Self {
        self.limited_by = Some(object);
        self
    }

    /// Checks a read/write lock: readers ([`HoldMode::Shared`]) share, and a writer
    /// ([`HoldMode::Exclusive`]) is alone. A reader may have the token that it had as a writer.
    #[must_use]
    pub const fn read_write() -> Self {
        let modes = &[HoldMode::Exclusive, HoldMode::Shared];
        Self::new("read/write exclusion", modes, usize::MAX, SameToken::DowngradedHere)
    }

    /// Checks an election: each resource has one leader ([`HoldMode::Leader`]) at a time. A leader
    /// that leads again may have its earlier token if no other client has led in between.
    #[must_use]
    pub const fn leader() -> Self {
        Self::new("single leader", &[HoldMode::Leader], 0, SameToken::SameProcess)
    }

    /// Sets the time for which two holds may overlap without a violation. Default: zero, for
    /// simulated time, where a client that is woken up runs immediately. In real time, use the
    /// longest delay of a client on a busy machine.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.patience.slack = slack;
        self
    }

    /// Sets the time that a running client may take to learn that its session was expired by force:
    /// the longest session timeout. Default: no limit.
    #[must_use]
    pub const fn notice(mut self, notice: Duration) -> Self {
        self.patience.notice = notice;
        self
    }

    fn violation(&self, broken: String, holds: &[&Held]) -> Violation {
        let mut records: Vec<usize> = holds.iter().flat_map(|hold| hold.proof()).collect();
        records.sort_unstable();
        Violation::new(self.name, broken, records)
    }

    fn tokens_grow(&self, name: &str, resource: &Resource) -> Result<(), Violation> {
        let mut newest: Option<&Held> = None;
        let mut newest_alone: Option<&Held> = None;
        let mut by_token: BTreeMap<i64, &Held> = BTreeMap::new();
        for hold in &resource.holds {
            if let Some(twin) = by_token.insert(hold.token, hold)
                && !self.same_token.allows(twin, hold)
            {
                let broken = format!("two holds of {name} have the same token");
                return Err(self.violation(broken, &[twin, hold]));
            }
            let before = if is_alone(hold.mode) { newest } else { newest_alone };
            if let Some(before) =
                before.filter(|before| before.token > hold.token && !hold.may_be_stale)
            {
                let broken =
                    format!("the token of {name} has gone back from one holder to the next");
                return Err(self.violation(broken, &[before, hold]));
            }
            let newer =
                |newest: Option<&Held>| newest.is_none_or(|newest| hold.token >= newest.token);
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
        for used in resource.uses.iter().filter(|used| used.mode != HoldMode::Permit) {
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
        let conflict = |others: &[&'_ Held], hold: &Held| -> Vec<usize> {
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
        for (name, resource) in
            resources(history, self.name, self.modes, self.patience, self.turn_bits)?
        {
            self.tokens_grow(&name, &resource)?;
            self.uses_do_not_go_back(&name, &resource)?;
            self.beliefs_exclude(&name, &resource, limits.as_ref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
