//! Curator's JSON: the reader is lenient, the writer is strict.
//!
//! A record is one object in UTF-8, without spaces, with its fields in this order; absent values
//! are `null`:
//!
//! ```text
//! {"name":"orders","id":"7","address":"10.0.0.1","port":8040,"sslPort":null,"payload":null,
//!  "registrationTimeUTC":1553592092875,"serviceType":"DYNAMIC","uriSpec":null}
//! ```
//!
//! `enabled` comes last, and only if it is `false`, or with [`JsonMode::Full`]. Fields that this
//! version does not know follow it.
//!
//! Readers accept the fields in any order. A missing `name` or `id` is taken from the path. A
//! missing `enabled` means `true`, a missing `serviceType` means `DYNAMIC`.
//!
//! Values of another kind are read as Jackson reads them in Curator's serializer: `"port":"8080"`
//! and `"port":8080.0` are a port, `"id":7` is a text, `"enabled":1` and `"enabled":"true"` are
//! `true`, `"enabled":null` is `false`, and `"serviceType":1` is the second kind, `STATIC`.
//!
//! A change of a record edits the document that is there: only fields that differ are written.

mod edit;
mod read;
mod scalar;
mod text;
mod write;

pub(crate) use edit::{address, is_document, is_enabled, updated, with_enabled};
#[cfg(feature = "rest")]
pub(crate) use read::read_body;
pub use read::{Fault, read};
pub(crate) use text::WrittenJson;
pub(crate) use write::fields;
pub use write::{JsonMode, WriteError, write};

/// The largest record, in bytes: the default limit of ZooKeeper for a node.
pub const MAX_BYTES: usize = 1 << 20;

/// The greatest depth of nesting, including the record itself.
pub const MAX_DEPTH: usize = 64;
