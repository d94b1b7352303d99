//! Operations that take effect in one write: pure.

use bytes::Bytes;

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
pub(super) struct CounterChange {
    pub(super) pre: i64,
    pub(super) post: i64,
}

impl CounterChange {
    /// Returns `true` if both values are numbers of a counter with these rules.
    pub(super) fn is_within(self, rules: BatchRules) -> bool {
        rules.contain(self.pre) && rules.contain(self.post)
    }
}

/// The state of the node of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PresentValue {
    Absent,
    /// No data.
    Empty,
    Number(i64),
    /// Data that are not a number of this counter.
    Foreign,
}

/// The outcome of one operation, if the batch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationOutcome {
    Done(CounterChange),
    /// Set, whatever there was: the number before, if it was one.
    Set(Option<i64>),
    /// The value, which is not the expected one.
    Differs(i64),
    /// There is a node.
    Exists,
    /// There is no node, and the operation must not create it.
    Missing,
    /// The data are not a number.
    Foreign,
    Overflow {
        value: i64,
        delta: i64,
    },
}

impl OperationOutcome {
    /// Returns `true` if the operation contributes to the write of the batch.
    pub(super) const fn is_written(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Set(_))
    }
}

/// The result of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folded {
    /// The value to write; `None` if nothing is written.
    pub(super) write: Option<i64>,
    /// Of each operation, in order.
    pub(super) outcomes: Vec<OperationOutcome>,
}

/// The meaning of a counter without a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMissing {
    /// It has its initial value, and the first write creates the node.
    #[default]
    Initial,
    /// Reads and writes fail with [`Error::Missing`](super::Error::Missing), except
    /// [`initialize`](super::Counter::initialize): for counters that must not begin again if
    /// another client deletes the node.
    Fail,
}

/// The rules of a counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchRules {
    pub(super) encoding: Encoding,
    /// The least and the greatest number: of the encoding and of the type, whichever is narrower.
    pub(super) range: (i64, i64),
    pub(super) initial: i64,
    /// `true` if an overflow wraps around.
    pub(super) wraps: bool,
    pub(super) missing: OnMissing,
}

impl BatchRules {
    /// Returns `true` if it is a number of this counter.
    pub(super) fn contain(self, value: i64) -> bool {
        (self.range.0..=self.range.1).contains(&value)
    }

    /// Decodes the value that a read returns, and the value that a write may use. With Curator's
    /// encoding other bytes may follow the number, which a write would cut off.
    pub(super) fn present(self, data: Option<&Bytes>) -> PresentValue {
        match data {
            None => PresentValue::Absent,
            Some(data) if data.is_empty() => PresentValue::Empty,
            Some(data) if self.encoding.is_longer(data) => PresentValue::Foreign,
            Some(data) => match self.encoding.decode(data).filter(|value| self.contain(*value)) {
                Some(value) => PresentValue::Number(value),
                None => PresentValue::Foreign,
            },
        }
    }

