//! The holders and the order of the waiters: pure functions of the names of the children.

use std::borrow::Cow;

use zk_curator::path::SequenceSuffix;

/// The part of a name before the sequence number, which defines the kind of a node.
pub(crate) type NodeTag = Cow<'static, str>;

/// The rule that decides which contenders wait for which others.
#[derive(Debug, Clone)]
pub(crate) struct OrderRule {
    /// The tag of our nodes.
    pub(crate) tag: NodeTag,
    /// The nodes we wait for, if they came before us.
    pub(crate) waits_for: Vec<Blocker>,
    /// `true` if the last but one is watched as well.
    pub(crate) looks_ahead: bool,
    /// `true` if our own node is watched while we wait, to be known to exist when it is our turn.
    /// An operator may delete it, and others that come later have their turn then.
    pub(crate) watches_itself: bool,
    /// `true` if the parent is created as a persistent node, and not as a container.
    pub(crate) parent_stays: bool,
    /// `true` if a wait for a node of our own session is likely to be a mistake, and is logged.
    pub(crate) warns_of_itself: bool,
}

/// A kind of node that is waited for.
#[derive(Debug, Clone)]
pub(crate) struct Blocker {
    pub(crate) tag: NodeTag,
    /// `true` if its owner may put another node in its place before it goes.
    pub(crate) can_be_replaced: bool,
}

impl OrderRule {
    /// One at a time.
    pub(crate) fn exclusive(tag: impl Into<NodeTag>) -> Self {
        let tag = tag.into();
        let blocker = Blocker { tag: tag.clone(), can_be_replaced: false };
        Self {
            tag,
            waits_for: vec![blocker],
            looks_ahead: true,
            watches_itself: true,
            parent_stays: false,
            warns_of_itself: false,
        }
    }

    /// The number in a name that we wait for, and the kind of its node.
    fn blocker<'n>(&self, name: &'n str) -> Option<(SequenceSuffix, &Blocker, &'n str)> {
        self.waits_for
            .iter()
            .find_map(|blocker| Some((SequenceSuffix::after(name, &blocker.tag)?, blocker, name)))
    }
}

/// Returns `true` if `me` waits for the node with this name, according to the sequence numbers.
pub(crate) fn comes_before(rule: &OrderRule, name: &str, me: &str) -> bool {
    let number = |number: SequenceSuffix| {
        Some(i64::from(number.get())).filter(|number| is_in_order(*number))
    };
    let before = rule.blocker(name).and_then(|(suffix, ..)| number(suffix));
    let own = SequenceSuffix::after(me, &rule.tag).and_then(number);
    before.zip(own).is_some_and(|(before, own)| before < own)
}

/// A contender's name, and its place: lower came first. Either all places are sequence numbers, or
/// all are the transactions of the creates.
pub(crate) type Placed<'a> = (i64, &'a str);

/// The order of the contenders among the children.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ContenderOrder<'a> {
    /// By their sequence numbers.
    BySequence(Vec<Placed<'a>>),
    /// The numbers do not decide: the transactions that created these nodes must be read.
    ByCreation(Vec<&'a str>),
}

/// The next step of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnStep<'a> {
    /// Nothing that it waits for is before it.
    Granted,
    /// It has to wait until `on` is gone.
    Wait {
        /// The last contender before it that it waits for.
        on: &'a str,
        /// The last but one: when that is gone, it is time to look whether `on` is the only one.
        ahead: Option<&'a str>,
        /// `true` if it is granted as soon as `on` is gone, for there is nothing else before it.
        next: bool,
    },
    /// Its own node is not there.
    Vanished,
}

/// Finds `me` and the contenders that it may have to wait for. Other nodes are ignored.
///
/// Numbers are given in ascending order up to 2^31 - 2. Then a server repeats 2147483647, assigns
/// negative numbers, or does both alternately (ZOOKEEPER-4372, kazoo #606). From there on the
/// numbers do not show which node came first. Nor does a number that is our own.
pub(crate) fn contenders<'a>(
    children: &'a [String],
    rule: &OrderRule,
    me: &str,
) -> ContenderOrder<'a> {
    let mut placed = Vec::new();
    let mut own = None;
    for name in children.iter().map(String::as_str) {
        let number = if name == me {
            SequenceSuffix::after(name, &rule.tag)
        } else {
            rule.blocker(name).map(|(number, ..)| number)
        };
        let Some(number) = number else { continue };
        let number = i64::from(number.get());
        if name == me {
            own = Some(number);
        }
        placed.push((number, name));
    }
    let given_in_order = placed.iter().all(|(number, _)| is_in_order(*number));
    let like_ours = placed.iter().filter(|(number, _)| Some(*number) == own).count();
    if given_in_order && like_ours <= 1 {
        ContenderOrder::BySequence(placed)
    } else {
        ContenderOrder::ByCreation(placed.into_iter().map(|(_, name)| name).collect())
    }
}

