//! What those who follow something do when they cannot look at it.

use zk_curator::{CuratorFramework, Error, ErrorKind};

/// Waits until a read that has failed may be tried again, for ever and across sessions.
///
/// # Errors
/// The error, if it is not one that passes.
pub(crate) async fn until_passed(zk: &CuratorFramework, error: Error) -> Result<(), Error> {
    // While a framework closes it is still connected, and a closed one would be asked without end.
    let is_closed = error.kind() == ErrorKind::Closed;
    if is_closed || !(error.is_retryable() || error.is_session_lost()) {
        return Err(error);
    }
    match zk.states().until(|status| status.state.is_connected()).await {
        Some(_) => Ok(()),
        // It is closed.
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zk_curator_testing::TestServer;

    use super::*;

    /// The connection of a framework that closes is still there: a follower must not ask it again and again.
    #[tokio::test(start_paused = true)]
    async fn closed_does_not_pass_while_connected() {
        let server = TestServer::in_memory().await;
        let connected = || async {
            let builder = CuratorFramework::builder().connect_string(server.connect_string());
            let zk = builder.connector(Arc::new(server.connector())).build().unwrap();
            zk.start().await.unwrap();
            zk
        };
        let closed = connected().await;
        closed.close().await.unwrap();
        let error = closed.exists("/").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(until_passed(&connected().await, error).await.unwrap_err().kind(), ErrorKind::Closed);
    }
}
