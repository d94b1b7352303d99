//! Judges of a [`History`]: what a recipe promises, as a function of what its users saw.

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
mod once;
mod progress;
mod recovery;
mod redelivery;
mod rounds;
#[cfg(test)]
mod script;

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
pub use issued::IssuedOnce;
pub use linearizable::Linearizable;
pub use once::OncePerBegin;
pub use progress::Progress;
pub use recovery::Recovery;
pub use redelivery::Redelivery;
pub use rounds::BarrierRounds;

use super::History;

/// A promise that a [`History`] keeps or breaks.
pub trait Checker: fmt::Debug + Send + Sync {
    /// Looks for the first thing in a history that must not be.
    ///
    /// # Errors
    /// What is broken, and the records that prove it.
    fn check(&self, history: &History) -> Result<(), Violation>;
}

/// Something that must not be in a [`History`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{checker}: {broken} (records {records:?})")]
#[non_exhaustive]
pub struct Violation {
    /// Whose promise is broken.
    pub checker: &'static str,
    /// What is broken.
    pub broken: String,
    /// The places of the records that prove it, see [`History::records`] and [`History::excerpt`].
    pub records: Vec<usize>,
}

impl Violation {
    /// A violation of the promise of `checker`, proven by the records at these places.
    pub fn new(checker: &'static str, broken: impl Into<String>, records: impl Into<Vec<usize>>) -> Self {
        Self { checker, broken: broken.into(), records: records.into() }
    }
}
