//! Servers that die: the leader of an ensemble, or the only server, which restarts.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use zk_curator_client::{
    AddWatchMode, CreateMode, DisconnectedPolicy, Error, EventType, PersistentEvent, ZooKeeper,
};
use zk_curator_testing::wait::{self, spend};

use super::Case;
use crate::common::{create, id, open, start};

/// A request and its result.
type Outcome = (String, Result<(), Error>);

/// Creates nodes, several in flight, until it is stopped.
async fn write(
    zk: ZooKeeper,
    writer: usize,
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
) -> Vec<Outcome> {
    const IN_FLIGHT: usize = 8;
    let mut outcomes = Vec::new();
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let pending: Vec<_> = (0..IN_FLIGHT)
            .map(|_| {
                number += 1;
                let path = format!("/{writer}-{number}");
                (path.clone(), zk.create(&path, b"", &open(), CreateMode::Persistent))
            })
            .collect();
        for (path, pending) in pending {
            let outcome = pending.await.map(drop);
            done.fetch_add(usize::from(outcome.is_ok()), Ordering::SeqCst);
            outcomes.push((path, outcome));
        }
        // A case that fails immediately does not fill the memory.
        spend(Duration::from_millis(2)).await;
    }
    outcomes
}

/// Waits until `count` more writes have succeeded.
async fn more(done: &AtomicUsize, count: usize) {
    let goal = done.load(Ordering::SeqCst) + count;
    wait::until(async || done.load(Ordering::SeqCst) >= goal).await;
}

pub(crate) async fn a_killed_server_loses_no_acknowledged_write(case: Case) {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let policies = [
        DisconnectedPolicy::FailFast,
        DisconnectedPolicy::Wait(Duration::from_millis(50)),
        DisconnectedPolicy::Wait(Duration::from_secs(20)),
        DisconnectedPolicy::Wait(Duration::from_secs(20)),
    ];
    let mut writers = Vec::new();
    for (writer, policy) in policies.into_iter().enumerate() {
        // Longer than an election on a busy machine takes.
        let zk =
            start(case.builder().session_timeout(Duration::from_secs(40)).disconnected(policy))
                .await;
        writers.push(tokio::spawn(write(zk, writer, Arc::clone(&stop), Arc::clone(&done))));
    }
    for _ in 0..2 {
        more(&done, 400).await;
        let meanwhile = async {
            // With an ensemble the writes continue without it.
            if case.target.addresses.len() > 1 {
                more(&done, 400).await;
            }
        };
        case.target.kill_and_restart(meanwhile).await;
    }
    more(&done, 400).await;
    stop.store(true, Ordering::SeqCst);
    let mut outcomes = Vec::new();
    for writer in writers {
        outcomes.extend(writer.await.unwrap());
    }

    let zk = case.client().await;
    zk.sync("/").await.unwrap();
    let names: HashSet<_> = zk.get_children("/").await.unwrap().names.into_iter().collect();
    let (mut acknowledged, mut failed) = (0, 0);
    for (path, outcome) in outcomes {
        match (names.contains(&path[1..]), outcome) {
            (true, Ok(())) => acknowledged += 1,
            // A node that already exists would have been sent twice.
            (exists, Err(error @ Error::Refused(_))) => {
                panic!("{path} exists: {exists}, but {error:?}")
            }
            (_, Err(error)) if error.may_have_applied() => failed += 1,
            // The error says that it was not sent, and the node does not exist.
            (false, Err(_)) => failed += 1,
            (exists, outcome) => panic!("{path} exists: {exists}, but {outcome:?}"),
        }
    }
    // It is random if any request was in flight at that time.
    assert!(acknowledged >= 1200, "{acknowledged} acknowledged, {failed} failed");
}

pub(crate) async fn sessions_and_watches_survive_the_death_of_a_server(case: Case) {
    let builder = || case.builder().session_timeout(Duration::from_secs(30));
    let (zk, other) = (start(builder()).await, start(builder()).await);
    let sessions = (id(&zk), id(&other));
    zk.create("/e", b"", &open(), CreateMode::Ephemeral).await.unwrap();
    create(&zk, "/a").await.unwrap();
    let (_, data) = zk.get_data_watched("/a").await.unwrap();
    let (_, absent) = zk.exists_watched("/absent").await.unwrap();
    let ((), mut persistent) = zk.add_watch("/p", AddWatchMode::Persistent).await.unwrap();
    case.target.kill_and_restart(async {}).await;
    other.sync("/").await.ok();
    zk.sync("/").await.ok();
    zk.sync("/").await.unwrap();
    other.set_data("/a", b"2", None).await.unwrap();
    create(&other, "/absent").await.unwrap();
    create(&other, "/p").await.unwrap();
    assert_eq!(data.await.unwrap().event_type, EventType::NodeDataChanged);
    assert_eq!(absent.await.unwrap().event_type, EventType::NodeCreated);
    let event = loop {
        match persistent.next().await.expect("an event") {
            PersistentEvent::Disarmed | PersistentEvent::Rearmed { .. } => {}
            PersistentEvent::Changed(event) => break event,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(event.event_type, EventType::NodeCreated);
    assert_eq!((id(&zk), id(&other)), sessions);
    assert_eq!(
        other.exists("/e").await.unwrap().map(|stat| stat.ephemeral_owner),
        Some(sessions.0)
    );
}
