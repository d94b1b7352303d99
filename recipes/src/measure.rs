//! The measurements of recipes; none without the feature: see [`observe`](crate::observe).
//!
//! A counter is created, with the value 0, together with the recipe that it counts for: the
//! increase of a counter is only known from its second sample on.

#[cfg(feature = "metrics")]
mod facade {
    use std::time::SystemTime;

    use tokio::time::Instant;
    use zk_curator::internal::{framework_label as framework, gauge_at};
    use zk_curator::{CuratorFramework, Ownership};

    fn count(zk: &CuratorFramework, name: &'static str, number: u64) {
        metrics::counter!(name, "framework" => framework(zk)).increment(number);
    }

    fn count_of(zk: &CuratorFramework, name: &'static str, recipe: &'static str, number: u64) {
        metrics::counter!(name, "framework" => framework(zk), "recipe" => recipe).increment(number);
    }

    fn add_to(zk: &CuratorFramework, name: &'static str, recipe: &'static str, change: f64) {
        metrics::gauge!(name, "framework" => framework(zk), "recipe" => recipe).increment(change);
    }

    fn time_of(
        zk: &CuratorFramework,
        name: &'static str,
        recipe: &'static str,
    ) -> metrics::Histogram {
        metrics::histogram!(name, "framework" => framework(zk), "recipe" => recipe)
    }

    fn set_at(zk: &CuratorFramework, name: &'static str, path: &str, value: f64) {
        gauge_at(zk, name, path).set(value);
    }

    /// The time in seconds since 1970.
    fn now() -> f64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    /// A lock of this kind was made.
    pub(crate) fn lock(zk: &CuratorFramework, recipe: &'static str) {
        add_to(zk, "zk_curator_locks_held", recipe, 0.0);
        count_of(zk, "zk_curator_locks_lost_total", recipe, 0);
        drop(time_of(zk, "zk_curator_lock_acquire_duration_seconds", recipe));
        drop(time_of(zk, "zk_curator_lock_hold_duration_seconds", recipe));
    }

    /// Waits for a lock.
    pub(crate) struct Waiting(Instant);

    impl Waiting {
        pub(crate) fn begin() -> Self {
            Self(Instant::now())
        }

        pub(crate) fn over(self, zk: &CuratorFramework, recipe: &'static str) {
            time_of(zk, "zk_curator_lock_acquire_duration_seconds", recipe)
                .record(self.0.elapsed());
        }
    }

    /// Holds a lock. Dropped before the node of the lock, whose end is its loss otherwise.
    pub(crate) struct Holding {
        since: Instant,
        recipe: &'static str,
        ownership: Ownership,
        /// `true` if it was lost, if that is known.
        is_lost: Option<bool>,
    }

    impl Holding {
        pub(crate) fn begin(recipe: &'static str, ownership: &Ownership) -> Self {
            add_to(ownership.framework(), "zk_curator_locks_held", recipe, 1.0);
            Self { since: Instant::now(), recipe, ownership: ownership.clone(), is_lost: None }
        }

        /// The lock goes to another holder in this process.
        pub(crate) fn renew(&mut self, ownership: &Ownership) {
            self.ownership = ownership.clone();
        }

        /// The holder lets go.
        pub(crate) fn releasing(mut self) -> Self {
            self.is_lost = Some(self.ownership.is_over());
            self
        }

        pub(crate) fn end(mut self, is_lost: bool) {
            self.is_lost = Some(is_lost);
        }
    }

    impl Drop for Holding {
        fn drop(&mut self) {
            let (zk, recipe) = (self.ownership.framework(), self.recipe);
            add_to(zk, "zk_curator_locks_held", recipe, -1.0);
            time_of(zk, "zk_curator_lock_hold_duration_seconds", recipe)
                .record(self.since.elapsed());
            if self.is_lost.unwrap_or_else(|| self.ownership.is_over()) {
                count_of(zk, "zk_curator_locks_lost_total", recipe, 1);
            }
        }
    }

    /// A lease of this kind was made.
    pub(crate) fn lease(zk: &CuratorFramework, recipe: &'static str) {
        add_to(zk, "zk_curator_locks_held", recipe, 0.0);
        count_of(zk, "zk_curator_locks_lost_total", recipe, 0);
        drop(time_of(zk, "zk_curator_lock_hold_duration_seconds", recipe));
    }

    /// Holds a lease, which has no node of the session of its framework.
    #[derive(Debug)]
    pub(crate) struct Leasing {
        zk: CuratorFramework,
        recipe: &'static str,
        since: Instant,
        has_ended: bool,
    }

