//! The pages of a table.

use crate::show::grouped;

/// Returns the places of the rows on a page, such as `201–400 of 1,000`.
pub(super) fn range(from: usize, shown: usize, total: usize) -> String {
    match shown {
        0 => "none".to_owned(),
        shown => {
            format!("{}–{} of {}", grouped(from + 1), grouped(from + shown), grouped(total))
        }
    }
}

/// Returns the field `from` of the address of a page; empty for the first page.
pub(super) fn from_field(from: usize) -> String {
    if from == 0 { String::new() } else { from.to_string() }
}
