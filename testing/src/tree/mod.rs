//! The znode tree: transactions in, replies and changes out.
//!
//! Pure: no I/O, no async, no clock. The caller passes the transaction's zxid and time; the order
//! of checks and so the error of a request with several faults is that of Apache ZooKeeper.

mod acls;
mod damage;
mod image;
mod node;
mod owner;
mod path;
mod quota;
mod store;
#[cfg(test)]
mod tests;
mod txn;
mod undo;

pub(crate) use damage::Damage;
pub(crate) use node::Node;
pub(crate) use owner::Owner;
pub(crate) use path::parent;
pub(crate) use store::Tree;
pub(crate) use txn::Txn;
pub(crate) use undo::{Change, ChangeKind};
