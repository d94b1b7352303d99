//! A table of a screen: rows with keys, which can be filtered, sorted and selected.

use std::cmp::Ordering;

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CellValue {
    Text(String),
    /// A number, with its text.
    Number(f64, String),
    Missing,
}

impl CellValue {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(_, text) => text,
            Self::Missing => "–",
        }
    }

    /// Orders texts upwards, and numbers downwards. Missing values come last.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(a, _), Self::Number(b, _)) => b.total_cmp(a),
            (Self::Missing, Self::Missing) => Ordering::Equal,
            (Self::Missing, _) => Ordering::Greater,
            (_, Self::Missing) => Ordering::Less,
            (Self::Number(..), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(..)) => Ordering::Greater,
        }
    }
}

impl From<&str> for CellValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for CellValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for CellValue {
    #[expect(clippy::cast_precision_loss, reason = "only the order depends on it")]
    fn from(number: u64) -> Self {
        Self::Number(number as f64, number.to_string())
    }
}

impl From<usize> for CellValue {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl<T: Into<Self>> From<Option<T>> for CellValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// Returns a rate: with a tenth below ten, and in thousands from ten thousand.
pub(crate) fn rate(rate: f64) -> CellValue {
    CellValue::Number(
        rate,
        match rate {
            10_000.0.. => format!("{:.1}k", rate / 1_000.0),
            10.0.. => format!("{rate:.0}"),
            _ => format!("{rate:.1}"),
        },
    )
}

/// A column: its title, and its width in characters; 0 is the rest of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) title: &'static str,
    pub(crate) width: u16,
    /// Numbers are aligned to the right.
    pub(crate) right: bool,
    /// Left out first where there is no room for all.
    pub(crate) spare: bool,
}

impl TableColumn {
    pub(crate) const fn spare(mut self) -> Self {
        self.spare = true;
        self
    }
}

/// Returns a column of text.
pub(crate) const fn left(title: &'static str, width: u16) -> TableColumn {
    TableColumn { title, width, right: false, spare: false }
}

/// Returns a column of numbers.
pub(crate) const fn right(title: &'static str, width: u16) -> TableColumn {
    TableColumn { title, width, right: true, spare: false }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// The name by which the row is found in the next sample.
    pub(crate) key: String,
    pub(crate) cells: Vec<CellValue>,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: &'static [TableColumn],
    pub(crate) rows: Vec<Row>,
    /// What the table does not show, and why.
    pub(crate) note: Option<String>,
}

impl Table {
    pub(crate) const fn new(columns: &'static [TableColumn]) -> Self {
        Self { columns, rows: Vec::new(), note: None }
    }

    pub(crate) fn push(&mut self, key: impl Into<String>, cells: Vec<CellValue>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(Row { key: key.into(), cells });
    }
}

/// The order, the filter and the selection of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The column by which rows are ordered.
    pub(crate) sort: usize,
    pub(crate) reversed: bool,
    key: Option<String>,
    place: usize,
}

impl Selection {
    pub(crate) const fn sorted_by(sort: usize) -> Self {
        Self { sort, reversed: false, key: None, place: 0 }
    }

    /// Returns the rows that contain the text of the filter, in order.
    pub(crate) fn apply(&self, mut table: Table, filter: &str) -> Table {
        let filter = filter.to_lowercase();
        let has =
            |row: &Row| row.cells.iter().any(|cell| cell.text().to_lowercase().contains(&filter));
        table.rows.retain(|row| filter.is_empty() || has(row));
        table.rows.sort_by(|a, b| {
            let order = match (a.cells.get(self.sort), b.cells.get(self.sort)) {
                (Some(a), Some(b)) => a.compare(b),
                _ => Ordering::Equal,
            };
            let order = if self.reversed { order.reverse() } else { order };
            order.then_with(|| a.key.cmp(&b.key))
        });
        table
    }

    /// Returns the place of the selected row: that with the key, else the row at its last place.
    pub(crate) fn place(&self, table: &Table) -> Option<usize> {
        let found = table.rows.iter().position(|row| Some(&row.key) == self.key.as_ref());
        let last = table.rows.len().checked_sub(1)?;
        Some(found.unwrap_or_else(|| self.place.min(last)))
    }

    /// Moves the selection by a number of rows, at most to the ends.
    pub(crate) fn step(&mut self, table: &Table, by: isize) {
        let Some(place) = self.place(table) else { return };
        self.place = place.saturating_add_signed(by).min(table.rows.len() - 1);
        self.key = Some(table.rows[self.place].key.clone());
    }

    /// Selects the first row.
    pub(crate) fn reset(&mut self) {
        self.key = None;
        self.place = 0;
    }

    /// Selects the row with a key, if it exists when the table is shown.
    pub(crate) fn select(&mut self, key: String) {
        self.key = Some(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[TableColumn] = &[left("NAME", 4), right("N", 4)];

    fn table(rows: &[(&str, Option<u64>)]) -> Table {
        let mut table = Table::new(COLUMNS);
        for (name, number) in rows {
            table.push(*name, vec![(*name).into(), (*number).into()]);
        }
        table
    }

    fn names(table: &Table) -> Vec<&str> {
        table.rows.iter().map(|row| row.key.as_str()).collect()
    }

    #[test]
    fn texts_go_up_and_numbers_go_down() {
        let rows = table(&[("b", Some(1)), ("a", Some(2)), ("d", None), ("c", Some(10))]);
        let by = |sort, reversed| {
            let selection = Selection { reversed, ..Selection::sorted_by(sort) };
            names(&selection.apply(rows.clone(), "")).join("")
        };
        assert_eq!(by(0, false), "abcd");
        assert_eq!(by(0, true), "dcba");
        assert_eq!(by(1, false), "cabd");
        assert_eq!(by(9, false), "abcd");
    }

    #[test]
    fn the_filter_ignores_case() {
        let rows = table(&[("Worker", None), ("other", Some(7))]);
        let selection = Selection::sorted_by(0);
        assert_eq!(names(&selection.apply(rows.clone(), "WORK")), ["Worker"]);
        assert_eq!(names(&selection.apply(rows, "7")), ["other"]);
    }

    #[test]
    fn the_selection_follows_its_row() {
        let mut selection = Selection::sorted_by(0);
        let first = table(&[("a", None), ("b", None), ("c", None)]);
        selection.step(&first, 1);
        assert_eq!(selection.place(&first), Some(1));
        assert_eq!(selection.place(&table(&[("b", None), ("c", None)])), Some(0));
        // Its row is gone.
        assert_eq!(selection.place(&table(&[("a", None), ("c", None)])), Some(1));
        assert_eq!(selection.place(&table(&[("a", None)])), Some(0));
        assert_eq!(selection.place(&table(&[])), None);
        selection.step(&table(&[]), 1);
        selection.step(&first, 100);
        assert_eq!(selection.place(&first), Some(2));
        selection.step(&first, -100);
        assert_eq!(selection.place(&first), Some(0));
    }
}
