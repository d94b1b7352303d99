//! The pages: handlers, and views of nodes.

mod card;
mod change;
mod data;
mod data_form;
mod edit;
mod ensemble;
mod ensemble_charts;
mod ensemble_sessions;
mod frame;
mod head;
mod help;
mod journal;
mod login;
mod node;
mod paging;
mod problem;
mod recipes;
mod restore;
mod search;
mod services;
mod tree;
mod why;

pub(crate) use change::change;
pub(crate) use data::data;
pub(crate) use data_form::data_form;
pub(crate) use ensemble::ensemble;
pub(crate) use help::help;
pub(crate) use journal::journal;
pub(crate) use login::{sign_in, sign_in_page, sign_out};
pub(crate) use node::{node, raw};
pub(crate) use problem::problem_page;
pub(crate) use recipes::recipes;
pub(crate) use search::search;
pub(crate) use services::services;
pub(crate) use tree::{go, root, tree};
pub(crate) use why::why;
