use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Error as RawError, SessionCredentials};

use super::session::Session;

/// Whether the last session is left rather than closed, and its credentials once it has been left.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    pub(crate) leaves: AtomicBool,
    pub(crate) left: Mutex<Option<SessionCredentials>>,
}

impl Handover {
    /// Ends the last session of a framework.
    pub(crate) async fn end(&self, session: &Session, limit: Duration) -> Result<(), RawError> {
        let unanswered = Err(RawError::ConnectionLoss { sent: true });
        if self.leaves.load(Ordering::Acquire) {
            match timeout(limit, session.raw.detach()).await {
                Ok(Ok(credentials)) => {
                    *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(credentials);
                    return Ok(());
                }
                // It is not left open without anybody who knows its credentials.
                Ok(Err(error @ RawError::Unsupported(_))) => {
                    return timeout(limit, session.raw.close()).await.unwrap_or(unanswered).and(Err(error));
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return unanswered,
            }
        }
        timeout(limit, session.raw.close()).await.unwrap_or(unanswered)
    }
}
