//! Decoding of a tree of nodes from bytes.

use std::sync::Arc;

use zk_curator_proto::Decoder;

use super::damage::Damage;
use super::node::Node;
use super::store::Tree;
use super::{path, quota};
use crate::config::Config;

impl Tree {
    /// Decodes this number of nodes, parents before their children. Fails if a node is newer than
    /// `zxid`.
    pub(crate) fn decode(count: i64, zxid: i64, input: &mut Decoder) -> Result<Self, Damage> {
        let mut tree = Self { count: 0, ..Self::new(&Config::DEFAULT) };
        for _ in 0..count {
            let path = input.string("path")?;
            let node = Node::decode(input, &mut tree.acls)?;
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
            tree.register(&path.as_str().into(), node.owner());
            tree.place(&path, node)?;
        }
        if !path::SPECIAL.iter().all(|path| tree.get(path).is_some()) {
            return Err(Damage::Content("a node of the server is missing"));
        }
        Ok(tree)
    }

    /// Puts a decoded node into its place. The root is the first.
    fn place(&mut self, path: &str, node: Node) -> Result<(), Damage> {
        match (path, self.count) {
            ("/", 0) => self.root = Arc::new(node),
            (_, 0) => return Err(Damage::Content("a node has no parent")),
            _ if self.get(path).is_some() => return Err(Damage::Content("a node exists twice")),
            _ => {
                let parent = self.node_mut(path::parent(path));
                let parent = parent.map_err(|_| Damage::Content("a node has no parent"))?;
                parent.link(path::name(path), Arc::new(node));
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Applies the settings of a server to a decoded tree.
    pub(crate) fn configured(self, config: &Config) -> Self {
        Self {
            version: config.version,
            sequence_overflow: config.sequence_overflow,
            enforces_quotas: config.enforce_quotas,
            ..self
        }
    }
}
