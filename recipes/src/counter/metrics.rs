//! The metrics of counters, or nothing without the feature: see `zk_curator::observe`.

#[cfg(feature = "metrics")]
mod facade {
    fn count(name: &'static str, number: u64) {
        metrics::counter!(name).increment(number);
    }

    pub(in super::super) fn written() {
        count("zk_curator_counter_writes_total", 1);
    }

    /// Operations that were done by one write, beyond the first of them.
    pub(in super::super) fn merged(operations: usize) {
        count("zk_curator_counter_merged_total", u64::try_from(operations).unwrap_or(u64::MAX));
    }

    pub(in super::super) fn conflict() {
        count("zk_curator_counter_conflicts_total", 1);
    }

    pub(in super::super) fn promoted() {
        count("zk_curator_counter_promotions_total", 1);
    }

    pub(in super::super) fn unknown() {
        count("zk_curator_counter_unknown_total", 1);
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    pub(in super::super) const fn written() {}
    pub(in super::super) const fn merged(_operations: usize) {}
    pub(in super::super) const fn conflict() {}
    pub(in super::super) const fn promoted() {}
    pub(in super::super) const fn unknown() {}
}

pub(super) use facade::{conflict, merged, promoted, unknown, written};
