use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zk_curator::internal::sleep;
use zk_curator::{CuratorFramework, Ownership};

use super::apply::MigrationCall;
use super::model::{AppliedMigration, Outcome, Plan};
use super::plan;
use super::settings::MigrationSettings;
use super::site::{MigrationSite, SetNodes, expected};
use super::{Error, MigrationSet};

/// The pause before a read is repeated because metadata have disappeared.
const PAUSE: Duration = Duration::from_millis(100);

/// Applies sets of migrations: Curator's class of the same name. Cheap to clone. See the
/// [module](super).
#[derive(Debug, Clone)]
pub struct MigrationManager {
    settings: MigrationSettings,
}

impl MigrationManager {
    /// The manager of the sets at these paths. Nothing is sent; invalid paths are refused by the
    /// first operation. All managers of a set must have the same paths.
    pub fn new(
        zk: &CuratorFramework,
        lock_path: impl Into<String>,
        metadata_path: impl Into<String>,
    ) -> Self {
        Self { settings: MigrationSettings::new(zk, lock_path.into(), metadata_path.into()) }
    }

    /// Sets the time to wait while another client holds the lock. Zero does not wait: the lock must
    /// be free. [`Duration::MAX`] waits without a limit. Default: 60 s.
    #[must_use]
    pub const fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.settings.lock_timeout = timeout;
        self
    }

    /// Sets the name of this process in the records, and in the node of the lock. Default: empty.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.settings.label = Bytes::from(label.into());
        self
    }

    /// Applies each migration in a transaction of its own: for sets that do not fit into one
    /// request. If one is refused, the earlier ones stay applied. Default: all missing migrations
    /// are applied together, or none.
    #[must_use]
    pub const fn per_migration(mut self) -> Self {
        self.settings.one_each = true;
        self
    }

    /// Applies migrations while this node is owned, instead of taking the lock: for callers that
    /// already hold a lock, or lead. Java's managers and others without this setting are not
    /// excluded: all processes of the service must use the same lock or election.
    #[must_use]
    pub fn fenced_by(mut self, ownership: &Ownership) -> Self {
        self.settings.fence = Some(ownership.clone());
        self
    }

    /// Reads the applied migrations, and returns what [`migrate`](Self::migrate) would do. One
    /// request behind a `sync`, in one round trip.
    ///
    /// # Errors
    /// * [`Error::NotCompatible`] as for [`migrate`](Self::migrate).
    /// * [`Error::TooLarge`] if a transaction would not fit into a request.
    /// * [`Error::Framework`] as a read. A set that was never applied is no error.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn plan(&self, set: &MigrationSet) -> Result<Plan, Error> {
        let site = MigrationSite::new(&self.settings, "plan", set.id())?;
        let expected = expected(&self.settings.zk, set)?;
        let seen = site.look(expected.len(), true).await?;
        let (missing, difference) = match seen.compare(&expected) {
            Ok(applied) => (applied..expected.len(), None),
            Err(difference) => (0..0, Some(difference)),
        };
        let run = MigrationCall::new(&self.settings, site, set, expected);
        let mut size = 0;
        let mut from = missing.start;
        while from < missing.end {
            let batch = plan::batch(&run.expected, from, self.settings.one_each);
            from = batch.end;
            run.check_size(batch.clone())?;
            size = size.max(run.size(batch));
        }
        let name = |index: usize| run.expected[index].name.clone();
        Ok(Plan { applied: applied(&seen), missing: missing.map(name).collect(), difference, size })
    }

    /// Applies the missing migrations: each one exactly once, in the order of the set, whichever
    /// processes call this at the same time and whichever responses are lost. If nothing is
    /// missing, it takes no lock, and costs as much as [`plan`](Self::plan).
    ///
    /// Missing parents of the metadata are created as containers.
    ///
    /// # Errors
    /// * [`Error::Mismatch`], [`Error::Ahead`]: the set differs from the applied migrations.
    /// * [`Error::TooLarge`], [`Error::NotCompatible`], [`Error::DefaultData`].
    /// * [`Error::Refused`]: an operation cannot be applied. [`Error::Computation`].
    /// * [`Error::LockTimeout`], [`Error::Busy`]: call it again.
    /// * [`Error::Framework`] as the acquire of a lock, or a [certain](zk_curator::certain)
    ///   transaction: with [`may_have_applied`](Error::may_have_applied) if migrations may have
    ///   been applied. `OwnershipLost` if the node of [`fenced_by`](Self::fenced_by) is gone.
    /// * [`Error::Incomplete`], with one of the others as its source, if the call has applied
    ///   migrations in earlier transactions.
    ///
    /// To call it again is safe after every error.
    ///
    /// # Cancel safety
    /// Once polled, migrations may be applied: all of a transaction, or none. The lock is released
    /// in the background.
    pub async fn migrate(&self, set: &MigrationSet) -> Result<Outcome, Error> {
        let site = MigrationSite::new(&self.settings, "migrate", set.id())?;
        let expected = expected(&self.settings.zk, set)?;
        // On the heap, for futures of callers that are small.
        Box::pin(MigrationCall::new(&self.settings, site, set, expected).migrate()).await
    }

    /// Waits, without a time limit and across sessions, until all migrations of the set are
    /// applied by any client: for processes that must not apply them. Takes no lock, and writes
    /// nothing. Compose with `tokio::time::timeout`.
    ///
    /// # Errors
    /// * [`Error::Mismatch`], [`Error::Ahead`], [`Error::NotCompatible`].
    /// * [`Error::Framework`] with errors that do not pass, such as `NoAuth` and `Closed`.
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub async fn wait_applied(&self, set: &MigrationSet) -> Result<(), Error> {
        let site = MigrationSite::new(&self.settings, "wait_applied", set.id())?;
        let expected = expected(&self.settings.zk, set)?;
        let mut children = self.settings.zk.watch_children(site.metadata.as_str());
        let mut has_waited = false;
        loop {
            let listed = children.next().await?.map_or(0, |(names, _)| names.len());
            if listed > 0 || expected.is_empty() {
                // A change was seen by the server that is read. The first state may be an old one.
                let seen = self.look_through_outages(&site, expected.len(), !has_waited).await?;
                let applied = seen
                    .compare(&expected)
                    .map_err(|difference| Error::of_difference(&site.metadata, difference))?;
                if applied == expected.len() {
                    return Ok(());
                }
            }
            has_waited = true;
        }
    }

    async fn look_through_outages(
        &self,
        site: &MigrationSite,
        count: usize,
        synced: bool,
    ) -> Result<SetNodes, Error> {
        let mut synced = synced;
        loop {
            match site.look(count, synced).await {
                Err(Error::Framework(error)) => self.settings.zk.wait_for_recovery(error).await?,
                Err(Error::Busy { .. }) => sleep(PAUSE).await,
                seen => return seen,
            }
            // The next session may be one with a server that lags.
            synced = true;
        }
    }

    /// Returns the migrations that were applied, in their order: for tools that do not know the
    /// set.
    ///
    /// # Errors
    /// [`Error::InvalidId`]; [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn applied(&self, id: &str) -> Result<Vec<AppliedMigration>, Error> {
        let id = MigrationSet::builder(id).build()?.id().to_owned();
        let site = MigrationSite::new(&self.settings, "applied", &id)?;
        let count = site.look(0, true).await?.metadata.len();
        Ok(applied(&site.look(count, false).await?))
    }
}

fn applied(seen: &SetNodes) -> Vec<AppliedMigration> {
    let each = |(index, meta): (usize, &plan::Meta)| {
        let record = seen.records.get(index).and_then(Option::as_ref);
        let record = record.and_then(|stored| stored.record.as_ref());
        let record = record.filter(|record| meta.data == record.metadata[..]);
        let since = Duration::from_millis(u64::try_from(meta.ctime).unwrap_or(0));
        AppliedMigration {
            node: meta.name.clone(),
            digest: super::digest::hex(&meta.data),
            at: SystemTime::UNIX_EPOCH + since,
            name: record.map(|record| record.name.clone()),
            by: record.map(|record| record.by.clone()),
        }
    };
    seen.metadata.iter().enumerate().map(each).collect()
}
