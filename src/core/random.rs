//! The random choices of a framework.

use std::sync::{Mutex, PoisonError};

/// A generator that is shared by all of a framework if it has a seed, and otherwise whatever is best for each choice.
pub(crate) struct Random(Option<Mutex<fastrand::Rng>>);

impl Random {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map(|seed| Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// A UUID of version 4, from the operating system if there is no seed.
    pub(crate) fn guid(&self) -> String {
        let uuid = match self.draw(|rng| rng.u128(..)) {
            Some(bits) => uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid(),
            None => uuid::Uuid::new_v4(),
        };
        uuid.as_hyphenated().to_string()
    }

    /// A seed for something else, if there is one.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.draw(|rng| rng.u64(..))
    }

    fn draw<R>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> R) -> Option<R> {
        let rng = self.0.as_ref()?;
        Some(draw(&mut rng.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
