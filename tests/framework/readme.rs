//! What the documents say of the code is so: tests that they name exist, tables are whole.

use std::fs;
use std::path::Path;

use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::{RuleRequest, TestServer, Verdict};
use zk_curator_tests::files_below;

/// As in the README, word for word.
#[tokio::test]
async fn a_lost_response_leaves_one_node() {
    let server = TestServer::start().await;
    let zk = server.framework().build().unwrap();
    zk.start().await.unwrap();

    let lose = |r: &RuleRequest<'_>| {
        if r.is_create_under("/lock") { Verdict::LoseReply } else { Verdict::Pass }
    };
    let rule = server.rule(lose).times(1);
    let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
    assert_eq!((rule.hits(), server.probe().children("/lock").len()), (1, 1));
    guard.release().await.unwrap();
}

#[test]
fn the_test_of_the_readme_is_the_one_above() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("../README.md")).unwrap();
    let shown =
        readme.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    // Formatting may break lines in other places.
    let words = |text: &str| text.split_whitespace().collect::<String>();
    assert!(
        words(&fs::read_to_string(root.join("framework/readme.rs")).unwrap())
            .contains(&words(shown))
    );
}

/// Returns `true` if a file of an area, or a suite that it runs, has a test of this name.
fn has_test(area: &str, file: &str, test: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let text = read(&format!("{area}/{file}.rs"));
    text.contains(&format!("fn {test}()"))
        || (text.contains("on_each_with_java!") && text.contains(&format!("\n    {test},\n")))
        || (text.contains("for_each_case!")
            && read("support/raw_suite.rs").contains(&format!("fn {test}(case: Case)")))
}

/// Everything in backticks that is `area::file::test`.
fn named(text: &str) -> Vec<(&str, &str, &str)> {
    let is_name = |name: &&str| {
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let names = text.split('`').map(|word| word.split("::").collect::<Vec<_>>());
    let names = names.filter(|parts| parts.iter().all(is_name));
    names
        .filter_map(|parts| match parts[..] {
            [
                area @ ("framework" | "locks" | "queues" | "recipes" | "features" | "interop"
                | "kerberos" | "limits"),
                file,
                test,
            ] => Some((area, file, test)),
            _ => None,
        })
        .collect()
}

#[test]
fn every_test_that_the_documents_name_is_there() {
    let mut found = 0;
    let mut missing = Vec::new();
    for (page, text) in files_below(&["README.md", "docs"], "md") {
        for (area, file, test) in named(&text) {
            found += 1;
            if !has_test(area, file, test) {
                missing.push(format!("{page}: {area}::{file}::{test}"));
            }
        }
    }
    assert!(found > 30, "the table is gone: {found}");
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

/// `docs/curator-defects.md` explains the letters and numbers in the names of tests.
#[test]
fn every_test_that_is_named_after_a_defect_is_in_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("../docs/curator-defects.md")).unwrap();
    let mut found = 0;
    for area in ["framework", "locks", "queues", "recipes", "features", "interop"] {
        for file in fs::read_dir(root.join(area)).unwrap() {
            let path = file.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let names =
                text.split("\nfn ").skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
            for name in
                names.filter(|name| name.starts_with("curator_") || name.starts_with("defect_"))
            {
                found += 1;
                let file = path.file_stem().unwrap().to_string_lossy();
                assert!(
                    table.contains(&format!("`{area}::{file}::{name}`")),
                    "{area}::{file}::{name} is missing"
                );
            }
        }
    }
    assert!(found > 60, "only {found} were found");
}

/// Users look for the text that they see.
#[test]
fn the_page_of_errors_has_every_kind() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the project");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let code = read("src/error.rs");
    let texts = code.split("impl fmt::Display for ErrorKind").nth(1).unwrap();
    let texts = texts.split("\nimpl ").next().unwrap().lines();
    let texts: Vec<_> = texts.filter_map(|line| line.trim().split_once(" => \"")).collect();
    assert!(texts.len() > 25, "{texts:?}");
    let page = read("docs/book/src/operating/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let rows: Vec<_> = rows.flat_map(|cell| cell.split(", ")).collect();
    for (kind, text) in texts.into_iter().filter(|(kind, _)| *kind != "Self::Withdrawn") {
        let text = text.trim_end_matches("\",");
        assert!(rows.contains(&text), "{kind}: {text:?} is not in the table");
    }
}

/// Numbers with their units.
fn numbers(text: &str) -> Vec<String> {
    let words: Vec<_> =
        text.split_whitespace().map(|word| word.trim_matches([',', '.', ';'])).collect();
    let is_number = |word: &str| word.starts_with(|letter: char| letter.is_ascii_digit());
    let units = ["ms", "s", "minutes", "hours", "retries", "MiB"];
    let found = words.iter().enumerate().filter(|(_, word)| is_number(word));
    found
        .map(|(at, word)| match words.get(at + 1).filter(|next| units.contains(next)) {
            Some(unit) => format!("{word} {unit}"),
            None => (*word).to_owned(),
        })
        .collect()
}

/// What the documentation of a function of this name says after `Default: `.
fn documented_default(source: &str, function: &str) -> Option<String> {
    let is_it = |line: &str| {
        let line = line.trim().trim_start_matches("pub ").trim_start_matches("const ");
        let rest = line.strip_prefix("fn ").and_then(|line| line.strip_prefix(function));
        rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    };
    let lines: Vec<_> = source.lines().collect();
    let at = lines.iter().position(|line| is_it(line))?;
    let above = lines[..at].iter().rev().map(|line| line.trim());
    let mut text: Vec<_> = above
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .filter_map(|line| line.strip_prefix("///"))
        .map(str::trim)
        .collect();
    text.reverse();
    let text = text.join(" ");
    let default = text.split_once("Default: ").map_or("", |(_, default)| default);
    Some(default.split(". ").next().unwrap_or_default().to_owned())
}

/// A table of settings has the name of the function, and then its default.
#[test]
fn defaults_in_the_guide_are_those_of_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root of the project");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let pages = [
        ("concepts/timeouts.md", "src/builder.rs", 6),
        ("recipes/partitions.md", "recipes/src/partition/partitioner.rs", 8),
    ];
    for (page, source, least) in pages {
        let (text, source) = (read(&format!("docs/book/src/{page}")), read(source));
        let table = text.split("| Setting | Default |").nth(1).expect(page);
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let mut checked = 0;
        for row in rows {
            let cells: Vec<_> = row.split(" | ").collect();
            let shown = numbers(cells[1].split(", of which").next().unwrap_or_default());
            for name in cells[0].split('`').skip(1).step_by(2).filter(|name| !name.contains("::")) {
                let default = documented_default(&source, name);
                let default = default.unwrap_or_else(|| panic!("{page}: there is no {name}"));
                let of_code = numbers(&default);
                // The default of another function of the same row has no number.
                let is_same = shown == of_code || of_code.is_empty() && cells[0].contains("`, `");
                assert!(is_same, "{page}: {name}: {shown:?}, and in the code {of_code:?}");
                checked += 1;
            }
        }
        assert!(checked >= least, "{page}: only {checked} settings were found");
    }
}
