//! Items that their producers have not confirmed yet.

use zk_curator::Stat;
use zk_curator::path::ZPath;

use super::core::name::apart;
use crate::path::child;

/// The policy for items that their producers have not confirmed yet.
pub(super) struct Unconfirmed {
    pub(super) producers: ZPath,
    /// Whether nothing behind them may be taken.
    pub(super) strict: bool,
}

impl Unconfirmed {
    /// The node of the producer of an item with these data.
    pub(super) fn producer(&self, data: &[u8]) -> String {
        let name = String::from_utf8_lossy(data);
        // Whatever is written there, it is a name.
        let name: String =
            name.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect();
        child(&self.producers, if name.is_empty() { "none" } else { &name })
    }
}

/// Whether the producer of an item has not confirmed it yet: it has created the node and not written it.
pub(super) fn is_unconfirmed(name: &str, stat: &Stat) -> bool {
    apart(name).1.starts_with("_c_") && stat.version == 0
}
