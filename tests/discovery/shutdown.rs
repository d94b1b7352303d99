//! The end of a process: all steps have one deadline, with servers and without.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::ConnectionState;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_tests::until_state;

use crate::support::{ORDERS, record, registered, simulated_with};

const DEADLINE: Duration = Duration::from_secs(25);

#[test]
fn an_orderly_end_leaves_nothing() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let held = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        let stop = Shutdown::new();
        let shutdown = stop.clone().deadline(DEADLINE);
        stop.begin();
        shutdown.step(me.drain()).await.unwrap().unwrap();
        assert!(!record(&server, "a").enabled);
        shutdown.step(held.release()).await.unwrap().unwrap();
        shutdown.step(me.unregister()).await.unwrap().unwrap();
        assert!(shutdown.close(&zk).await);
        assert!(!server.probe().exists(&format!("{ORDERS}/a")));
        assert!(server.probe().sessions().is_empty());
    });
}

#[test]
fn without_servers_the_end_comes_at_the_deadline() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let held = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        let shutdown = Shutdown::new().deadline(DEADLINE);
        let begun = Instant::now();
        assert!(shutdown.step(me.drain()).await.is_none());
        assert_eq!(begun.elapsed(), DEADLINE);
        // The other steps begin, and do not wait.
        assert!(
            shutdown.clone().step(held.release()).await.is_none_or(|released| released.is_err())
        );
        assert!(shutdown.step(me.unregister()).await.is_none_or(|ended| ended.is_err()));
        assert!(!shutdown.close(&zk).await);
        assert_eq!(begun.elapsed(), DEADLINE);
        let step = shutdown.step(std::future::pending::<()>());
        assert!(timeout(DEADLINE, step).await.unwrap().is_none());
    });
}
