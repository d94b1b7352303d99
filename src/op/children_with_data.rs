use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator_client::{Data, Read, ReadResponse, Stat};

use super::multi_read::{found, read_chunks, resolve};
use super::tree::NodeFilter;
use super::{OpFuture, OpTarget, decompression_options};
use crate::core::ReadFreshness;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::path::join;
use crate::schema::Intent;

/// The number of children that one request reads.
const PER_REQUEST: usize = 512;

/// A child, with its data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChildData {
    /// The name of the child.
    pub name: String,
    /// The data of the child.
    pub data: Bytes,
    /// The stat of the child.
    pub stat: Stat,
}

/// Reads the children of a node with their data, in two round trips of one session: first the
/// names, and then the data of all children in one request for every 512.
///
/// Fails with `NoNode`, and if a child cannot be read for another reason than that it is gone:
/// `Undecodable` if its data cannot be decompressed, `NoAuth`, and so on. Children that the
/// [filter](Self::named) excludes are not read, so they cause no error.
#[must_use = "nothing is sent until it is awaited"]
pub struct ChildrenWithDataBuilder {
    zk: CuratorFramework,
    path: String,
    /// The filter of the children, by their names.
    filter: Option<NodeFilter>,
    freshness: ReadFreshness,
    decompressed: Option<bool>,
    readable_only: bool,
}

impl CuratorFramework {
    /// Reads the children of a node with their data.
    ///
    /// **Awaiting returns** `Vec<ChildData>`, in the order of the names, without the children that
    /// were deleted between the two round trips. The children are not read at one moment. See
    /// [`ChildrenWithDataBuilder`].
    pub fn children_with_data(&self, path: impl Into<String>) -> ChildrenWithDataBuilder {
        let (zk, path) = (self.clone(), path.into());
        let freshness = ReadFreshness::AsIs;
        ChildrenWithDataBuilder {
            zk,
            path,
            filter: None,
            freshness,
            decompressed: None,
            readable_only: false,
        }
    }
}

impl ChildrenWithDataBuilder {
    /// Reads only the children whose names pass the filter. Default: all of them, including
    /// [receipts](crate::certain::is_receipt).
    pub fn named(mut self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Leaves out the children that cannot be read, because of their ACL, their size or their
    /// compression. Default: the call fails.
    pub const fn readable_only(mut self) -> Self {
        self.readable_only = true;
        self
    }

    /// Returns all children that were created before the call by any client, unless they were
    /// deleted: as [`GetDataBuilder::linearizable`](super::GetDataBuilder::linearizable). The data
    /// are no older than the list. Default: the children that the server knows, which may lag.
    pub const fn linearizable(mut self) -> Self {
        self.freshness = ReadFreshness::Linearizable;
        self
    }
}

decompression_options!(ChildrenWithDataBuilder);

impl IntoFuture for ChildrenWithDataBuilder {
    type Output = Result<Vec<ChildData>>;
    type IntoFuture = OpFuture<Vec<ChildData>>;

    fn into_future(self) -> Self::IntoFuture {
        const OP: &str = "children_with_data";
        let Self { zk, path, filter, freshness, decompressed, readable_only } = self;
        let read = {
            let (zk, path) = (zk.clone(), path.clone());
            // A server of the next session might lag behind the list, and not have its children
            // yet.
            async move {
                let filter = filter.as_deref();
                zk.in_one_session(|zk| {
                    let target = OpTarget { freshness, ..OpTarget::new(zk, OP, path.clone()) };
                    children_with_data(target, filter, decompressed, readable_only)
                })
                .await
            }
        };
        OpFuture::new(&zk, OP, &path, read)
    }
}

impl fmt::Debug for ChildrenWithDataBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildrenWithDataBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}

async fn children_with_data(
    mut target: OpTarget,
    filter: Option<&(dyn Fn(&str) -> bool + Send + Sync)>,
    decompressed: Option<bool>,
    readable_only: bool,
) -> Result<Vec<ChildData>> {
    target.admit(Intent::Read { watched: false })?;
    let mut names = target.read(|raw, path| raw.get_children(path)).await?.names;
    // A session sees no older state later.
    target.freshness = ReadFreshness::AsIs;
    names.retain(|name| filter.is_none_or(|filter| filter(name)));
    names.sort_unstable();
    let reads = names.iter().map(|name| resolve(&target, &Read::Data(join(&target.path, name))));
    let reads = reads.collect::<Result<Vec<_>>>()?;
    let mut children = Vec::with_capacity(names.len());
    for (name, answer) in names.into_iter().zip(read_chunks(&target, &reads, PER_REQUEST).await?) {
        let path = || join(&target.path, &name);
        let child = match found(answer) {
            Ok(Some(ReadResponse::Data(Data { data, stat, .. }))) => {
                target.decompress_at(&path(), decompressed, data).map(|data| (data, stat))
            }
            Ok(Some(_)) => return Err(Error::new(ErrorKind::Malformed, target.operation, path())),
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        match child {
            Ok((data, stat)) => children.push(ChildData { name, data, stat }),
            Err(error) if readable_only && error.is_of_one_node() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}
