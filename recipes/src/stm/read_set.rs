//! The reads of an attempt, which show one state of the nodes at every moment. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zk_curator::Stat;

/// A read of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Query {
    Data(String),
    Children(String),
}

impl Query {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Data(path) | Self::Children(path) => path,
        }
    }
}

/// The response to a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadAnswer {
    /// The node does not exist.
    Absent,
    Data {
        data: Bytes,
        stat: Stat,
    },
    /// The node exists. Its data were not read.
    Stat(Stat),
    /// The names of the children, sorted.
    Children(Vec<String>),
}

impl ReadAnswer {
    /// Returns `true` if both show the same node at the same version, or the same children.
    fn is_still(&self, later: &Self) -> bool {
        match (self.stat(), later.stat()) {
            (Some(before), Some(now)) => {
                (before.czxid, before.mzxid, before.version) == (now.czxid, now.mzxid, now.version)
            }
            _ => self == later,
        }
    }

    /// Returns the stat of a node that exists.
    pub(super) const fn stat(&self) -> Option<&Stat> {
        match self {
            Self::Data { stat, .. } | Self::Stat(stat) => Some(stat),
            Self::Absent | Self::Children(_) => None,
        }
    }
}

/// The responses of one request, which show one state.
pub(super) type ReadAnswers = BTreeMap<Query, ReadAnswer>;

/// The reads of an attempt. All responses were true after the transaction `zxid`, except that a
/// node is missing without a space: that was true at the moment of the response, which is not
/// earlier.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadSet {
    answers: ReadAnswers,
    /// The reads that the body depends on.
    used: BTreeSet<Query>,
    zxid: i64,
    /// `true` if the responses show a state that was committed after the call of the transaction,
    /// or the newest one before it.
    is_newest: bool,
}

impl ReadSet {
    /// Returns the reads of one request. The server had applied the transaction `floor` before it.
    pub(super) fn of(answers: ReadAnswers, floor: i64) -> Self {
        let written = answers.values().filter_map(ReadAnswer::stat).map(|stat| stat.mzxid);
        let zxid = written.max().unwrap_or(0).max(floor);
        Self { answers, used: BTreeSet::new(), zxid, is_newest: false }
    }

    /// Returns the reads of a request that a quorum has confirmed.
    pub(super) fn newest(self) -> Self {
        Self { is_newest: true, ..self }
    }

    /// Returns `true` if the state of the reads was the newest one at a moment during the call of
    /// the transaction.
    pub(super) const fn is_newest(&self) -> bool {
        self.is_newest
    }

