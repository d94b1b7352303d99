//! Decides what a registration does next. Pure: no I/O, no clock.

use std::collections::BTreeSet;

use super::state::{OnConflict, OnDeleted};

/// A node at the path of the registration, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundNode {
    /// The transaction that created it.
    pub(super) czxid: i64,
    pub(super) version: i32,
    /// The session that it belongs to; zero if it is persistent.
    pub(super) owner: i64,
    /// `true` if it has the data that we write.
    pub(super) has_our_data: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RegistrationRules {
    /// `true` if the node ends with its session.
    pub(super) is_dynamic: bool,
    pub(super) on_conflict: OnConflict,
    pub(super) on_deleted: OnDeleted,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegistrationAction {
    /// Create the node.
    Create,
    /// Delete the node of another session at this version, and create ours, in one transaction.
    Replace(FoundNode),
    /// Wait until the node of another session is gone.
    Wait(FoundNode),
    /// The node is ours: wait for its end.
    Follow,
    /// Do nothing: the registration has ended.
    Stop,
}

/// The reason why a registration has ended without a request of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegistrationEnd {
    /// Another node has taken its place.
    Superseded,
    /// The node of another process exists, and must not be replaced.
    Refused,
    /// Another client has deleted the node.
    Deleted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RegistrationPhase {
    Absent,
    Conflict { with: FoundNode, replaces: bool },
    Held { czxid: i64, owner: i64 },
    Ended(RegistrationEnd),
}

/// The state of a registration.
#[derive(Debug, Clone)]
pub(super) struct RegistrationMachine {
    rules: RegistrationRules,
    phase: RegistrationPhase,
    /// The sessions in which we have tried to create the node.
    sessions: BTreeSet<i64>,
    /// The session of a transaction whose response was lost.
    doubt: Option<i64>,
    /// The transaction that created our last node.
    last: Option<i64>,
    /// `true` if the node of another process was replaced. This is done at most once.
    has_replaced: bool,
    /// The number of deletions by other clients in short succession.
    deletions: u32,
}

impl RegistrationMachine {
    pub(super) const fn new(rules: RegistrationRules) -> Self {
        Self {
            rules,
            phase: RegistrationPhase::Absent,
            sessions: BTreeSet::new(),
            doubt: None,
            last: None,
            has_replaced: false,
            deletions: 0,
        }
    }

    pub(super) const fn action(&self) -> RegistrationAction {
        match self.phase {
            RegistrationPhase::Absent => RegistrationAction::Create,
            RegistrationPhase::Conflict { with, replaces: true } => {
                RegistrationAction::Replace(with)
            }
            RegistrationPhase::Conflict { with, replaces: false } => RegistrationAction::Wait(with),
            RegistrationPhase::Held { .. } => RegistrationAction::Follow,
            RegistrationPhase::Ended(_) => RegistrationAction::Stop,
        }
    }

    pub(super) const fn end(&self) -> Option<RegistrationEnd> {
        match self.phase {
            RegistrationPhase::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// The transaction that created the node, and its session, if it is ours.
    pub(super) const fn held(&self) -> Option<(i64, i64)> {
        match self.phase {
            RegistrationPhase::Held { czxid, owner } => Some((czxid, owner)),
            _ => None,
        }
    }

    /// The number of deletions by other clients in short succession.
    pub(super) const fn deletions(&self) -> u32 {
        self.deletions
    }

    /// A create or a transaction is about to be sent in this session.
    pub(super) fn sending(&mut self, session: i64) {
        self.sessions.insert(session);
    }

    /// The response to a transaction was lost in this session.
    pub(super) fn lost(&mut self, session: i64) {
        if let RegistrationPhase::Conflict { with, replaces: true } = self.phase {
            self.has_replaced |= !self.sessions.contains(&with.owner);
        }
        self.doubt = Some(session);
    }

    /// The node was created.
    pub(super) fn created(&mut self, czxid: i64, owner: i64) {
        if self.rules.is_dynamic {
            self.sessions.insert(owner);
        }
        self.doubt = None;
        self.last = Some(czxid);
        self.phase = RegistrationPhase::Held { czxid, owner };
    }

    /// Decides after a read. Before it, a create was refused, or a transaction was not applied or
    /// had no response. `session` is the current one.
    pub(super) fn looked(&mut self, found: Option<FoundNode>, session: i64) {
        let Some(found) = found else {
            self.doubt = None;
            self.phase = RegistrationPhase::Absent;
            return;
        };
        if self.is_ours(&found, session) {
            return self.created(found.czxid, found.owner);
        }
        let was_replacing = match self.phase {
            RegistrationPhase::Conflict { with, replaces } => replaces && with.czxid == found.czxid,
            _ => false,
        };
        self.doubt = None;
        let is_of_before =
            self.rules.is_dynamic && found.owner != session && self.sessions.contains(&found.owner);
        if is_of_before {
            self.phase = RegistrationPhase::Conflict { with: found, replaces: true };
        } else if self.last.is_some() || (self.has_replaced && !was_replacing) {
            self.phase = RegistrationPhase::Ended(RegistrationEnd::Superseded);
        } else {
            self.phase = match self.rules.on_conflict {
                OnConflict::Replace => RegistrationPhase::Conflict { with: found, replaces: true },
                OnConflict::Wait => RegistrationPhase::Conflict { with: found, replaces: false },
                OnConflict::Fail => RegistrationPhase::Ended(RegistrationEnd::Refused),
            };
        }
    }

    /// Returns `true` if this registration has created the node, although no response has confirmed
    /// it.
    fn is_ours(&self, found: &FoundNode, session: i64) -> bool {
        let is_last = self.last == Some(found.czxid);
        if self.rules.is_dynamic {
            let is_in_doubt = self.doubt == Some(session) && found.has_our_data;
            found.owner == session && (is_last || is_in_doubt)
        } else {
            // Persistent nodes have no owner, so one with our data counts as ours.
            is_last || found.owner == 0 && found.has_our_data && self.last.is_none()
        }
    }

    /// The node of another process was replaced.
    pub(super) fn replaced(&mut self, with: &FoundNode, czxid: i64, owner: i64) {
        self.has_replaced |= !self.sessions.contains(&with.owner);
        self.created(czxid, owner);
    }

    /// Decides after a read of a node that is ours, in its session.
    pub(super) fn followed(&mut self, found: Option<FoundNode>) {
        let RegistrationPhase::Held { czxid, .. } = self.phase else { return };
        match found {
            Some(found) if found.czxid == czxid => {}
            Some(_) => self.phase = RegistrationPhase::Ended(RegistrationEnd::Superseded),
            None if self.rules.is_dynamic && self.rules.on_deleted == OnDeleted::Recreate => {
                self.deletions = self.deletions.saturating_add(1);
                self.phase = RegistrationPhase::Absent;
            }
            None => self.phase = RegistrationPhase::Ended(RegistrationEnd::Deleted),
        }
    }

    /// The node has existed long enough: its next deletion counts as the first.
    pub(super) const fn settled(&mut self) {
        self.deletions = 0;
    }

    /// The session of the node is over, or a later one has begun.
    pub(super) fn session_lost(&mut self) {
        if self.rules.is_dynamic && matches!(self.phase, RegistrationPhase::Held { .. }) {
            self.phase = RegistrationPhase::Absent;
        }
    }

    /// Returns `true` if the registration must delete this node when it ends. `unsettled` means
    /// that a create without a response may have been applied.
    pub(super) fn answers_for(&self, found: &FoundNode, session: i64, unsettled: bool) -> bool {
        if self.last == Some(found.czxid) {
            return true;
        }
        if !self.rules.is_dynamic {
            return (unsettled || self.doubt.is_some()) && found.owner == 0 && found.has_our_data;
        }
        let is_of_before = found.owner != session && self.sessions.contains(&found.owner);
        let is_in_doubt = found.owner == session && (unsettled || self.doubt == Some(session));
        is_of_before || is_in_doubt && found.has_our_data
    }

    /// Returns `true` if a node of this registration may exist that [`held`](Self::held) does not
    /// return.
    pub(super) fn may_have_left(&self) -> bool {
        !self.sessions.is_empty() || self.doubt.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OURS: i64 = 1;

    /// A node of a small server.
    #[derive(Debug, Clone, Copy)]
    struct Node {
        czxid: i64,
        owner: i64,
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// The machine performs its action, and gets the response.
        Act,
        /// The machine performs its action, and the response is lost.
        ActBlindly,
        /// Another client deletes the node.
        Delete,
        /// Another process replaces or creates the node.
        Foreign,
        /// Our session ends. If `is_left`, its node still exists.
        Expire { is_left: bool },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => Just(Step::Act),
            2 => Just(Step::ActBlindly),
            1 => Just(Step::Delete),
            1 => Just(Step::Foreign),
            1 => any::<bool>().prop_map(|is_left| Step::Expire { is_left }),
        ];
        prop::collection::vec(step, 0..60)
    }

    struct World {
        node: Option<Node>,
        session: i64,
        zxid: i64,
        /// Creates that were applied.
        created: u32,
        foreign: BTreeSet<i64>,
    }

    impl World {
        fn found(&self) -> Option<FoundNode> {
            let node = self.node?;
            let has_our_data = !self.foreign.contains(&node.czxid);
            Some(FoundNode { czxid: node.czxid, version: 0, owner: node.owner, has_our_data })
        }

        fn put(&mut self, owner: i64) -> i64 {
            self.zxid += 1;
            self.node = Some(Node { czxid: self.zxid, owner });
            self.zxid
        }

        /// Performs an action. If it is blind, the response is lost.
        fn act(&mut self, machine: &mut RegistrationMachine, is_blind: bool) {
            match machine.action() {
                RegistrationAction::Create => {
                    machine.sending(self.session);
                    if self.node.is_some() {
                        return machine.looked(self.found(), self.session);
                    }
                    self.created += 1;
                    let czxid = self.put(self.session);
                    if is_blind {
                        machine.lost(self.session);
                        machine.looked(self.found(), self.session);
                    } else {
                        machine.created(czxid, self.session);
                    }
                }
                RegistrationAction::Replace(with) => {
                    machine.sending(self.session);
                    if self.node.is_none_or(|node| node.czxid != with.czxid) {
                        return machine.looked(self.found(), self.session);
                    }
                    self.created += 1;
                    let czxid = self.put(self.session);
                    if is_blind {
                        machine.lost(self.session);
                        machine.looked(self.found(), self.session);
                    } else {
                        machine.replaced(&with, czxid, self.session);
                    }
                }
                RegistrationAction::Wait(_) => machine.looked(self.found(), self.session),
                RegistrationAction::Follow => {
                    if machine.held().is_some_and(|(_, owner)| owner != self.session) {
                        machine.session_lost();
                    } else {
                        machine.followed(self.found());
                    }
                }
                RegistrationAction::Stop => {}
            }
        }
    }

    fn machine(on_conflict: OnConflict) -> RegistrationMachine {
        let on_deleted = OnDeleted::Recreate;
        RegistrationMachine::new(RegistrationRules { is_dynamic: true, on_conflict, on_deleted })
    }

    proptest! {
        /// The number of creates is bounded. A foreign node is replaced at most once, and never
        /// after it has superseded us.
        #[test]
        fn writes_are_bounded_in_any_order(steps in steps()) {
            let mut machine = machine(OnConflict::Replace);
            let mut world = World {
                node: None, session: OURS, zxid: 0, created: 0, foreign: BTreeSet::new(),
            };
            let (mut deletions, mut expiries, mut replaced) = (0, 0, 0);
            for step in steps {
                let before = (world.node, machine.end(), world.created);
                match step {
                    Step::Act => world.act(&mut machine, false),
                    Step::ActBlindly => world.act(&mut machine, true),
                    Step::Delete => {
                        deletions += u32::from(world.node.is_some());
                        world.node = None;
                    }
                    Step::Foreign => {
                        let owner = -world.session;
                        let czxid = world.put(owner);
                        world.foreign.insert(czxid);
                    }
                    Step::Expire { is_left } => {
                        expiries += 1;
                        if !is_left && world.node.is_some_and(|node| node.owner == world.session) {
                            world.node = None;
                        }
                        world.session += 1;
                    }
                }
                if matches!(step, Step::Act | Step::ActBlindly) {
                    let was_foreign = before.0.is_some_and(|node| node.owner < 0);
                    let is_created = world.created > before.2;
                    replaced += u32::from(was_foreign && is_created);
                    prop_assert!(!(is_created && before.1.is_some()), "it acts after its end");
                }
            }
            prop_assert!(replaced <= 1, "{replaced} foreign nodes replaced");
            let most = 1 + expiries + deletions + replaced;
            prop_assert!(world.created <= most, "{} creates, {most} causes", world.created);
            // Without further disturbance it ends up with its node, or superseded.
            for _ in 0..6 {
                world.act(&mut machine, false);
            }
            let is_there = world.node.map(|node| (node.czxid, node.owner));
            match machine.end() {
                None => prop_assert_eq!(machine.held(), is_there),
                Some(RegistrationEnd::Superseded) => {
                    prop_assert!(is_there.is_none_or(|(_, owner)| owner < 0));
                }
                Some(end) => prop_assert!(false, "{end:?}"),
            }
        }
    }

    const fn foreign(czxid: i64) -> FoundNode {
        FoundNode { czxid, version: 0, owner: 99, has_our_data: false }
    }

    #[test]
    fn policies_differ_only_before_the_first_registration() {
        let cases = [
            (OnConflict::Replace, RegistrationAction::Replace(foreign(5))),
            (OnConflict::Wait, RegistrationAction::Wait(foreign(5))),
            (OnConflict::Fail, RegistrationAction::Stop),
        ];
        for (policy, action) in cases {
            let mut machine = machine(policy);
            machine.sending(OURS);
            machine.looked(Some(foreign(5)), OURS);
            assert_eq!(machine.action(), action);
        }
        for policy in [OnConflict::Replace, OnConflict::Wait, OnConflict::Fail] {
            let mut machine = machine(policy);
            machine.created(3, OURS);
            machine.session_lost();
            machine.looked(Some(foreign(5)), OURS + 1);
            assert_eq!(machine.end(), Some(RegistrationEnd::Superseded));
        }
    }

    #[test]
    fn node_of_an_earlier_session_of_ours_is_replaced() {
        let mut machine = machine(OnConflict::Fail);
        machine.created(3, OURS);
        machine.session_lost();
        let old = FoundNode { czxid: 3, version: 7, owner: OURS, has_our_data: true };
        // This includes the node of a create without a response.
        machine.sending(OURS + 1);
        for found in [old, FoundNode { czxid: 4, ..old }] {
            machine.looked(Some(found), OURS + 1);
            assert_eq!(machine.action(), RegistrationAction::Replace(found));
        }
    }

    #[test]
    fn static_nodes_are_not_created_again() {
        let rules = RegistrationRules {
            is_dynamic: false,
            on_conflict: OnConflict::Replace,
            on_deleted: OnDeleted::Recreate,
        };
        let mut machine = RegistrationMachine::new(rules);
        machine.created(3, 0);
        machine.session_lost();
        assert_eq!(machine.action(), RegistrationAction::Follow);
        machine.followed(None);
        assert_eq!(machine.end(), Some(RegistrationEnd::Deleted));
        // A node with our data counts as ours.
        let mut machine = RegistrationMachine::new(rules);
        machine
            .looked(Some(FoundNode { czxid: 4, version: 0, owner: 0, has_our_data: true }), OURS);
        assert_eq!(machine.held(), Some((4, 0)));
    }
}
