//! Operations that take effect in one write: pure.

use super::encoding::Encoding;

/// An operation of one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add(i64),
    Set(i64),
    CompareAndSet {
        expected: i64,
        new: i64,
    },
    /// Writes the value if there is no node.
    Initialize(i64),
    /// Subtracts one, unless the value is zero or less.
    CountDown,
}

/// The value before an operation, and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) pre: i64,
    pub(super) post: i64,
}

/// The outcome of one operation, if the batch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done(Change),
    /// Not as expected: the value.
    Differs(i64),
    /// There is a node.
    Exists,
    Overflow {
        value: i64,
        delta: i64,
    },
}

/// The result of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// The value to write; `None` if nothing is written.
    pub(super) write: Option<i64>,
    /// Of each operation, in order.
    pub(super) outcomes: Vec<Outcome>,
}

/// The rules of a counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) encoding: Encoding,
    pub(super) initial: i64,
    /// Whether an overflow wraps around.
    pub(super) wraps: bool,
}

impl Rules {
    /// Applies the operations one after the other. `present` is the value of the node: `None` if there is no node,
    /// `Some(None)` if it has no data.
    pub(super) fn fold(
        self,
        present: Option<Option<i64>>,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Folded {
        let mut exists = present.is_some();
        let mut value = present.flatten().unwrap_or(self.initial);
        let mut writes = false;
        let outcomes = operations.into_iter().map(|operation| {
            let pre = value;
            let post = match operation {
                Operation::Add(delta) => match self.sum(pre, delta) {
                    Some(post) => post,
                    None => return Outcome::Overflow { value: pre, delta },
                },
                Operation::Set(new) => new,
                Operation::CompareAndSet { expected, new } if expected == pre => new,
                Operation::CompareAndSet { .. } => return Outcome::Differs(pre),
                Operation::Initialize(_) if exists => return Outcome::Exists,
                Operation::Initialize(new) => new,
                Operation::CountDown if pre <= 0 => return Outcome::Done(Change { pre, post: pre }),
                Operation::CountDown => pre - 1,
            };
            (value, writes, exists) = (post, true, true);
            Outcome::Done(Change { pre, post })
        });
        let outcomes = outcomes.collect();
        Folded { write: writes.then_some(value), outcomes }
    }

    fn sum(self, value: i64, delta: i64) -> Option<i64> {
        let (least, greatest) = self.encoding.range();
        match value.checked_add(delta).filter(|sum| (least..=greatest).contains(sum)) {
            None if self.wraps && self.encoding == Encoding::I32Be => {
                // In the width of the encoding.
                #[expect(clippy::cast_possible_truncation, reason = "that is what wraps around")]
                let sum = i64::from((value as i32).wrapping_add(delta as i32));
                Some(sum)
            }
            None if self.wraps && self.encoding != Encoding::TextFloat => Some(value.wrapping_add(delta)),
            sum => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: Rules = Rules { encoding: Encoding::I64Be, initial: 0, wraps: false };

    fn done(pre: i64, post: i64) -> Outcome {
        Outcome::Done(Change { pre, post })
    }

    #[test]
    fn each_operation_sees_the_one_before() {
        use Operation::{Add, CompareAndSet, Initialize, Set};
        let operations =
            [Initialize(5), Initialize(6), Add(2), CompareAndSet { expected: 7, new: 1 }, Set(9), Add(-9)];
        let folded = RULES.fold(None, operations);
        assert_eq!(folded.write, Some(0));
        let outcomes = [done(0, 5), Outcome::Exists, done(5, 7), done(7, 1), done(1, 9), done(9, 0)];
        assert_eq!(folded.outcomes, outcomes);
    }

    #[test]
    fn a_count_ends_at_zero_and_writes_nothing_then() {
        let rules = Rules { initial: 2, ..RULES };
        let folded = rules.fold(None, [Operation::CountDown; 3]);
        assert_eq!(folded, Folded { write: Some(0), outcomes: vec![done(2, 1), done(1, 0), done(0, 0)] });
        assert_eq!(rules.fold(Some(Some(0)), [Operation::CountDown]).write, None);
    }

    #[test]
    fn a_node_without_data_has_the_initial_value() {
        let rules = Rules { initial: 100, ..RULES };
        let compare = Operation::CompareAndSet { expected: 100, new: 1 };
        for present in [None, Some(None), Some(Some(100))] {
            assert_eq!(rules.fold(present, [compare]).outcomes, [done(100, 1)], "{present:?}");
        }
        let refused = rules.fold(Some(Some(0)), [compare]);
        assert_eq!(refused, Folded { write: None, outcomes: vec![Outcome::Differs(0)] });
        assert_eq!(rules.fold(Some(None), [Operation::Initialize(3)]).outcomes, [Outcome::Exists]);
    }

    #[test]
    fn an_overflow_writes_nothing_and_does_not_stop_the_others() {
        let folded = RULES.fold(Some(Some(i64::MAX - 1)), [2, 1].map(Operation::Add));
        let overflow = Outcome::Overflow { value: i64::MAX - 1, delta: 2 };
        assert_eq!(folded.outcomes, [overflow, done(i64::MAX - 1, i64::MAX)]);
        let alone = RULES.fold(Some(Some(i64::MIN)), [Operation::Add(-1)]);
        assert_eq!(alone.write, None);
        let small = Rules { encoding: Encoding::I32Be, ..RULES };
        let greatest = i64::from(i32::MAX);
        assert_eq!(small.fold(Some(Some(greatest)), [Operation::Add(1)]).write, None);
        let wraps = Rules { wraps: true, ..small };
        assert_eq!(wraps.fold(Some(Some(greatest)), [Operation::Add(1)]).write, Some(i64::from(i32::MIN)));
        let wraps = Rules { wraps: true, ..RULES };
        assert_eq!(wraps.fold(Some(Some(i64::MAX)), [Operation::Add(1)]).write, Some(i64::MIN));
    }

    proptest! {
        #[test]
        fn a_batch_gives_disjoint_slices_in_call_order(first in -1000_i64..1000, deltas in prop::collection::vec(-50_i64..50, 1..20)) {
            let folded = RULES.fold(Some(Some(first)), deltas.iter().copied().map(Operation::Add));
            let mut value = first;
            for (outcome, delta) in folded.outcomes.iter().zip(&deltas) {
                prop_assert_eq!(*outcome, done(value, value + delta));
                value += delta;
            }
            prop_assert_eq!(folded.write, Some(value));
        }
    }
}
