//! The seed of a run, and the seeds and generators that derive from it.

use fastrand::Rng;

/// Derives the seed of a part of a run. The draws of one part do not shift those of another.
#[must_use]
pub fn of(seed: u64, part: &str, number: u64) -> u64 {
    let mut mixed = seed;
    for word in part.bytes().map(u64::from).chain([number]) {
        // SplitMix64.
        mixed = mixed.wrapping_add(word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
    }
    mixed
}

/// Creates the generator of a part of a run.
pub(crate) fn rng(seed: u64, part: &str, number: u64) -> Rng {
    Rng::with_seed(of(seed, part, number))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn every_part_has_its_own() {
        let mut all =
            vec![of(1, "client", 0), of(1, "client", 1), of(1, "faults", 0), of(2, "client", 0)];
        all.dedup();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
    }
}
