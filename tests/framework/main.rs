//! The framework: operations, connection state, retries, ownership, and what happens to them when
//! something breaks.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod advice;
mod cancel;
mod certain;
mod certain_operations;
mod changes_since;
mod close;
mod cluster_faults;
mod curator_bugs;
mod deadlines;
mod ensemble;
mod errors;
mod faults;
mod identity;
mod janitor;
mod large_requests;
mod listeners;
mod model;
mod multi_read;
mod namespaces;
mod observe;
mod operations;
mod options;
mod overviews;
mod ownership;
mod path_template;
mod raw_native;
mod readme;
mod retry;
mod runtime;
mod schema;
mod sessions;
mod sources;
mod state;
mod tree;
mod watch_children;
mod watch_data;
mod watch_wait;
mod watches;
