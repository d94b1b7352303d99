//! [`LagGuard`]: keeps a member behind.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::millis;
use crate::ensemble::{Ensemble, faults};

/// The lag of a member, see [`TestCluster::lag`](crate::TestCluster::lag). Dropping the guard ends
/// it, and the member catches up before `drop` returns unless another guard exists.
/// [`LagGuard::forget`] keeps the lag.
#[derive(Debug)]
#[must_use = "dropping the guard ends the lag"]
pub struct LagGuard {
    ensemble: Weak<Ensemble>,
    member: usize,
    number: u64,
}

impl LagGuard {
    pub(super) fn install(
        ensemble: &Arc<Ensemble>,
        member: usize,
        delay: Option<Duration>,
    ) -> Self {
        let number = ensemble.update(|state| faults::begin_lag(state, member, delay.map(millis)));
        ensemble.deadlines_changed();
        Self { ensemble: Arc::downgrade(ensemble), member, number }
    }

    /// Keeps the lag until the member ends.
    pub fn forget(mut self) {
        self.ensemble = Weak::new();
    }
}

impl Drop for LagGuard {
    fn drop(&mut self) {
        if let Some(ensemble) = self.ensemble.upgrade() {
            ensemble.update(|state| faults::end_lag(state, self.member, self.number));
        }
    }
}
