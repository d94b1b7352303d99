use std::fmt;

use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorKind};

use super::{Bound, Error};
use crate::following::until_passed;

/// Follows a name: see [`NameService::follow`](super::NameService::follow). It costs no task: nothing is read unless
/// [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless it is asked for the next binding"]
pub struct NameWatch {
    zk: CuratorFramework,
    path: String,
    /// Fires when what was told is no longer true.
    watch: Option<Watch>,
    told: Option<Option<Bound>>,
}

impl NameWatch {
    pub(super) const fn new(zk: CuratorFramework, path: String) -> Self {
        Self { zk, path, watch: None, told: None }
    }

    /// Waits for the next binding, for ever and across sessions: at first what there is, then what differs from the last one
    /// told. `None`: the name is not bound. Bindings that are replaced before anybody looks are left out; the newest
    /// never is.
    ///
    /// # Errors
    /// [`Error::Framework`]: what cannot pass by itself, such as `NoAuth`; `Closed`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Bound>, Error> {
        loop {
            if let Some(watch) = &mut self.watch {
                // Also when its session has ended.
                drop(watch.await);
                self.watch = None;
            }
            let now = match self.look().await {
                Ok(Some((now, watch))) => {
                    self.watch = Some(watch);
                    now
                }
                // It has come meanwhile.
                Ok(None) => continue,
                Err(error) => {
                    until_passed(&self.zk, error).await?;
                    continue;
                }
            };
            if self.told.as_ref() != Some(&now) {
                self.told = Some(now.clone());
                return Ok(now);
            }
        }
    }

    async fn look(&self) -> zk_curator::Result<Option<(Option<Bound>, Watch)>> {
        match self.zk.get_data(self.path.as_str()).watched().await {
            Ok(watched) => {
                let (data, stat) = watched.value;
                Ok(Some((Some(Bound::new(self.path.clone(), data, &stat)), watched.watch)))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => {
                let watched = self.zk.exists(self.path.as_str()).watched().await?;
                Ok(watched.value.is_none().then_some((None, watched.watch)))
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for NameWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameWatch")
            .field("path", &self.path)
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
