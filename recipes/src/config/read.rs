//! How the values of a store are read so that they belong together.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use zk_curator::op::fan_out;
use zk_curator::watch::Watch;
use zk_curator::{CuratorFramework, ErrorKind, Stat};

use super::record::ConfigRecord;
use super::store::MAGIC;
use super::{ConfigEntry, ConfigStore, Error, Revision, Snapshot};
use crate::race::RACE_ROUNDS;

/// The number of nodes that are read at a time.
const READS_AT_ONCE: usize = 64;
/// A follower that is more updates behind reads all values instead of the records.
const MOST_REPLAYED: u32 = 64;

/// The node of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    /// When it was made: a store that is deleted and made again is another one.
    pub(super) czxid: i64,
    /// The number of updates so far.
    pub(super) version: i32,
    pub(super) revision: Revision,
}

impl Root {
    /// Returns the number of updates since an earlier state of the same store.
    pub(super) const fn updates_since(&self, earlier: &Self) -> i32 {
        self.version.wrapping_sub(earlier.version)
    }

    const fn is_of_the_same_store(&self, other: &Self) -> bool {
        self.czxid == other.czxid
    }
}

/// The values at one revision. `None`: there is no store.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigView {
    pub(super) root: Option<Root>,
    pub(super) entries: BTreeMap<String, ConfigEntry>,
}

