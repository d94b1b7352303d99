//! Access control lists of nodes that are created without one.

use std::fmt::Debug;

use zk_curator_client::Acl;

/// Says which access control list a new node gets, if its builder names none: parents, containers of namespaces and
/// nodes of recipes included (CURATOR-58).
pub trait AclProvider: Debug + Send + Sync + 'static {
    /// The list for the node at `path`, which includes the namespace, but not the chroot of the connect string. A
    /// sequential node has no number yet, and a protected one no prefix.
    fn acl(&self, path: &str) -> Vec<Acl>;
}

/// Everybody may do everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OpenAcl;

impl AclProvider for OpenAcl {
    fn acl(&self, _: &str) -> Vec<Acl> {
        Acl::open_unsafe()
    }
}

/// One list for all nodes.
impl AclProvider for Vec<Acl> {
    fn acl(&self, _: &str) -> Vec<Acl> {
        self.clone()
    }
}
