//! The reads behind the pages, in as few round trips as possible.

mod listing;
mod node;
mod stats;

pub(crate) use listing::{Listing, ListingQuery, PAGE, Row, SORTABLE, Sort, list, names_from};
pub(crate) use node::{DataRead, Kinds, NodeRead, read_node};
