//! The random choices of a framework.

use std::time::Duration;

use zk_curator_client::internal::Locked;

/// A generator that a whole framework shares if it has a seed. Without a seed, each choice has its
/// own source.
pub(crate) struct RandomSource(Option<Locked<fastrand::Rng>>);

impl RandomSource {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(seed.map(|seed| Locked::new(fastrand::Rng::with_seed(seed))))
    }

    /// Returns a UUID of version 4, from the operating system if there is no seed.
    pub(crate) fn guid(&self) -> String {
        let uuid = match self.draw(|rng| rng.u128(..)) {
            Some(bits) => uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid(),
            None => uuid::Uuid::new_v4(),
        };
        uuid.as_hyphenated().to_string()
    }

    /// Returns a number, which is not fit for secrets.
    pub(crate) fn number(&self) -> u64 {
        self.draw(|rng| rng.u64(..)).unwrap_or_else(|| fastrand::u64(..))
    }

    /// Returns a number from zero to `most`, both included.
    pub(crate) fn up_to(&self, most: u64) -> u64 {
        self.draw(|rng| rng.u64(..=most)).unwrap_or_else(|| fastrand::u64(..=most))
    }

    /// Returns a time from zero to `most`, both included.
    pub(crate) fn time(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.up_to(nanos))
    }

    /// Returns a seed for another generator, if this one has a seed.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.draw(|rng| rng.u64(..))
    }

    fn draw<R>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> R) -> Option<R> {
        let rng = self.0.as_ref()?;
        Some(draw(&mut rng.lock()))
    }
}

#[cfg(test)]
mod tests {
    use super::RandomSource;

    fn drawn(seed: Option<u64>) -> [u64; 3] {
        let random = RandomSource::new(seed);
        [random.number(), random.number(), random.up_to(u64::MAX)]
    }

    #[test]
    fn seed_decides_all_numbers() {
        assert_eq!(drawn(Some(1)), drawn(Some(1)));
        assert_ne!(drawn(Some(1)), drawn(Some(2)));
        assert_ne!(drawn(None), drawn(None));
    }

    #[test]
    fn both_ends_of_a_range_are_drawn() {
        for seed in [Some(1), None] {
            let random = RandomSource::new(seed);
            let mut seen = [false; 3];
            for _ in 0..200 {
                seen[usize::try_from(random.up_to(2)).unwrap()] = true;
            }
            assert_eq!((seen, random.up_to(0)), ([true; 3], 0));
        }
    }
}
