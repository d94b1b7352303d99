//! Reasons that are kept in nodes.

/// The longest reason that is kept, in bytes.
pub(crate) const LONGEST: usize = 1024;

/// The beginning of a reason, as long as is kept of it.
pub(crate) fn cut(why: &str) -> &str {
    let mut end = why.len().min(LONGEST);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    &why[..end]
}
