//! Shows a subtree as one document, or as directories.

use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::names;
use super::record::TransferRecord;
use crate::exit::CommandFailure;
use crate::output::data;
use crate::path;
use crate::private::{create_file, create_folder};

/// The file with the data of a node.
const DATA: &str = "_data";
/// The longest path of a file in bytes, without the end of the text, on Linux.
const LONGEST_PATH: usize = 4_095;

/// Returns a subtree as one document. `records` has parents before their children.
pub(crate) fn document(records: Vec<TransferRecord>) -> Value {
    let mut records = records.into_iter();
    let Some(root) = records.next() else { return Value::Null };
    let mut document = node(&root);
    document["path"] = root.path.clone().into();
    for record in records {
        let below = record.path.strip_prefix(root.path.as_str()).unwrap_or_default();
        let mut parents = path::split(below).0.split('/').filter(|name| !name.is_empty());
        let place =
            parents.try_fold(&mut document, |place, name| place.get_mut("children")?.get_mut(name));
        if let Some(Value::Object(parent)) = place {
            let children = parent.entry("children").or_insert_with(|| Map::new().into());
            children[path::split(&record.path).1] = node(&record);
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

/// Writes a subtree as directories, each with the data in a file. Only their owner may read them:
/// they contain the data of nodes with an ACL. Nothing is written if a path is too long.
pub(crate) fn directories(records: &[TransferRecord], folder: &Path) -> Result<(), CommandFailure> {
    let failed = |path: &Path, error: std::io::Error| {
        CommandFailure::usage(format!("{}: {error}", path.display()))
    };
    let root = records.first().map_or("/", |record| record.path.as_str());
    let below = records.iter().map(|record| record.path.strip_prefix(root).unwrap_or_default());
    let places = names::places(below);
    let whole = std::path::absolute(folder).map_err(|error| failed(folder, error))?;
    for (record, place) in records.iter().zip(&places) {
        if whole.join(place).join(DATA).as_os_str().len() > LONGEST_PATH {
            let text = format!("too long for the path of a file: {}", record.path);
            return Err(
                CommandFailure::usage(text).hint("nothing was written; `backup` has no such limit")
            );
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
fn create_below(folder: &Path, place: &Path) -> std::io::Result<()> {
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
        let tree = vec![record("/a", "1"), record("/a/b", "2"), record("/a/b/c", "3")];
        let node = |data: &str| json!({ "data": { "text": data } });
        let mut expected = node("1");
        expected["path"] = "/a".into();
        expected["children"] = json!({ "b": node("2") });
        expected["children"]["b"]["children"] = json!({ "c": node("3") });
        assert_eq!(document(tree), expected);
        let root = document(vec![record("/", ""), record("/a", ""), record("/a/b", "x")]);
        assert_eq!(root["children"]["a"]["children"]["b"], node("x"));
    }
}
