//! The nodes of a set: their paths, and one read of all of them.

use std::collections::BTreeMap;

use zk_curator::internal::described;
use zk_curator::op::ReadResult;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, ErrorKind};

use super::digest;
use super::plan::{self, Difference, Expected, META, Meta};
use super::record::MigrationRecord;
use super::set::{MigrationWork, RECORDS};
use super::settings::MigrationSettings;
use super::{Error, MigrationSet};
use crate::lock::tag;
use crate::path::child;
use crate::race::RACE_ROUNDS;

/// The nodes of a set of migrations.
#[derive(Debug, Clone)]
pub(super) struct MigrationSite {
    /// Reads and writes bytes unchanged.
    zk: CuratorFramework,
    pub(super) id: String,
    /// The path of the lock.
    pub(super) lock: String,
    /// The parent of Curator's metadata.
    pub(super) metadata: String,
    /// The parent of the records.
    pub(super) records: String,
}

/// The nodes of a set, as they were read.
#[derive(Debug, Default)]
pub(super) struct SetNodes {
    /// `true` if the parent of the metadata exists.
    pub(super) exists: bool,
    /// `true` if a client holds the lock.
    pub(super) is_locked: bool,
    /// In the order of their creation.
    pub(super) metadata: Vec<Meta>,
    /// For each migration of the set, the node of its record.
    pub(super) records: Vec<Option<StoredRecord>>,
}

/// The node of a record.
#[derive(Debug, Clone)]
pub(super) struct StoredRecord {
    pub(super) version: i32,
    /// `None` if the data are not a record that this version knows.
    pub(super) record: Option<MigrationRecord>,
}

impl SetNodes {
    /// Returns the number of migrations that were applied.
    pub(super) fn compare(&self, expected: &[Expected]) -> Result<usize, Difference> {
        let record = |stored: &Option<StoredRecord>| stored.as_ref()?.record.clone();
        let records: Vec<_> = self.records.iter().map(record).collect();
        plan::compare(expected, &self.metadata, &records)
    }
}

impl MigrationSite {
    pub(super) fn new(
        settings: &MigrationSettings,
        operation: &'static str,
        id: &str,
    ) -> Result<Self, Error> {
        for path in [&settings.lock_path, &settings.metadata_path] {
            ZPath::for_operation(operation, path.as_str())?;
        }
        let metadata = child(&settings.metadata_path, id);
        let (lock, records) = (child(&settings.lock_path, id), format!("{metadata}{RECORDS}"));
        Ok(Self { zk: settings.zk.uncompressed(), id: id.to_owned(), lock, metadata, records })
    }

    /// Returns the parent of the nodes of clients that wait for the lock.
    pub(super) fn turns(&self) -> String {
        child(&self.lock, tag::LOCK_PARENT)
    }

    /// Returns the parent of the nodes of holders of the lock.
    pub(super) fn leases(&self) -> String {
        child(&self.lock, tag::LEASE_PARENT)
    }

    /// Returns the path of a record.
    pub(super) fn record(&self, index: usize) -> String {
        child(&self.records, &index.to_string())
    }

    /// Reads the metadata, the records of the first `count` migrations, and the lock: one request,
    /// in one round trip. With `synced` it is sent behind a `sync`.
    ///
    /// The names of the metadata are predictable, so they are read along with the listing. Others
    /// take one more request.
    pub(super) async fn look(&self, count: usize, synced: bool) -> Result<SetNodes, Error> {
        for _ in 0..RACE_ROUNDS {
            if let Some(seen) = self.look_once(count, synced).await? {
                return Ok(seen);
            }
        }
        Err(self.busy())
    }

    /// The error after other clients have interfered many times in a row.
    pub(super) fn busy(&self) -> Error {
        Error::Busy { path: self.metadata.clone() }
    }

