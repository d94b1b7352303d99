//! Accepts connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use zk_curator_client::internal::sleep;

use super::connection;
use super::shared::{Route, Shared};

/// The pause before the next attempt to accept a connection, after the system has run out of
/// resources.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts and serves connections to one server.
pub(super) async fn accept(shared: Arc<Shared>, route: Arc<Route>, listener: TcpListener) {
    loop {
        let (client, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                let server = route.server.as_str();
                tracing::warn!(server, %error, "cannot accept a connection");
                sleep(PAUSE).await;
                continue;
            }
        };
        shared.counts.modify(|counts| counts.connections += 1);
        if let Some(admission) = route.admit() {
            let (shared, route) = (Arc::clone(&shared), Arc::clone(&route));
            tokio::spawn(connection::serve(shared, route, client, peer, admission));
        }
    }
}
