use zk_curator::CuratorFramework;

/// A random number from 0 to 1, both included, which follows the seed of the framework.
pub(crate) fn fraction(zk: &CuratorFramework) -> f64 {
    let guid = zk.new_guid();
    let digits = guid.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    f64::from(digits.unwrap_or(0)) / f64::from(u32::MAX)
}

/// The position in a list of this length that is at this fraction of it, from 0 to 1; 0 for an
/// empty list.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "from zero to the length of a list"
)]
pub(crate) fn index(fraction: f64, length: usize) -> usize {
    ((fraction * length as f64) as usize).min(length.saturating_sub(1))
}
