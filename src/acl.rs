//! Access control lists of nodes that are created without an explicit one.

use std::fmt::Debug;

use zk_curator_client::Acl;

/// Returns the access control list of a new node whose builder sets none. This includes parents,
/// containers of namespaces and nodes of recipes (CURATOR-58).
pub trait AclProvider: Debug + Send + Sync + 'static {
    /// Returns the list for the node at `path`, which includes the namespace, but not the chroot of
    /// the connect string. The path of a sequential node has no number yet, and that of a protected
    /// one no prefix.
    fn acl(&self, path: &str) -> Vec<Acl>;
}

/// Allows everything to all clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OpenAcl;

impl AclProvider for OpenAcl {
    fn acl(&self, _: &str) -> Vec<Acl> {
        Acl::open_unsafe()
    }
}

/// Uses one list for all nodes.
impl AclProvider for Vec<Acl> {
    fn acl(&self, _: &str) -> Vec<Acl> {
        self.clone()
    }
}
