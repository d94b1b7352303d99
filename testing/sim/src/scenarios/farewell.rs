//! The end of an abandoned session: clients hold a node each, and lose their sessions in outages.
//! After the last fault, the node of the previous session must disappear soon after the next
//! session is connected, before its timeout.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::{ConnectionState, CreateMode};

use super::Scenario;
use crate::{Client, Failure};

/// The pause between two reads of the node.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of reads that may find the node: the close takes two round trips, and each read a
/// pause and two round trips. A number of reads, because no time of a client that does not run
/// passes by it.
const READS: u32 = 20;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "farewell",
    "the previous session is closed when the next one connects",
    &["checks"],
    |sim| sim.workload(work),
);

async fn work(client: Client) -> Result<(), Failure> {
    // The timeout is shorter than an outage.
    let zk =
        client.connect_with(client.framework().close_timeout(Duration::from_millis(200))).await?;
    let path = format!("/farewell-{}", client.who());
    while client.next_round().is_some() && !client.no_more_faults() {
        let create = zk.create(path.as_str()).mode(CreateMode::Ephemeral).protected_by_data();
        let create = create.data(client.unique().to_string()).owned();
        let Some(Ok(node)) = client.maybe_cancel(create.into_future()).await else {
            sleep(client.moment(Duration::from_millis(100))).await;
            continue;
        };
        tokio::select! {
            biased;
            () = client.faults_are_over() => {}
            () = node.ownership().over() => {}
        }
        // The session may have been lost just now, before any notification.
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
        for read in 0.. {
            zk.sync(path.as_str()).await?;
            match zk.exists(path.as_str()).await? {
                Some(stat) if stat.czxid == czxid => {}
                _ => {
                    client.checked("that the node of the previous session is gone");
                    break;
                }
            }
            if read == READS {
                return Err(format!("{path} exists after {READS} reads in the next session").into());
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}
