//! Who holds and who waits for whom: pure functions of the names of the children.

use zk_curator::path::SequenceSuffix;

/// A contender's name, and its place: lower came first. Either all places are sequence numbers, or all are the
/// transactions of the creates.
pub(crate) type Placed<'a> = (i64, &'a str);

/// How the contenders among the children are to be ordered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order<'a> {
    /// By their sequence numbers.
    BySequence(Vec<Placed<'a>>),
    /// The numbers do not tell: the transactions that created these nodes have to be looked up.
    ByCreation(Vec<&'a str>),
}

/// What a contender has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// It is among the first `leases`.
    Granted,
    /// It has to wait until `on` is gone.
    Wait {
        on: &'a str,
        /// Whether it is granted as soon as `on` is gone, for there is nothing else before it.
        next: bool,
    },
    /// Its own node is not there.
    Vanished,
}

/// Finds the contenders: the children that carry `tag` and a sequence number. Others are ignored.
///
/// Numbers are given in ascending order up to 2^31 - 2. Then a server repeats 2147483647, or gives negative
/// numbers, or both by turns (ZOOKEEPER-4372, kazoo #606): from there on they do not tell who came first. Nor do
/// numbers that are equal.
pub(crate) fn contenders<'a>(children: &'a [String], tag: &str) -> Order<'a> {
    let numbered =
        |name: &'a String| Some((i64::from(SequenceSuffix::after(name, tag)?.get()), name.as_str()));
    let mut placed: Vec<Placed<'a>> = children.iter().filter_map(numbered).collect();
    placed.sort_unstable();
    let ascending = placed.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let given_in_order = |(number, _): &Placed<'_>| (0..i64::from(i32::MAX)).contains(number);
    if ascending && placed.iter().all(given_in_order) {
        Order::BySequence(placed)
    } else {
        Order::ByCreation(placed.into_iter().map(|(_, name)| name).collect())
    }
}

/// Judges `me` among the contenders, which need not be sorted.
pub(crate) fn verdict<'a>(contenders: &[Placed<'a>], me: &str, leases: usize) -> Verdict<'a> {
    let Some((own, _)) = contenders.iter().find(|(_, name)| *name == me) else {
        return Verdict::Vanished;
    };
    let mut before: Vec<Placed<'a>> = contenders.iter().filter(|(place, _)| place < own).copied().collect();
    let Some(index) = before.len().checked_sub(leases) else {
        return Verdict::Granted;
    };
    // With n leases it is our turn once fewer than n are before us: wait for the n-th before us.
    let (_, (_, on), _) = before.select_nth_unstable(index);
    Verdict::Wait { on, next: index == 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(sequence: i32) -> String {
        format!("_c_00000000-0000-0000-0000-000000000000-lock-{sequence:010}")
    }

    fn judge(sequences: &[i32], me: i32, leases: usize) -> Option<(i32, bool)> {
        let children: Vec<_> = sequences.iter().map(|sequence| name(*sequence)).collect();
        let Order::BySequence(placed) = contenders(&children, "lock-") else { panic!("by creation") };
        match verdict(&placed, &name(me), leases) {
            Verdict::Granted => None,
            Verdict::Wait { on, next } => Some((SequenceSuffix::after(on, "lock-").unwrap().get(), next)),
            Verdict::Vanished => panic!("vanished"),
        }
    }

    #[test]
    fn the_lowest_holds_and_the_others_wait_for_their_predecessor() {
        let all = [30, 10, 20];
        assert_eq!(judge(&all, 10, 1), None);
        assert_eq!(judge(&all, 20, 1), Some((10, true)));
        assert_eq!(judge(&all, 30, 1), Some((20, false)));
        assert_eq!(judge(&all, 20, 2), None);
        assert_eq!(judge(&all, 30, 2), Some((10, true)));
    }

    #[test]
    fn foreign_children_do_not_count() {
        let children: Vec<String> =
            ["config", "lock-", "lock-17", "lock-x000000001", "_c_x-latch-0000000001", &name(5)]
                .map(str::to_owned)
                .to_vec();
        assert_eq!(contenders(&children, "lock-"), Order::BySequence(vec![(5, &name(5))]));
    }

    #[test]
    fn a_missing_node_has_vanished() {
        assert_eq!(verdict(&[(1, "a")], "b", 1), Verdict::Vanished);
        assert_eq!(verdict(&[], "b", 1), Verdict::Vanished);
    }

    /// kazoo #606, ZOOKEEPER-4372: compared as strings, or as plain numbers, the newcomer overtakes.
    #[test]
    fn numbers_that_do_not_tell_are_not_asked() {
        for sequences in [&[i32::MAX, 5][..], &[i32::MIN, i32::MAX], &[-1], &[7, 8, 7]] {
            let children: Vec<_> = sequences.iter().map(|sequence| name(*sequence)).collect();
            let Order::ByCreation(names) = contenders(&children, "lock-") else { panic!("{sequences:?}") };
            assert_eq!(names.len(), sequences.len());
        }
    }

    proptest! {
        /// For any set of waiters and any number of leases: exactly the first hold, everybody else waits for the
        /// one `leases` places before, and `next` is said exactly to the first that waits.
        #[test]
        fn exactly_the_first_hold(
            queue in prop::collection::btree_set(0..i32::MAX, 1..40),
            leases in 1_usize..5,
            seed in any::<u64>(),
        ) {
            let queue: Vec<i32> = queue.into_iter().collect();
            let mut shuffled = queue.clone();
            let mut state = seed;
            for index in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
            }
            for (place, me) in queue.iter().enumerate() {
                let expected = place.checked_sub(leases).map(|on| (queue[on], on == 0));
                prop_assert_eq!(judge(&shuffled, *me, leases), expected);
            }
        }
    }
}
