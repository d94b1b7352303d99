use std::fmt;

use futures_util::Stream;
use zk_curator::CuratorFramework;
use zk_curator::watch::{Watch, until_error};

use super::read::View;
use super::{ConfigStore, Error, Snapshot};

/// Follows a [`ConfigStore`], or a part of it: see [`ConfigStore::follow`]. It costs no task: nothing is read unless
/// [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless it is asked for the next snapshot"]
pub struct ConfigWatch {
    store: ConfigStore,
    /// Only what is below this key.
    below: Option<String>,
    seen: View,
    /// Fires when that is no longer true.
    watch: Option<Watch>,
    told: Option<Snapshot>,
}

impl ConfigStore {
    /// Follows all values, beginning with those that there are. The store need not exist.
    pub fn follow(&self) -> ConfigWatch {
        ConfigWatch::new(self.clone(), None)
    }

    /// Follows one key and those below it: `db`, `db.host`, but not `dbs`. The snapshots have no others. A key that is not
    /// valid is refused by the first [`next`](ConfigWatch::next).
    pub fn follow_below(&self, key: impl Into<String>) -> ConfigWatch {
        ConfigWatch::new(self.clone(), Some(key.into()))
    }
}

impl ConfigWatch {
    fn new(store: ConfigStore, below: Option<String>) -> Self {
        Self { store, below, seen: View::default(), watch: None, told: None }
    }

    /// Waits for the next state: at first the present one, then one that differs from the last one told, for ever and
    /// across sessions. States that are replaced before anybody looks are left out; the newest never is.
    ///
    /// A store that does not exist has no values, and is waited for.
    ///
    /// # Errors
    /// * [`Error::NotAStore`], [`Error::Foreign`], [`Error::Busy`]; it may be asked again.
    /// * [`Error::Framework`]: what cannot pass by itself, such as `NoAuth`; `Closed`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Snapshot, Error> {
        self.store.check_path("follow")?;
        if let Some(key) = &self.below {
            self.store.check_key(key)?;
        }
        loop {
            if let Some(watch) = &mut self.watch {
                // Also when its session has ended.
                drop(watch.await);
                self.watch = None;
            }
            match self.store.next(&self.seen).await {
                Ok((seen, watch)) => {
                    self.seen = seen;
                    self.watch = Some(watch);
                }
                Err(Error::Framework(error)) => {
                    self.store.zk.ride_out(error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            let now = self.snapshot();
            if self.told.as_ref().is_none_or(|told| told.entries != now.entries) {
                self.told = Some(now.clone());
                return Ok(now);
            }
        }
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
