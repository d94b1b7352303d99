//! The pages: handlers, and views of nodes.

mod change;
mod data;
mod data_form;
mod edit;
mod frame;
mod head;
mod help;
mod journal;
mod login;
mod node;
mod problem;
mod restore;
mod tree;

pub(crate) use change::change;
pub(crate) use data::data;
pub(crate) use data_form::data_form;
pub(crate) use help::help;
pub(crate) use journal::journal;
pub(crate) use login::{sign_in, sign_in_page, sign_out};
pub(crate) use node::{node, raw};
pub(crate) use problem::problem_page;
pub(crate) use tree::{go, root, tree};
