//! The time machine: the history in the transaction logs and snapshots of a server.
//!
//! Everything here reads files, and needs no server. Files are opened for reading only, copied or
//! in place: the end of a log that a server is writing is normal.
//!
//! * [`Files`]: the files of a server.
//! * [`Log`] and [`Logs`]: the transactions, one file or all files.
//! * [`Snapshot`]: the nodes and sessions of a snapshot.
//! * [`Replay`]: the [`Tree`] as it was; [`Tree::diff`] compares two of them.
//! * [`Index`]: the changes, the sessions, and the authors of deletions. [`Follow`] is its stream
//!   while a server writes.
//! * [`Undelete`]: deleted nodes as a backup, which [`Restore`](crate::transfer::Restore) applies.
//! * [`Check`]: gaps, damage, digests, and how far back one can go.
//!
//! Files of ZooKeeper 3.4 to 3.9 are read. The differences are recognised by the content.
//!
//! # Units
//! Times are milliseconds since 1970 by the clock of the leader that ordered the transaction. They
//! can go back when the leader changes. The order of transactions is that of their ids (`zxid`):
//! the epoch of the leader in the upper 32 bits, a counter in the lower ones. Sizes and positions
//! are bytes.
//!
//! # Files
//! All numbers are big-endian. A string or buffer has its length before it, as 32 bits; -1 is
//! Java's `null`. A list has the number of its elements before it.
//!
//! | `log.<zxid>` | bytes | content |
//! |---|---|---|
//! | header | 4, 4, 8 | `ZKLG`, the version 2, a database id |
//! | record: checksum | 8 | Adler-32 of the transaction |
//! | record: length | 4 | the length of the transaction |
//! | record: transaction | length | header, change, and a digest since 3.6 |
//! | record: mark | 1 | `B` |
//! | padding | | zeros up to the allocated length |
//!
//! | transaction | bytes | content |
//! |---|---|---|
//! | header | 8, 4, 8, 8, 4 | session, number of the request (`cxid`), zxid, time, type |
//! | `create`, `create2` | | path, data, ACL, ephemeral, `cversion` of the parent (since 3.4) |
//! | `createContainer` | | path, data, ACL, `cversion` of the parent |
//! | `createTTL` | | path, data, ACL, `cversion` of the parent, time to live |
//! | `delete`, `deleteContainer` | | path |
//! | `setData`, `reconfig` | | path, data, new version |
//! | `setACL` | | path, ACL, new version |
//! | `multi` | | list of: type, buffer with the change |
//! | `createSession` | 4 | timeout |
//! | `closeSession` | | nothing; a list of paths since 3.6 |
//! | `error` | 4 | error code |
//! | digest | 4, 8 | version, digest of the tree |
//!
//! | `snapshot.<zxid>` | bytes | content |
//! |---|---|---|
//! | header | 4, 4, 8 | `ZKSN`, the version 2, -1 |
//! | sessions | | list of: session (8), timeout (4) |
//! | ACLs | | list of: number (8), list of: permissions (4), scheme, identity |
//! | nodes | | for each: path, data, number of the ACL (8), metadata (60) |
//! | end of the nodes | 5 | the string `/` |
//! | seal | 8, 5 | Adler-32 of all that precedes it, the string `/` |
//! | digest (since 3.6) | 8, 4, 8 | zxid, version, digest of the tree; then a seal |
//! | last zxid (since 3.9) | 8 | zxid; then a seal |
//!
//! A compressed snapshot ends with `.gz`, or with `.snappy` for the stream format of snappy-java.
//!
//! A snapshot is *fuzzy*: the server writes it while it applies transactions. It contains all
//! transactions up to the one in its name, and effects of some later ones. Applying the later ones
//! again leads to the right tree.
//!
//! # Bounds
//! [`ReadBudget`] limits the bytes, the time and the memory of reads, and stops them.
//! A record or field is at most [`DEFAULT_MAX_RECORD`] bytes long, which can be set. Memory is
//! allocated for bytes of the files, not for what a length field announces. A log or snapshot is
//! read in a window of 1 MiB, or of the longest record. A tree takes about 120 bytes for each node,
//! and its names and data.
//!
//! # What the logs do not tell
//! * The address and the identity of a client. The data of its ephemeral nodes often does.
//! * The operation of a failed request, and all reads.
//! * If a server ended a session because it expired, or because an operator asked for it:
//!   [`SessionEnd::Server`].
//! * Local sessions, and whether the last transactions of the newest log were committed.
//!
//! # Errors
//! [`Error`] names the file, and the position of damage. Nothing is skipped unless that is
//! requested, and then each skipped range is listed.

mod acls;
mod arena;
mod base;
mod budget;
mod change;
mod changes;
mod check;
mod comparison;
mod continuity;
mod diff;
mod digest;
mod document;
mod ends;
pub(crate) mod error;
mod explain;
mod feed;
mod files;
mod follow;
mod frames;
mod identity;
mod index;
mod limit;
mod lists;
mod log;
mod logs;
mod lookup;
mod moment;
mod player;
mod purge;
mod recipe_names;
mod records;
mod replay;
mod scope;
mod selection;
mod sentences;
#[cfg(feature = "serde")]
mod serial;
mod sessions;
mod snapshot;
mod stat;
mod time;
mod tree;
mod undelete;
mod unpack;
mod view;
mod who;
mod window;
mod wire;
mod words;

#[cfg(test)]
mod tests;

pub use budget::ReadBudget;
pub use change::{Change, DeletionCause, Moment, MultiPlace, NodeState, Operation, SessionEnd};
pub use changes::Changes;
pub use check::{Check, CheckReport, GapReport, LogReport, SnapshotReport};
pub use comparison::{DigestMismatch, DigestReport};
pub use continuity::Gap;
pub use diff::{Diff, Difference};
pub use error::{Damage, Error, Result};
pub use explain::{Explained, Explanation};
pub use files::{Files, LogFile, Packing, SnapshotFile};
pub use follow::{Follow, FollowEvent};
pub use identity::ClientIdentity;
pub use index::Index;
pub use limit::ReadLimit;
pub use lists::{AclList, Paths, PathsIter};
pub use log::{DEFAULT_MAX_RECORD, Log, LogEnd, Skipped};
pub use logs::Logs;
pub use moment::{At, MomentError};
pub use recipe_names::RecipeNode;
pub use records::{
    Applied, CreateKind, CreateTxn, MultiTxn, Parts, Record, SetAclTxn, SetDataTxn, TreeDigest,
    Txn, TxnHeader,
};
pub use replay::{Replay, Replayed};
pub use sessions::SessionHistory;
pub use snapshot::{Snapshot, SnapshotEnd, SnapshotNode, SnapshotSession};
pub use stat::{Owner, StoredStat};
pub use tree::Tree;
pub use undelete::{Recovered, RecoveredCounts, Undelete};
pub use view::{NodeRef, Walk};
pub use who::{Author, Deletion, EphemeralHistory, Fate};
