//! Moves nodes: into and out of backup files, and within an ensemble.
//!
//! Pure: `record` is a node as a file has it, `format` reads and writes files, `plan` decides about
//! each node, `settle` knows which nodes have to be read again, and `names` has the names of files.
//! The others connect these with files and servers.

pub(crate) mod apply;
pub(crate) mod arguments;
pub(crate) mod backup;
mod contenders;
pub(crate) mod copy;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod format;
mod names;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod restore;
pub(crate) mod settle;
pub(crate) mod source;
