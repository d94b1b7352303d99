//! The sessions of a server or an ensemble, in one table for all members.

mod deadlines;
mod record;
mod table;

pub(crate) use record::{SavedSession, SavedSessions, Session};
pub(crate) use table::Sessions;
