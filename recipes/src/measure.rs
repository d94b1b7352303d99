//! What recipes measure, or nothing without the feature: see [`observe`](crate::observe).

#[cfg(feature = "metrics")]
mod facade {
    use tokio::time::Instant;
    use zk_curator::Ownership;

    /// Waits for a lock.
    pub(crate) struct Waiting(Instant);

    impl Waiting {
        pub(crate) fn begin() -> Self {
            Self(Instant::now())
        }

        pub(crate) fn over(self, recipe: &'static str) {
            metrics::histogram!("zk_curator_lock_acquire_duration_seconds", "recipe" => recipe)
                .record(self.0.elapsed());
        }
    }

    /// Holds a lock. Dropped before the node of the lock, whose end is its loss otherwise.
    pub(crate) struct Holding {
        since: Instant,
        recipe: &'static str,
        ownership: Ownership,
        /// Whether it was lost, if that is known.
        is_lost: Option<bool>,
    }

    impl Holding {
        pub(crate) fn begin(recipe: &'static str, ownership: &Ownership) -> Self {
            metrics::gauge!("zk_curator_locks_held", "recipe" => recipe).increment(1.0);
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
            let recipe = self.recipe;
            metrics::gauge!("zk_curator_locks_held", "recipe" => recipe).decrement(1.0);
            metrics::histogram!("zk_curator_lock_hold_duration_seconds", "recipe" => recipe)
                .record(self.since.elapsed());
            if self.is_lost.unwrap_or_else(|| self.ownership.is_over()) {
                metrics::counter!("zk_curator_locks_lost_total", "recipe" => recipe).increment(1);
            }
        }
    }

    pub(crate) fn handed_over() {
        metrics::counter!("zk_curator_lock_handovers_total").increment(1);
    }

    /// A term of leadership.
    #[derive(Debug)]
    pub(crate) struct Term {
        since: Instant,
        recipe: &'static str,
    }

    impl Term {
        pub(crate) fn begin(node: &str) -> Self {
            // Nobody chooses these names.
            let tag = node.trim_end_matches(|char: char| char.is_ascii_digit() || char == '-');
            let recipe = if tag.ends_with("latch") {
                "latch"
            } else if tag.ends_with("election") {
                "election"
            } else {
                "selector"
            };
            metrics::gauge!("zk_curator_leader", "recipe" => recipe).increment(1.0);
            metrics::counter!("zk_curator_leader_terms_total", "recipe" => recipe).increment(1);
            Self { since: Instant::now(), recipe }
        }

        pub(crate) fn end(&self, is_lost: bool) {
            let recipe = self.recipe;
            metrics::gauge!("zk_curator_leader", "recipe" => recipe).decrement(1.0);
            metrics::histogram!("zk_curator_leader_term_duration_seconds", "recipe" => recipe)
                .record(self.since.elapsed());
            if is_lost {
                metrics::counter!("zk_curator_leader_terms_lost_total", "recipe" => recipe).increment(1);
            }
        }
    }

    pub(crate) fn listed(path: &str, items: usize) {
        #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 items")]
        metrics::gauge!("zk_curator_queue_depth", "path" => path.to_owned()).set(items as f64);
    }

    /// An item was handed out for the first time, or again.
    pub(crate) fn delivered(recipe: &'static str, attempt: u32) {
        metrics::counter!("zk_curator_queue_deliveries_total", "recipe" => recipe).increment(1);
        if attempt > 1 {
            metrics::counter!("zk_curator_queue_redeliveries_total", "recipe" => recipe).increment(1);
        }
    }

    pub(crate) fn dead_letter(recipe: &'static str) {
        metrics::counter!("zk_curator_queue_dead_letters_total", "recipe" => recipe).increment(1);
    }

    fn count(name: &'static str, number: u64) {
        metrics::counter!(name).increment(number);
    }

    pub(crate) fn counter_written() {
        count("zk_curator_counter_writes_total", 1);
    }

    /// Operations that were done by one write, beyond the first of them.
    pub(crate) fn counter_merged(operations: usize) {
        count("zk_curator_counter_merged_total", u64::try_from(operations).unwrap_or(u64::MAX));
    }

    pub(crate) fn counter_conflict() {
        count("zk_curator_counter_conflicts_total", 1);
    }

    pub(crate) fn counter_promoted() {
        count("zk_curator_counter_promotions_total", 1);
    }

    pub(crate) fn counter_unknown() {
        count("zk_curator_counter_unknown_total", 1);
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use zk_curator::Ownership;

    pub(crate) struct Waiting;

    impl Waiting {
        pub(crate) const fn begin() -> Self {
            Self
        }

        pub(crate) const fn over(self, _recipe: &'static str) {}
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

    #[derive(Debug)]
    pub(crate) struct Term;

    impl Term {
        pub(crate) const fn begin(_node: &str) -> Self {
            Self
        }

        pub(crate) const fn end(&self, _is_lost: bool) {}
    }

    pub(crate) const fn handed_over() {}
    pub(crate) const fn listed(_path: &str, _items: usize) {}
    pub(crate) const fn delivered(_recipe: &'static str, _attempt: u32) {}
    pub(crate) const fn dead_letter(_recipe: &'static str) {}
    pub(crate) const fn counter_written() {}
    pub(crate) const fn counter_merged(_operations: usize) {}
    pub(crate) const fn counter_conflict() {}
    pub(crate) const fn counter_promoted() {}
    pub(crate) const fn counter_unknown() {}
}

pub(crate) use facade::*;
