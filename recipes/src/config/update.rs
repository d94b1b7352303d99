use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use tracing::debug;
use zk_curator::op::{CreateOp, DeleteOp, SetDataOp, Transaction};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind, Stat};

use super::read::Root;
use super::record::{ChangedValue, ConfigRecord};
use super::store::MAGIC;
use super::{ConfigStore, Error, Revision};
use crate::race::{RACE_ROUNDS, is_race};
use zk_curator::value::{Failure, ToData};

/// The largest number of old records that one update removes.
const MOST_REMOVED: usize = 100;

/// Changes of a store that are made together, or not at all: see [`ConfigStore::update`].
#[derive(Debug, Clone)]
#[must_use = "nothing is changed until it is committed and awaited"]
pub struct Update {
    store: ConfigStore,
    /// By key, its new data, or that it is removed.
    changes: BTreeMap<String, Option<Bytes>>,
    /// By key, the revision that its value has to have, if any.
    conditions: BTreeMap<String, Option<Revision>>,
    whole: Option<Revision>,
    /// The first value that could not be written.
    failure: Option<(String, Failure)>,
}

impl ConfigStore {
    /// Changes that are made together: nothing is sent until they are [committed](Update::commit).
    pub fn update(&self) -> Update {
        let store = self.clone();
        Update {
            store,
            changes: BTreeMap::new(),
            conditions: BTreeMap::new(),
            whole: None,
            failure: None,
        }
    }
}

impl Update {
    /// Sets the value of a key, whether it had one or not.
    pub fn set(mut self, key: impl Into<String>, value: impl ToData) -> Self {
        let key = key.into();
        match value.to_data() {
            Ok(data) => drop(self.changes.insert(key, Some(data))),
            Err(failure) => drop(self.failure.get_or_insert((key, failure))),
        }
        self
    }

    /// Removes the value of a key. A key without a value is left unchanged.
    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.changes.insert(key.into(), None);
        self
    }

    /// Only if the value of a key has this revision; if it has no value, where that is `None`. The
    /// key need not be one that is changed.
    pub fn if_revision(mut self, key: impl Into<String>, revision: Option<Revision>) -> Self {
        self.conditions.insert(key.into(), revision);
        self
    }

    /// Only if nothing at all has changed since this revision of the store.
    pub const fn if_unchanged_since(mut self, revision: Revision) -> Self {
        self.whole = Some(revision);
        self
    }

    /// Makes the changes, exactly once in spite of lost responses. **Awaiting returns** the
    /// revision that it has made.
    ///
    /// A store that does not exist is made, and missing parents of it as containers. Takes two
    /// reads for the store, one read for each key, and one write, in three round trips, if no other
    /// client writes at the same time.
    ///
    /// # Errors
    /// * [`Error::Conflict`] or [`Error::Changed`] when a condition does not hold; nothing was
    ///   changed.
    /// * [`Error::NoChanges`], [`Error::InvalidKey`], [`Error::Unencodable`], [`Error::Zero`]:
    ///   nothing was sent.
    /// * [`Error::NotAStore`]; [`Error::Busy`] if other clients were faster fifty times in a row.
    /// * [`Error::Framework`] as a transaction: `TooLarge` if the changes and the replaced values
    ///   do not fit into one request. If it [may have applied](Error::may_have_applied), so may the
    ///   update.
    ///
    /// # Cancel safety
    /// Once polled, all changes may be made, or none is.
    pub async fn commit(self) -> Result<Revision, Error> {
        let Self { store, changes, conditions, whole, failure } = self;
        if let Some((key, source)) = failure {
            return Err(Error::Unencodable { path: store.value_path(&key), source });
        }
        store.check_path("update")?;
        for key in changes.keys().chain(conditions.keys()) {
            store.check_key(key)?;
        }
        if store.kept == 0 {
            return Err(Error::Zero { path: store.path().to_owned(), setting: "kept" });
        }
        if changes.is_empty() {
            return Err(Error::NoChanges { path: store.path().to_owned() });
        }
        let attempt =
            UpdateAttempt { store: &store, id: store.zk.new_guid(), changes, conditions, whole };
        let mut unknown = None;
        let result = attempt.run(&mut unknown).await;
        match (result, unknown) {
            // Returns the error of the request, not the error of the search for its outcome.
            (Err(Error::Framework(_) | Error::Busy { .. }), Some(Unknown { error, .. })) => {
                Err(error.into())
            }
            (result, _) => result,
        }
    }
}

