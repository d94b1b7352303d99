//! The limits of reads of whole subtrees.

use std::time::Duration;

/// The maximum number of nodes that are read to find recipes.
pub(crate) const MOST_NODES: usize = 30_000;
/// The approximate maximum number of bytes that these nodes take.
pub(crate) const MOST_BYTES: usize = 24 << 20;
/// The time for a read of several nodes.
pub(crate) const WITHIN: Duration = Duration::from_secs(10);
/// The maximum length of a label in bytes.
pub(crate) const LONGEST_LABEL: usize = 256;
/// The maximum number of services, and of their instances, that are read.
pub(crate) const MOST_SERVICES: usize = 1_000;
pub(crate) const MOST_INSTANCES: usize = 5_000;
/// The approximate maximum number of bytes of the records of these instances.
pub(crate) const MOST_RECORDS: usize = 16 << 20;
/// The maximum length of a payload in bytes.
pub(crate) const LONGEST_PAYLOAD: usize = 4 << 10;
