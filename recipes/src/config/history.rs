use std::collections::BTreeMap;

use zk_curator::op::fan_out;
use zk_curator::{CuratorFramework, ErrorKind, Stat};

use super::record::{ChangedValue, ConfigRecord};
use super::{ConfigStore, Error, Revision};
use crate::race::RACE_ROUNDS;

/// The number of records that are read at a time.
const READS_AT_ONCE: usize = 64;

/// The changes of one update.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The revision that it has made.
    pub revision: Revision,
    /// When, in milliseconds since 1970, by the clock of the server that led.
    pub at_ms: i64,
    /// The changed values, by key.
    pub keys: BTreeMap<String, ChangedValue>,
}

/// A record that is kept.
struct KeptRecord {
    /// Of the store, since the update.
    version: i32,
    record: ConfigRecord,
    stat: Stat,
}

impl ConfigStore {
    /// The updates that are kept, the latest last.
    ///
    /// # Errors
    /// [`Error::NotAStore`]; [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn history(&self) -> Result<Vec<Change>, Error> {
        self.check_path("history")?;
        let records = self.in_one_session(|zk| async move { self.records(&zk).await }).await?;
        let changes = records.into_values().map(|KeptRecord { record, stat, .. }| Change {
            revision: Revision(stat.czxid),
            at_ms: stat.ctime,
            keys: record.keys,
        });
        Ok(changes.collect())
    }

    /// Restores all values of an earlier revision, in a new update. Returns the revision of this
    /// update. If they are so already, nothing is changed.
    ///
    /// That can be every revision in the [history](Self::history), and the one at which the store
    /// was made while all updates since are kept.
    ///
    /// # Errors
    /// * [`Error::NotKept`] if the revision is unknown or no longer kept, or if the record of a
    ///   later update is missing.
    /// * As [`Update::commit`](super::Update::commit).
    ///
    /// # Cancel safety
    /// As [`Update::commit`](super::Update::commit).
    pub async fn roll_back(&self, to: Revision) -> Result<Revision, Error> {
        self.check_path("roll_back")?;
        for _ in 0..RACE_ROUNDS {
            let read = async |zk: CuratorFramework| {
                let root = self.root(zk.get_data(&*self.root).synced().with_stat().await)?;
                Ok((root, self.records(&zk).await?))
            };
            let (root, mut records) = self.in_one_session(read).await?;
            let Some(root) = root else { return Err(self.not_kept(to)) };
            if to == root.revision {
                return Ok(to);
            }
            // Revisions after the read of the root are ignored.
            records.retain(|czxid, _| *czxid <= root.revision.0);
            let mut later = records.split_off(&to.0);
            let made = later.remove(&to.0).map(|kept| kept.version);
            let made = made.or_else(|| (to.0 == root.czxid).then_some(0));
            // All later updates should be kept, but another client may have deleted some of their
            // records.
            let since = made.map(|made| i64::from(root.version.wrapping_sub(made)));
            if since.is_none() || since != i64::try_from(later.len()).ok() {
                return Err(self.not_kept(to));
            }
            // From the latest back to the one after it.
            let mut values = BTreeMap::new();
            for kept in later.into_values().rev() {
                values.extend(kept.record.keys.into_iter().map(|(key, diff)| (key, diff.before)));
            }
            let mut update = self.update().if_unchanged_since(root.revision);
            for (key, before) in values {
                update = match before {
                    Some(data) => update.set(key, data),
                    None => update.remove(key),
                };
            }
            match update.commit().await {
                Err(Error::Changed { .. }) => {}
                Err(Error::NoChanges { .. }) => return Ok(root.revision),
                made => return made,
            }
        }
        Err(Error::Busy { path: self.path().to_owned() })
    }

    /// The records that are kept, by their revisions.
    async fn records(&self, zk: &CuratorFramework) -> Result<BTreeMap<i64, KeptRecord>, Error> {
        let names = match zk.children(self.history.as_str()).synced().await {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(BTreeMap::new()),
            Err(error) => return Err(error.into()),
        };
        let versions: Vec<i32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let reads: Vec<_> = versions
            .iter()
            .map(|&version| zk.get_data(self.record_path(version)).with_stat())
            .collect();
        let mut records = BTreeMap::new();
        for (version, read) in versions.into_iter().zip(fan_out(READS_AT_ONCE, reads).await) {
            match read {
                Ok((data, stat)) => {
                    let record = self.record(&data)?;
                    records.insert(stat.czxid, KeptRecord { version, record, stat });
                }
                // No longer kept.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(records)
    }

    fn not_kept(&self, revision: Revision) -> Error {
        Error::NotKept { path: self.path().to_owned(), revision }
    }
}
