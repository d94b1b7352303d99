//! Decides what a member does with each part: pure.
//!
//! | phase of a part | input | effect |
//! |---|---|---|
//! | foreign | assigned to us | acquiring: `Acquire` |
//! | acquiring | granted, still ours | owned: `Start` |
//! | acquiring | assigned to another member | cancelling: `Cancel` |
//! | cancelling | granted, not ours | releasing: `Release` |
//! | owned | assigned to another member | draining: `Revoke` |
//! | draining | assigned to us again | `Reprieve`; owned if the body accepts |
//! | draining | deadline | stopping: `Stop` |
//! | owned, draining, stopping | the body has ended | releasing: `Release` |
//! | owned, draining, stopping | the guard was lost, and the body dropped | foreign, or acquiring if still ours |
//! | releasing | the guard had been lost | foreign, or acquiring if still ours |
//! | releasing | released | foreign, acquiring if ours, or resting if the body ended by itself |
//! | resting | the next assignment | foreign or acquiring |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::bounded;

use super::assign::{MembersByNode, PartOwners, bounded_rendezvous};
use super::kazoo::every_nth;
use super::record::{MemberRecord, Parts};

/// How parts are assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    BoundedRendezvous,
    /// As kazoo does.
    EveryNth,
}

impl Method {
    pub(super) fn assign<'a>(self, parts: &'a Parts, members: &'a MembersByNode) -> PartOwners<'a> {
        match self {
            Self::BoundedRendezvous => bounded_rendezvous(parts, members),
            Self::EveryNth => every_nth(parts, members),
        }
    }
}

/// The times of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionTimes {
    /// From a change until the next assignment, and between two assignments at least.
    pub(super) settle: Duration,
    /// For how long a member that has left still counts.
    pub(super) leave_delay: Duration,
    /// For how long a body may continue when its part is revoked.
    pub(super) drain: Duration,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartitionInput {
    /// The members that are there.
    Members(MembersByNode),
    Parts(Parts),
    /// The lock of a part was acquired.
    Granted(String),
    /// The acquire of a part was dropped.
    Cancelled(String),
    /// The body of a part has ended by itself, or was dropped. The lock is still held.
    Ended(String),
    /// The body of a part has ended after it had learned that it was revoked. It may not know that
    /// it was reprieved since. The lock is still held.
    Left(String),
    /// The lock of a part was lost, and its body dropped.
    Lost(String),
    /// The lock of a part was released.
    Released(String),
    /// The body of a part has accepted that it is not revoked any more.
    Reprieved(String),
    /// The member is to end. Bodies may continue until then; forever with `None`.
    Close(Option<Instant>),
    /// Time has passed.
    Timer,
}

