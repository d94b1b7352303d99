//! `zkc edit` while another client writes.

use std::path::PathBuf;

use crate::support::{Zkc, end};
use crate::terminal::{PATIENCE, Terminal};

const BASE: &str = "one\ntwo\nthree\nfour\n";

/// Writes an editor that applies a script of sed. In its first run, another client writes `theirs`
/// to the node, too.
fn editor(zkc: &Zkc, theirs: &str, first: &str, later: &str) -> String {
    let file: PathBuf = zkc.file("editor");
    let begun = zkc.file("begun");
    let script = format!(
        "#!/bin/sh\nif [ -e {0} ]; then exec sed -i -e '{later}' \"$1\"; fi\ntouch {0}\n\
         sed -i -e '{first}' \"$1\"\nprintf '{theirs}' | zkc -q set /a -\n",
        begun.display()
    );
    std::fs::write(&file, script).expect("a file");
    format!("sh {}", file.display())
}

async fn begin() -> Zkc {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", BASE]).await.ok();
    zkc
}

/// Edits on a terminal: sees each text, and then presses the key.
async fn edit(zkc: &Zkc, editor: &str, steps: &[(&[&str], &str)]) -> Option<i32> {
    let mut terminal = Terminal::open();
    let mut command = zkc.command(&["edit", "/a"]);
    let mut child = terminal.start(command.env("EDITOR", editor));
    for (texts, key) in steps {
        for text in *texts {
            terminal.expect(text);
        }
        terminal.press(&format!("{key}\n"));
    }
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("an end").expect("zkc");
    ended.code()
}

fn data(zkc: &Zkc) -> String {
    String::from_utf8(zkc.server.probe().data("/a").expect("a node").to_vec()).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_fit_are_written_together() {
    let zkc = begin().await;
    let editor = editor(&zkc, "one\\ntwo\\nthree\\nFOUR\\n", "s/one/ONE/", "");
    let shown = ["version 0 and has 1", "ONE", "FOUR", "w write this"];
    assert_eq!(edit(&zkc, &editor, &[(&shown, "w")]).await, Some(0));
    assert_eq!(data(&zkc), "ONE\ntwo\nthree\nFOUR\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_edited_until_it_is_resolved() {
    let zkc = begin().await;
    let resolve = "/^<<<<<<</d;/^|||||||/,/^=======/d;/^>>>>>>>/d";
    let editor = editor(&zkc, "one\\nzwei\\nthree\\nfour\\n", "s/two/TWO/", "s/TWO/2/");
    let view = [
        "<<<<<<< mine",
        "TWO",
        "||||||| base (version 0)",
        "two",
        "=======",
        "zwei",
        ">>>>>>> theirs (version 1)",
        "e edit this, m write mine",
    ];
    let again = ["still marked", "e edit this"];
    assert_eq!(edit(&zkc, &editor, &[(&view, "e"), (&again, "q")]).await, Some(6));
    assert_eq!(data(&zkc), "one\nzwei\nthree\nfour\n");

    let zkc = begin().await;
    let editor = self::editor(&zkc, "one\\nzwei\\nthree\\nfour\\n", "s/two/TWO/", resolve);
    assert_eq!(edit(&zkc, &editor, &[(&view, "e")]).await, Some(0));
    assert_eq!(data(&zkc), "one\nTWO\nzwei\nthree\nfour\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_side_of_a_conflict_can_be_taken() {
    for (key, code, expected) in [("m", 0, "TWO"), ("t", 0, "zwei"), ("q", 6, "zwei")] {
        let zkc = begin().await;
        let editor = editor(&zkc, "one\\nzwei\\n", "s/two/TWO/", "");
        assert_eq!(edit(&zkc, &editor, &[(&["m write mine"], key)]).await, Some(code));
        assert!(data(&zkc).contains(expected), "{key}: {}", data(&zkc));
    }
}

#[tokio::test]
async fn without_a_terminal_a_conflict_is_a_failure() {
    let zkc = begin().await;
    let editor = editor(&zkc, "zwei", "s/two/TWO/", "");
    let child = zkc.command(&["edit", "/a"]).env("EDITOR", editor).spawn().expect("zkc");
    let told = end(child, "").await.fails(6);
    assert!(told.contains("the edited data are in "), "{told}");
    assert_eq!(data(&zkc), "zwei");
}

#[tokio::test]
async fn an_equal_change_is_no_conflict() {
    for theirs in ["one\\nTWO\\nthree\\nfour\\n", "one\\ntwo\\nthree\\nfour\\n"] {
        let zkc = begin().await;
        let editor = editor(&zkc, theirs, "s/two/TWO/", "");
        let child = zkc.command(&["edit", "/a"]).env("EDITOR", editor).spawn().expect("zkc");
        end(child, "").await.ok();
        assert_eq!(data(&zkc), "one\nTWO\nthree\nfour\n");
    }
}
