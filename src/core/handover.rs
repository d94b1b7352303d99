use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::internal::Locked;
use zk_curator_client::internal::atomic::{AtomicBool, Ordering};
use zk_curator_client::{Error as RawError, SessionCredentials};

use super::session::Session;

/// The request to detach the last session instead of closing it, and its credentials once it is
/// detached.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    pub(crate) leaves: AtomicBool,
    pub(crate) left: Locked<Option<SessionCredentials>>,
}

impl Handover {
    /// Closes or detaches the last session of a framework.
    pub(crate) async fn end(&self, session: &Session, limit: Duration) -> Result<(), RawError> {
        let unanswered = Err(RawError::ConnectionLoss { sent: true });
        if self.leaves.load(Ordering::Acquire) {
            match timeout(limit, session.raw.detach()).await {
                Ok(Ok(credentials)) => {
                    *self.left.lock() = Some(credentials);
                    return Ok(());
                }
                // A session without known credentials must not stay open.
                Ok(Err(error @ RawError::Unsupported(_))) => {
                    return timeout(limit, session.raw.close())
                        .await
                        .unwrap_or(unanswered)
                        .and(Err(error));
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return unanswered,
            }
        }
        timeout(limit, session.raw.close()).await.unwrap_or(unanswered)
    }
}
