//! `zkc edit` while another client writes.

use crate::support::{Outcome, Zkc, end, signal};
use crate::terminal::{PATIENCE, Terminal};

const BASE: &str = "one\ntwo\nthree\nfour\n";

/// Writes an editor that applies a script of sed. In its first run, another client writes `theirs`
/// to the node, too.
fn editor(zkc: &Zkc, theirs: &str, first: &str, later: &str) -> String {
    let script = format!(
        "#!/bin/sh\nif [ -e begun ]; then exec sed -i -e '{later}' \"$1\"; fi\ntouch begun\n\
         sed -i -e '{first}' \"$1\"\nprintf '{theirs}' | zkc -q set /a -\n"
    );
    std::fs::write(zkc.file("editor"), script).expect("a file");
    "sh editor".to_owned()
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

/// Edits without a terminal, with a script as the editor.
async fn edit_by(zkc: &Zkc, script: &str) -> Outcome {
    std::fs::write(zkc.file("editor"), script).expect("a file");
    let mut command = zkc.command(&["edit", "/a"]);
    command.env("EDITOR", "sh editor").env("TMPDIR", zkc.file(""));
    end(command.spawn().expect("zkc"), "").await
}

/// Returns the data in the files that a failure names.
fn kept(told: &str) -> Vec<String> {
    let (_, files) = told.split_once("(the edited data are in ").expect(told);
    let (files, _) = files.split_once([')', ';']).expect(told);
    files.split(" and ").map(|file| std::fs::read_to_string(file).expect(file)).collect()
}

/// Returns the number of the files of editors that are left.
fn drafts(zkc: &Zkc) -> usize {
    let files = std::fs::read_dir(zkc.file("")).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("a name"));
    names.filter(|name| name.starts_with("zkc-")).count()
}

#[tokio::test]
async fn an_interrupt_is_for_the_editor() {
    let zkc = begin().await;
    let script = "kill -INT $PPID; sed -i -e s/two/TWO/ \"$1\"";
    edit_by(&zkc, script).await.ok();
    assert_eq!((&*data(&zkc), drafts(&zkc)), ("one\nTWO\nthree\nfour\n", 0));
}

#[tokio::test]
async fn a_signal_keeps_the_edited_data() {
    for (signal, code) in [("TERM", 143), ("HUP", 129)] {
        let zkc = begin().await;
        let script = format!(
            "sed -i -e s/two/TWO/ \"$1\"; kill -{signal} $PPID\n\
             while kill -0 $PPID 2>/dev/null; do sleep 0.01; done"
        );
        let told = edit_by(&zkc, &script).await.fails(code);
        assert_eq!(kept(&told), ["one\nTWO\nthree\nfour\n"], "{told}");
        assert_eq!(data(&zkc), BASE);
    }
}

#[tokio::test]
async fn an_editor_that_fails_leaves_only_edited_data() {
    let zkc = begin().await;
    let told = edit_by(&zkc, "exit 1").await.fails(2);
    assert!(told.ends_with("nothing was changed\n"), "{told}");
    assert_eq!(drafts(&zkc), 0);
    let told = edit_by(&zkc, "sed -i -e s/two/TWO/ \"$1\"; exit 1").await.fails(2);
    assert_eq!(kept(&told), ["one\nTWO\nthree\nfour\n"], "{told}");
}

#[tokio::test]
async fn a_node_that_is_created_again_is_a_conflict() {
    let zkc = begin().await;
    let script = "sed -i -e s/two/TWO/ \"$1\"; zkc -q rm /a; zkc -q create /a zwei";
    let told = edit_by(&zkc, script).await.fails(6);
    assert_eq!(kept(&told), ["one\nTWO\nthree\nfour\n"], "{told}");
    assert_eq!(data(&zkc), "zwei");
    let told = edit_by(&zkc, "echo more >> \"$1\"; zkc -q rm /a").await.fails(4);
    assert_eq!(kept(&told), ["zweimore\n"], "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_edit_before_a_conflict_is_kept_with_the_next() {
    // The second editor fails, or a signal comes instead of it.
    for (key, code) in [(Some("e"), 2), (None, 130)] {
        let zkc = begin().await;
        let editor = editor(&zkc, "one\\nzwei\\n", "s/two/TWO/", "}");
        let mut terminal = Terminal::open();
        let mut command = zkc.command(&["edit", "/a"]);
        command.env("EDITOR", editor).env("TMPDIR", zkc.file(""));
        let mut child = terminal.start(&mut command);
        terminal.expect("m write mine, t keep theirs, q quit?");
        match key {
            Some(key) => terminal.press(&format!("{key}\n")),
            None => signal(&child, "INT").await,
        }
        terminal.expect("(the edited data are in ");
        let file = terminal.expect(")");
        let text = std::fs::read_to_string(&file).expect(&file);
        assert_eq!((&*text, drafts(&zkc)), ("one\nTWO\nthree\nfour\n", 1));
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("an end");
        assert_eq!(ended.expect("zkc").code(), Some(code));
    }
}