    impl Leasing {
        pub(crate) fn begin(zk: &CuratorFramework, recipe: &'static str) -> Self {
            add_to(zk, "zk_curator_locks_held", recipe, 1.0);
            Self { zk: zk.clone(), recipe, since: Instant::now(), has_ended: false }
        }

        pub(crate) fn released(&mut self) {
            if !std::mem::replace(&mut self.has_ended, true) {
                add_to(&self.zk, "zk_curator_locks_held", self.recipe, -1.0);
                time_of(&self.zk, "zk_curator_lock_hold_duration_seconds", self.recipe)
                    .record(self.since.elapsed());
            }
        }

        pub(crate) fn end(mut self, is_lost: bool) {
            if is_lost {
                self.lost();
            }
        }

        pub(crate) fn lost(&mut self) {
            if !self.has_ended {
                count_of(&self.zk, "zk_curator_locks_lost_total", self.recipe, 1);
            }
            self.released();
        }
    }

    impl Drop for Leasing {
        fn drop(&mut self) {
            self.released();
        }
    }

    /// A lock that is passed on within the process was made.
    pub(crate) fn handover_lock(zk: &CuratorFramework) {
        count(zk, "zk_curator_lock_handovers_total", 0);
    }

    pub(crate) fn handed_over(zk: &CuratorFramework) {
        count(zk, "zk_curator_lock_handovers_total", 1);
    }

    /// Takes part in an election, until it is dropped.
    #[must_use = "the process is counted as a candidate as long as this lives"]
    #[derive(Debug)]
    pub(crate) struct Candidacy {
        zk: CuratorFramework,
        recipe: &'static str,
    }

    impl Candidacy {
        pub(crate) fn begin(zk: &CuratorFramework, recipe: &'static str) -> Self {
            add_to(zk, "zk_curator_leader_candidates", recipe, 1.0);
            add_to(zk, "zk_curator_leader", recipe, 0.0);
            count_of(zk, "zk_curator_leader_terms_total", recipe, 0);
            count_of(zk, "zk_curator_leader_terms_lost_total", recipe, 0);
            drop(time_of(zk, "zk_curator_leader_term_duration_seconds", recipe));
            Self { zk: zk.clone(), recipe }
        }
    }

    impl Drop for Candidacy {
        fn drop(&mut self) {
            add_to(&self.zk, "zk_curator_leader_candidates", self.recipe, -1.0);
        }
    }

    /// A term of leadership.
    #[derive(Debug)]
    pub(crate) struct Term {
        since: Instant,
        recipe: &'static str,
    }

    impl Term {
        pub(crate) fn begin(zk: &CuratorFramework, recipe: &'static str) -> Self {
            add_to(zk, "zk_curator_leader", recipe, 1.0);
            count_of(zk, "zk_curator_leader_terms_total", recipe, 1);
            Self { since: Instant::now(), recipe }
        }

        pub(crate) fn end(&self, zk: &CuratorFramework, is_lost: bool) {
            let recipe = self.recipe;
            add_to(zk, "zk_curator_leader", recipe, -1.0);
            time_of(zk, "zk_curator_leader_term_duration_seconds", recipe)
                .record(self.since.elapsed());
            if is_lost {
                count_of(zk, "zk_curator_leader_terms_lost_total", recipe, 1);
            }
        }
    }

    /// A consumer of a queue was made.
    pub(crate) fn consumer(zk: &CuratorFramework, recipe: &'static str) {
        count_of(zk, "zk_curator_queue_deliveries_total", recipe, 0);
        count_of(zk, "zk_curator_queue_redeliveries_total", recipe, 0);
        count_of(zk, "zk_curator_queue_dead_letters_total", recipe, 0);
    }

    pub(crate) fn listed(zk: &CuratorFramework, path: &str, items: usize) {
        #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 items")]
        set_at(zk, "zk_curator_queue_depth", path, items as f64);
    }

    /// Counts a first or repeated delivery of an item.
    pub(crate) fn delivered(zk: &CuratorFramework, recipe: &'static str, attempt: u32) {
        count_of(zk, "zk_curator_queue_deliveries_total", recipe, 1);
        if attempt > 1 {
            count_of(zk, "zk_curator_queue_redeliveries_total", recipe, 1);
        }
    }

    pub(crate) fn dead_letter(zk: &CuratorFramework, recipe: &'static str) {
        count_of(zk, "zk_curator_queue_dead_letters_total", recipe, 1);
    }

    /// A counter or an atomic value was made.
    pub(crate) fn counter(zk: &CuratorFramework) {
        for name in [
            "zk_curator_counter_writes_total",
            "zk_curator_counter_merged_total",
            "zk_curator_counter_conflicts_total",
            "zk_curator_counter_promotions_total",
            "zk_curator_counter_unknown_total",
        ] {
            count(zk, name, 0);
        }
    }

