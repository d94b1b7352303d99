//! The forms of names that the libraries give to nodes.

use zk_curator::path::SequenceSuffix;

use crate::path::is_uuid;

/// The prefix of the names of protected nodes.
const PROTECTED: &str = "_c_";

/// Returns `true` for a UUID without hyphens, as kazoo writes it.
pub(super) fn is_hex(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 32 && text.bytes().all(is_digit)
}

/// Returns `true` for a sequential node with this tag and with no other prefix than Curator's and
/// kazoo's. Unlike the recipes, which wait for every node that ends with the tag and a number.
pub(super) fn is_tagged(name: &str, tag: &str) -> bool {
    let Some(number) = SequenceSuffix::after(name, tag) else { return false };
    let length = tag.len() + format!("{:010}", number.get()).len();
    name.len().checked_sub(length).and_then(|end| name.get(..end)).is_some_and(|prefix| {
        let protected = prefix.strip_prefix(PROTECTED).and_then(|rest| rest.strip_suffix('-'));
        prefix.is_empty() || is_hex(prefix) || protected.is_some_and(is_uuid)
    })
}
