//! The tests that the README names exist.

use std::fs;
use std::path::Path;

/// Whether a file below `tests/`, or a file that it includes, has a test of this name.
fn has_test(file: &str, test: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let has = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.contains(&format!("#[test]\nfn {test}()")) || text.contains(&format!("fn {test}(case: Case)"))
    };
    has(&root.join(format!("{file}.rs")))
        || fs::read_to_string(root.join(format!("{file}.rs")))
            .is_ok_and(|text| text.contains("mod raw_suite;"))
            && has(&root.join("raw_suite/mod.rs"))
}

#[test]
fn every_test_that_the_readme_names_is_there() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let named: Vec<_> = readme
        .split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, test)| {
            let is_name =
                |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            is_name(file) && is_name(test) && test.len() > 12 && file.contains('_')
        })
        .collect();
    assert!(named.len() > 30, "the table is gone: {named:?}");
    let missing: Vec<_> = named.iter().filter(|(file, test)| !has_test(file, test)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}
