//! The children of a node, a page at a time.

use std::cmp::Reverse;

use zk_curator::{CuratorFramework, Error, Stat};

use super::stats::{ChildStat, stats_at_once, stats_each};
use crate::paths::child_of;
use crate::show::{NodeKind, sequence_of};

/// The number of children on a page.
pub(crate) const PAGE: usize = 200;
/// The maximum number of children that are sorted by their stats, which needs a request for each.
pub(crate) const SORTABLE: usize = 5_000;
/// The approximate number of bytes of a page. Long names end a page early.
const MOST_BYTES: usize = 200 << 10;
/// The approximate number of bytes of a row without its name, which occurs in about six places.
const ROW: usize = 700;
const NAME_OCCURS: usize = 6;

/// The order of children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sort {
    #[default]
    Name,
    /// The number that the server has appended; names without one come last.
    Sequence,
    /// The time of the last change, the latest first.
    Time,
    /// The size of the data, the largest first.
    Size,
    /// The number of children, the largest first.
    Children,
}

impl Sort {
    pub(crate) const ALL: [Self; 5] =
        [Self::Name, Self::Sequence, Self::Time, Self::Size, Self::Children];

    /// Returns the name in URLs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Sequence => "sequence",
            Self::Time => "time",
            Self::Size => "size",
            Self::Children => "children",
        }
    }

    /// Returns the order of a name; by name for an unknown one.
    pub(crate) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|sort| sort.name() == name).unwrap_or_default()
    }

    const fn needs_stats(self) -> bool {
        matches!(self, Self::Time | Self::Size | Self::Children)
    }
}

/// The children that a page shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ListingQuery {
    /// A part of the names, or a pattern with `*`; upper and lower case do not differ. Empty for
    /// all.
    pub(crate) filter: String,
    pub(crate) sort: Sort,
    /// The number of children before the first one.
    pub(crate) from: usize,
}

/// A page of the children of a node.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    /// The stat of the parent.
    pub(crate) stat: Stat,
    /// The number of children.
    pub(crate) total: usize,
    /// The number of children that match the filter.
    pub(crate) matching: usize,
    pub(crate) rows: Vec<Row>,
    /// `false` if there are too many children for the requested order: they are sorted by name.
    pub(crate) is_sorted: bool,
    /// The number of children before the next page, if there is one.
    pub(crate) next: Option<usize>,
}

/// A child.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    /// `None` if the client may not see it.
    pub(crate) stat: Option<Stat>,
}

/// Lists children: one request for the names, and one for the stats of those on the page. An order
/// by stats needs a request for each child in place of the second one.
pub(crate) async fn list(
    zk: &CuratorFramework,
    path: &str,
    query: &ListingQuery,
) -> Result<Listing, Error> {
    let (mut names, stat) = zk.children(path).with_stat().await?;
    let total = names.len();
    if !query.filter.is_empty() {
        let filter = Filter::new(&query.filter);
        names.retain(|name| filter.matches(name));
    }
    let matching = names.len();
    names.sort_unstable();
    if query.sort == Sort::Sequence {
        names.sort_by_key(|name| sequence_of(name).map_or((true, 0), |number| (false, number)));
    }
    let is_sorted = !query.sort.needs_stats() || matching <= SORTABLE;
    if is_sorted && query.sort.needs_stats() {
        return sorted_by_stats(zk, path, query, names, stat, total).await;
    }
    let shown = page_of(&names, query.from);
    let paths: Vec<_> = shown.iter().map(|name| child_of(path, name)).collect();
    let stats = stats_at_once(zk, &paths).await?;
    let next = next_of(query.from, shown.len(), matching);
    let rows = shown.iter().cloned().zip(stats).filter_map(row).collect();
    Ok(Listing { stat, total, matching, rows, is_sorted, next })
}

