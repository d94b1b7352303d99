//! The data of a slot, and the slots that are kept: pure functions.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::reason::cut;

const MAGIC: &str = "slot 1";
const ONCE: &str = "at most once";
const AGAIN: &str = "at least once";

/// The maximum number of runs of a slot, as its first claim has decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimMode {
    AtMostOnce,
    AtLeastOnce,
}

/// The state of the latest run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunState {
    /// The slot is not over, as far as is recorded.
    Running,
    Done,
    /// Why. Unless it runs at most once, the slot runs again.
    Failed(String),
    /// Why. The slot does not run again, although it runs at least once.
    GaveUp(String),
}

/// The data of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRecord {
    /// A GUID of the claim, so that no two claims write the same data.
    pub(super) claim: String,
    pub(super) mode: ClaimMode,
    /// The number of the run, from 1.
    pub(super) attempt: u32,
    pub(super) state: RunState,
    /// The id of the member.
    pub(super) by: String,
}

impl SlotRecord {
    /// The data of the node:
    /// ```text
    /// slot 1
    /// claim 5b0c…
    /// at most once                     or `at least once`
    /// attempt 1
    /// failed                           or `running`, `done`, `gave up`
    /// by 8                             length of the id
    ///
    /// worker-1                         the id, and the end of the line
    /// no space left on device          the reason of a failure
    /// ```
    pub(super) fn encode(&self) -> String {
        let Self { claim, mode, attempt, state, by } = self;
        let mode = match mode {
            ClaimMode::AtMostOnce => ONCE,
            ClaimMode::AtLeastOnce => AGAIN,
        };
        let (state, why) = match state {
            RunState::Running => ("running", ""),
            RunState::Done => ("done", ""),
            RunState::Failed(why) => ("failed", cut(why)),
            RunState::GaveUp(why) => ("gave up", cut(why)),
        };
        let length = by.len();
        format!(
            "{MAGIC}\nclaim {claim}\n{mode}\nattempt {attempt}\n{state}\nby {length}\n\n{by}\n{why}"
        )
    }

    /// `None` if these are not the data of a slot.
    pub(crate) fn parse(data: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(data).ok()?.strip_prefix(MAGIC)?.strip_prefix("\nclaim ")?;
        let (head, text) = rest.split_once("\n\n")?;
        let mut lines = head.split('\n');
        let claim = lines.next()?.to_owned();
        let mode = match lines.next()? {
            ONCE => ClaimMode::AtMostOnce,
            AGAIN => ClaimMode::AtLeastOnce,
            _ => return None,
        };
        let attempt = lines.next()?.strip_prefix("attempt ")?.parse().ok()?;
        let state = lines.next()?;
        let length = lines.next()?.strip_prefix("by ")?.parse().ok()?;
        let (by, why) = text.split_at_checked(length)?;
        let why = why.strip_prefix('\n')?;
        let state = match state {
            "running" => RunState::Running,
            "done" => RunState::Done,
            "failed" => RunState::Failed(why.to_owned()),
            "gave up" => RunState::GaveUp(why.to_owned()),
            _ => return None,
        };
        lines.next().is_none().then(|| Self { claim, mode, attempt, state, by: by.to_owned() })
    }

    /// Returns `true` if the slot is to run again when its runner is gone.
    pub(super) fn is_open(&self) -> bool {
        self.mode == ClaimMode::AtLeastOnce
            && !matches!(self.state, RunState::Done | RunState::GaveUp(_))
    }
}

/// The slots behind the newest `keep` ones, by their starts.
pub(super) fn older(mut starts: Vec<i64>, keep: u32) -> Vec<i64> {
    starts.sort_unstable();
    let kept = usize::try_from(keep).unwrap_or(usize::MAX).min(starts.len());
    starts.truncate(starts.len() - kept);
    starts
}

/// A slot behind the newest ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old {
    pub(super) start: i64,
    /// See [`SlotRecord::is_open`].
    pub(super) is_open: bool,
    /// The transaction that created it.
    pub(super) created: i64,
}

/// The [older](older) slots to delete: all but the newest `keep` of the open ones, and those that
/// show whether an open one [was forgotten](was_forgotten).
pub(super) fn outdated(older: &[Old], keep: u32) -> BTreeSet<i64> {
    let mut open: Vec<&Old> = older.iter().filter(|slot| slot.is_open).collect();
    open.sort_unstable_by_key(|slot| Reverse(slot.start));
    open.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
    let is_kept = |slot: &Old| {
        open.iter().any(|open| {
            open.start == slot.start || open.start < slot.start && slot.created < open.created
        })
    };
    older.iter().filter(|slot| !is_kept(slot)).map(|slot| slot.start).collect()
}

/// Returns `true` if a slot may have been recorded and [deleted](outdated) before: the number of
/// newer slots is then the number of kept ones.
pub(super) fn may_be_forgotten(start: i64, recorded: &[i64], keep: u32) -> bool {
    let newer = recorded.iter().filter(|other| **other > start).count();
    newer >= usize::try_from(keep).unwrap_or(usize::MAX)
}

