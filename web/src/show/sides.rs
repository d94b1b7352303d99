//! Two values side by side, line by line.

use zk_curator_ops::data::hex;

use super::data::{opened, text_of};
use super::json::json_lines;
use super::text::visible_data;

/// The maximum number of lines of a value.
const MOST_LINES: usize = 400;
/// The maximum number of bytes of the content of gzip.
const MOST_OPENED: usize = 64 << 10;
/// The maximum number of bytes in a dump.
const MOST_DUMPED: usize = 1 << 10;
/// The maximum number of comparisons of lines. Above it, everything between the equal beginning and
/// the equal end counts as changed.
const MOST_CELLS: usize = 40_000;
/// The equal lines that are shown before and after a difference.
const CONTEXT: usize = 2;

/// A row with a line of each value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SideRow {
    /// The line of the old value; `None` if it has none here.
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
    /// `true` if the lines are equal.
    pub(crate) is_same: bool,
    /// `true` if equal lines are left out here.
    pub(crate) is_gap: bool,
}

/// Returns the lines of data: of JSON with indentation, of text, of the content of gzip, or of a
/// dump. Data that are not complete may end within a character.
pub(crate) fn value_lines(data: &[u8], is_complete: bool) -> Vec<String> {
    let gzip = opened(data, MOST_OPENED);
    let is_complete = gzip.as_ref().map_or(is_complete, |gzip| gzip.is_complete);
    let data = gzip.as_ref().map_or(data, |gzip| &gzip.content[..]);
    let Some(text) = text_of(data, is_complete) else {
        return hex(&data[..data.len().min(MOST_DUMPED)]).lines().map(ToOwned::to_owned).collect();
    };
    if let Some(lines) = json_lines(text, MOST_LINES) {
        let mut depth = 0_usize;
        let indented = lines.into_iter().map(|line| {
            depth -= usize::from(line.closes).min(depth);
            let text = format!("{}{}", "  ".repeat(depth), line.text);
            depth += usize::from(line.opens);
            text
        });
        return indented.collect();
    }
    text.lines().take(MOST_LINES).map(|line| visible_data(line).into_owned()).collect()
}

/// Compares two values. Equal lines far from a difference are left out.
pub(crate) fn sides(old: &[String], new: &[String]) -> Vec<SideRow> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_old, tail) = old_rest.split_at(old_rest.len() - end);
    let middle_new = &new_rest[..new_rest.len() - end];
    let mut rows: Vec<_> = old[..start].iter().map(|line| same(line)).collect();
    rows.extend(paired(&steps(middle_old, middle_new)));
    rows.extend(tail.iter().map(|line| same(line)));
    shortened(rows)
}