async fn sorted_by_stats(
    zk: &CuratorFramework,
    path: &str,
    query: &ListingQuery,
    names: Vec<String>,
    stat: Stat,
    total: usize,
) -> Result<Listing, Error> {
    let paths: Vec<_> = names.iter().map(|name| child_of(path, name)).collect();
    let stats = stats_each(zk, &paths).await?;
    let mut rows: Vec<_> = names.into_iter().zip(stats).filter_map(row).collect();
    let key = |stat: &Stat| match query.sort {
        Sort::Time => stat.mtime,
        Sort::Size => i64::from(stat.data_length),
        _ => i64::from(stat.num_children),
    };
    // Equal ones stay in the order of their names.
    rows.sort_by_key(|row| Reverse(row.stat.as_ref().map(key)));
    let matching = rows.len();
    let names: Vec<_> = rows.iter().map(|row| row.name.clone()).collect();
    let shown = page_of(&names, query.from).len();
    let rows: Vec<_> = rows.into_iter().skip(query.from).take(shown).collect();
    let next = next_of(query.from, shown, matching);
    Ok(Listing { stat, total, matching, rows, is_sorted: true, next })
}

/// Returns the names on a page: at most [`PAGE`], and at least one if there are more.
fn page_of(names: &[String], from: usize) -> &[String] {
    let rest = names.get(from..).unwrap_or_default();
    let mut bytes = 0;
    let fits = |name: &&String| {
        bytes += ROW + NAME_OCCURS * name.len();
        bytes <= MOST_BYTES
    };
    let fitting = rest.iter().take(PAGE).take_while(fits).count();
    &rest[..fitting.max(1).min(rest.len())]
}

/// Returns the number of rows before the next page, if there is one.
pub(crate) const fn next_of(from: usize, shown: usize, matching: usize) -> Option<usize> {
    let next = from.saturating_add(shown);
    if shown > 0 && next < matching { Some(next) } else { None }
}

fn row((name, stat): (String, ChildStat)) -> Option<Row> {
    match stat {
        ChildStat::Present(stat) => Some(Row { kind: NodeKind::of(&stat), name, stat: Some(stat) }),
        ChildStat::Hidden => Some(Row { kind: NodeKind::Hidden, name, stat: None }),
        ChildStat::Gone => None,
    }
}

/// Returns the names of children that begin with a text, sorted, at most `most`.
pub(crate) async fn names_from(
    zk: &CuratorFramework,
    path: &str,
    beginning: &str,
    most: usize,
) -> Result<Vec<String>, Error> {
    let mut names = zk.children(path).await?;
    names.retain(|name| name.starts_with(beginning));
    names.sort_unstable();
    names.truncate(most);
    Ok(names)
}

/// A filter of names.
struct Filter(Vec<String>);

impl Filter {
    /// A text without a star may stand anywhere in a name.
    fn new(pattern: &str) -> Self {
        let pattern = pattern.to_lowercase();
        let pattern = if pattern.contains('*') { pattern } else { format!("*{pattern}*") };
        Self(pattern.split('*').map(ToOwned::to_owned).collect())
    }

    /// Takes the first place of each part, which needs no second attempt.
    fn matches(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let [first, middle @ .., last] = self.0.as_slice() else { return false };
        let Some(mut rest) = name.strip_prefix(first.as_str()) else { return false };
        for part in middle {
            let Some(place) = rest.find(part.as_str()) else { return false };
            rest = &rest[place + part.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_parts_or_patterns() {
        for (pattern, name, is_match) in [
            ("ock", "LOCK-1", true),
            ("x", "lock", false),
            ("lock*", "lock-1", true),
            ("lock*", "a-lock", false),
            ("*7", "lock-17", true),
            ("l*k*1", "lock-1", true),
            ("a*a", "a", false),
            ("a**a", "aa", true),
            ("*", "", true),
        ] {
            assert_eq!(Filter::new(pattern).matches(name), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn a_page_is_bounded_in_number_and_in_bytes() {
        let short: Vec<_> = (0..1_000).map(|n| format!("n{n}")).collect();
        assert_eq!(page_of(&short, 0).len(), PAGE);
        assert_eq!(page_of(&short, 900).len(), 100);
        assert_eq!(page_of(&short, 2_000).len(), 0);
        let long = vec!["x".repeat(10_000); 100];
        assert_eq!(page_of(&long, 0).len(), 3);
        let huge = vec!["x".repeat(1 << 20); 3];
        assert_eq!(page_of(&huge, 0).len(), 1);
        assert_eq!((next_of(0, 200, 1_000), next_of(800, 200, 1_000)), (Some(200), None));
        assert_eq!(next_of(5_000, 0, 1_000), None);
    }

    #[test]
    fn orders_have_names() {
        assert!(Sort::ALL.into_iter().all(|sort| Sort::of(sort.name()) == sort));
        assert_eq!(Sort::of("other"), Sort::Name);
    }
}
