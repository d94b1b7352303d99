//! The members of a round, and the order in which they leave it: pure functions of names.

use bytes::Bytes;
use zk_curator::path::SequenceSuffix;

use crate::order;

/// `DistributedDoubleBarrier.READY_NODE`.
pub(crate) const READY: &str = "ready";
/// The part of our names before the sequence number.
pub(crate) const MEMBER: &str = "member-";
/// The prefix of the data of our `ready` nodes.
const HEADING: &str = "members of the round:";

/// The step of a newcomer that finds no round begun.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryStep<'a> {
    /// Wait until the round begins.
    Wait,
    /// Begin the round, with these members.
    Begin(Vec<&'a str>),
    /// Go: the barrier was full before.
    Refused,
    /// Its own node is not there.
    Vanished,
}

/// Judges `me` among the children of the barrier, of which a round takes the first `size`.
///
/// Numbers grow, so a member that is among them stays among them. The last of them begins the
/// round: the member that completes the number lists the others after its own create, and is the
/// last. Java's members have no number, and are taken first; they begin rounds themselves.
pub(super) fn entry<'a>(children: &'a [String], me: &str, size: usize) -> EntryStep<'a> {
    let numbered = |name: &'a String| {
        let number = SequenceSuffix::after(name, MEMBER).map(|number| i64::from(number.get()));
        (number, name.as_str())
    };
    let mut members: Vec<_> = children.iter().filter(|name| *name != READY).map(numbered).collect();
    members.sort_unstable();
    let Some(place) = members.iter().position(|(_, name)| *name == me) else {
        return EntryStep::Vanished;
    };
    if place >= size {
        return EntryStep::Refused;
    }
    // If numbers repeat or turn negative, the last one may not know that it is the last: then every
    // member may begin the round.
    let numbers_tell = members.iter().all(|(number, _)| number.is_none_or(order::is_in_order));
    if members.len() < size || (numbers_tell && place + 1 < size) {
        return EntryStep::Wait;
    }
    EntryStep::Begin(members.into_iter().take(size).map(|(_, name)| name).collect())
}

/// The data of the node `ready`, which say who belongs to the round.
pub(super) fn encode(members: &[&str]) -> Bytes {
    let lines: Vec<&str> = [HEADING].into_iter().chain(members.iter().copied()).collect();
    lines.join("\n").into()
}

/// The members of the round, sorted by name; nothing if the node `ready` is Curator's.
pub(crate) fn decode(data: &[u8]) -> Option<Vec<String>> {
    let names = std::str::from_utf8(data).ok()?.strip_prefix(HEADING)?.strip_prefix('\n')?;
    let mut members: Vec<_> = names.split('\n').map(str::to_owned).collect();
    members.sort_unstable();
    Some(members)
}

/// The meaning of a node `ready` for a member whose node exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadyMeaning {
    /// It belongs to the round.
    Member,
    /// The round has begun without it, and is not over.
    Underway,
    /// The round is over: its last member has died before it could say so.
    Over,
    /// It does not list members: the round has begun before, and is not over if a member exists
    /// that is older than it.
    Unsaid,
}

/// A node `ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Began {
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// The members of the round, sorted by name, if it lists them.
    pub(crate) members: Option<Vec<String>>,
}

impl Began {
    /// Returns its meaning for the node `me`, which `czxid` created, if these are the children now.
    pub(crate) fn standing(&self, me: &str, czxid: i64, children: &[String]) -> ReadyMeaning {
        match &self.members {
            Some(members) if has(members, me) => ReadyMeaning::Member,
            Some(members) if children.iter().any(|name| has(members, name)) => {
                ReadyMeaning::Underway
            }
            Some(_) => ReadyMeaning::Over,
            // Curator counts every member that is present.
            None if czxid < self.czxid => ReadyMeaning::Member,
            None => ReadyMeaning::Unsaid,
        }
    }
}

/// Returns `true` if a sorted list has this name.
fn has(members: &[String], name: &str) -> bool {
    members.binary_search_by(|member| member.as_str().cmp(name)).is_ok()
}

