use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::raw::RawClient;

/// One session of the raw client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) raw: Arc<dyn RawClient>,
    /// Counts the sessions of a framework, from one.
    pub(crate) epoch: u64,
    /// Cancelled when the session is over.
    pub(crate) lost: CancellationToken,
    /// The servers that it was opened with.
    pub(super) servers: String,
}
