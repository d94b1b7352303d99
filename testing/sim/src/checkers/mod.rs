//! Checkers of a [`History`]: each one states a promise of a recipe as a function of the events
//! that its users recorded.

mod barrier;
mod cache;
mod commit;
mod counted;
mod delivery;
mod doubts;
mod exclusion;
mod followed;
mod group;
mod holds;
mod issued;
mod linearizable;
mod migrations;
mod movement;
mod observed;
mod once;
mod progress;
mod put_aside;
mod recovery;
mod redelivery;
mod registered;
mod rounds;
#[cfg(test)]
mod script;
mod serializable;

use std::fmt;

pub use barrier::BarrierEpochs;
pub use cache::CacheViews;
pub use commit::AtomicCommit;
pub use counted::CountedOnce;
pub use delivery::Delivery;
pub use doubts::Doubts;
pub use exclusion::Exclusion;
pub use followed::Followed;
pub use group::GroupViews;
pub use issued::{IssuedOnce, IssuedUpTo, SettledForGood};
pub use linearizable::Linearizable;
pub use migrations::Migrations;
pub use movement::Movement;
pub use observed::Observed;
pub use once::OncePerBegin;
pub use progress::Progress;
pub use put_aside::PutAside;
pub use recovery::Recovery;
pub use redelivery::Redelivery;
pub use registered::Registered;
pub use rounds::BarrierRounds;
pub use serializable::Serializable;

use super::History;

/// A promise that a [`History`] keeps or breaks.
pub trait Checker: fmt::Debug + Send + Sync {
    /// Looks for the first violation of the promise in a history.
    ///
    /// # Errors
    /// The [`Violation`]: the broken promise, and the records that prove it.
    fn check(&self, history: &History) -> Result<(), Violation>;
}

/// A broken promise in a [`History`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{checker}: {broken} (records {records:?})")]
#[non_exhaustive]
pub struct Violation {
    /// The name of the checker of the promise.
    pub checker: &'static str,
    /// A description of the violation.
    pub broken: String,
    /// The places of the records that prove it. See [`History::records`] and [`History::excerpt`].
    pub records: Vec<usize>,
}

impl Violation {
    /// Creates a violation of the promise of `checker`, proven by the records at these places.
    pub fn new(
        checker: &'static str,
        broken: impl Into<String>,
        records: impl Into<Vec<usize>>,
    ) -> Self {
        Self { checker, broken: broken.into(), records: records.into() }
    }
}