/// The step of a member that leaves, as in ZooKeeper's recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving<'a> {
    /// No member is left: go.
    Over,
    /// It is the only member left: end the round, and go.
    Last,
    /// It is the lowest: stay, until the highest has gone.
    Stay {
        /// The highest.
        on: &'a str,
    },
    /// It is not the lowest: delete its node, and wait until the lowest has gone.
    Withdraw {
        /// The lowest.
        on: &'a str,
    },
    /// It has deleted its node, and waits until the lowest has gone.
    Wait {
        /// The lowest.
        on: &'a str,
    },
    /// Its node is gone, and it was not we who deleted it.
    Lost,
}

/// Judges a member that leaves: `left` are the present members, sorted by name, and `me` is its
/// node unless it has deleted it. The names are compared as Curator does, for lowest and highest
/// must be the same for all members.
pub(super) fn leaving<'a>(left: &'a [String], me: Option<&str>) -> Leaving<'a> {
    match (left, me) {
        ([], None) => Leaving::Over,
        ([lowest, ..], None) => Leaving::Wait { on: lowest },
        (left, Some(me)) if !has(left, me) => Leaving::Lost,
        ([], Some(_)) => Leaving::Lost,
        ([_], Some(_)) => Leaving::Last,
        ([lowest, .., highest], Some(me)) if lowest == me => Leaving::Stay { on: highest },
        ([lowest, ..], Some(_)) => Leaving::Withdraw { on: lowest },
    }
}

