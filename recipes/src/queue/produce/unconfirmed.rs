//! Items that their producers have not confirmed yet.

use zk_curator::Stat;
use zk_curator::path::ZPath;

use crate::path::child;
use crate::queue::wire::name::apart;

/// The policy for items that their producers have not confirmed yet.
pub(in crate::queue) struct Unconfirmed {
    pub(in crate::queue) producers: ZPath,
    /// `true` if nothing behind them may be taken.
    pub(in crate::queue) strict: bool,
}

impl Unconfirmed {
    /// The node of the producer of an item with these data.
    pub(in crate::queue) fn producer(&self, data: &[u8]) -> String {
        let name = String::from_utf8_lossy(data);
        // Whatever is written there, it is a name.
        let name: String = name
            .chars()
            .filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char))
            .collect();
        child(&self.producers, if name.is_empty() { "none" } else { &name })
    }
}

/// Returns `true` if the producer of an item has not confirmed it yet: it has created the node and
/// not written it.
pub(in crate::queue) fn is_unconfirmed(name: &str, stat: &Stat) -> bool {
    apart(name).1.starts_with("_c_") && stat.version == 0
}
