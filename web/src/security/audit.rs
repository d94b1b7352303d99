//! The record of changes, as events of `tracing`.

use std::fmt;

use tracing::{info, warn};

use super::permit::ChangePermit;

/// A change that was attempted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeChange<'a> {
    /// `create`, `set`, `delete`, `restore` or `undelete`.
    pub(crate) operation: &'static str,
    pub(crate) path: &'a str,
    /// The expected version; `None` for any.
    pub(crate) version: Option<i32>,
    /// The size of the new data in bytes.
    pub(crate) bytes: usize,
}

/// The record of a change that is under way: an event with the target `zk_curator_web::audit`, also
/// for a refused change. It has sizes and no data.
///
/// A request ends when its client closes the connection, and what was already sent to ZooKeeper may
/// still be applied. So a record that is dropped without a result is made too: its change is
/// unknown.
#[derive(Debug)]
#[must_use = "a record that is dropped says that the outcome is unknown"]
pub(crate) struct PendingRecord<'a> {
    permit: &'a ChangePermit,
    change: NodeChange<'a>,
    is_open: bool,
}

impl<'a> PendingRecord<'a> {
    /// Begins the record. Nothing may be sent before.
    pub(crate) const fn new(permit: &'a ChangePermit, change: NodeChange<'a>) -> Self {
        Self { permit, change, is_open: true }
    }

    /// Records the result. `path` is the changed node, whose name may have a number of the server.
    pub(crate) fn end<T, E: fmt::Display>(mut self, path: &str, result: &Result<T, E>) {
        self.is_open = false;
        match result {
            Ok(_) => self.record(path, None),
            Err(error) => self.record(path, Some(error)),
        }
    }

    /// Records nothing, because nothing was sent.
    pub(crate) fn withdraw(mut self) {
        self.is_open = false;
    }

    fn record(&self, path: &str, error: Option<&dyn fmt::Display>) {
        let NodeChange { operation, version, bytes, .. } = self.change;
        let version = version.map_or_else(|| "any".to_owned(), |version| version.to_string());
        let (who, version) = (self.permit.who(), version.as_str());
        match error {
            None => {
                info!(
                    target: "zk_curator_web::audit",
                    who, operation, path, version, bytes, "changed"
                );
            }
            Some(error) => {
                warn!(
                    target: "zk_curator_web::audit",
                    who, operation, path, version, bytes, %error,
                    "not changed, or unknown"
                );
            }
        }
    }
}

impl Drop for PendingRecord<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.record(self.change.path, Some(&"the request ended before the response"));
        }
    }
}