/// Returns `true` if all of these are ours: no Java is in this round.
pub(super) fn all_ours(members: &[String]) -> bool {
    members.iter().all(|name| SequenceSuffix::after(name, MEMBER).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(letter: char, sequence: i32) -> String {
        format!("_c_{letter}0000000-0000-0000-0000-000000000000-{MEMBER}{sequence:010}")
    }

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_first_are_in_and_the_last_of_them_begins() {
        let [a, b, c, d] = [name('z', 1), name('y', 2), name('x', 3), name('w', 4)];
        let two = vec![b.clone(), a.clone()];
        assert_eq!(entry(&two, &a, 3), EntryStep::Wait);
        let four = vec![d.clone(), b.clone(), READY.to_owned(), c.clone(), a.clone()];
        assert_eq!(entry(&four, &b, 3), EntryStep::Wait);
        assert_eq!(entry(&four, &c, 3), EntryStep::Begin(vec![&a, &b, &c]));
        assert_eq!(entry(&four, &d, 3), EntryStep::Refused);
        assert_eq!(entry(&two, &c, 3), EntryStep::Vanished);
    }

    #[test]
    fn javas_members_come_first() {
        let java = "5f9f2f6e-3f0e-4d39-9f0b-000000000000".to_owned();
        let [a, b] = [name('a', 1), name('b', 2)];
        let all = vec![b.clone(), java.clone(), a.clone()];
        assert_eq!(entry(&all, &b, 3), EntryStep::Begin(vec![&java, &a, &b]));
        assert_eq!(entry(&all, &b, 2), EntryStep::Refused);
    }

    /// Then the last member may have the lowest number.
    #[test]
    fn after_an_overflow_of_the_numbers_every_member_begins() {
        let [a, b] = [name('a', i32::MAX), name('b', i32::MIN)];
        let all = vec![a.clone(), b.clone()];
        assert_eq!(entry(&all, &a, 2), EntryStep::Begin(vec![&b, &a]));
        assert_eq!(entry(&all, &b, 2), EntryStep::Begin(vec![&b, &a]));
    }

    #[test]
    fn only_our_own_data_name_the_members_of_the_round() {
        assert_eq!(decode(&encode(&["b", "a"])), Some(names(&["a", "b"])));
        for foreign in [&b""[..], b"127.0.0.1", b"members of the round:", b"\xff\n"] {
            assert_eq!(decode(foreign), None);
        }
    }

    #[test]
    fn a_round_is_for_its_members_until_the_last_of_them_has_gone() {
        let began = Began { czxid: 10, members: Some(names(&["a", "b"])) };
        let standing = |me, children: &[&str]| began.standing(me, 20, &names(children));
        assert_eq!(standing("a", &[]), ReadyMeaning::Member);
        assert_eq!(standing("c", &["a", "c", READY]), ReadyMeaning::Underway);
        assert_eq!(standing("c", &["c", READY]), ReadyMeaning::Over);
        let curators = Began { czxid: 10, members: None };
        assert_eq!(curators.standing("a", 9, &[]), ReadyMeaning::Member);
        assert_eq!(curators.standing("a", 11, &[]), ReadyMeaning::Unsaid);
    }

    #[test]
    fn the_lowest_member_stays_and_the_others_wait_for_it() {
        let left = names(&["a", "b", "c"]);
        assert_eq!(leaving(&left, Some("a")), Leaving::Stay { on: "c" });
        assert_eq!(leaving(&left, Some("b")), Leaving::Withdraw { on: "a" });
        assert_eq!(leaving(&left, None), Leaving::Wait { on: "a" });
        assert_eq!(leaving(&left, Some("d")), Leaving::Lost);
        assert_eq!(leaving(&left[..1], Some("a")), Leaving::Last);
        assert_eq!(leaving(&[], None), Leaving::Over);
        assert_eq!(leaving(&[], Some("a")), Leaving::Lost);
    }

    /// A server that performs the steps of the members one after another, in any order. It tests
    /// only the rules, without a network.
    #[derive(Debug, Default)]
    struct Model {
        children: Vec<String>,
        ready: Option<Began>,
        zxid: i64,
        /// Of the last node.
        sequence: i32,
    }

    #[derive(Debug, Clone)]
    enum Member {
        Outside,
        /// With the children it has listed.
        Entering {
            me: String,
            czxid: i64,
            listed: Vec<String>,
        },
        Inside {
            me: String,
        },
        Leaving {
            me: Option<String>,
            round: Vec<String>,
            left: Vec<String>,
        },
    }

    impl Member {
        /// Returns `true` if it has a node of this round, and has not begun to leave.
        fn is_in(&self, round: &[String]) -> bool {
            matches!(self, Self::Entering { me, .. } | Self::Inside { me } if here(round, me))
        }
    }

    impl Model {
        /// Performs one step of a member. Returns the phase that it has passed, if any.
        #[expect(clippy::too_many_lines, reason = "a list")]
        fn step(&mut self, member: &mut Member, size: usize) -> Option<Passed> {
            self.zxid += 1;
            let Self { children, ready, zxid, sequence } = self;
            match member.clone() {
                Member::Outside => {
                    *sequence += 1;
                    // Lowest and highest by name have nothing to do with who came first.
                    let letter = char::from(b'a' + u8::try_from(*sequence * 7 % 26).unwrap());
                    let me = name(letter, *sequence);
                    children.push(me.clone());
                    *member = Member::Entering { me, czxid: *zxid, listed: children.clone() };
                    None
                }
                Member::Entering { me, czxid, listed } => match ready {
                    Some(began) => match began.standing(&me, czxid, children) {
                        ReadyMeaning::Member => {
                            *member = Member::Inside { me };
                            Some(Passed::Entered(began.members.clone().unwrap()))
                        }
                        ReadyMeaning::Over => {
                            *ready = None;
                            *member = Member::Entering { me, czxid, listed: children.clone() };
                            None
                        }
                        ReadyMeaning::Underway | ReadyMeaning::Unsaid => {
                            children.retain(|name| *name != me);
                            *member = Member::Outside;
                            Some(Passed::Refused)
                        }
                    },
                    None => {
                        match entry(&listed, &me, size) {
                            EntryStep::Begin(members)
                                if members.iter().all(|name| here(children, name)) =>
                            {
                                *ready = Some(Began {
                                    czxid: *zxid,
                                    members: decode(&encode(&members)),
                                });
                            }
                            EntryStep::Begin(_) => {
                                *member = Member::Entering { me, czxid, listed: children.clone() };
                            }
                            EntryStep::Wait => {}
                            EntryStep::Refused => {
                                children.retain(|name| *name != me);
                                *member = Member::Outside;
                                return Some(Passed::Refused);
                            }
                            EntryStep::Vanished => panic!("{me} is not among {listed:?}"),
                        }
                        None
                    }
                },
                Member::Inside { me } => {
                    let round = ready.clone().and_then(|began| began.members).unwrap();
                    *member = Member::Leaving { me: Some(me), left: round.clone(), round };
                    None
                }
                Member::Leaving { me, round, left } => {
                    let mut next = me.clone();
                    match leaving(&left, me.as_deref()) {
                        Leaving::Over => {
                            *member = Member::Outside;
                            return Some(Passed::Left);
                        }
                        Leaving::Last => {
                            assert!(ready.take().is_some(), "{me:?} finds no round to end");
                            children.retain(|name| Some(name) != me.as_ref());
                            *member = Member::Outside;
                            return Some(Passed::Left);
                        }
                        Leaving::Withdraw { .. } => {
                            children.retain(|name| Some(name) != me.as_ref());
                            next = None;
                        }
                        Leaving::Stay { .. } | Leaving::Wait { .. } => {}
                        Leaving::Lost => panic!("{me:?} is not among {left:?}"),
                    }
                    // The members that have gone; members that came in between do not matter.
                    let mut left = left;
                    left.retain(|name| here(children, name));
                    if left.is_empty() && ready.as_ref().is_some_and(|began| began.over(children)) {
                        *ready = None;
                    }
                    *member = Member::Leaving { me: next, round, left };
                    None
                }
            }
        }
    }

    impl Began {
        fn over(&self, children: &[String]) -> bool {
            self.standing("", self.czxid + 1, children) == ReadyMeaning::Over
        }
    }

    fn here(children: &[String], name: &str) -> bool {
        children.iter().any(|child| child == name)
    }

    #[derive(Debug)]
    enum Passed {
        Entered(Vec<String>),
        Left,
        Refused,
    }

    proptest! {
        /// Members step in any order, and one of them may die at any point and be replaced. No
        /// member leaves before all members of its round have begun to leave, none is refused
        /// wrongly, and all get through.
        #[test]
        fn any_order_of_steps_is_a_sequence_of_whole_rounds(
            size in 1_usize..6,
            order in prop::collection::vec(any::<prop::sample::Index>(), 200..600),
            deaths in prop::collection::vec(0_usize..600, 0..3),
        ) {
            let mut model = Model::default();
            let mut members = vec![Member::Outside; size];
            let mut passed = vec![0; size];
            let fair = (0..40 * size).map(|turn| turn % size);
            let chosen = order.iter().map(|index| index.index(size));
            for (turn, who) in chosen.chain(fair).enumerate() {
                if deaths.contains(&turn) {
                    let gone = match &members[who] {
                        Member::Outside | Member::Leaving { me: None, .. } => None,
                        Member::Entering { me, .. } | Member::Inside { me } => Some(me.clone()),
                        Member::Leaving { me, .. } => me.clone(),
                    };
                    model.children.retain(|name| Some(name) != gone.as_ref());
                    members[who] = Member::Outside;
                    continue;
                }
                let before = members[who].clone();
                match model.step(&mut members[who], size) {
                    Some(Passed::Entered(round)) => prop_assert_eq!(round.len(), size),
                    Some(Passed::Left) => {
                        passed[who] += 1;
                        let Member::Leaving { round, .. } = before else { panic!("{before:?} has left") };
                        let inside = members.iter().find(|member| member.is_in(&round));
                        prop_assert!(inside.is_none(), "turn {}: {:?} is inside", turn, inside);
                    }
                    // A member replaced another that died during its round.
                    Some(Passed::Refused) => prop_assert!(!deaths.is_empty(), "turn {}", turn),
                    None => {}
                }
            }
            prop_assert!(passed.iter().all(|rounds| *rounds > 0), "{:?} of {:?}\n{:?}", passed, members, model);
        }
    }
}
