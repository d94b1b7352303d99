//! The files of the project, for tests of what they say.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the files with this extension at or below these places: each with its path from the root
/// of the project, and its text, in the order of their paths. Without what is built.
#[must_use]
pub fn files_below(places: &[&str], extension: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the project");
    let mut left: Vec<PathBuf> = places.iter().map(|place| root.join(place)).collect();
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() && !path.ends_with("target") {
            let entries = fs::read_dir(path).expect("a folder");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|of_file| of_file == extension) {
            let name = path.strip_prefix(root).expect("a path below the root");
            let text = fs::read_to_string(&path).expect("a file in UTF-8");
            files.push((name.display().to_string(), text));
        }
    }
    files.sort();
    files
}
