use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use zk_curator::CuratorFramework;

use super::batch::{BatchRules, OnMissing};
use super::encoding::Encoding;
use super::handle::{Counter, Number};
use super::settings::CounterSettings;
use super::site::{SiteOptions, site_settings};

/// The time for which records are kept.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// Builds a counter: [`DistributedAtomicLong`](super::DistributedAtomicLong) or
/// [`DistributedAtomicInteger`](super::DistributedAtomicInteger).
#[must_use = "nothing is done until it is built"]
pub struct AtomicBuilder<N> {
    site: SiteOptions,
    rules: BatchRules,
    keep: Duration,
    number: PhantomData<fn() -> N>,
}

impl<N: Number> Counter<N> {
    /// A counter with Curator's defaults. Nothing is sent; a path that is not valid is refused by
    /// the first operation.
    #[must_use = "nothing is sent until it is used"]
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self::builder(zk, path).build()
    }

    /// Builds a counter.
    pub fn builder(zk: &CuratorFramework, path: impl Into<String>) -> AtomicBuilder<N> {
        AtomicBuilder::new(zk, path.into())
    }
}

impl<N: Number> AtomicBuilder<N> {
    pub(super) fn new(zk: &CuratorFramework, path: String) -> Self {
        Self {
            site: SiteOptions::new(zk, path),
            rules: BatchRules {
                encoding: N::ENCODING,
                range: N::RANGE,
                initial: 0,
                wraps: false,
                missing: OnMissing::Initial,
            },
            keep: KEEP,
            number: PhantomData,
        }
    }

    /// The format of the data. Numbers that do not fit are refused. Default: Curator's encoding of
    /// the type.
    pub const fn encoding(mut self, encoding: Encoding) -> Self {
        self.rules.encoding = encoding;
        self
    }

    /// The value of a counter without a node, or without data. Default: 0, as in Curator.
    pub fn initial(mut self, value: N) -> Self {
        self.rules.initial = value.into();
        self
    }

    /// The meaning of a counter without a node. Default: [`OnMissing::Initial`].
    pub const fn on_missing(mut self, missing: OnMissing) -> Self {
        self.rules.missing = missing;
        self
    }

    /// Sums that overflow wrap around, as in Curator: in the width of the type or of the encoding,
    /// whichever is narrower; [`TextFloat`](Encoding::TextFloat) never does. Default: they fail
    /// with [`Error::Overflow`](super::Error::Overflow).
    pub const fn wrapping(mut self) -> Self {
        self.rules.wraps = true;
        self
    }

    site_settings!();

    /// Numbers up to this one only.
    pub(super) fn at_most(mut self, greatest: i64) -> Self {
        self.rules.range.1 = self.rules.range.1.min(greatest);
        self
    }

    /// Sets the time for which the record of an operation that is [done once](Counter::add_once) is
    /// kept, by the clock of the servers. During this time a call with the same id changes nothing.
    /// In the long run at most a quarter of the records are older. Default: 24 hours.
    pub const fn keep_records(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Builds the counter. Nothing is sent; a path that is not valid is refused by the first
    /// operation.
    pub fn build(self) -> Counter<N> {
        let Self { site, mut rules, keep, number: _ } = self;
        let (least, greatest) = rules.encoding.range();
        rules.range = (rules.range.0.max(least), rules.range.1.min(greatest));
        Counter::with_settings(CounterSettings { site: site.build(), rules, keep })
    }
}

impl<N> fmt::Debug for AtomicBuilder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicBuilder")
            .field("site", &self.site)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
