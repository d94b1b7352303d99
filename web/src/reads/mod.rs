//! The reads behind the pages, in as few round trips as possible.

mod growth;
mod limits;
mod listing;
mod node;
mod recipes;
mod services;
mod sessions;
mod stats;
mod why;

pub(crate) use growth::Growth;
pub(crate) use limits::{LONGEST_LABEL, MOST_INSTANCES, MOST_NODES};
pub(crate) use listing::{
    Listing, ListingQuery, PAGE, Row, SORTABLE, Sort, list, names_from, next_of,
};
pub(crate) use node::{DataRead, Kinds, NodeRead, read_node};
pub(crate) use recipes::{HolderRow, RecipeRow, RecipesPart, RecipesRead, read_recipes};
pub(crate) use services::{
    InstanceRead, Payload, ServiceRead, ServicesRead, UndecodableRead, read_services,
};
pub(crate) use sessions::{KnownSessions, SessionCache};
pub(crate) use why::{CardRead, WhyRead, read_card, read_why};
