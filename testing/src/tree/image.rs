//! Nodes as bytes, and a tree of nodes that were bytes.

use std::sync::Arc;

use bytes::Bytes;
use zk_curator_proto::records::Acl;
use zk_curator_proto::{Decoder, Encoder};

use super::{Map, Node, Owner, Set, Tree, parent, path, quota};
use crate::builder::Config;
use crate::snapshot::Damage;

impl Tree {
    /// Writes a node.
    pub(crate) fn encode_node(path: &str, node: &Node, out: &mut Encoder) {
        out.string(path);
        out.buffer(node.data.as_deref());
        out.vector(&node.acl);
        out.i64(node.owner.encoded());
        for zxid in [node.czxid, node.mzxid, node.pzxid] {
            out.i64(zxid);
        }
        for time in [node.ctime, node.mtime] {
            out.i64(time);
        }
        for count in [node.version, node.aversion, node.created_children] {
            out.i32(count);
        }
    }

    /// Reads so many nodes, in any order, of which none is newer than `zxid`.
    pub(crate) fn decode(count: i64, zxid: i64, input: &mut Decoder) -> Result<Self, Damage> {
        let mut tree = Self { nodes: Map::default(), ..Self::new(&Config::DEFAULT) };
        // Most nodes have one of very few lists.
        let mut acls = Set::<Arc<[Acl]>>::default();
        for _ in 0..count {
            let (path, node) = decode_node(input, &mut acls)?;
            if path::validate(&path).is_err() {
                return Err(Damage::Content("a node has no valid path"));
            }
            if [node.czxid, node.mzxid, node.pzxid].into_iter().any(|of_node| of_node > zxid) {
                return Err(Damage::Content("a node is newer than the snapshot"));
            }
            if node.mtime < 0 {
                return Err(Damage::Content("a node is older than time"));
            }
            if let Some(limited) = quota::limited_by(&path) {
                tree.quotas.insert(limited.to_owned());
            }
            tree.register(&path, node.owner);
            if tree.nodes.insert(path, node).is_some() {
                return Err(Damage::Content("a node is there twice"));
            }
        }
        if !path::SPECIAL.iter().all(|path| tree.nodes.contains_key(*path)) {
            return Err(Damage::Content("a node of the server is missing"));
        }
        tree.link()?;
        Ok(tree)
    }

    /// Gives a tree that was read the settings of a server.
    pub(crate) fn configured(self, config: &Config) -> Self {
        Self {
            nodes: self.nodes,
            ephemerals: self.ephemerals,
            containers: self.containers,
            ttls: self.ttls,
            quotas: self.quotas,
            ..Self::new(config)
        }
    }

    /// Tells every node its children.
    fn link(&mut self) -> Result<(), Damage> {
        let paths: Vec<_> = self.nodes.keys().filter(|path| path.as_ref() != "/").cloned().collect();
        for path in paths {
            let Some((_, name)) = path.rsplit_once('/') else { continue };
            let parent = self.nodes.get_mut(parent(&path)).ok_or(Damage::Content("a node has no parent"))?;
            parent.children.insert(name.into());
        }
        Ok(())
    }
}

fn decode_node(input: &mut Decoder, acls: &mut Set<Arc<[Acl]>>) -> Result<(Arc<str>, Node), Damage> {
    let path = input.string("path")?;
    // A copy, or the node would keep everything that was read.
    let data = input.buffer("data")?.map(|data| Bytes::copy_from_slice(&data));
    let acl: Arc<[Acl]> = input.vector("acl")?.into();
    let acl = match acls.get(&acl) {
        Some(known) => Arc::clone(known),
        None => {
            acls.insert(Arc::clone(&acl));
            acl
        }
    };
    let owner = Owner::decode(input.i64("owner")?).ok_or(Damage::Content("a node has an unknown owner"))?;
    let node = Node {
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
        children: Set::default(),
    };
    Ok((path.into(), node))
}
