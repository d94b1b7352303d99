use std::sync::Arc;

use bytes::Bytes;
use zk_curator_proto::records::{Acl, Stat};

use super::owner::Owner;
use crate::collections::Set;

/// One znode.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(super) data: Option<Bytes>,
    pub(super) acl: Arc<[Acl]>,
    pub(super) owner: Owner,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) version: i32,
    pub(super) aversion: i32,
    /// How many children were ever created, and so the number of the next sequential one. Clients see
    /// another number, see [`Node::stat`].
    pub(super) created_children: i32,
    pub(super) children: Set<Arc<str>>,
}

impl Node {
    pub(super) fn new(data: Option<Bytes>, acl: Arc<[Acl]>, owner: Owner, zxid: i64, time: i64) -> Self {
        Self {
            data,
            acl,
            owner,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            created_children: 0,
            children: Set::default(),
        }
    }

    /// The stat a client sees. Its `cversion` counts creations and deletions of children: every creation
    /// was followed by a deletion but for the children still there.
    pub(crate) fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.created_children.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.owner.shown(),
            data_length: self.data.as_ref().map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX)),
            num_children,
            pzxid: self.pzxid,
        }
    }

    /// The data; `None` is Java's `null`, which is not the same as no bytes.
    pub(crate) const fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// The access control list as it was given.
    pub(crate) const fn acl(&self) -> &Arc<[Acl]> {
        &self.acl
    }

    /// What the node depends on.
    pub(crate) const fn owner(&self) -> Owner {
        self.owner
    }

    /// Transaction that last set the data.
    pub(crate) const fn mzxid(&self) -> i64 {
        self.mzxid
    }

    /// Transaction that last created or deleted a child.
    pub(crate) const fn pzxid(&self) -> i64 {
        self.pzxid
    }

    /// The names of the children, in no order.
    pub(crate) fn child_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.children.iter()
    }
}