    /// Returns the number of reads.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    pub(super) fn get(&self, query: &Query) -> Option<&ReadAnswer> {
        self.answers.get(query)
    }

    /// Returns `true` if this response certainly shows no earlier state than other reads. Without a
    /// space (`is_protected` is `false`), a missing node of the others proves nothing about the
    /// state after their `zxid`: it may have existed until later.
    pub(super) fn is_not_before(&self, other: &Self, is_protected: bool) -> bool {
        let shows_zxid = is_protected || other.answers.values().all(|one| one.stat().is_some());
        shows_zxid && self.zxid >= other.zxid
    }

    /// Returns the state of a node, if it was read.
    pub(super) fn data(&self, path: &str) -> Option<&ReadAnswer> {
        self.answers.get(&Query::Data(path.to_owned()))
    }

    pub(super) const fn answers(&self) -> &ReadAnswers {
        &self.answers
    }

    pub(super) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.answers.keys()
    }

    pub(super) fn used(&self) -> impl Iterator<Item = &Query> {
        self.used.iter()
    }

    /// Records that the body depends on a read.
    pub(super) fn note_use(&mut self, query: Query) {
        self.used.insert(query);
    }

    /// Adds the responses of a later request, which show no earlier state than `zxid`. Returns
    /// `false`, and adds nothing, if they may show a later state than the earlier ones.
    ///
    /// A node whose last write is not after `zxid` had the same data then. A missing node and a
    /// list of children say nothing about their past by themselves. In a space, the root stands
    /// for them: each request contains it, and without a later write of it, no node of the space
    /// was created or deleted since. `is_protected` is `false` without a space.
    pub(super) fn extend(&mut self, later: &ReadAnswers, is_protected: bool) -> bool {
        let fits = |(query, answer): (&Query, &ReadAnswer)| match self.answers.get(query) {
            Some(before) => before.is_still(answer),
            None => answer.stat().map_or(is_protected, |stat| stat.mzxid <= self.zxid),
        };
        let fits = later.iter().all(fits);
        if fits {
            self.answers
                .extend(later.iter().map(|(query, answer)| (query.clone(), answer.clone())));
        }
        fits
    }

    /// Adds responses that only the commit uses, and that it checks: they may show another state.
    pub(super) fn add_for_commit(&mut self, later: Self) {
        self.is_newest = false;
        for (query, answer) in later.answers {
            self.answers.entry(query).or_insert(answer);
        }
    }

    /// Returns `true` if a later request shows another state of a node, or does not show it.
    pub(super) fn differs(&self, later: &Self, query: &Query) -> bool {
        match (self.get(query), later.get(query)) {
            (Some(before), Some(now)) => !before.is_still(now),
            _ => true,
        }
    }

    /// Replaces all reads by those of one later request, which contains all of them. Fails with the
    /// path of a node that the body depends on and that has changed.
    pub(super) fn replace(&mut self, mut later: Self) -> Result<(), (String, Self)> {
        // A later state than the newest one at a moment of the call was that, too.
        later.is_newest |= self.is_newest;
        if let Some(query) = self.used.iter().find(|query| self.differs(&later, query)) {
            return Err((query.path().to_owned(), later));
        }
        let used = std::mem::take(&mut self.used);
        *self = Self { used, ..later };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data(path: &str) -> Query {
        Query::Data(path.to_owned())
    }

    fn written(czxid: i64, mzxid: i64, version: i32) -> ReadAnswer {
        let stat = Stat { czxid, mzxid, version, ..Stat::default() };
        ReadAnswer::Data { data: Bytes::from(mzxid.to_string()), stat }
    }

    fn answers<const N: usize>(answers: [(&str, ReadAnswer); N]) -> ReadAnswers {
        answers.into_iter().map(|(path, answer)| (data(path), answer)).collect()
    }

    fn reads<const N: usize>(of: [(&str, ReadAnswer); N]) -> ReadSet {
        let mut reads = ReadSet::of(answers(of), 0);
        let used: Vec<_> = reads.queries().cloned().collect();
        used.into_iter().for_each(|query| reads.note_use(query));
        reads
    }

    #[test]
    fn later_read_fits_if_it_was_true_before() {
        let root = || ("/", written(1, 5, 0));
        let mut before = reads([root(), ("/a", written(2, 9, 3))]);
        assert!(before.extend(&answers([root(), ("/b", written(3, 9, 0))]), true));
        assert!(before.extend(&answers([root(), ("/none", ReadAnswer::Absent)]), true));
        assert!(!before.extend(&answers([root(), ("/c", written(3, 10, 1))]), true));
        assert!(
            !before.extend(&answers([("/", written(1, 10, 1)), ("/d", ReadAnswer::Absent)]), true)
        );
        assert!(!before.extend(&answers([("/e", ReadAnswer::Absent)]), false));
        assert!(before.data("/b").is_some() && before.data("/c").is_none());
    }

    #[test]
    fn missing_node_without_a_space_has_no_earlier_time() {
        let before = ReadSet::of(answers([("/none", ReadAnswer::Absent)]), 20);
        let later = ReadSet::of(answers([("/a", written(2, 9, 3))]), 20);
        assert!(later.is_not_before(&before, true) && !later.is_not_before(&before, false));
        assert!(before.is_not_before(&later, false));
    }

    #[test]
    fn floor_raises_the_time_of_the_state() {
        let mut before = ReadSet::of(answers([("/a", written(2, 9, 3))]), 20);
        assert!(before.extend(&answers([("/b", written(3, 20, 0))]), false));
        assert!(!before.extend(&answers([("/c", written(3, 21, 0))]), false));
    }

    #[test]
    fn replacing_fails_if_a_used_node_differs() {
        let before = reads([("/a", written(2, 9, 3)), ("/b", ReadAnswer::Absent)]);
        let later = |a, b| ReadSet::of(answers([("/a", a), ("/b", b)]), 0);
        let replaced = |later| before.clone().replace(later).map_err(|(path, _)| path);
        assert_eq!(replaced(later(written(2, 9, 3), ReadAnswer::Absent)), Ok(()));
        assert_eq!(replaced(later(written(2, 10, 4), ReadAnswer::Absent)), Err("/a".to_owned()));
        // A node that was created in its place, with the same version.
        assert_eq!(replaced(later(written(10, 10, 3), ReadAnswer::Absent)), Err("/a".to_owned()));
        assert_eq!(replaced(later(written(2, 9, 3), written(10, 10, 0))), Err("/b".to_owned()));
        let mut unused = ReadSet::of(answers([("/a", written(2, 9, 3))]), 0);
        assert!(unused.replace(ReadSet::of(answers([("/a", written(2, 10, 4))]), 0)).is_ok());
    }

    proptest! {
        /// A register file of three nodes is written; reads at growing times that fit together
        /// show one state of it.
        #[test]
        fn reads_that_fit_show_one_state(
            writes in proptest::collection::vec(0..3_usize, 0..12),
            times in proptest::collection::vec((0..14_usize, 0..3_usize), 1..5),
        ) {
            let state = |time: usize, node: usize| {
                let last = writes.iter().take(time).rposition(|written| *written == node);
                let versions = writes.iter().take(time).filter(|written| **written == node).count();
                written(1, last.map_or(1, |last| last as i64 + 2), versions as i32)
            };
            let mut times = times;
            times.sort_unstable();
            let name = |node: usize| format!("/{node}");
            let mut reads: Option<ReadSet> = None;
            for (time, node) in times {
                let answer = ReadAnswers::from([(data(&name(node)), state(time, node))]);
                match &mut reads {
                    None => reads = Some(ReadSet::of(answer, 0)),
                    Some(reads) => drop(reads.extend(&answer, false)),
                }
            }
            let reads = reads.unwrap();
            let shows = |time: usize| (0..3).all(|node| {
                reads.data(&name(node)).is_none_or(|seen| *seen == state(time, node))
            });
            prop_assert!((0..=writes.len()).any(shows), "{reads:?} of {writes:?}");
        }
    }
}
