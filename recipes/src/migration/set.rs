use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::Version;
use zk_curator::internal::has_default_data;
use zk_curator::op::{CheckOp, CreateOp, DeleteOp, SetDataOp, TransactionOp};
use zk_curator::value::Failure;

use super::{Error, Reads};

/// The end of the ids that no set may have: the node of its records would be the metadata of
/// another set.
pub(super) const RECORDS: &str = "-info";

/// The operations of a migration, in their order. Paths are within the namespace of the manager's
/// framework.
///
/// ```
/// use zk_curator::CreateMode;
/// use zk_curator::op::CreateOp;
/// use zk_curator_recipes::migration::Operations;
///
/// let operations = Operations::new()
///     .create("/orders", "")
///     .with(CreateOp::new("/orders/by-id").data("").mode(CreateMode::Container))
///     .delete("/old");
/// assert_eq!(operations.len(), 3);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Operations(pub(super) Vec<TransactionOp>);

impl Operations {
    /// Begins without operations.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Creates a persistent node.
    pub fn create(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.with(CreateOp::new(path).data(data))
    }

    /// Replaces the data of a node, whatever their version is.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.with(SetDataOp::new(path, data))
    }

    /// Deletes a node, which must have no children.
    pub fn delete(self, path: impl Into<String>) -> Self {
        self.with(DeleteOp::new(path))
    }

    /// Requires that a node exists and has this version; `None` or -1 for any.
    pub fn check(self, path: impl Into<String>, version: impl Into<Version>) -> Self {
        self.with(CheckOp::new(path).version(version))
    }

    /// Adds an operation with all its options. The data of a create must be set: by default they
    /// are those of the framework, which may differ from process to process.
    pub fn with(mut self, operation: impl Into<TransactionOp>) -> Self {
        self.0.push(operation.into());
        self
    }

    /// Returns the number of operations.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no operations.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses creates whose data are not set.
    pub(super) fn check_data(&self, migration: &str) -> Result<(), Error> {
        match self.0.iter().find(|op| has_default_data(op)) {
            None => Ok(()),
            Some(op) => Err(Error::DefaultData {
                migration: migration.to_owned(),
                path: op.path().to_owned(),
            }),
        }
    }
}

/// Migrations in their order. Cheap to clone. A later version of a service adds migrations at the
/// end, and never changes the ones that it has released.
#[derive(Debug, Clone)]
pub struct MigrationSet {
    id: String,
    pub(super) migrations: Arc<[Migration]>,
    pub(super) is_compatible: bool,
}

#[derive(Clone)]
pub(super) struct Migration {
    pub(super) name: String,
    pub(super) work: MigrationWork,
}

/// The operations of a migration, or the function that finds them.
#[derive(Clone)]
pub(super) enum MigrationWork {
    Fixed(Operations),
    Computed { revision: String, compute: Arc<Compute> },
}

type Computation = Pin<Box<dyn Future<Output = Result<Operations, Failure>> + Send>>;
pub(super) type Compute = dyn Fn(Reads) -> Computation + Send + Sync;

impl MigrationSet {
    /// Begins a set. `id` is the name of its nodes below the paths of the manager.
    pub fn builder(id: impl Into<String>) -> MigrationSetBuilder {
        MigrationSetBuilder { id: id.into(), migrations: Vec::new(), is_compatible: false }
    }

    /// Returns the id of the set.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the names of the migrations, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.migrations.iter().map(|migration| migration.name.as_str())
    }

    /// Returns the number of migrations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.migrations.len()
    }

    /// Returns `true` if there are no migrations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.migrations.is_empty()
    }
}

/// Builds a [`MigrationSet`].
#[derive(Debug)]
#[must_use]
pub struct MigrationSetBuilder {
    id: String,
    migrations: Vec<Migration>,
    is_compatible: bool,
}

impl MigrationSetBuilder {
    /// Adds a migration with these operations, which are applied together or not at all.
    ///
    /// The name is for people, and may change. The operations may not.
    pub fn migration(
        mut self,
        name: impl Into<String>,
        operations: impl FnOnce(Operations) -> Operations,
    ) -> Self {
        let work = MigrationWork::Fixed(operations(Operations::new()));
        self.migrations.push(Migration { name: name.into(), work });
        self
    }

    /// Adds a migration whose operations depend on the nodes that exist.
    ///
    /// `compute` reads nodes through its argument, and returns the operations. It sees the results
    /// of all earlier migrations, and runs again if a node that it has read changes before the
    /// operations are applied: see [`Reads`]. So it may run several times, and its only effect must
    /// be its result.
    ///
    /// The checksum is that of the name and the revision, because the operations differ from
    /// ensemble to ensemble. Change the revision whenever the function changes. Only this library
    /// knows such migrations, so [compatible](Self::compatible) sets have none.
    ///
    /// Earlier migrations that are still missing are applied in a transaction before this one.
    pub fn computed<F, Fut, E>(
        mut self,
        name: impl Into<String>,
        revision: impl Into<String>,
        compute: F,
    ) -> Self
    where
        F: Fn(Reads) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Operations, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let compute: Arc<Compute> = Arc::new(move |reads| {
            let computed = compute(reads);
            Box::pin(async move { computed.await.map_err(|error| Failure::from(error.into())) })
        });
        let work = MigrationWork::Computed { revision: revision.into(), compute };
        self.migrations.push(Migration { name: name.into(), work });
        self
    }

    /// Accepts only what Java's `MigrationManager` knows too: no computed migrations, and no
    /// compressed data, whose bytes depend on the version of Java. Default: off.
    ///
    /// Without it, a set of plain operations is the same for Java, but nothing is refused that is
    /// not.
    pub const fn compatible(mut self) -> Self {
        self.is_compatible = true;
        self
    }

    /// Returns the set.
    ///
    /// # Errors
    /// * [`Error::InvalidId`] if the id cannot be the name of a node, or ends with `-info`.
    /// * [`Error::Duplicate`] if two migrations have the same name.
    /// * [`Error::DefaultData`] if the data of a create are not set.
    /// * [`Error::NotCompatible`] if a compatible set has a computed migration.
    pub fn build(self) -> Result<MigrationSet, Error> {
        let Self { id, migrations, is_compatible } = self;
        let is_name = zk_curator::path::ZPath::root().join(&id).is_ok() && !id.contains('/');
        if !is_name || id.ends_with(RECORDS) {
            return Err(Error::InvalidId { id });
        }
        let mut names = BTreeSet::new();
        for Migration { name, work } in &migrations {
            if !names.insert(name) {
                return Err(Error::Duplicate { name: name.clone() });
            }
            match work {
                MigrationWork::Fixed(operations) => operations.check_data(name)?,
                MigrationWork::Computed { .. } if is_compatible => {
                    return Err(Error::NotCompatible {
                        migration: name.clone(),
                        why: "its operations are computed",
                    });
                }
                MigrationWork::Computed { .. } => {}
            }
        }
        Ok(MigrationSet { id, migrations: migrations.into(), is_compatible })
    }
}

impl fmt::Debug for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migration").field("name", &self.name).finish_non_exhaustive()
    }
}