    pub(crate) fn counter_written(zk: &CuratorFramework) {
        count(zk, "zk_curator_counter_writes_total", 1);
    }

    /// Operations that were done by one write, beyond the first of them.
    pub(crate) fn counter_merged(zk: &CuratorFramework, operations: usize) {
        count(zk, "zk_curator_counter_merged_total", u64::try_from(operations).unwrap_or(u64::MAX));
    }

    pub(crate) fn counter_conflict(zk: &CuratorFramework) {
        count(zk, "zk_curator_counter_conflicts_total", 1);
    }

    pub(crate) fn counter_promoted(zk: &CuratorFramework) {
        count(zk, "zk_curator_counter_promotions_total", 1);
    }

    pub(crate) fn counter_unknown(zk: &CuratorFramework) {
        count(zk, "zk_curator_counter_unknown_total", 1);
    }

    /// A cache, until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Caching {
        zk: CuratorFramework,
        path: String,
        is_fresh: bool,
        ended: bool,
    }

    impl Caching {
        /// It begins to load.
        pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
            let this =
                Self { zk: zk.clone(), path: path.to_owned(), is_fresh: false, ended: false };
            this.add("zk_curator_caches", 1.0);
            this.add("zk_curator_caches_stale", 1.0);
            this.stale_since(now());
            this
        }

        /// Records whether the contents are known to equal those of the server.
        pub(crate) fn is_fresh(&mut self, is_fresh: bool) {
            if self.ended || self.is_fresh == is_fresh {
                return;
            }
            self.is_fresh = is_fresh;
            self.add("zk_curator_caches_stale", if is_fresh { -1.0 } else { 1.0 });
            self.stale_since(if is_fresh { 0.0 } else { now() });
        }

        /// It follows its root no longer.
        pub(crate) fn end(&mut self) {
            if !std::mem::replace(&mut self.ended, true) {
                self.add("zk_curator_caches", -1.0);
                if !self.is_fresh {
                    self.add("zk_curator_caches_stale", -1.0);
                }
                self.stale_since(f64::NAN);
            }
        }

        fn add(&self, name: &'static str, change: f64) {
            metrics::gauge!(name, "framework" => framework(&self.zk)).increment(change);
        }

        fn stale_since(&self, time: f64) {
            set_at(&self.zk, "zk_curator_cache_stale_since_seconds", &self.path, time);
        }
    }

    impl Drop for Caching {
        fn drop(&mut self) {
            self.end();
        }
    }

    /// A member of a schedule, until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Scheduled {
        zk: CuratorFramework,
        path: String,
    }

    impl Scheduled {
        pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
            let this = Self { zk: zk.clone(), path: path.to_owned() };
            for result in ["done", "failed", "lost"] {
                this.count_run(result, 0);
            }
            this.missed(0);
            this
        }

        /// The next slot that this member waits for, by its start in seconds since 1970.
        pub(crate) fn waits_for(&self, start: i64) {
            #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 seconds")]
            set_at(
                &self.zk,
                "zk_curator_schedule_next_slot_time_seconds",
                &self.path,
                start as f64,
            );
        }

        /// A run of this member has ended.
        pub(crate) fn ran(&self, result: &'static str) {
            self.count_run(result, 1);
        }

        /// Slots that no member has claimed.
        pub(crate) fn missed(&self, slots: u64) {
            metrics::counter!("zk_curator_schedule_missed_slots_total", "framework" => framework(&self.zk))
                .increment(slots);
        }

        fn count_run(&self, result: &'static str, number: u64) {
            let framework = framework(&self.zk);
            metrics::counter!(
                "zk_curator_schedule_runs_total", "framework" => framework, "result" => result
            )
            .increment(number);
        }
    }

    impl Drop for Scheduled {
        fn drop(&mut self) {
            set_at(&self.zk, "zk_curator_schedule_next_slot_time_seconds", &self.path, f64::NAN);
        }
    }

    /// A member of a partitioned set, until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Partitioning {
        zk: CuratorFramework,
        path: String,
    }

    impl Partitioning {
        pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
            count(zk, "zk_curator_partitions_acquired_total", 0);
            count(zk, "zk_curator_partitions_lost_total", 0);
            set_at(zk, "zk_curator_partitions_owned", path, 0.0);
            let this = Self { zk: zk.clone(), path: path.to_owned() };
            this.assigned(0);
            this
        }

        /// The number of parts that are assigned to this member.
        pub(crate) fn assigned(&self, parts: usize) {
            #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 parts")]
            set_at(&self.zk, "zk_curator_partitions_assigned", &self.path, parts as f64);
        }

        pub(crate) fn acquired(&self) {
            count(&self.zk, "zk_curator_partitions_acquired_total", 1);
            self.own(1.0);
        }

        pub(crate) fn released(&self) {
            self.own(-1.0);
        }

        pub(crate) fn lost(&self) {
            count(&self.zk, "zk_curator_partitions_lost_total", 1);
            self.own(-1.0);
        }

        fn own(&self, change: f64) {
            gauge_at(&self.zk, "zk_curator_partitions_owned", &self.path).increment(change);
        }
    }

    impl Drop for Partitioning {
        fn drop(&mut self) {
            for name in ["zk_curator_partitions_owned", "zk_curator_partitions_assigned"] {
                set_at(&self.zk, name, &self.path, f64::NAN);
            }
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use zk_curator::{CuratorFramework, Ownership};

    pub(crate) const fn lock(_zk: &CuratorFramework, _recipe: &'static str) {}

    pub(crate) struct Waiting;

    impl Waiting {
        pub(crate) const fn begin() -> Self {
            Self
        }

        pub(crate) const fn over(self, _zk: &CuratorFramework, _recipe: &'static str) {}
    }

    pub(crate) struct Holding;

    impl Holding {
        pub(crate) const fn begin(_recipe: &'static str, _ownership: &Ownership) -> Self {
            Self
        }

        pub(crate) const fn renew(&self, _ownership: &Ownership) {}

        pub(crate) const fn releasing(self) -> Self {
            self
        }

        pub(crate) const fn end(self, _is_lost: bool) {}
    }

    pub(crate) const fn lease(_zk: &CuratorFramework, _recipe: &'static str) {}

    #[derive(Debug)]
    pub(crate) struct Leasing;

    impl Leasing {
        pub(crate) const fn begin(_zk: &CuratorFramework, _recipe: &'static str) -> Self {
            Self
        }

        pub(crate) const fn released(&self) {}
        pub(crate) const fn lost(&self) {}
        pub(crate) const fn end(self, _is_lost: bool) {}
    }

    pub(crate) const fn handover_lock(_zk: &CuratorFramework) {}
    pub(crate) const fn handed_over(_zk: &CuratorFramework) {}

    #[derive(Debug)]
    pub(crate) struct Candidacy;

    impl Candidacy {
        pub(crate) const fn begin(_zk: &CuratorFramework, _recipe: &str) -> Self {
            Self
        }
    }

    #[derive(Debug)]
    pub(crate) struct Term;

    impl Term {
        pub(crate) const fn begin(_zk: &CuratorFramework, _recipe: &str) -> Self {
            Self
        }

        pub(crate) const fn end(&self, _zk: &CuratorFramework, _is_lost: bool) {}
    }

    pub(crate) const fn consumer(_zk: &CuratorFramework, _recipe: &'static str) {}
    pub(crate) const fn delivered(_zk: &CuratorFramework, _recipe: &'static str, _attempt: u32) {}
    pub(crate) const fn dead_letter(_zk: &CuratorFramework, _recipe: &'static str) {}
    pub(crate) const fn counter(_zk: &CuratorFramework) {}
    pub(crate) const fn counter_written(_zk: &CuratorFramework) {}
    pub(crate) const fn counter_merged(_zk: &CuratorFramework, _operations: usize) {}
    pub(crate) const fn counter_conflict(_zk: &CuratorFramework) {}
    pub(crate) const fn counter_promoted(_zk: &CuratorFramework) {}
    pub(crate) const fn counter_unknown(_zk: &CuratorFramework) {}

    #[derive(Debug)]
    pub(crate) struct Caching;

    impl Caching {
        pub(crate) const fn begin(_zk: &CuratorFramework, _path: &str) -> Self {
            Self
        }

        pub(crate) const fn is_fresh(&self, _is_fresh: bool) {}
        pub(crate) const fn end(&self) {}
    }

    #[derive(Debug)]
    pub(crate) struct Scheduled;

    impl Scheduled {
        pub(crate) const fn begin(_zk: &CuratorFramework, _path: &str) -> Self {
            Self
        }

        pub(crate) const fn waits_for(&self, _start: i64) {}
        pub(crate) const fn ran(&self, _result: &'static str) {}
        pub(crate) const fn missed(&self, _slots: u64) {}
    }

    #[derive(Debug)]
    pub(crate) struct Partitioning;

    impl Partitioning {
        pub(crate) const fn begin(_zk: &CuratorFramework, _path: &str) -> Self {
            Self
        }

        pub(crate) const fn assigned(&self, _parts: usize) {}
        pub(crate) const fn acquired(&self) {}
        pub(crate) const fn released(&self) {}
        pub(crate) const fn lost(&self) {}
    }
}

pub(crate) use facade::*;