    /// Applies the operations one after the other.
    pub(super) fn fold(
        self,
        present: PresentValue,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Folded {
        let mut exists = present != PresentValue::Absent;
        let mut value = match present {
            PresentValue::Absent | PresentValue::Empty => Some(self.initial),
            PresentValue::Number(value) => Some(value),
            PresentValue::Foreign => None,
        };
        let mut writes = false;
        let outcomes = operations.into_iter().map(|operation| {
            let (pre, post) = match (operation, value) {
                (Operation::Initialize(_), _) if exists => return OperationOutcome::Exists,
                (Operation::Initialize(new), _) => (value.unwrap_or(self.initial), new),
                _ if !exists && self.missing == OnMissing::Fail => {
                    return OperationOutcome::Missing;
                }
                (Operation::Set(new), pre) => {
                    (value, writes, exists) = (Some(new), true, true);
                    return OperationOutcome::Set(pre);
                }
                (_, None) => return OperationOutcome::Foreign,
                (Operation::Add(delta), Some(pre)) => match self.sum(pre, delta) {
                    Some(post) => (pre, post),
                    None => return OperationOutcome::Overflow { value: pre, delta },
                },
                (Operation::CompareAndSet { expected, new }, Some(pre)) if expected == pre => {
                    (pre, new)
                }
                (Operation::CompareAndSet { .. }, Some(pre)) => {
                    return OperationOutcome::Differs(pre);
                }
                (Operation::CountDown, Some(pre)) if pre <= 0 => {
                    return OperationOutcome::Done(CounterChange { pre, post: pre });
                }
                (Operation::CountDown, Some(pre)) => (pre, pre - 1),
            };
            (value, writes, exists) = (Some(post), true, true);
            OperationOutcome::Done(CounterChange { pre, post })
        });
        let outcomes = outcomes.collect();
        Folded { write: value.filter(|_| writes), outcomes }
    }

    fn sum(self, value: i64, delta: i64) -> Option<i64> {
        const SMALL: (i64, i64) = (i32::MIN as i64, i32::MAX as i64);
        match value.checked_add(delta).filter(|sum| self.contain(*sum)) {
            None if self.wraps && self.range == SMALL => {
                #[expect(clippy::cast_possible_truncation, reason = "that is what wraps around")]
                let sum = i64::from((value as i32).wrapping_add(delta as i32));
                Some(sum)
            }
            None if self.wraps && self.range == (i64::MIN, i64::MAX) => {
                Some(value.wrapping_add(delta))
            }
            sum => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: BatchRules = BatchRules {
        encoding: Encoding::I64Be,
        range: (i64::MIN, i64::MAX),
        initial: 0,
        wraps: false,
        missing: OnMissing::Initial,
    };

    fn done(pre: i64, post: i64) -> OperationOutcome {
        OperationOutcome::Done(CounterChange { pre, post })
    }

    #[test]
    fn each_operation_sees_the_one_before() {
        use Operation::{Add, CompareAndSet, Initialize, Set};
        let operations = [
            Initialize(5),
            Initialize(6),
            Add(2),
            CompareAndSet { expected: 7, new: 1 },
            Set(9),
            Add(-9),
        ];
        let folded = RULES.fold(PresentValue::Absent, operations);
        assert_eq!(folded.write, Some(0));
        let outcomes = [
            done(0, 5),
            OperationOutcome::Exists,
            done(5, 7),
            done(7, 1),
            OperationOutcome::Set(Some(1)),
            done(9, 0),
        ];
        assert_eq!(folded.outcomes, outcomes);
    }

    #[test]
    fn a_count_ends_at_zero_and_writes_nothing_then() {
        let rules = BatchRules { initial: 2, ..RULES };
        let folded = rules.fold(PresentValue::Absent, [Operation::CountDown; 3]);
        assert_eq!(
            folded,
            Folded { write: Some(0), outcomes: vec![done(2, 1), done(1, 0), done(0, 0)] }
        );
        assert_eq!(rules.fold(PresentValue::Number(0), [Operation::CountDown]).write, None);
    }

    #[test]
    fn a_node_without_data_has_the_initial_value() {
        let rules = BatchRules { initial: 100, ..RULES };
        let compare = Operation::CompareAndSet { expected: 100, new: 1 };
        for present in [PresentValue::Absent, PresentValue::Empty, PresentValue::Number(100)] {
            assert_eq!(rules.fold(present, [compare]).outcomes, [done(100, 1)], "{present:?}");
        }
        let refused = rules.fold(PresentValue::Number(0), [compare]);
        assert_eq!(refused, Folded { write: None, outcomes: vec![OperationOutcome::Differs(0)] });
        assert_eq!(
            rules.fold(PresentValue::Empty, [Operation::Initialize(3)]).outcomes,
            [OperationOutcome::Exists]
        );
    }

    #[test]
    fn an_overflow_writes_nothing_and_does_not_stop_the_others() {
        let folded = RULES.fold(PresentValue::Number(i64::MAX - 1), [2, 1].map(Operation::Add));
        let overflow = OperationOutcome::Overflow { value: i64::MAX - 1, delta: 2 };
        assert_eq!(folded.outcomes, [overflow, done(i64::MAX - 1, i64::MAX)]);
        let alone = RULES.fold(PresentValue::Number(i64::MIN), [Operation::Add(-1)]);
        assert_eq!(alone.write, None);
        let small = BatchRules { range: (i32::MIN.into(), i32::MAX.into()), ..RULES };
        let greatest = i64::from(i32::MAX);
        assert_eq!(small.fold(PresentValue::Number(greatest), [Operation::Add(1)]).write, None);
        let wraps = BatchRules { wraps: true, ..small };
        assert_eq!(
            wraps.fold(PresentValue::Number(greatest), [Operation::Add(1)]).write,
            Some(i64::from(i32::MIN))
        );
        let wraps = BatchRules { wraps: true, ..RULES };
        assert_eq!(
            wraps.fold(PresentValue::Number(i64::MAX), [Operation::Add(1)]).write,
            Some(i64::MIN)
        );
    }

    #[test]
    fn foreign_data_are_replaced_by_a_set_alone() {
        use Operation::{Add, CompareAndSet, CountDown, Initialize, Set};
        let compare = CompareAndSet { expected: 0, new: 1 };
        let folded = RULES.fold(PresentValue::Foreign, [Add(1), compare, CountDown, Initialize(2)]);
        let foreign = OperationOutcome::Foreign;
        assert_eq!(
            folded,
            Folded {
                write: None,
                outcomes: vec![foreign, foreign, foreign, OperationOutcome::Exists]
            }
        );
        let folded = RULES.fold(PresentValue::Foreign, [Add(1), Set(7), Add(1)]);
        assert_eq!(
            folded,
            Folded {
                write: Some(8),
                outcomes: vec![foreign, OperationOutcome::Set(None), done(7, 8)]
            }
        );
    }

    #[test]
    fn only_initialize_creates_a_counter_that_must_exist() {
        use Operation::{Add, Initialize, Set};
        let rules = BatchRules { missing: OnMissing::Fail, ..RULES };
        let folded = rules.fold(PresentValue::Absent, [Add(1), Set(3), Initialize(5), Add(1)]);
        let missing = OperationOutcome::Missing;
        assert_eq!(folded.outcomes, [missing, missing, done(0, 5), done(5, 6)]);
        assert_eq!(folded.write, Some(6));
        assert_eq!(rules.fold(PresentValue::Absent, [Add(1)]).write, None);
        assert_eq!(rules.fold(PresentValue::Empty, [Add(1)]).write, Some(1));
    }

    #[test]
    fn numbers_of_other_counters_are_foreign() {
        let present =
            |rules: BatchRules, data: &[u8]| rules.present(Some(&Bytes::copy_from_slice(data)));
        assert_eq!(RULES.present(None), PresentValue::Absent);
        assert_eq!(present(RULES, b""), PresentValue::Empty);
        assert_eq!(present(RULES, &[0, 0, 0, 0, 0, 0, 0, 7]), PresentValue::Number(7));
        for data in [&b"{\"ab\": 1}"[..], &[0, 0, 0, 0, 0, 0, 0, 7, 9], b"seven"] {
            assert_eq!(present(RULES, data), PresentValue::Foreign, "{data:?}");
        }
        let small = BatchRules { range: (i32::MIN.into(), i32::MAX.into()), ..RULES };
        assert_eq!(present(small, &(1_i64 << 40).to_be_bytes()), PresentValue::Foreign);
        let text = BatchRules { encoding: Encoding::Text, ..small };
        assert_eq!(present(text, b"2147483648"), PresentValue::Foreign);
        assert_eq!(present(text, b"2147483647\n"), PresentValue::Number(2_147_483_647));
    }

    proptest! {
        #[test]
        fn a_batch_gives_disjoint_slices_in_call_order(first in -1000_i64..1000, deltas in prop::collection::vec(-50_i64..50, 1..20)) {
            let folded = RULES.fold(PresentValue::Number(first), deltas.iter().copied().map(Operation::Add));
            let mut value = first;
            for (outcome, delta) in folded.outcomes.iter().zip(&deltas) {
                prop_assert_eq!(*outcome, done(value, value + delta));
                value += delta;
            }
            prop_assert_eq!(folded.write, Some(value));
        }
    }
}