/// Returns `true` if the numbers show the order of arrival, that is, if the server has not run out
/// of them.
pub(crate) fn is_in_order(number: i64) -> bool {
    (0..i64::from(i32::MAX)).contains(&number)
}

/// Returns `true` if these sorted numbers show the order of all nodes: each occurs once, and the
/// server has not run out of numbers.
pub(crate) fn numbers_tell(mut sorted: impl Iterator<Item = i64>) -> bool {
    let mut last = None;
    sorted.all(|number| is_in_order(number) && last.replace(number) != Some(number))
}

/// Judges `me` among the contenders, which need not be sorted.
pub(crate) fn verdict<'a>(contenders: &[Placed<'a>], rule: &OrderRule, me: &str) -> TurnStep<'a> {
    let Some(own) = contenders.iter().find(|(_, name)| *name == me) else {
        return TurnStep::Vanished;
    };
    let (mut on, mut ahead) = (None, None);
    // Two nodes of one transaction have the same position: then the names decide, for all clients
    // alike.
    for contender in contenders.iter().filter(|contender| *contender < own).copied().map(Some) {
        if on < contender {
            (on, ahead) = (contender, on);
        } else if ahead < contender {
            ahead = contender;
        }
    }
    let Some((_, on)) = on else {
        return TurnStep::Granted;
    };
    let replaced = rule.blocker(on).is_some_and(|(_, blocker, _)| blocker.can_be_replaced);
    // When a node that may be replaced is gone, the queue must always be read again.
    let next = ahead.is_none() && !replaced;
    let ahead = ahead.map(|(_, name)| name).filter(|_| rule.looks_ahead && !replaced);
    TurnStep::Wait { on, ahead, next }
}

/// A contender in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderStanding<'a> {
    pub(crate) name: &'a str,
    pub(crate) sequence: i32,
    /// The index of its rule.
    pub(crate) rule: usize,
    pub(crate) verdict: TurnStep<'a>,
}

