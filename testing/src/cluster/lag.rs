use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::millis;
use crate::shared::Ensemble;

/// A reason for a member to lag, see [`TestCluster::lag`](crate::TestCluster::lag). Dropping it ends it, and the member
/// catches up before `drop` returns unless it has another one; [`LagGuard::forget`] keeps it.
#[derive(Debug)]
#[must_use = "dropping the guard ends the lag"]
pub struct LagGuard {
    ensemble: Weak<Ensemble>,
    member: usize,
    number: u64,
}

impl LagGuard {
    pub(super) fn install(ensemble: &Arc<Ensemble>, member: usize, delay: Option<Duration>) -> Self {
        let number = ensemble.update(|state| state.begin_lag(member, delay.map(millis)));
        ensemble.deadlines_changed();
        Self { ensemble: Arc::downgrade(ensemble), member, number }
    }

    /// Keeps the lag for as long as the member lives.
    pub fn forget(mut self) {
        self.ensemble = Weak::new();
    }
}

impl Drop for LagGuard {
    fn drop(&mut self) {
        if let Some(ensemble) = self.ensemble.upgrade() {
            ensemble.update(|state| state.end_lag(self.member, self.number));
        }
    }
}
