use std::time::Duration;

use tokio::time::Instant;

use super::RetryPolicy;
use crate::core::RandomSource;
use crate::error::Error;

/// The retries of a policy that an operation has spent.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) retries: u32,
    started: Instant,
    pub(super) memory: Memory,
}

/// The copy of a stateful policy, once it was requested.
#[derive(Debug, Default)]
pub(super) struct Memory(Option<Option<Box<dyn RetryPolicy>>>);

impl Memory {
    /// Returns the policy to use: `policy`, or its copy.
    fn of<'a>(
        &'a mut self,
        policy: &'a dyn RetryPolicy,
        random: &RandomSource,
    ) -> &'a dyn RetryPolicy {
        let begin = || match random.seed() {
            Some(seed) => policy.begin_seeded(seed),
            None => policy.begin(),
        };
        self.0.get_or_insert_with(begin).as_deref().unwrap_or(policy)
    }
}

impl Ledger {
    pub(super) fn new(started: Instant) -> Self {
        Self { retries: 0, started, memory: Memory::default() }
    }

    /// Spends a retry. `own` is used in place of `policy`, with its own state, but within this
    /// budget.
    pub(super) fn spend(
        &mut self,
        policy: &dyn RetryPolicy,
        own: Option<(&dyn RetryPolicy, &mut Memory)>,
        random: &RandomSource,
        error: &Error,
    ) -> Option<Duration> {
        let elapsed = self.started.elapsed();
        let asked = match own {
            Some((own, memory)) => memory.of(own, random),
            None => self.memory.of(policy, random),
        };
        let delay = asked.next_delay(self.retries, elapsed, error)?;
        self.retries = self.retries.saturating_add(1);
        Some(delay)
    }
}
