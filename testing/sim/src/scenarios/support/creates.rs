//! Creates that the servers refuse for good, and how often a recipe tries them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::Acl;
use zk_curator::acl::AclProvider;

use crate::Failure;

/// The time for which a recipe tries, and the greatest number of its tries: their pauses double.
const TRIED: Duration = Duration::from_secs(10);
const MOST_TRIES: u32 = 12;

/// Counts how often some nodes are created: an ACL is asked for each time.
#[derive(Debug, Clone)]
pub(in crate::scenarios) struct Creates {
    is_counted: fn(&str) -> bool,
    count: Arc<AtomicU32>,
}

impl Creates {
    /// Counts creates of nodes with these paths.
    pub(in crate::scenarios) fn of(is_counted: fn(&str) -> bool) -> Self {
        Self { is_counted, count: Arc::default() }
    }

    /// Fails if they are tried too often from now on.
    pub(in crate::scenarios) async fn are_tried_slowly(&self, path: &str) -> Result<(), Failure> {
        let before = self.count.load(Ordering::Relaxed);
        sleep(TRIED).await;
        let tries = self.count.load(Ordering::Relaxed) - before;
        if tries > MOST_TRIES {
            return Err(format!("{path} was tried {tries} times in {TRIED:?}").into());
        }
        Ok(())
    }
}

impl AclProvider for Creates {
    fn acl(&self, path: &str) -> Vec<Acl> {
        if (self.is_counted)(path) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        Acl::open_unsafe()
    }
}