/// Returns `true` if a slot [may have been forgotten](may_be_forgotten) when it was created.
/// `newer` are the transactions that created the newer slots.
pub(super) fn was_forgotten(created: i64, newer: impl IntoIterator<Item = i64>, keep: u32) -> bool {
    let before = newer.into_iter().filter(|other| *other < created).count();
    before >= usize::try_from(keep).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::reason;

    fn record(state: RunState, by: &str) -> SlotRecord {
        SlotRecord {
            claim: "guid".into(),
            mode: ClaimMode::AtLeastOnce,
            attempt: 2,
            state,
            by: by.into(),
        }
    }

    /// Deletes old slots of these, and returns them: by their starts, whether they are open, and
    /// the transactions that created them.
    fn clean(slots: &mut std::collections::BTreeMap<i64, (bool, i64)>, keep: u32) -> BTreeSet<i64> {
        let old = older(slots.keys().copied().collect(), keep);
        let old = old.into_iter().map(|start| {
            let (is_open, created) = slots[&start];
            Old { start, is_open, created }
        });
        let old = outdated(&old.collect::<Vec<_>>(), keep);
        slots.retain(|start, _| !old.contains(start));
        old
    }

    #[test]
    fn data_are_readable_text() {
        let failed = record(RunState::Failed("no\n\nluck".into()), "worker 1");
        let text =
            "slot 1\nclaim guid\nat least once\nattempt 2\nfailed\nby 8\n\nworker 1\nno\n\nluck";
        assert_eq!(failed.encode(), text);
        assert_eq!(SlotRecord::parse(text.as_bytes()), Some(failed));
        let running =
            SlotRecord { mode: ClaimMode::AtMostOnce, attempt: 1, ..record(RunState::Running, "") };
        assert_eq!(
            running.encode(),
            "slot 1\nclaim guid\nat most once\nattempt 1\nrunning\nby 0\n\n\n"
        );
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let long = record(RunState::Failed("é".repeat(reason::LONGEST)), "");
        let read = SlotRecord::parse(long.encode().as_bytes()).unwrap();
        assert_eq!(read.state, RunState::Failed("é".repeat(reason::LONGEST / 2)));
    }

    #[test]
    fn only_unfinished_slots_that_run_again_are_open() {
        assert!(
            record(RunState::Running, "").is_open()
                && record(RunState::Failed(String::new()), "").is_open()
        );
        assert!(
            !record(RunState::Done, "").is_open()
                && !record(RunState::GaveUp(String::new()), "").is_open()
        );
        assert!(
            !SlotRecord { mode: ClaimMode::AtMostOnce, ..record(RunState::Running, "") }.is_open()
        );
    }

    #[test]
    fn old_slots_are_deleted_and_open_ones_stay() {
        assert_eq!(older(vec![5, 1, 4, 2, 3], 2), [1, 2, 3]);
        assert!(older(vec![1], 1).is_empty() && older(Vec::new(), 9).is_empty());
        let slot = |start, is_open| Old { start, is_open, created: start };
        let slots = [slot(1, true), slot(4, false), slot(2, false), slot(3, true)];
        assert_eq!(outdated(&slots, 2), BTreeSet::from([2, 4]));
        assert_eq!(outdated(&slots, 1), BTreeSet::from([1, 2, 4]));
        assert!(may_be_forgotten(1, &[1, 2, 3], 2) && !may_be_forgotten(2, &[1, 2, 3], 2));
    }

    proptest! {
        #[test]
        fn records_come_back(claim in "[0-9a-f-]{0,36}", attempt in any::<u32>(), by in ".{0,20}", why in ".{0,40}") {
            for mode in [ClaimMode::AtMostOnce, ClaimMode::AtLeastOnce] {
                for state in [RunState::Running, RunState::Done, RunState::Failed(why.clone()), RunState::GaveUp(why.clone())] {
                    let record = SlotRecord { claim: claim.clone(), mode, attempt, state, by: by.clone() };
                    prop_assert_eq!(SlotRecord::parse(record.encode().as_bytes()), Some(record));
                }
            }
        }

        #[test]
        fn other_data_are_refused(data in any::<Vec<u8>>(), cut in any::<prop::sample::Index>()) {
            prop_assert_eq!(SlotRecord::parse(&data), None);
            let text = record(RunState::Done, "a").encode();
            prop_assert_eq!(SlotRecord::parse(&text.as_bytes()[..cut.index(text.len())]), None);
        }

        /// Deleted slots are recognised, even if others were deleted after them.
        #[test]
        fn deleted_slots_are_never_claimed_again(
            slots in prop::collection::btree_map(0..60_i64, any::<bool>(), 0..30),
            keep in 1..6_u32,
        ) {
            let mut recorded = std::collections::BTreeMap::new();
            let mut deleted = BTreeSet::new();
            for (start, is_open) in slots {
                recorded.insert(start, (is_open, start));
                deleted.extend(clean(&mut recorded, keep));
                prop_assert!(recorded.len() <= 2 * keep as usize);
                let starts: Vec<i64> = recorded.keys().copied().collect();
                for start in &deleted {
                    prop_assert!(may_be_forgotten(*start, &starts, keep));
                }
            }
        }

        /// A deleted slot is claimed again, and its member ends before it looks: the slot is
        /// recognised at any later time. No other slot is taken for one.
        #[test]
        fn late_claims_are_recognised_as_long_as_they_are_open(
            slots in prop::collection::btree_map(10..60_i64, any::<bool>(), 1..30),
            (late, after, keep) in (0..60_i64, 0..30_usize, 1..6_u32),
        ) {
            let (mut recorded, mut deleted) = (std::collections::BTreeMap::new(), BTreeSet::new());
            let mut is_late = false;
            for (count, (start, is_open)) in slots.into_iter().enumerate() {
                let created = i64::try_from(count).unwrap() * 2;
                recorded.insert(start, (is_open, created));
                if count == after && deleted.contains(&late) {
                    recorded.insert(late, (true, created + 1));
                    is_late = true;
                }
                deleted.extend(clean(&mut recorded, keep));
                prop_assert!(recorded.len() <= 5 * keep as usize, "{recorded:?}");
                for (start, (_, created)) in &recorded {
                    let newer = recorded.range(start + 1..).map(|(_, (_, created))| *created);
                    prop_assert_eq!(was_forgotten(*created, newer, keep), is_late && *start == late);
                }
            }
        }
    }
}
