//! Searches by name and by content, a step at a time, within limits.

mod pattern;
mod run;
mod summary;
mod walk;

pub(crate) use pattern::{
    LONGEST_LINE, LONGEST_PATTERN, MOST_OPENED, SearchHit, SearchIn, SearchPattern,
};
pub(crate) use run::{SearchPart, search_parts};
pub(crate) use summary::{NamedPaths, SearchEnd, SearchSummary};
pub(crate) use walk::{SearchLimits, SearchWalk};
