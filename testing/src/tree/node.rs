use std::sync::Arc;

use bytes::Bytes;
use zk_curator_proto::records::{Acl, Stat};
use zk_curator_proto::{Decoder, Encoder};

use super::acls::Acls;
use super::damage::Damage;
use super::owner::Owner;
use super::path;
use crate::collections::Map;

/// Tables of children with at most this capacity do not shrink.
const SMALL_TABLE: usize = 1 << 10;

/// A znode, and the nodes below it. A server may have millions of them, so rare fields take no
/// space when they are absent. A copy shares the children until either copy is changed.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(super) data: Option<Box<[u8]>>,
    pub(super) acl: Arc<[Acl]>,
    /// The owner, see [`Owner::encoded`].
    owner: i64,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) version: i32,
    pub(super) aversion: i32,
    /// The number of children that were ever created, which is the number of the next sequential
    /// one. Clients see another number, see [`Node::stat`].
    pub(super) created_children: i32,
    /// The children, by name.
    children: Option<Box<Map<Box<str>, Arc<Self>>>>,
}

impl Node {
    pub(super) fn new(
        data: Option<Box<[u8]>>,
        acl: Arc<[Acl]>,
        owner: Owner,
        zxid: i64,
        time: i64,
    ) -> Self {
        Self {
            data,
            acl,
            owner: owner.encoded(),
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            created_children: 0,
            children: None,
        }
    }

    /// Writes everything except the children.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.buffer(self.data());
        out.vector(&self.acl);
        out.i64(self.owner);
        for zxid in [self.czxid, self.mzxid, self.pzxid] {
            out.i64(zxid);
        }
        for time in [self.ctime, self.mtime] {
            out.i64(time);
        }
        for count in [self.version, self.aversion, self.created_children] {
            out.i32(count);
        }
    }

    /// Reads what [`Node::encode`] has written.
    pub(super) fn decode(input: &mut Decoder, acls: &mut Acls) -> Result<Self, Damage> {
        let data = input.buffer("data")?.map(stored);
        let acl = acls.share(input.vector("acl")?);
        let owner = input.i64("owner")?;
        Owner::decode(owner).ok_or(Damage::Content("a node has an unknown owner"))?;
        Ok(Self {
            data,
            acl,
            owner,
            czxid: input.i64("czxid")?,
            mzxid: input.i64("mzxid")?,
            pzxid: input.i64("pzxid")?,
            ctime: input.i64("ctime")?,
            mtime: input.i64("mtime")?,
            version: input.i32("version")?,
            aversion: input.i32("aversion")?,
            created_children: input.i32("created_children")?,
            children: None,
        })
    }

    /// Returns the stat that a client sees. Its `cversion` counts creations and deletions of
    /// children: all created children were deleted again, except the present ones.
    pub(crate) fn stat(&self) -> Stat {
        let num_children =
            i32::try_from(self.children.as_ref().map_or(0, |children| children.len()))
                .unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.created_children.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.owner().shown(),
            data_length: self
                .data
                .as_ref()
                .map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX)),
            num_children,
            pzxid: self.pzxid,
        }
    }

    /// Returns the data. `None` is Java's `null`, which differs from empty data.
    pub(crate) fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// Returns the access control list as it was set.
    pub(crate) const fn acl(&self) -> &Arc<[Acl]> {
        &self.acl
    }

    /// Returns the owner of the node.
    pub(crate) fn owner(&self) -> Owner {
        // Only valid owners are ever stored.
        Owner::decode(self.owner).unwrap_or(Owner::None)
    }

    /// Returns the transaction that last set the data.
    pub(crate) const fn mzxid(&self) -> i64 {
        self.mzxid
    }

    /// Returns the transaction that last created or deleted a child.
    pub(crate) const fn pzxid(&self) -> i64 {
        self.pzxid
    }

    /// Returns the names of the children, in no order.
    pub(crate) fn child_names(&self) -> impl Iterator<Item = &str> {
        self.children.iter().flat_map(|children| children.keys()).map(AsRef::as_ref)
    }

    pub(super) fn has_children(&self) -> bool {
        self.children.is_some()
    }

    /// Returns the node at `path`, if this node is the root. The empty path is an alias of `/`, as
    /// on Apache ZooKeeper.
    pub(crate) fn get(&self, path: &str) -> Option<&Self> {
        path::components(path)?
            .try_fold(self, |node, name| Some(&**node.children.as_ref()?.get(name)?))
    }

    /// Returns the same node for changes. Copies the nodes on the path to it if a snapshot shares
    /// them.
    pub(super) fn get_mut(&mut self, path: &str) -> Option<&mut Self> {
        path::components(path)?.try_fold(self, |node, name| {
            Some(Arc::make_mut(node.children.as_mut()?.get_mut(name)?))
        })
    }

    pub(super) fn link(&mut self, name: &str, child: Arc<Self>) {
        self.children.get_or_insert_default().insert(name.into(), child);
    }

    pub(super) fn unlink(&mut self, name: &str) -> Option<Arc<Self>> {
        let children = self.children.as_mut()?;
        let child = children.remove(name);
        // Shrinks the table after most of many children were deleted.
        if children.capacity() > SMALL_TABLE && children.len() < children.capacity() / 4 {
            children.shrink_to(children.len() * 2);
        }
        if children.is_empty() {
            self.children = None;
        }
        child
    }

    /// Returns this node, which is at `path`, and everything below it, in no order.
    pub(crate) fn walk(&self, path: &str) -> impl Iterator<Item = (String, &Self)> {
        let mut rest = vec![(path.to_owned(), self)];
        std::iter::from_fn(move || {
            let (path, node) = rest.pop()?;
            let prefix = if path == "/" { "" } else { &path };
            let children = node.children.iter().flat_map(|children| children.iter());
            rest.extend(children.map(|(name, child)| (format!("{prefix}/{name}"), &**child)));
            Some((path, node))
        })
    }
}

/// Returns the number of bytes; zero for Java's `null`.
pub(super) fn length(data: Option<&[u8]>) -> i64 {
    data.map_or(0, |data| i64::try_from(data.len()).unwrap_or(i64::MAX))
}

/// Copies data to keep, so that they do not keep the buffer they were read with.
pub(super) fn stored(data: Bytes) -> Box<[u8]> {
    Vec::from(data).into_boxed_slice()
}

/// Drops the tree without recursion, so a deep tree does not overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut rest: Vec<_> = self.children.take().into_iter().collect();
        while let Some(children) = rest.pop() {
            let alone = children.into_values().filter_map(Arc::into_inner);
            rest.extend(alone.filter_map(|mut child| child.children.take()));
        }
    }
}