/// Judges all contenders among these nodes, in their order. Other nodes are ignored. Each tag that
/// a rule waits for is the tag of one of the rules.
///
/// The `czxid` of the nodes decide where the numbers do not, see [`contenders`]. A node whose
/// `czxid` is unknown comes last then.
pub(crate) fn line<'a>(
    nodes: impl IntoIterator<Item = (&'a str, Option<i64>)>,
    rules: &[OrderRule],
) -> Vec<OrderStanding<'a>> {
    let member = |(name, czxid): (&'a str, Option<i64>)| {
        let tagged = |(index, rule): (usize, &OrderRule)| {
            SequenceSuffix::after(name, &rule.tag).map(|number| (index, number.get()))
        };
        let (rule, number) = rules.iter().enumerate().find_map(tagged)?;
        Some((number, czxid.unwrap_or(i64::MAX), name, rule))
    };
    let mut members: Vec<_> = nodes.into_iter().filter_map(member).collect();
    if members.iter().all(|(number, ..)| is_in_order(i64::from(*number))) {
        members.sort_unstable();
    } else {
        members.sort_unstable_by_key(|(_, czxid, name, _)| (*czxid, *name));
    }
    // The last two nodes of each kind are all that a verdict depends on.
    let mut last: Vec<[Option<Placed<'a>>; 2]> = vec![[None; 2]; rules.len()];
    let mut standings = Vec::with_capacity(members.len());
    for (place, (sequence, _, name, kind)) in (0..).zip(members) {
        let rule = &rules[kind];
        let waits_for =
            |other: &OrderRule| rule.waits_for.iter().any(|blocker| blocker.tag == other.tag);
        let before = rules.iter().zip(&last).filter(|(other, _)| waits_for(other));
        let mut near: Vec<Placed<'a>> =
            before.flat_map(|(_, last)| last.iter().copied().flatten()).collect();
        near.push((place, name));
        let verdict = verdict(&near, rule, name);
        standings.push(OrderStanding { name, sequence, rule: kind, verdict });
        last[kind] = [last[kind][1], Some((place, name))];
    }
    standings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(tag: &str, sequence: i32) -> String {
        format!("_c_00000000-0000-0000-0000-000000000000-{tag}{sequence:010}")
    }

    fn write() -> OrderRule {
        let blocker =
            |tag: &'static str, can_be_replaced| Blocker { tag: tag.into(), can_be_replaced };
        OrderRule {
            waits_for: vec![blocker("w-", true), blocker("r-", false)],
            ..OrderRule::exclusive("w-")
        }
    }

    fn read() -> OrderRule {
        OrderRule { tag: "r-".into(), ..OrderRule::exclusive("w-") }
    }

    /// Returns the node that `me` waits for, the one before that, and whether `me` is next; nothing
    /// if it is granted.
    fn judge(
        rule: &OrderRule,
        children: &[String],
        me: &str,
    ) -> Option<(String, Option<String>, bool)> {
        let ContenderOrder::BySequence(placed) = contenders(children, rule, me) else {
            panic!("by creation")
        };
        match verdict(&placed, rule, me) {
            TurnStep::Granted => None,
            TurnStep::Wait { on, ahead, next } => {
                Some((on.to_owned(), ahead.map(str::to_owned), next))
            }
            TurnStep::Vanished => panic!("vanished"),
        }
    }

    #[test]
    fn the_lowest_holds_and_the_others_wait_for_their_predecessor() {
        let all = [30, 10, 20].map(|number| name("lock-", number));
        let rule = OrderRule::exclusive("lock-");
        let [third, first, second] = &all;
        assert_eq!(judge(&rule, &all, first), None);
        assert_eq!(judge(&rule, &all, second), Some((first.clone(), None, true)));
        assert_eq!(judge(&rule, &all, third), Some((second.clone(), Some(first.clone()), false)));
    }

    #[test]
    fn readers_wait_for_the_nearest_writer_before_them_only() {
        let all = [("r-", 1), ("w-", 2), ("w-", 3), ("r-", 4), ("r-", 5), ("w-", 6)]
            .map(|(tag, number)| name(tag, number));
        let [first, writer, nearest, _, reader, _] = &all;
        assert_eq!(judge(&read(), &all, first), None);
        assert_eq!(
            judge(&read(), &all, reader),
            Some((nearest.clone(), Some(writer.clone()), false))
        );
        assert_eq!(judge(&read(), &all[2..], reader), Some((nearest.clone(), None, true)));
    }

    /// A writer may turn into a reader, with its own number: its waiters have to read the list
    /// again.
    #[test]
    fn a_writer_behind_a_writer_is_never_next() {
        let all =
            [("w-", 2), ("w-", 3), ("r-", 4), ("w-", 5)].map(|(tag, number)| name(tag, number));
        let [first, writer, reader, last] = &all;
        assert_eq!(judge(&write(), &all, writer), Some((first.clone(), None, false)));
        assert_eq!(
            judge(&write(), &all, last),
            Some((reader.clone(), Some(writer.clone()), false))
        );
        assert_eq!(judge(&write(), &all[2..], last), Some((reader.clone(), None, true)));
    }

    /// CURATOR-621: the read node of a downgrade has the number of the write node.
    #[test]
    fn a_downgraded_writer_is_before_the_next_one() {
        let all = [("w-", 2), ("r-", 2), ("w-", 3)].map(|(tag, number)| name(tag, number));
        let Some((_, _, next)) = judge(&write(), &all, &all[2]) else { panic!("granted") };
        assert!(!next);
        assert!(judge(&write(), &all[1..], &all[2]).is_some());
    }

    #[test]
    fn foreign_children_do_not_count() {
        let children: Vec<String> = [
            "config",
            "lock-",
            "lock-17",
            "lock-x000000001",
            "_c_x-latch-0000000001",
            &name("lock-", 5),
        ]
        .map(str::to_owned)
        .to_vec();
        let (rule, me) = (OrderRule::exclusive("lock-"), name("lock-", 5));
        assert_eq!(contenders(&children, &rule, &me), ContenderOrder::BySequence(vec![(5, &me)]));
    }

    #[test]
    fn a_missing_node_has_vanished() {
        let rule = OrderRule::exclusive("lock-");
        assert_eq!(verdict(&[(1, "a")], &rule, "b"), TurnStep::Vanished);
        assert_eq!(verdict(&[], &rule, "b"), TurnStep::Vanished);
    }

    /// kazoo #606, ZOOKEEPER-4372: compared as strings, or as plain numbers, the newcomer
    /// overtakes.
    #[test]
    fn numbers_that_do_not_tell_are_not_asked() {
        let rule = OrderRule::exclusive("lock-");
        for sequences in [&[i32::MAX, 5][..], &[i32::MIN, i32::MAX], &[-1]] {
            let children: Vec<_> =
                sequences.iter().map(|sequence| name("lock-", *sequence)).collect();
            let ContenderOrder::ByCreation(names) = contenders(&children, &rule, &children[0])
            else {
                panic!("{sequences:?}")
            };
            assert_eq!(names.len(), sequences.len());
        }
        let twins = [name("lock-", 7), name("a-lock-", 7), name("lock-", 8)];
        assert!(matches!(contenders(&twins, &rule, &twins[0]), ContenderOrder::ByCreation(_)));
        assert!(matches!(contenders(&twins, &rule, &twins[2]), ContenderOrder::BySequence(_)));
    }

    #[test]
    fn nodes_of_one_transaction_do_not_both_hold() {
        let rule = OrderRule::exclusive("lock-");
        let (one, two) = (name("a-lock-", -5), name("b-lock-", -5));
        let placed = [(9, one.as_str()), (9, two.as_str())];
        assert_eq!(verdict(&placed, &rule, &one), TurnStep::Granted);
        assert!(matches!(verdict(&placed, &rule, &two), TurnStep::Wait { next: true, .. }));
    }

    proptest! {
        /// For any queue of readers and writers in any order of listing: a contender holds the lock
        /// if and only if no earlier contender excludes it. Otherwise it waits for the last one
        /// that does, and is next if that is the only one.
        #[test]
        fn exactly_those_hold_that_may(
            queue in prop::collection::btree_map(0..i32::MAX, any::<bool>(), 1..40),
            shuffle in any::<u64>(),
        ) {
            let queue: Vec<(bool, String)> = queue
                .into_iter()
                .map(|(number, writes)| (writes, name(if writes { "w-" } else { "r-" }, number)))
                .collect();
            let mut children: Vec<_> = queue.iter().map(|(_, name)| name.clone()).collect();
            let mut state = shuffle;
            for index in (1..children.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                children.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
            }
            for (place, (writes, me)) in queue.iter().enumerate() {
                let rule = if *writes { write() } else { read() };
                let before: Vec<_> =
                    queue[..place].iter().filter(|(writer, _)| *writes || *writer).collect();
                let judged = judge(&rule, &children, me);
                prop_assert_eq!(judged.as_ref().map(|(on, ..)| on), before.last().map(|(_, name)| name));
                if let Some((_, ahead, next)) = judged {
                    let replaced = *writes && before.last().is_some_and(|(writer, _)| *writer);
                    prop_assert_eq!(next, before.len() == 1 && !replaced);
                    prop_assert_eq!(ahead.is_some(), before.len() > 1 && !replaced);
                }
            }
        }

        /// The line of all contenders agrees with the verdict that each of them reaches by itself.
        #[test]
        fn the_line_agrees_with_each_contender(
            queue in prop::collection::btree_map(0..i32::MAX, 0..3usize, 1..40),
            wrapped in any::<bool>(),
        ) {
            let rules = [write(), read(), OrderRule::exclusive("x-")];
            let tags = ["w-", "r-", "x-"];
            let mut children: Vec<_> =
                queue.into_iter().map(|(number, kind)| name(tags[kind], number)).collect();
            if wrapped {
                children.push(name("w-", -1));
            }
            let created = |name: &str| children.iter().position(|child| child == name).unwrap();
            let place = |name: &str| i64::try_from(created(name)).unwrap();
            let nodes = children.iter().map(|name| (name.as_str(), Some(place(name))));
            let line = line(nodes, &rules);
            prop_assert_eq!(line.len(), children.len());
            for standing in line {
                let (rule, me) = (&rules[standing.rule], standing.name);
                let placed = match contenders(&children, rule, me) {
                    ContenderOrder::BySequence(placed) => placed,
                    ContenderOrder::ByCreation(names) => {
                        names.into_iter().map(|name| (place(name), name)).collect()
                    }
                };
                prop_assert_eq!(standing.verdict, verdict(&placed, rule, me));
            }
        }
    }
}
