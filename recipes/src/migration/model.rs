use std::time::SystemTime;

use super::plan::Difference;

/// The effect that [`migrate`](super::MigrationManager::migrate) would have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The migrations that were applied, in their order, including unknown ones.
    pub applied: Vec<AppliedMigration>,
    /// The names of the migrations that are missing, in their order. Empty if there is a
    /// [difference](Self::difference).
    pub missing: Vec<String>,
    /// The reason why nothing would be applied.
    pub difference: Option<Difference>,
    /// The size of the largest transaction that would be sent, in bytes, without the operations of
    /// computed migrations.
    pub size: usize,
}

/// A migration that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppliedMigration {
    /// The name of its metadata.
    pub node: String,
    /// The checksum in its metadata, in hexadecimal digits.
    pub digest: String,
    /// The time at which it was applied, by the clock of the servers.
    pub at: SystemTime,
    /// Its name; `None` if Java has applied it, or if it is not in the set.
    pub name: Option<String>,
    /// The [label](super::MigrationManager::label) of the process that has applied it; `None` as
    /// for the name.
    pub by: Option<String>,
}

/// The result of [`migrate`](super::MigrationManager::migrate).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The names of the migrations that this call has applied, in their order.
    pub applied: Vec<String>,
    /// The number of migrations that other calls have applied, before or at the same time.
    pub already: usize,
}
