//! Shows a subtree as one document, or as directories.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/a/b").creating_parents().data("xyz").await?;
//! use zk_curator_ops::Progress;
//! use zk_curator_ops::transfer::ExportedTree;
//!
//! let tree = ExportedTree::read(&zk, "/a", Progress::none()).await?;
//! assert_eq!(tree.document()["children"]["b"]["data"]["text"], "xyz");
//! assert!(tree.unreadable.is_empty());
//! # Ok(()) }
//! ```

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value, json};
use zk_curator::{CuratorFramework, Error as FrameworkError};

use super::names;
use super::record::TransferRecord;
use super::source::SourceWalk;
use crate::error::Error;
use crate::files::{create_file, create_folder};
use crate::progress::Progress;
use crate::tree::unreadable::UnreadableNodes;
use crate::{data, path};

/// The file with the data of a node.
const DATA: &str = "_data";
/// The longest path of a file in bytes, without the end of the text, on Linux.
const LONGEST_PATH: usize = 4_095;

/// A subtree in memory, without its ACLs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExportedTree {
    /// The nodes, parents before their children.
    pub records: Vec<TransferRecord>,
    /// The nodes that could not be read, and below which others may be missing.
    pub unreadable: UnreadableNodes,
}

impl ExportedTree {
    /// Reads a subtree. Below the root of the servers, their own nodes, `/zookeeper`, are left out.
    ///
    /// # Errors
    /// Those of the framework. A node that cannot be read is not an error, unless it is the root.
    pub async fn read(
        zk: &CuratorFramework,
        root: &str,
        progress: Progress<'_>,
    ) -> Result<Self, FrameworkError> {
        let (mut records, mut walk) = (Vec::new(), SourceWalk::new(root, false));
        while let Some(found) = walk.next(zk).await? {
            progress.add(found.len());
            records.extend(found.into_iter().map(|node| node.record));
        }
        Ok(Self { records, unreadable: walk.into_unreadable() })
    }

    /// Returns the nodes as one document. Each has its data as in [`data::value`], `kind` if it is
    /// ephemeral, and its `children` by their names.
    #[must_use]
    pub fn document(&self) -> Value {
        document(&self.records)
    }

    /// Writes a directory for each node, with its data in the file `_data`. Only their owner may
    /// read them: they contain the data of nodes with an ACL. `folder` must not exist. Names that
    /// file systems do not accept are escaped.
    ///
    /// # Errors
    /// [`PathTooLong`](Error::PathTooLong) before anything is written, and [`File`](Error::File).
    pub fn write_directories(&self, folder: impl AsRef<Path>) -> Result<(), Error> {
        directories(&self.records, folder.as_ref())
    }
}

/// Returns a subtree as one document. `records` has parents before their children.
fn document(records: &[TransferRecord]) -> Value {
    let mut records = records.iter();
    let Some(root) = records.next() else { return Value::Null };
    let mut document = node(root);
    document["path"] = root.path.clone().into();
    for record in records {
        let below = record.path.strip_prefix(root.path.as_str()).unwrap_or_default();
        let mut parents = path::split(below).0.split('/').filter(|name| !name.is_empty());
        let place =
            parents.try_fold(&mut document, |place, name| place.get_mut("children")?.get_mut(name));
        if let Some(Value::Object(parent)) = place {
            let children = parent.entry("children").or_insert_with(|| Map::new().into());
            children[path::split(&record.path).1] = node(record);
        }
    }
    document
}

fn node(record: &TransferRecord) -> Value {
    let mut node = json!({ "data": record.data.as_deref().map(data::value) });
    if record.kind.is_ephemeral() {
        node["kind"] = "ephemeral".into();
    }
    node
}

/// Writes a subtree as directories. Nothing is written if a path is too long.
fn directories(records: &[TransferRecord], folder: &Path) -> Result<(), Error> {
    let failed = |path: &Path, source: io::Error| Error::File {
        operation: "create",
        path: path.to_owned(),
        source,
    };
    let root = records.first().map_or("/", |record| record.path.as_str());
    let below = records.iter().map(|record| record.path.strip_prefix(root).unwrap_or_default());
    let places = names::places(below);
    let whole = std::path::absolute(folder).map_err(|error| failed(folder, error))?;
    for (record, place) in records.iter().zip(&places) {
        if whole.join(place).join(DATA).as_os_str().len() > LONGEST_PATH {
            return Err(Error::PathTooLong { path: record.path.clone() });
        }
    }
    create_folder(folder).map_err(|error| failed(folder, error))?;
    for (record, place) in records.iter().zip(&places) {
        let directory = folder.join(place);
        create_below(folder, place).map_err(|error| failed(&directory, error))?;
        let file = directory.join(DATA);
        create_file(&file)
            .and_then(|mut created| created.write_all(record.data.as_deref().unwrap_or_default()))
            .map_err(|error| failed(&file, error))?;
    }
    Ok(())
}

/// Creates the directory of a node. Those of its parent exist, and those of the pieces of its name
/// may.
fn create_below(folder: &Path, place: &Path) -> io::Result<()> {
    let ancestors = place.ancestors().filter(|place| !place.as_os_str().is_empty());
    let missing: Vec<_> =
        ancestors.map(|place| folder.join(place)).take_while(|place| !place.exists()).collect();
    missing.iter().rev().try_for_each(|place| create_folder(place))
}

#[cfg(test)]
mod tests {
    use zk_curator::Stat;

    use super::*;

    #[test]
    fn a_document_has_the_shape_of_the_tree() {
        let record = |path: &str, data: &'static str| {
            TransferRecord::new(path.to_owned(), Some(data.into()), Vec::new(), &Stat::default())
        };
        let tree = [record("/a", "1"), record("/a/b", "2"), record("/a/b/c", "3")];
        let node = |data: &str| json!({ "data": { "text": data } });
        let mut expected = node("1");
        expected["path"] = "/a".into();
        expected["children"] = json!({ "b": node("2") });
        expected["children"]["b"]["children"] = json!({ "c": node("3") });
        assert_eq!(document(&tree), expected);
        let root = document(&[record("/", ""), record("/a", ""), record("/a/b", "x")]);
        assert_eq!(root["children"]["a"]["children"]["b"], node("x"));
    }
}
