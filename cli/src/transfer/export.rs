//! Shows a subtree as one document, or as directories.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::record::Record;
use crate::exit::Failure;
use crate::output::data;
use crate::path;
use crate::private::{create_file, create_folder};

/// The file with the data of a node.
const DATA: &str = "_data";

/// Returns a subtree as one document. `records` has parents before their children.
pub(crate) fn document(records: Vec<Record>) -> Value {
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

fn node(record: &Record) -> Value {
    let mut node = json!({ "data": record.data.as_deref().map(data::value) });
    if record.kind.is_ephemeral() {
        node["kind"] = "ephemeral".into();
    }
    node
}

/// Writes a subtree as directories, each with the data in a file. Only their owner may read them:
/// they contain the data of nodes with an ACL.
pub(crate) fn directories(records: &[Record], folder: &Path) -> Result<(), Failure> {
    let failed =
        |path: &Path, error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let root = records.first().map_or("/", |record| record.path.as_str());
    create_folder(folder).map_err(|error| failed(folder, error))?;
    for record in records {
        let directory = folder.join(local(record.path.strip_prefix(root).unwrap_or_default()));
        if record.path != root {
            create_folder(&directory).map_err(|error| failed(&directory, error))?;
        }
        let file = directory.join(DATA);
        create_file(&file)
            .and_then(|mut created| created.write_all(record.data.as_deref().unwrap_or_default()))
            .map_err(|error| failed(&file, error))?;
    }
    Ok(())
}

/// Returns the place of a node in a folder.
fn local(path: &str) -> PathBuf {
    path.split('/').filter(|name| !name.is_empty()).map(safe).collect()
}

/// Returns a name that every system accepts, that leaves no folder, and that is not [`DATA`].
fn safe(name: &str) -> String {
    let mut safe = String::new();
    for (place, c) in name.char_indices() {
        let is_special = c.is_control() || "<>:\"/\\|?*%".contains(c);
        if is_special || place == 0 && matches!(c, '.' | '_') {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                safe.push_str(&format!("%{byte:02x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zk_curator::Stat;

    use super::*;

    #[test]
    fn a_document_has_the_shape_of_the_tree() {
        let record = |path: &str, data: &'static str| {
            Record::new(path.to_owned(), Some(data.into()), Vec::new(), &Stat::default())
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

    proptest! {
        #[test]
        fn no_name_leaves_its_folder(name: String) {
            let safe = safe(&name);
            prop_assert!(!safe.contains(['/', '\\', ':', '\0']));
            prop_assert!(!safe.starts_with('.') && !safe.starts_with('_'));
        }

        #[test]
        fn names_stay_different(a: String, b: String) {
            prop_assert_eq!(safe(&a) == safe(&b), a == b);
        }
    }
}
