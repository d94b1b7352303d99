//! Who holds and who waits for whom: pure functions of the names of the children.

use zk_curator::path::SequenceSuffix;

/// What a contender has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
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

/// Judges `me` among `children`, of which only those count that carry `tag` and a sequence number.
///
/// Numbers are compared by their distance from our own, so that the order survives the wrap-around of the
/// counter after 2^31 creates (ZOOKEEPER-4372, kazoo #606).
pub(super) fn verdict<'a>(children: &'a [String], tag: &str, me: &str, leases: usize) -> Verdict<'a> {
    let Some(own) = SequenceSuffix::after(me, tag) else {
        return Verdict::Vanished;
    };
    let mut present = false;
    // Those before us: the nearest last, by distance, then by name for numbers that are equal.
    let mut before: Vec<(i32, &str)> = Vec::new();
    for name in children {
        if name == me {
            present = true;
            continue;
        }
        if let Some(sequence) = SequenceSuffix::after(name, tag) {
            let distance = sequence.distance_from(own);
            if distance < 0 || (distance == 0 && name.as_str() < me) {
                before.push((distance, name));
            }
        }
    }
    if !present {
        return Verdict::Vanished;
    }
    if before.len() < leases {
        return Verdict::Granted;
    }
    // With n leases it is our turn once fewer than n are before us: wait for the n-th before us.
    let index = before.len() - leases;
    let (_, (_, on), _) = before.select_nth_unstable(index);
    Verdict::Wait { on, next: index == 0 }
}

/// The children that carry `tag`, in the order of the queue.
pub(super) fn sorted<'a>(children: &'a [String], tag: &str) -> Vec<&'a str> {
    let numbered = |name: &'a String| Some((SequenceSuffix::after(name, tag)?, name.as_str()));
    let mut queue: Vec<_> = children.iter().filter_map(numbered).collect();
    if let Some((reference, _)) = queue.first().copied() {
        queue.sort_unstable_by_key(|(sequence, name)| (sequence.distance_from(reference), *name));
    }
    queue.into_iter().map(|(_, name)| name).collect()
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
        match verdict(&children, "lock-", &name(me), leases) {
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
        assert_eq!(verdict(&children, "lock-", &name(5), 1), Verdict::Granted);
        assert_eq!(sorted(&children, "lock-"), [name(5)]);
    }

    #[test]
    fn a_missing_node_has_vanished() {
        assert_eq!(verdict(&[name(1)], "lock-", &name(2), 1), Verdict::Vanished);
        assert_eq!(verdict(&[], "lock-", &name(2), 1), Verdict::Vanished);
    }

    /// kazoo #606, ZOOKEEPER-4372: compared as strings, or as plain numbers, the newcomer overtakes.
    #[test]
    fn nobody_overtakes_when_the_counter_wraps_around() {
        let all = [i32::MIN, i32::MAX, i32::MAX - 1, i32::MIN + 1];
        assert_eq!(judge(&all, i32::MAX - 1, 1), None);
        assert_eq!(judge(&all, i32::MAX, 1), Some((i32::MAX - 1, true)));
        assert_eq!(judge(&all, i32::MIN, 1), Some((i32::MAX, false)));
        assert_eq!(judge(&all, i32::MIN + 1, 1), Some((i32::MIN, false)));
    }

    proptest! {
        /// From any counter, for any set of waiters and any number of leases: exactly the first hold, everybody
        /// else waits for the one `leases` places before, and `next` is said exactly to the first that waits.
        #[test]
        fn exactly_the_first_hold(
            start in any::<i32>(),
            gaps in prop::collection::vec(1_i32..1000, 1..40),
            leases in 1_usize..5,
            shuffle in any::<u64>(),
        ) {
            let mut sequence = start;
            let queue: Vec<i32> = gaps.iter().map(|gap| { sequence = sequence.wrapping_add(*gap); sequence }).collect();
            let mut shuffled = queue.clone();
            let mut state = shuffle;
            for index in (1..shuffled.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                shuffled.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
            }
            for (place, me) in queue.iter().enumerate() {
                let expected = place.checked_sub(leases).map(|on| (queue[on], on == 0));
                prop_assert_eq!(judge(&shuffled, *me, leases), expected);
            }
            let names: Vec<_> = shuffled.iter().map(|sequence| name(*sequence)).collect();
            let expected: Vec<_> = queue.iter().map(|sequence| name(*sequence)).collect();
            prop_assert_eq!(sorted(&names, "lock-"), expected);
        }
    }
}
