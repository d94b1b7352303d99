//! Searches by name and by content, a step at a time, within limits.

mod pattern;
mod summary;
mod walk;

pub(crate) use pattern::{LONGEST_PATTERN, SearchHit, SearchIn, SearchPattern, SearchPatternError};
pub(crate) use summary::{NamedPaths, SearchSummary};
pub(crate) use walk::{SearchLimits, SearchWalk};
