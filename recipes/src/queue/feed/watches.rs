use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Waker};

use futures_util::future::select_all;
use tokio::task::unconstrained;
use zk_curator::watch::Watch;

use super::effects::FeedWatchKey;

/// The watches of a consumer.
#[derive(Debug, Default)]
pub(in crate::queue) struct FeedWatches(BTreeMap<FeedWatchKey, Watch>);

impl FeedWatches {
    pub(in crate::queue) fn extend(
        &mut self,
        armed: impl IntoIterator<Item = (FeedWatchKey, Watch)>,
    ) {
        self.0.extend(armed);
    }

    pub(in crate::queue) fn retain(&mut self, is_armed: impl Fn(&FeedWatchKey) -> bool) {
        self.0.retain(|watched, _| is_armed(watched));
    }

    /// Removes the watches that have fired or ended.
    pub(in crate::queue) fn take_fired(&mut self) -> Vec<FeedWatchKey> {
        let mut cx = Context::from_waker(Waker::noop());
        // A task that has used up its budget since it last yielded must still see fired watches.
        let mut is_ready =
            |watch: &mut Watch| Pin::new(&mut unconstrained(watch)).poll(&mut cx).is_ready();
        let mut fired = Vec::new();
        self.0.retain(|watched, watch| {
            let is_fired = is_ready(watch);
            if is_fired {
                fired.push(watched.clone());
            }
            !is_fired
        });
        fired
    }

    /// Waits for the first watch that fires or ends, and removes it. Waits forever if there is
    /// none.
    pub(in crate::queue) async fn next(&mut self) -> FeedWatchKey {
        if self.0.is_empty() {
            return pending().await;
        }
        let at = select_all(self.0.values_mut()).await.1;
        match self.0.keys().nth(at).cloned() {
            Some(watched) => {
                self.0.remove(&watched);
                watched
            }
            None => pending().await,
        }
    }
}