/// A task for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartitionEffect {
    /// Acquire the lock: `Granted` or `Cancelled` follows.
    Acquire(String),
    /// Drop the acquire, if it is not done yet.
    Cancel(String),
    /// Run the body: `Ended` or `Lost` follows.
    Start(String),
    /// Tell the body that it must end.
    Revoke(String),
    /// Tell the body that it need not end, if it wants to know: then `Reprieved` follows.
    Reprieve(String),
    /// Drop the body.
    Stop(String),
    /// Release the lock: `Released` follows.
    Release(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartitionPhase {
    Acquiring,
    Cancelling,
    Owned,
    Draining {
        until: Option<Instant>,
    },
    Stopping,
    Releasing {
        /// `true` if the body has ended by itself.
        rests: bool,
    },
    /// The body has ended by itself, and runs again after the next assignment at the earliest.
    Resting,
}

/// A member that was seen.
#[derive(Debug)]
struct SeenMember {
    member: MemberRecord,
    /// When it was first missed.
    left: Option<Instant>,
    /// `true` if an assignment has counted it.
    counted: bool,
}

/// One member of a set.
#[derive(Debug)]
pub(super) struct PartitionMachine {
    /// The name of our node.
    me: String,
    method: Method,
    pace: PartitionTimes,
    members: BTreeMap<String, SeenMember>,
    parts: Parts,
    /// When the first change came that no assignment has counted, other than a leave.
    changed: Option<Instant>,
    /// When the last assignment was made.
    assigned: Option<Instant>,
    mine: BTreeSet<String>,
    phases: BTreeMap<String, PartitionPhase>,
    closing: bool,
    effects: Vec<PartitionEffect>,
}

impl PartitionMachine {
    pub(super) const fn new(me: String, method: Method, pace: PartitionTimes) -> Self {
        Self {
            me,
            method,
            pace,
            members: BTreeMap::new(),
            parts: Parts::new(),
            changed: None,
            assigned: None,
            mine: BTreeSet::new(),
            phases: BTreeMap::new(),
            closing: false,
            effects: Vec::new(),
        }
    }

    /// Takes an input, and returns the tasks for the driver, in this order.
    pub(super) fn step(&mut self, now: Instant, input: PartitionInput) -> Vec<PartitionEffect> {
        match input {
            PartitionInput::Members(members) => self.see_members(now, members),
            PartitionInput::Parts(parts) => {
                if parts != self.parts {
                    self.parts = parts;
                    self.changed.get_or_insert(now);
                }
            }
            PartitionInput::Granted(part) if self.mine.contains(&part) => {
                self.effects.push(PartitionEffect::Start(part.clone()));
                self.phases.insert(part, PartitionPhase::Owned);
            }
            PartitionInput::Granted(part) => self.release(part, false),
            PartitionInput::Cancelled(part) | PartitionInput::Lost(part) => self.free(part),
            PartitionInput::Ended(part) => {
                let rests = self.phases.get(&part) == Some(&PartitionPhase::Owned);
                self.release(part, rests);
            }
            PartitionInput::Left(part) => self.release(part, false),
            PartitionInput::Released(part) => match self.phases.get(&part) {
                Some(PartitionPhase::Releasing { rests: true }) if self.mine.contains(&part) => {
                    self.phases.insert(part, PartitionPhase::Resting);
                }
                _ => self.free(part),
            },
            PartitionInput::Reprieved(part) => {
                if matches!(self.phases.get(&part), Some(PartitionPhase::Draining { .. }))
                    && self.mine.contains(&part)
                {
                    self.phases.insert(part, PartitionPhase::Owned);
                }
            }
            PartitionInput::Close(until) => self.close(until),
            PartitionInput::Timer => {}
        }
        self.stop_overdue(now);
        if self.due().is_some_and(|due| due <= now) {
            self.assign(now);
        }
        std::mem::take(&mut self.effects)
    }

    /// Returns the time of the next `Timer`.
    pub(super) fn timer(&self) -> Option<Instant> {
        let deadlines = self.phases.values().filter_map(|phase| match phase {
            PartitionPhase::Draining { until } => *until,
            _ => None,
        });
        deadlines.chain(self.due()).min()
    }

    /// Returns `true` if the member is closed, and holds nothing any more.
    pub(super) fn is_over(&self) -> bool {
        self.closing && self.phases.is_empty()
    }

    /// Returns the time until which bodies may continue that are revoked now; `None` for ever.
    pub(super) fn drained_at(&self, now: Instant) -> Option<Instant> {
        now.checked_add(self.pace.drain)
    }

    /// Returns `true` if parts were assigned, and this member owns all of its parts.
    pub(super) fn is_settled(&self) -> bool {
        let is_owned = |part| matches!(self.phases.get(part), Some(PartitionPhase::Owned));
        self.assigned.is_some() && !self.closing && self.mine.iter().all(is_owned)
    }

    /// Returns the number of parts that are assigned to this member.
    pub(super) fn assigned(&self) -> usize {
        self.mine.len()
    }

    fn see_members(&mut self, now: Instant, members: MembersByNode) {
        for (name, seen) in &mut self.members {
            if !members.contains_key(name) {
                seen.left.get_or_insert(now);
            }
        }
        for (name, member) in members {
            match self.members.get_mut(&name) {
                Some(seen) => {
                    seen.left = None;
                    if seen.member == member {
                        continue;
                    }
                    seen.member = member;
                }
                None => {
                    self.members.insert(name, SeenMember { member, left: None, counted: false });
                }
            }
            self.changed.get_or_insert(now);
        }
    }

    /// Returns the time of the next assignment.
    fn due(&self) -> Option<Instant> {
        if self.closing {
            return None;
        }
        let after = |since: Instant, delay| since + bounded(delay);
        let changed = self.changed.map(|changed| after(changed, self.pace.settle));
        let leaves = self.members.values().filter(|seen| seen.counted);
        let left = leaves.filter_map(|seen| Some(after(seen.left?, self.pace.leave_delay)));
        let next = changed.into_iter().chain(left).min()?;
        Some(self.assigned.map_or(next, |last| next.max(after(last, self.pace.settle))))
    }

    fn assign(&mut self, now: Instant) {
        let delay = bounded(self.pace.leave_delay);
        self.members.retain(|_, seen| match seen.left {
            Some(left) => seen.counted && left + delay > now,
            None => true,
        });
        self.members.values_mut().for_each(|seen| seen.counted = true);
        (self.changed, self.assigned) = (None, Some(now));
        let members: MembersByNode =
            self.members.iter().map(|(name, seen)| (name.clone(), seen.member.clone())).collect();
        let owners = self.method.assign(&self.parts, &members);
        let mine = owners.into_iter().filter(|(_, owner)| *owner == self.me);
        self.mine = mine.map(|(part, _)| part.to_owned()).collect();
        self.reconcile(now);
    }

    /// Acts on the differences between the assigned parts and the present ones.
    fn reconcile(&mut self, now: Instant) {
        self.phases.retain(|_, phase| *phase != PartitionPhase::Resting);
        let until = now.checked_add(self.pace.drain);
        for (part, phase) in &mut self.phases {
            match (&phase, self.mine.contains(part)) {
                (PartitionPhase::Acquiring, false) => {
                    *phase = PartitionPhase::Cancelling;
                    self.effects.push(PartitionEffect::Cancel(part.clone()));
                }
                (PartitionPhase::Owned, false) => {
                    *phase = PartitionPhase::Draining { until };
                    self.effects.push(PartitionEffect::Revoke(part.clone()));
                }
                (PartitionPhase::Draining { .. }, true) => {
                    self.effects.push(PartitionEffect::Reprieve(part.clone()));
                }
                (PartitionPhase::Releasing { .. }, _) => {
                    *phase = PartitionPhase::Releasing { rests: false }
                }
                _ => {}
            }
        }
        for part in &self.mine {
            if !self.phases.contains_key(part) {
                self.phases.insert(part.clone(), PartitionPhase::Acquiring);
                self.effects.push(PartitionEffect::Acquire(part.clone()));
            }
        }
    }

    fn close(&mut self, end: Option<Instant>) {
        self.closing = true;
        self.mine.clear();
        self.phases.retain(|_, phase| *phase != PartitionPhase::Resting);
        for (part, phase) in &mut self.phases {
            match phase {
                PartitionPhase::Acquiring => {
                    *phase = PartitionPhase::Cancelling;
                    self.effects.push(PartitionEffect::Cancel(part.clone()));
                }
                PartitionPhase::Owned => {
                    *phase = PartitionPhase::Draining { until: end };
                    self.effects.push(PartitionEffect::Revoke(part.clone()));
                }
                PartitionPhase::Draining { until } => {
                    *until = [*until, end].into_iter().flatten().min();
                }
                _ => {}
            }
        }
    }

    fn stop_overdue(&mut self, now: Instant) {
        for (part, phase) in &mut self.phases {
            if matches!(phase, PartitionPhase::Draining { until: Some(until) } if *until <= now) {
                *phase = PartitionPhase::Stopping;
                self.effects.push(PartitionEffect::Stop(part.clone()));
            }
        }
    }

    fn release(&mut self, part: String, rests: bool) {
        self.effects.push(PartitionEffect::Release(part.clone()));
        self.phases.insert(part, PartitionPhase::Releasing { rests });
    }

    /// We have nothing of the part.
    fn free(&mut self, part: String) {
        if self.mine.contains(&part) {
            self.effects.push(PartitionEffect::Acquire(part.clone()));
            self.phases.insert(part, PartitionPhase::Acquiring);
        } else {
            self.phases.remove(&part);
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
