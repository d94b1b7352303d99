//! The REST interface: the bodies of responses, and the requests that pages do not have.

mod backup;
mod changes;
mod children;
mod diff;
mod ensemble;
mod history;
mod names;
mod node;
mod openapi;
mod precondition;
mod search;
mod services;
mod watch;
mod why;
mod write;

pub(crate) use backup::backup;
pub(crate) use changes::changes;
pub(crate) use children::children_json;
pub(crate) use diff::diff;
pub(crate) use ensemble::{SESSIONS, ensemble_json, watch_ensemble};
pub(crate) use history::{history_json, past_json};
pub(crate) use names::names;
pub(crate) use node::{node_json, raw_response, wants_raw};
pub(crate) use openapi::openapi;
pub(crate) use search::{SearchQuery, search_json, search_lines, wants_lines};
pub(crate) use services::services_json;
pub(crate) use watch::watch;
pub(crate) use why::{recipes_json, why_json};
pub(crate) use write::{creatable, delete, post, put};
