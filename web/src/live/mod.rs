//! Live pages: one watch on the servers for each opened path, shared by all of its viewers.

mod hub;
mod news;
mod room;
mod scope;
mod shared;
mod sse;
mod watch;

pub(crate) use hub::{Hub, NoRoom};
pub(crate) use news::{Freshness, News};
pub(crate) use scope::Scope;
pub(crate) use shared::{MemoKey, SharedRead};
pub(crate) use sse::{ensemble_events, events, lasting, news_event};
pub(crate) use watch::{Unwatched, watch_below};
