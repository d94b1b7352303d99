//! Several documents on one output.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::Zkc;

/// Parses a stream of YAML documents.
fn documents(text: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).expect("a document"))
        .collect()
}

#[tokio::test]
async fn documents_of_a_stream_are_separated() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "1"]).await.ok();
    zkc.run(&["create", "/a/b", "2"]).await.ok();
    let watch = ["watch", "-r", "/a", "--initial", "--count", "2", "-o", "yaml"];
    let changes = documents(&zkc.run(&watch).await.ok());
    let paths: Vec<_> = changes.iter().map(|change| &change["path"]).collect();
    assert_eq!(paths, [&json!("/a"), &json!("/a/b")]);
    zkc.run(&["config", "set", "/conf", "x=1"]).await.ok();
    let follow = zkc.run(&["config", "follow", "/conf", "--count", "1", "-o", "yaml"]).await.ok();
    assert!(follow.starts_with("---\n"), "{follow}");
    // One answer is one document.
    let one = zkc.run(&["stat", "/a", "-o", "yaml"]).await.ok();
    assert!(!one.contains("---"), "{one}");
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_is_gone() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "1"]).await.ok();
    let (watch, set) = (["watch", "/a", "--initial"], ["config", "set", "/conf"]);
    let (join, lead) = (["group", "join", "/group", "a"], ["elect", "/leader", "--id", "a"]);
    let with = |begin: &[&'static str], rest: &[&'static str]| [begin, rest].concat();
    for (command, changes) in [
        (&watch[..], [vec!["set", "/a", "2"], vec!["set", "/a", "3"]]),
        (&["config", "follow", "/conf"], [with(&set, &["x=1"]), with(&set, &["x=2"])]),
        (&["group", "follow", "/group"], [with(&join, &["--", "true"]), vec!["ls", "/"]]),
        (&["elect", "/leader", "--observe"], [with(&lead, &["--", "true"]), vec!["ls", "/"]]),
    ] {
        let mut stream = std::pin::pin!(zkc.run_with_closed_pipe(command));
        let outcome = loop {
            let change = async {
                for change in &changes {
                    zkc.run(change).await.ok();
                }
            };
            tokio::select! {
                outcome = &mut stream => break outcome,
                () = change => {}
            }
        };
        assert_eq!(outcome.code, 0, "{command:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn the_shell_uses_its_options_for_all_lines() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "1"]).await.ok();
    let lines = "get /a\nls /a\nstat /a -o name\nget /a | tail -n 1\n";
    let told = zkc.run_with(&["-o", "yaml", "shell", "-f", "-"], lines).await.ok();
    assert_eq!(told, "---\ndata:\n  text: '1'\npath: /a\n---\n[]\n/a\npath: /a\n");
}
