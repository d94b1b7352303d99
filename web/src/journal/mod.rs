//! Records the changes below a path, with old and new values, in bounded memory.
//!
//! `value`, `known`, `book` and `ledger` are pure. `follow` reads what a watch reports, `journals`
//! has the journals of all paths, and `events` passes the changes on.

mod book;
mod events;
mod follow;
mod journals;
mod known;
mod ledger;
mod value;

pub(crate) use book::{ChangeKind, MOST_CHANGES, RecordedChange};
pub(crate) use events::events;
pub(crate) use journals::{JournalPage, Journals, NoJournal};
pub(crate) use known::MOST_KNOWN;
pub(crate) use value::{JournalValue, MOST_VALUE};
