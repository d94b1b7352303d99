//! Access control lists, which are shared by the nodes that have them.

use std::sync::Arc;

use zk_curator_proto::records::Acl;

use crate::collections::Set;

/// The number of lists at which unused ones are first searched for.
const FIRST_SWEEP: usize = 64;

/// The access control lists of a tree.
#[derive(Debug, Clone)]
pub(super) struct Acls {
    lists: Set<Arc<[Acl]>>,
    sweep_at: usize,
}

impl Default for Acls {
    fn default() -> Self {
        Self { lists: Set::default(), sweep_at: FIRST_SWEEP }
    }
}

impl Acls {
    /// Returns the list to store in a node.
    pub(super) fn share(&mut self, list: Vec<Acl>) -> Arc<[Acl]> {
        if let Some(known) = self.lists.get(list.as_slice()) {
            return Arc::clone(known);
        }
        if self.lists.len() >= self.sweep_at {
            self.lists.retain(|list| Arc::strong_count(list) > 1);
            self.sweep_at = FIRST_SWEEP.max(self.lists.len() * 2);
        }
        let list: Arc<[Acl]> = list.into();
        self.lists.insert(Arc::clone(&list));
        list
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_proto::records::Permissions;

    use super::*;

    #[test]
    fn equal_lists_are_shared_and_unused_lists_are_removed() {
        let mut acls = Acls::default();
        let kept = acls.share(Acl::open_unsafe());
        assert!(Arc::ptr_eq(&kept, &acls.share(Acl::open_unsafe())));
        for number in 0..10 * FIRST_SWEEP {
            acls.share(vec![Acl::new(Permissions::ALL, "digest", format!("user:{number}"))]);
            assert!(acls.lists.len() <= FIRST_SWEEP);
        }
        assert!(Arc::ptr_eq(&kept, &acls.share(Acl::open_unsafe())));
    }
}