    /// Returns `None` if metadata have disappeared between the listing and the read.
    async fn look_once(&self, count: usize, synced: bool) -> Result<Option<SetNodes>, Error> {
        let guesses: Vec<_> = (0..count).map(|number| format!("{META}{number:010}")).collect();
        let mut reads = self.zk.multi_read().children(self.metadata.as_str());
        reads = reads.children(self.leases());
        if synced {
            reads = reads.synced();
        }
        for name in &guesses {
            reads = reads.get_data(child(&self.metadata, name));
        }
        for index in 0..count {
            reads = reads.get_data(self.record(index));
        }
        let mut answers = reads.await?.into_iter();
        let mut list = || -> Result<_, Error> {
            let listed = answers.next().map(found).transpose()?.flatten();
            Ok(listed.and_then(ReadResult::into_children))
        };
        let (listed, leases) = (list()?, list()?);
        let is_locked = leases.is_some_and(|leases| leases.iter().any(|name| is_lease(name)));
        let exists = listed.is_some();
        let mut known = BTreeMap::new();
        for (name, answer) in guesses.into_iter().zip(&mut answers) {
            known.insert(name, found(answer)?.and_then(ReadResult::into_data));
        }
        let mut records = Vec::with_capacity(count);
        for answer in answers {
            let data = found(answer)?.and_then(ReadResult::into_data);
            records.push(data.map(|(data, stat)| StoredRecord {
                version: stat.version,
                record: MigrationRecord::decode(&data),
            }));
        }
        let is_metadata = |name: &String| SequenceSuffix::after(name, META).is_some();
        let names: Vec<_> = listed.into_iter().flatten().filter(is_metadata).collect();
        let unread: Vec<_> =
            names.iter().filter(|name| !known.get(*name).is_some_and(Option::is_some)).collect();
        if !unread.is_empty() {
            let path = |name: &&String| child(&self.metadata, name);
            let reads = unread
                .iter()
                .map(path)
                .fold(self.zk.multi_read(), |reads, path| reads.get_data(path));
            for (name, answer) in unread.iter().zip(reads.await?) {
                known.insert((*name).clone(), found(answer)?.and_then(ReadResult::into_data));
            }
        }
        let mut metadata = Vec::with_capacity(names.len());
        for name in names {
            let Some(Some((data, stat))) = known.remove(&name) else { return Ok(None) };
            metadata.push(Meta { name, czxid: stat.czxid, ctime: stat.ctime, data });
        }
        plan::sort(&mut metadata);
        Ok(Some(SetNodes { exists, is_locked, metadata, records }))
    }
}

/// Returns `true` for the name of a holder of the lock. The lock ignores other nodes, too.
pub(super) fn is_lease(name: &str) -> bool {
    SequenceSuffix::after(name, tag::LEASE).is_some()
}

/// Returns `None` if the node does not exist.
fn found(answer: zk_curator::Result<ReadResult>) -> zk_curator::Result<Option<ReadResult>> {
    match answer {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        answer => answer.map(Some),
    }
}

/// Returns what the metadata and the records of a set must be, for this handle: with its namespace
/// and the ACLs of its provider.
pub(super) fn expected(zk: &CuratorFramework, set: &MigrationSet) -> Result<Vec<Expected>, Error> {
    let mut expected = Vec::with_capacity(set.len());
    for migration in set.migrations.iter() {
        let name = migration.name.clone();
        expected.push(match &migration.work {
            MigrationWork::Computed { revision, .. } => {
                let digest = digest::computed(&name, revision);
                Expected { name, digest, sound: digest, is_computed: true }
            }
            MigrationWork::Fixed(operations) => {
                let (ops, compressed): (Vec<_>, Vec<_>) =
                    operations.0.iter().map(|op| described(zk, op)).unzip();
                if set.is_compatible && compressed.contains(&true) {
                    let why = "its data are compressed";
                    return Err(Error::NotCompatible { migration: name, why });
                }
                let (digest, sound) = (digest::curator(&ops), digest::sound(&ops));
                Expected { name, digest, sound, is_computed: false }
            }
        });
    }
    Ok(expected)
}
