//! Sessions and transactions.

/// Parses a session or a transaction: `0x…`, or a decimal number as in ClickHouse Keeper.
pub(super) fn id(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok(),
    }
}
