//! The end of an abandoned session: clients hold a node each and lose their sessions in outages. When there are no more
//! faults, the node of the session before is gone soon after the next one is connected, and not when it times out.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_curator::{ConnectionState, CreateMode};

use super::Scenario;
use crate::{Client, Failure};

/// Two round trips, and what the network and the scheduler add to them.
const SOON: Duration = Duration::from_millis(500);

pub(super) const SCENARIO: Scenario =
    Scenario::new("farewell", "the session before is closed when the next one is connected", |client| {
        Box::pin(work(client))
    });

async fn work(client: Client) -> Result<(), Failure> {
    // Outages last longer than that.
    let zk = client.connect_with(client.framework().close_timeout(Duration::from_millis(200))).await?;
    let path = format!("/farewell-{}", client.who());
    while client.next_round().is_some() && !client.no_more_faults() {
        let create = zk.create(path.as_str()).mode(CreateMode::Ephemeral).protected_by_data();
        let create = create.data(client.unique().to_string()).owned();
        let Ok(node) = create.await else {
            sleep(client.moment(Duration::from_millis(100))).await;
            continue;
        };
        tokio::select! {
            biased;
            () = client.faults_are_over() => {}
            () = node.ownership().over() => {}
        }
        // It may be that it is only lost now, of which nobody is told yet.
        let states = zk.states();
        let has_lost = node.ownership().is_over()
            || timeout(client.session_timeout() * 3, node.ownership().over()).await.is_ok();
        drop(states);
        if !has_lost {
            drop(node);
            return Ok(());
        }
        let czxid = node.stat().czxid;
        drop(node);
        while zk.state() == ConnectionState::Lost || !zk.state().is_connected() {
            zk.wait_connected().await?;
        }
        if !client.no_more_faults() {
            continue;
        }
        let connected = Instant::now();
        loop {
            zk.sync(path.as_str()).await?;
            match zk.exists(path.as_str()).await? {
                Some(stat) if stat.czxid == czxid => {}
                _ => break,
            }
            if connected.elapsed() > SOON {
                return Err(format!("{path} is there {SOON:?} after the next session was connected").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}
