//! Numbers of nodes and other things.

pub(crate) use zk_curator_ops::text::grouped;

/// Returns a number with its digits in groups of three; empty for 0.
pub(crate) fn unless_zero(number: usize) -> String {
    if number == 0 { String::new() } else { grouped(number) }
}