/// A step from the old lines to the new ones.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LineStep<'a> {
    Same(&'a String),
    Old(&'a String),
    New(&'a String),
}

/// Finds the longest common lines.
fn steps<'a>(old: &'a [String], new: &'a [String]) -> Vec<LineStep<'a>> {
    let width = new.len() + 1;
    if old.len().saturating_mul(new.len()) > MOST_CELLS {
        return old.iter().map(LineStep::Old).chain(new.iter().map(LineStep::New)).collect();
    }
    // The length of the longest common lines from each pair of places on.
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            longest[a * width + b] = if old[a] == new[b] {
                longest[(a + 1) * width + b + 1] + 1
            } else {
                longest[(a + 1) * width + b].max(longest[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b, mut steps) = (0, 0, Vec::new());
    while a < old.len() || b < new.len() {
        let is_old = |a: usize, b: usize| {
            b == new.len() || longest[(a + 1) * width + b] >= longest[a * width + b + 1]
        };
        if a < old.len() && b < new.len() && old[a] == new[b] {
            steps.push(LineStep::Same(&old[a]));
            (a, b) = (a + 1, b + 1);
        } else if a < old.len() && is_old(a, b) {
            steps.push(LineStep::Old(&old[a]));
            a += 1;
        } else {
            steps.push(LineStep::New(&new[b]));
            b += 1;
        }
    }
    steps
}

/// Puts removed and added lines next to each other.
fn paired(steps: &[LineStep<'_>]) -> Vec<SideRow> {
    let mut rows: Vec<SideRow> = Vec::new();
    // The first row of the present difference.
    let mut first = 0;
    for step in steps {
        match step {
            LineStep::Same(line) => {
                rows.push(same(line));
                first = rows.len();
            }
            LineStep::Old(line) => {
                let line = Some((*line).clone());
                match rows[first..].iter_mut().find(|row| row.old.is_none()) {
                    Some(row) => row.old = line,
                    None => rows.push(SideRow { old: line, ..SideRow::default() }),
                }
            }
            LineStep::New(line) => {
                let line = Some((*line).clone());
                match rows[first..].iter_mut().find(|row| row.new.is_none()) {
                    Some(row) => row.new = line,
                    None => rows.push(SideRow { new: line, ..SideRow::default() }),
                }
            }
        }
    }
    rows
}

fn same(line: &str) -> SideRow {
    let (old, new) = (Some(line.to_owned()), Some(line.to_owned()));
    SideRow { old, new, is_same: true, is_gap: false }
}

/// Replaces equal lines far from a difference by a gap.
fn shortened(rows: Vec<SideRow>) -> Vec<SideRow> {
    let differs: Vec<_> = rows.iter().map(|row| !row.is_same).collect();
    let is_near = |at: usize| {
        let from = at.saturating_sub(CONTEXT);
        differs[from..differs.len().min(at + CONTEXT + 1)].contains(&true)
    };
    let mut shown: Vec<SideRow> = Vec::new();
    for (at, row) in rows.into_iter().enumerate() {
        if is_near(at) {
            shown.push(row);
        } else if shown.last().is_none_or(|last| !last.is_gap) {
            shown.push(SideRow { is_gap: true, ..SideRow::default() });
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_terminator(',').map(ToOwned::to_owned).collect()
    }

    /// Returns the rows as `old|new`, with `…` for a gap.
    fn rows(old: &str, new: &str) -> Vec<String> {
        let text = |line: &Option<String>| line.clone().unwrap_or_default();
        let row = |row: &SideRow| match row.is_gap {
            true => "…".to_owned(),
            false => format!("{}|{}", text(&row.old), text(&row.new)),
        };
        sides(&lines(old), &lines(new)).iter().map(row).collect()
    }

    #[test]
    fn changed_lines_are_next_to_each_other() {
        assert_eq!(rows("a,b,c", "a,x,c"), ["a|a", "b|x", "c|c"]);
        assert_eq!(rows("a,c", "a,b,c"), ["a|a", "|b", "c|c"]);
        assert_eq!(rows("", "a"), ["|a"]);
        assert_eq!(rows("a,b", ""), ["a|", "b|"]);
    }

    #[test]
    fn equal_lines_far_away_are_left_out() {
        let old = "1,2,3,4,5,6,x,7,8,9,0";
        let new = "1,2,3,4,5,6,y,7,8,9,0";
        assert_eq!(rows(old, new), ["…", "5|5", "6|6", "x|y", "7|7", "8|8", "…"]);
        assert_eq!(rows("a,b", "a,b"), ["…"]);
    }

    #[test]
    fn values_have_lines() {
        assert_eq!(value_lines(b"a\nb\n", true), ["a", "b"]);
        assert_eq!(value_lines(br#"{"a":[1,{"b":2}]}"#, true)[2], "    1,");
        assert!(value_lines(&[0, 1], true)[0].starts_with("00000000"));
        assert_eq!(value_lines(b"", true), [""; 0]);
        assert_eq!(value_lines(&"ü".as_bytes()[..1], false), [""; 0]);
        assert_eq!(value_lines("x\n".repeat(9_000).as_bytes(), true).len(), MOST_LINES);
    }

    proptest! {
        #[test]
        fn both_values_are_complete(
            old in prop::collection::vec("[abc]", 0..12),
            new in prop::collection::vec("[abc]", 0..12),
        ) {
            let rows = paired(&steps(&old, &new));
            let side = |of: fn(&SideRow) -> Option<String>| -> Vec<String> {
                rows.iter().filter_map(of).collect()
            };
            prop_assert_eq!(side(|row| row.old.clone()), old);
            prop_assert_eq!(side(|row| row.new.clone()), new);
        }
    }
}
