use zk_curator::CuratorFramework;

/// A random number from 0 to 1, both included, which follows the seed of the framework.
pub(crate) fn fraction(zk: &CuratorFramework) -> f64 {
    let guid = zk.new_guid();
    let digits = guid.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    f64::from(digits.unwrap_or(0)) / f64::from(u32::MAX)
}
