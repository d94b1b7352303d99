//! The pages of a table.

/// Returns the places of the rows on a page, such as `201–400 of 1000`.
pub(super) fn range(from: usize, shown: usize, total: usize) -> String {
    match shown {
        0 => "none".to_owned(),
        shown => format!("{}–{} of {total}", from + 1, from + shown),
    }
}

/// Returns the field `from` of the address of a page; empty for the first page.
pub(super) fn from_field(from: usize) -> String {
    if from == 0 { String::new() } else { from.to_string() }
}