/// An update on its way.
struct UpdateAttempt<'a> {
    store: &'a ConfigStore,
    /// In the record that is written along with the changes: a reader that finds it there knows
    /// that they were made.
    id: String,
    changes: BTreeMap<String, Option<Bytes>>,
    conditions: BTreeMap<String, Option<Revision>>,
    whole: Option<Revision>,
}

/// A transaction that was sent at this state of the store, with an unknown outcome.
struct Unknown {
    root: Root,
    error: zk_curator::Error,
}

/// The state that an update finds.
enum FoundState {
    Nothing,
    /// It was made already.
    Made(Revision),
    /// It may have been applied, and its outcome can no longer be determined.
    Forgotten,
    Store(BaseVersions),
}

/// The state that an update builds upon.
struct BaseVersions {
    root: Root,
    /// Of the keys that matter.
    present: BTreeMap<String, Option<(Bytes, Stat)>>,
    /// The versions of which there are records.
    records: Vec<i32>,
}

impl UpdateAttempt<'_> {
    async fn run(&self, unknown: &mut Option<Unknown>) -> Result<Revision, Error> {
        let store = self.store;
        for _ in 0..RACE_ROUNDS {
            let sent = unknown.as_ref().map(|unknown| unknown.root);
            // 1. Read the base of the update, and after a lost response whether it was applied.
            let found =
                store.in_one_session(|zk| async move { self.find(&zk, sent).await }).await?;
            let basis = match found {
                FoundState::Made(revision) => return Ok(revision),
                FoundState::Forgotten => break,
                FoundState::Nothing if sent.is_some() => break,
                FoundState::Nothing => {
                    self.check_conditions(None, &BTreeMap::new())?;
                    store.create().await?;
                    continue;
                }
                FoundState::Store(basis) => basis,
            };
            // A write based on an earlier state is refused forever. At the same one, it may still
            // be on its way.
            unknown.take_if(|unknown| unknown.root != basis.root);
            self.check_conditions(Some(&basis.root), &basis.present)?;
            // 2. Write everything, unless another client has written in between.
            let error = match self.transaction(&basis).commit().await {
                Ok(results) => match results.first().and_then(|result| result.stat()) {
                    Some(stat) => return Ok(Revision(stat.mzxid)),
                    None => continue,
                },
                Err(error) => error,
            };
            debug!(path = store.path(), %error, "not updated");
            if error.may_have_applied() {
                unknown.get_or_insert(Unknown { root: basis.root, error });
            } else if !is_race(&error) {
                return Err(error.into());
            }
        }
        Err(Error::Busy { path: store.path().to_owned() })
    }

    async fn find(&self, zk: &CuratorFramework, sent: Option<Root>) -> Result<FoundState, Error> {
        let store = self.store;
        let read = zk.get_data(&*store.root).synced().with_stat().await;
        let Some(root) = store.root(read)? else { return Ok(FoundState::Nothing) };
        if let Some(sent) = sent.filter(|sent| *sent != root) {
            if sent.czxid != root.czxid {
                return Ok(FoundState::Forgotten);
            }
            let version = sent.version.wrapping_add(1);
            match zk.get_data(store.record_path(version)).with_stat().await {
                Ok((data, stat)) if store.record(&data)?.id == self.id => {
                    return Ok(FoundState::Made(Revision(stat.czxid)));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    return Ok(FoundState::Forgotten);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let mut keys: Vec<_> = self.changes.keys().chain(self.conditions.keys()).cloned().collect();
        keys.sort_unstable();
        keys.dedup();
        let reads =
            keys.iter().map(|key| async { zk.get_data(store.value_path(key)).with_stat().await });
        let (records, values) =
            join(async { zk.children(store.history.as_str()).await }, join_all(reads)).await;
        let records = match records {
            Ok(names) => names.iter().filter_map(|name| name.parse().ok()).collect(),
            Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let mut present = BTreeMap::new();
        for (key, value) in keys.into_iter().zip(values) {
            let value = match value {
                Ok(value) => Some(value),
                Err(error) if error.kind() == ErrorKind::NoNode => None,
                Err(error) => return Err(error.into()),
            };
            present.insert(key, value);
        }
        Ok(FoundState::Store(BaseVersions { root, present, records }))
    }

    fn check_conditions(
        &self,
        root: Option<&Root>,
        present: &BTreeMap<String, Option<(Bytes, Stat)>>,
    ) -> Result<(), Error> {
        let found = root.map_or(Revision::NONE, |root| root.revision);
        // A new store without an update counts as none.
        let is_new = root.is_none_or(|root| root.version == 0);
        let holds = |expected| expected == found || (expected == Revision::NONE && is_new);
        if let Some(expected) = self.whole.filter(|expected| !holds(*expected)) {
            return Err(Error::Changed { path: self.store.path().to_owned(), expected, found });
        }
        for (key, &expected) in &self.conditions {
            let found =
                present.get(key).and_then(Option::as_ref).map(|(_, stat)| Revision(stat.mzxid));
            if found != expected {
                return Err(Error::Conflict { path: self.store.value_path(key), expected, found });
            }
        }
        Ok(())
    }

    /// Writes everything in one transaction: the new revision, the values, and the record of the
    /// old ones. Deletes the records that are no longer kept.
    fn transaction(&self, basis: &BaseVersions) -> Transaction {
        let store = self.store;
        let version = basis.root.version;
        let root = SetDataOp::new(&*store.root, MAGIC).version(version);
        let mut transaction = store.zk.transaction().with(root);
        let mut keys = BTreeMap::new();
        for (key, after) in &self.changes {
            let before = basis.present.get(key).and_then(Option::as_ref);
            let path = store.value_path(key);
            transaction = match (before, after) {
                (Some((_, stat)), Some(data)) => {
                    transaction.with(SetDataOp::new(path, data.clone()).version(stat.version))
                }
                (None, Some(data)) => transaction.with(CreateOp::new(path).data(data.clone())),
                (Some((_, stat)), None) => {
                    transaction.with(DeleteOp::new(path).version(stat.version))
                }
                (None, None) => continue,
            };
            let before = before.map(|(data, _)| data.clone());
            keys.insert(key.clone(), ChangedValue { before, after: after.clone() });
        }
        let record = ConfigRecord { id: self.id.clone(), keys };
        let next = version.wrapping_add(1);
        transaction =
            transaction.with(CreateOp::new(store.record_path(next)).data(record.encode()));
        let is_old =
            |record: &&i32| i64::from(next.wrapping_sub(**record)) >= i64::from(store.kept);
        for old in basis.records.iter().filter(is_old).take(MOST_REMOVED) {
            transaction = transaction.with(DeleteOp::new(store.record_path(*old)));
        }
        transaction
    }
}

impl ConfigStore {
    /// Makes a store without values, if there is none.
    async fn create(&self) -> Result<(), Error> {
        if let Some((parent, _)) = self.path().rsplit_once('/')
            && !parent.is_empty()
        {
            self.zk.create_containers(ZPath::for_operation("update", parent)?).await?;
        }
        let create = self.zk.transaction().with(CreateOp::new(&*self.root).data(MAGIC));
        let create = create.with(CreateOp::new(self.values.as_str()).data(Bytes::new()));
        let create = create.with(CreateOp::new(self.history.as_str()).data(Bytes::new()));
        match create.commit().await {
            Err(error) if !is_race(&error) && !error.may_have_applied() => Err(error.into()),
            _ => Ok(()),
        }
    }
}
