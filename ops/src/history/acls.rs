//! The ACLs of a tree, each stored once.

use std::collections::HashMap;

use super::lists::AclList;

/// The number of an ACL.
pub(super) type AclId = u32;
/// The number of an ACL that is missing in a snapshot.
pub(super) const UNKNOWN: AclId = AclId::MAX;

/// The ACLs in their stored form, by number.
#[derive(Debug, Default)]
pub(super) struct AclTable {
    lists: Vec<Box<[u8]>>,
    ids: HashMap<Box<[u8]>, AclId>,
}

impl AclTable {
    /// Returns the number of an ACL, which is added if it is new.
    pub(super) fn intern(&mut self, acl: AclList<'_>) -> AclId {
        let bytes = acl.as_bytes();
        if let Some(id) = self.ids.get(bytes) {
            return *id;
        }
        let id = AclId::try_from(self.lists.len()).unwrap_or(UNKNOWN);
        self.lists.push(bytes.into());
        self.ids.insert(bytes.into(), id);
        id
    }

    /// Returns an ACL; `None` for [`UNKNOWN`].
    pub(super) fn get(&self, id: AclId) -> Option<AclList<'_>> {
        self.lists.get(id as usize).map(|bytes| AclList::of(bytes))
    }
}
