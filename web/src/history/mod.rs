//! The past, from the transaction logs and snapshots of a server.
//!
//! `source` runs reads in threads of their own, and `query` has their fields. `changes`, `past` and
//! `recover` are the reads. `view` decides which values are shown, and `shown` has only these.
//! `failure` makes problems of errors.

mod changes;
mod failure;
mod past;
mod query;
mod recover;
mod shown;
mod source;
mod view;

pub(crate) use changes::{MOST_LISTED, read_history};
pub(crate) use past::{PastNode, PastRead, read_past};
pub(crate) use query::{HistoryQuery, moment_of, skips_damaged};
pub(crate) use recover::recover;
pub(crate) use shown::ShownHistory;
pub(crate) use source::{HistoryLimits, HistorySource};
pub(crate) use view::{HiddenReason, PastChange, PastValue, PastView, PastWho};