impl ConfigStore {
    /// All values, as the leader knows them. A store that does not exist has none.
    ///
    /// # Errors
    /// * [`Error::NotAStore`], [`Error::Foreign`].
    /// * [`Error::Busy`] when fifty times in a row more updates were made while it read than the
    ///   history keeps.
    /// * [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        self.check_path("snapshot")?;
        let view = self.present().await?;
        Ok(self.snapshot_of(view))
    }

    pub(super) fn snapshot_of(&self, view: ConfigView) -> Snapshot {
        let revision = view.root.map_or(Revision::NONE, |root| root.revision);
        Snapshot { path: self.values.clone(), revision, entries: view.entries }
    }

    /// Runs reads in one session: there, one that is sent after the response to another shows a
    /// state that is not older.
    pub(super) async fn in_one_session<T, F>(
        &self,
        body: impl Fn(CuratorFramework) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let read = self.zk.in_one_session(|zk| {
            let read = body(zk);
            async move {
                match read.await {
                    Ok(value) => Ok(Ok(value)),
                    Err(Error::Framework(error)) => Err(error),
                    Err(error) => Ok(Err(error)),
                }
            }
        });
        read.await?
    }

    /// The values as the leader knows them.
    pub(super) async fn present(&self) -> Result<ConfigView, Error> {
        self.in_one_session(|zk| async move {
            let read = || async {
                let read = zk.get_data(&*self.root).synced().with_stat().await;
                Ok((self.root(read), ()))
            };
            self.look(&zk, ConfigView::default(), read).await?.0
        })
        .await
    }

    /// The values that follow upon these, as far as the server knows, or why there are none; and a
    /// watch for when that is no longer true.
    pub(super) async fn next(
        &self,
        last: &ConfigView,
    ) -> Result<(Result<ConfigView, Error>, Watch), Error> {
        self.in_one_session(|zk| async move {
            let read = || async {
                let path = &*self.root;
                loop {
                    let (read, watch) = match zk.get_data(path).watched().await {
                        Ok(watched) => (Ok(watched.value), watched.watch),
                        Err(error) if error.kind() == ErrorKind::NoNode => {
                            // This is not only because the server of a new session lags.
                            let watched = zk.exists(path).synced().watched().await?;
                            if watched.value.is_some() {
                                continue;
                            }
                            (Err(error), watched.watch)
                        }
                        Err(error) => return Err(error.into()),
                    };
                    return Ok((self.root(read), watch));
                }
            };
            self.look(&zk, last.clone(), read).await
        })
        .await
    }

    /// Reads the values, given the known ones. `read_root` is called whenever the store must be
    /// read. A malformed store is returned with the side value of `read_root`.
    async fn look<W, F>(
        &self,
        zk: &CuratorFramework,
        last: ConfigView,
        read_root: impl Fn() -> F,
    ) -> Result<(Result<ConfigView, Error>, W), Error>
    where
        F: Future<Output = Result<(Result<Option<Root>, Error>, W), Error>>,
    {
        let mut known = last;
        for _ in 0..RACE_ROUNDS {
            // 1. Which revision?
            let (root, watch) = read_root().await?;
            let root = match root {
                Ok(Some(root)) => root,
                Ok(None) => return Ok((Ok(ConfigView::default()), watch)),
                Err(Error::Framework(error)) => return Err(error.into()),
                Err(error) => return Ok((Err(error), watch)),
            };
            if known.root.is_some_and(|known| known.is_newer_than(&root)) {
                // The server of a new session lags. The known state is the newer one, and the watch
                // fires when the server has caught up.
                return Ok((Ok(known), watch));
            }
            // 2. Apply the later records.
            match self.replay(zk, &known, root).await {
                Ok(Some(view)) => return Ok((Ok(view), watch)),
                Ok(None) => {}
                Err(Error::Framework(error)) => return Err(error.into()),
                Err(error) => return Ok((Err(error), watch)),
            }
            // 3. Or read everything. If a value is newer than the root, begin
            //    again with that.
            match self.load(zk, root).await? {
                LoadedConfig::At(view) => return Ok((Ok(view), watch)),
                LoadedConfig::Around(view) => known = view,
            }
        }
        Err(Error::Busy { path: self.path().to_owned() })
    }

    pub(super) fn root(
        &self,
        read: zk_curator::Result<(Bytes, Stat)>,
    ) -> Result<Option<Root>, Error> {
        match read {
            Ok((data, stat)) if data == MAGIC => {
                let revision = Revision(stat.mzxid);
                Ok(Some(Root { czxid: stat.czxid, version: stat.version, revision }))
            }
            Ok(_) => Err(Error::NotAStore { path: self.path().to_owned() }),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The values at `root`, from the known values and the later records; `None` when these are not
    /// enough. The records contain the written values, and correct every value that was read too
    /// early or too late.
    async fn replay(
        &self,
        zk: &CuratorFramework,
        known: &ConfigView,
        root: Root,
    ) -> Result<Option<ConfigView>, Error> {
        let Some(from) = known.root.filter(|known| known.is_of_the_same_store(&root)) else {
            return Ok(None);
        };
        let missed = root.updates_since(&from).unsigned_abs();
        if missed > MOST_REPLAYED {
            return Ok(None);
        }
        let versions = (1..=missed).map(|more| from.version.wrapping_add_unsigned(more));
        let reads: Vec<_> =
            versions.map(|version| zk.get_data(self.record_path(version)).with_stat()).collect();
        let mut entries = known.entries.clone();
        for read in fan_out(READS_AT_ONCE, reads).await {
            let (data, stat) = match read {
                Ok(read) => read,
                // It is no longer kept.
                Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let record = self.record(&data)?;
            for (key, diff) in record.keys {
                match diff.after {
                    Some(data) => {
                        entries.insert(key, ConfigEntry { data, revision: Revision(stat.czxid) })
                    }
                    None => entries.remove(&key),
                };
            }
        }
        if let Some((key, _)) = entries.iter().find(|(_, entry)| entry.revision > root.revision) {
            // No update has written it, because there was none between its read and the read of the
            // root.
            return Err(Error::Foreign { path: self.value_path(key) });
        }
        Ok(Some(ConfigView { root: Some(root), entries }))
    }

    /// Reads all values.
    async fn load(&self, zk: &CuratorFramework, root: Root) -> Result<LoadedConfig, Error> {
        let mut view = ConfigView { root: Some(root), entries: BTreeMap::new() };
        let (keys, stat) = match zk.children(self.values.as_str()).with_stat().await {
            Ok(listed) => listed,
            // The store has been deleted in between.
            Err(error) if error.kind() == ErrorKind::NoNode => {
                return Ok(LoadedConfig::Around(view));
            }
            Err(error) => return Err(error.into()),
        };
        let mut is_of_root = stat.pzxid <= root.revision.0;
        let reads: Vec<_> =
            keys.iter().map(|key| zk.get_data(self.value_path(key)).with_stat()).collect();
        for (key, read) in keys.iter().zip(fan_out(READS_AT_ONCE, reads).await) {
            match read {
                Ok((data, stat)) => {
                    is_of_root &= stat.mzxid <= root.revision.0;
                    view.entries
                        .insert(key.clone(), ConfigEntry { data, revision: Revision(stat.mzxid) });
                }
                Err(error) if error.kind() == ErrorKind::NoNode => is_of_root = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(if is_of_root { LoadedConfig::At(view) } else { LoadedConfig::Around(view) })
    }

    pub(super) fn record(&self, data: &Bytes) -> Result<ConfigRecord, Error> {
        ConfigRecord::parse(data).ok_or_else(|| Error::NotAStore { path: self.path().to_owned() })
    }
}

impl Root {
    fn is_newer_than(&self, other: &Self) -> bool {
        if self.is_of_the_same_store(other) {
            other.updates_since(self) < 0
        } else {
            self.czxid > other.czxid
        }
    }
}

/// All values, as they were read one after the other.
enum LoadedConfig {
    /// At the revision of the root.
    At(ConfigView),
    /// Some at that, some at later ones.
    Around(ConfigView),
}
