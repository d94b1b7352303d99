//! Performs what [`core`](super::core) decides: requests, watches, time.

mod claims;
mod feed;
mod receipts;
mod removal;
mod source;
mod watches;

pub(super) use claims::{Back, Claimed, Claimer, Claims, Returned};
pub(super) use feed::{FeedDriver, Turn};
pub(super) use receipts::{Receipts, count, is_lost, settle, try_settle};
pub(super) use removal::{Removed, delete_all, delete_with_receipt};
pub(super) use source::{Source, into_stream, log_unsettled, next, run, try_next, unless_lost};
