use std::fmt;
use std::time::Duration;

use futures_util::Stream;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator::internal::until_error;
use zk_curator::watch::Watch;

use super::read::ConfigView;
use super::{ConfigStore, Error, Snapshot};

/// Follows a [`ConfigStore`], or a part of it: see [`ConfigStore::follow`]. It costs no task:
/// nothing is read unless [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless it is asked for the next snapshot"]
pub struct ConfigWatch {
    store: ConfigStore,
    /// Only the values below this key.
    below: Option<String>,
    seen: ConfigView,
    /// Fires when that is no longer true.
    watch: Option<Watch>,
    told: Option<Snapshot>,
    /// The last returned error, unless a snapshot was returned after it, and the pause after it.
    failed: Option<(String, Duration)>,
}

/// The pauses between reads of a malformed store.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl ConfigStore {
    /// Follows all values, beginning with the present ones. The store need not exist.
    pub fn follow(&self) -> ConfigWatch {
        ConfigWatch::new(self.clone(), None)
    }

    /// Follows one key and those below it: `db`, `db.host`, but not `dbs`. The snapshots contain no
    /// other keys. A key that is not valid is refused by the first [`next`](ConfigWatch::next).
    pub fn follow_below(&self, key: impl Into<String>) -> ConfigWatch {
        ConfigWatch::new(self.clone(), Some(key.into()))
    }
}

impl ConfigWatch {
    fn new(store: ConfigStore, below: Option<String>) -> Self {
        Self { store, below, seen: ConfigView::default(), watch: None, told: None, failed: None }
    }

    /// Waits for the next state, without a time limit and across sessions. The first call returns
    /// the current state; each further call waits for a state that differs from the last one
    /// returned. States that are replaced between two calls are skipped; the latest never is.
    ///
    /// A store that does not exist has no values, and is waited for.
    ///
    /// # Errors
    /// * [`Error::NotAStore`], [`Error::Foreign`], [`Error::Busy`]: returned once. The next call
    ///   waits until the store is valid again, or fails for another reason. It reads after every
    ///   update, and after pauses of 1 to 60 seconds.
    /// * [`Error::Framework`] with a permanent error, such as `NoAuth`; `Closed`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Snapshot, Error> {
        self.store.check_path("follow")?;
        if let Some(key) = &self.below {
            self.store.check_key(key)?;
        }
        loop {
            self.changed().await;
            let error = match self.store.next(&self.seen).await {
                Ok((seen, watch)) => {
                    self.watch = Some(watch);
                    match seen {
                        Ok(seen) => {
                            self.seen = seen;
                            self.failed = None;
                            None
                        }
                        Err(error) => Some(error),
                    }
                }
                Err(Error::Framework(error)) => {
                    self.store.zk.wait_for_recovery(error).await?;
                    continue;
                }
                Err(error) => Some(error),
            };
            if let Some(error) = error {
                let text = error.to_string();
                match &mut self.failed {
                    Some((told, pause)) if *told == text => {
                        *pause = (*pause * 2).min(LONGEST_PAUSE);
                        continue;
                    }
                    failed => *failed = Some((text, FIRST_PAUSE)),
                }
                return Err(error);
            }
            let now = self.snapshot();
            if self.told.as_ref().is_none_or(|told| told.entries != now.entries) {
                self.told = Some(now.clone());
                return Ok(now);
            }
        }
    }

    /// Waits until there is reason to look. Cancel safe.
    async fn changed(&mut self) {
        let pause = self.failed.as_ref().map(|(_, pause)| *pause);
        let fired = async {
            match &mut self.watch {
                // Also when its session has ended.
                Some(watch) => drop(watch.await),
                // A store that was busy, or that failed, is read again later.
                None if pause.is_some() => std::future::pending().await,
                None => {}
            }
        };
        match pause {
            // A value that was written by hand may be corrected by hand, which the watch does not
            // report.
            Some(pause) => drop(timeout(pause, fired).await),
            None => fired.await,
        }
        self.watch = None;
    }

    /// Returns the states as a stream that ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Snapshot, Error>> + Send {
        until_error(self, |watch| Box::pin(watch.next()))
    }

    pub(super) const fn framework(&self) -> &CuratorFramework {
        &self.store.zk
    }

    pub(super) fn path(&self) -> &str {
        self.store.path()
    }

    fn snapshot(&self) -> Snapshot {
        let all = self.store.snapshot_of(self.seen.clone());
        match &self.below {
            Some(key) => all.below(key),
            None => all,
        }
    }
}

impl fmt::Debug for ConfigWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigWatch")
            .field("path", &self.store.path())
            .field("below", &self.below)
            .finish_non_exhaustive()
    }
}
