//! Live pages: one watch on the servers for each opened path, shared by all of its viewers.

mod hub;
mod news;
mod room;
mod scope;
mod shared;
mod sse;

pub(crate) use hub::{Hub, NoRoom};
pub(crate) use scope::Scope;
pub(crate) use shared::{MemoKey, SharedRead};
pub(crate) use sse::{ensemble_events, events};
