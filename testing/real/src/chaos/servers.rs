//! The servers of a run, and the faults that happen to them.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::sleep;
use zk_curator_client::{ExpiredBy, SessionCredentials, SessionState, ZooKeeper};

use super::error::ChaosError;
use super::journal::Journal;
use super::schedule::{Fault, Schedule, Step, Target, Which, sleep_or_over};
use crate::{RealEnsemble, RealError};
use zk_curator_sim::Event;

/// `tickTime`, the granularity with which the servers expire sessions.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// Starts servers for short sessions, which remove the nodes of ended clients quickly: containers
/// that had a child, and containers that never had one, which servers keep by default.
pub(super) async fn start(servers: usize) -> Result<RealEnsemble, RealError> {
    RealEnsemble::builder(servers)
        .tick_time(TICK)
        .jvm_property("znode.container.checkIntervalMs", 500)
        .jvm_property("znode.container.maxNeverUsedIntervalMs", 2000)
        .start()
        .await
}

/// Disturbs the servers until the faults are over. At the end all of them run, and one of them
/// leads.
pub(super) async fn disturb(
    ensemble: &mut RealEnsemble,
    seed: u64,
    session_timeout: Duration,
    journal: &Journal,
    over: &CancellationToken,
) -> Result<(), ChaosError> {
    for Step { after, fault, duration, .. } in Schedule::new(seed, Target::Servers, session_timeout)
    {
        if sleep_or_over(after, over).await {
            break;
        }
        let Some(victims) = victims(ensemble, fault).await else { continue };
        journal.fault(fault.kind(), format!("{fault}: {victims:?}, for {duration:.1?}"));
        let began = journal.clock().now();
        let kill = matches!(fault, Fault::KillServer(_));
        for &server in &victims {
            if kill { ensemble.kill(server).await? } else { ensemble.pause(server).await? }
        }
        sleep_or_over(duration, over).await;
        for &server in &victims {
            if kill {
                restart(ensemble, server, journal).await?;
            } else {
                ensemble.resume(server).await?;
            }
        }
        journal.outage(began);
        journal.world(Event::Note { text: format!("servers {victims:?} are back") });
    }
    ensemble.leader().await?;
    Ok(())
}

/// Restarts a server, and kills and restarts it again if it does not serve in time. Once, on a busy
/// machine, a server looked for the others for a minute in vain.
async fn restart(
    ensemble: &mut RealEnsemble,
    server: usize,
    journal: &Journal,
) -> Result<(), RealError> {
    match ensemble.restart(server).await {
        Err(RealError::DidNotServe { after, .. }) => {
            let text = format!("server {server} did not serve within {after:.1?}: restarted again");
            journal.world(Event::Note { text });
            ensemble.restart(server).await
        }
        restarted => restarted,
    }
}

/// Returns the servers that a fault affects; `None` if it is for a leader and there is none now.
async fn victims(ensemble: &RealEnsemble, fault: Fault) -> Option<Vec<usize>> {
    let count = ensemble.servers().len();
    let (Fault::KillServer(which) | Fault::StopServer(which)) = fault else {
        return Some((0..count).collect());
    };
    match which {
        Which::Leader => Some(vec![ensemble.leader().await.ok()?]),
        Which::Number(number) => Some(vec![number % count]),
    }
}

/// Ends a session by its id and password, as any client can. Repeats that until a server has
/// confirmed the end.
pub(super) async fn end_session(
    connect_string: &str,
    session: SessionCredentials,
    timeout: Duration,
) {
    loop {
        let zk = ZooKeeper::builder(connect_string)
            .session_timeout(timeout)
            .connect_deadline(timeout)
            .resume(session.clone())
            .connect();
        let zk = match zk {
            Ok(zk) => zk,
            Err(error) => {
                tracing::warn!(%error, "a session cannot be ended");
                return;
            }
        };
        let closed = zk.connected().await.is_ok() && zk.close().await.is_ok();
        if closed || zk.state() == SessionState::Expired(ExpiredBy::Server) {
            return;
        }
        // The outcome is unknown.
        sleep(TICK).await;
    }
}
