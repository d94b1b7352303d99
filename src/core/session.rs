use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::raw::RawClient;

/// One session of the raw client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) raw: Arc<dyn RawClient>,
    /// The number of the session among those of the framework, from one.
    pub(crate) epoch: u64,
    /// Cancelled when the session is over.
    pub(crate) lost: CancellationToken,
    /// The connect string that the session was opened with.
    pub(super) servers: String,
}
