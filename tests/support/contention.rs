//! Many tasks that want the same lock.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::task::JoinSet;
use zk_curator::{CuratorFramework, FencingToken};
use zk_curator_recipes::lock::InterProcessMutex;

/// Tasks that each acquire a lock once, use it and release it.
#[derive(Debug)]
#[must_use = "nothing is asserted unless the end is awaited"]
pub struct Contention {
    count: usize,
    tasks: JoinSet<()>,
    /// The token and the path of each grant, in their order.
    grants: Arc<Mutex<Vec<(FencingToken, String)>>>,
}

impl Contention {
    /// Starts the tasks, spread over the sessions.
    pub fn start(sessions: &[CuratorFramework], lock: &str, count: usize) -> Self {
        let inside = Arc::new(AtomicUsize::new(0));
        let grants: Arc<Mutex<Vec<_>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for task in 0..count {
            let lock = InterProcessMutex::new(&sessions[task % sessions.len()], lock);
            let (inside, grants) = (Arc::clone(&inside), Arc::clone(&grants));
            tasks.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                grants.lock().unwrap().push((guard.fencing_token(), guard.path().to_owned()));
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            });
        }
        Self { count, tasks, grants }
    }

    /// Waits for all of them, and asserts that each got the lock once, alone, and in the order of
    /// arrival.
    pub async fn ends_in_order(mut self) {
        while let Some(done) = self.tasks.join_next().await {
            done.unwrap();
        }
        let grants = self.grants.lock().unwrap();
        assert_eq!(grants.len(), self.count);
        assert!(grants.is_sorted_by(|a, b| a.0 < b.0), "not in the order of arrival");
        assert_eq!(grants.iter().map(|(_, path)| path).collect::<BTreeSet<_>>().len(), self.count);
    }
}
