//! `zkc top` on a pseudo-terminal.

use rustix::termios::tcgetattr;

use crate::support::Zkc;
use crate::terminal::{PATIENCE, Terminal};

#[tokio::test(flavor = "multi_thread")]
async fn top_leaves_the_terminal_as_it_was() {
    let zkc = Zkc::start().await;
    let mut terminal = Terminal::open();
    let before = tcgetattr(&terminal.user).expect("modes");
    let mut top = terminal.start(&mut zkc.command(&["top", "--interval", "200ms"]));
    terminal.expect("\u{1b}[?1049h");
    terminal.expect("standalone");
    let during = tcgetattr(&terminal.user).expect("modes");
    assert_ne!(during.local_modes, before.local_modes);
    terminal.press("2");
    terminal.expect("CLIENT");
    terminal.press("6");
    terminal.expect("zookeeper");
    terminal.press("q");
    terminal.expect("\u{1b}[?1049l");
    let ended = tokio::time::timeout(PATIENCE, top.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(0));
    let after = tcgetattr(&terminal.user).expect("modes");
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.input_modes, before.input_modes);
    assert_eq!(after.output_modes, before.output_modes);
}

#[tokio::test(flavor = "multi_thread")]
async fn top_ends_with_its_terminal() {
    let zkc = Zkc::start().await;
    let mut terminal = Terminal::open();
    let mut top = terminal.start(&mut zkc.command(&["top", "--interval", "200ms"]));
    terminal.expect("standalone");
    terminal.close();
    tokio::time::timeout(PATIENCE, top.wait()).await.expect("an end").expect("zkc");
    zkc.server.until(|probe| probe.sessions().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_commands_end_with_their_terminal() {
    for (arguments, shown) in [(&["shell"][..], "(connected)> "), (&["rm", "-r", "/a"], "?")] {
        let zkc = Zkc::start().await;
        zkc.run(&["create", "/a"]).await.ok();
        zkc.run(&["create", "/a/b"]).await.ok();
        let mut terminal = Terminal::open();
        let mut child = terminal.start(&mut zkc.command(arguments));
        terminal.expect(shown);
        terminal.close();
        tokio::time::timeout(PATIENCE, child.wait()).await.expect("an end").expect("zkc");
        zkc.server.until(|probe| probe.sessions().is_empty()).await;
        assert!(zkc.server.probe().exists("/a"), "{arguments:?}");
    }
}

/// Starts `top` in the tree, in which `/a` is selected.
async fn in_tree(zkc: &Zkc, terminal: &mut Terminal, options: &[&str]) -> tokio::process::Child {
    zkc.run(&["create", "/a", "data-of-a"]).await.ok();
    let arguments = [&["top", "--interval", "200ms"], options].concat();
    let mut command = zkc.command(&arguments);
    let top = terminal.start(command.env("EDITOR", "sed -i s/data/text/"));
    terminal.expect("standalone");
    terminal.press("6");
    terminal.expect("persistent");
    top
}

async fn ends(mut terminal: Terminal, mut top: tokio::process::Child) {
    terminal.press("q");
    let ended = tokio::time::timeout(PATIENCE, top.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_below_the_screens() {
    let zkc = Zkc::start().await;
    let mut terminal = Terminal::open();
    let top = in_tree(&zkc, &mut terminal, &[]).await;
    terminal.press("y");
    // "/a" in base64.
    terminal.expect("\u{1b}]52;c;L2E=\u{7}");
    terminal.press(":get /a\r");
    terminal.expect("data-of-a");
    terminal.press("h");
    terminal.press(":set /a new\r");
    terminal.expect("read-only:");
    terminal.press("h");
    terminal.press(":watch /a\r");
    terminal.expect("itself");
    terminal.press("h");
    terminal.press("e");
    terminal.expect("--write");
    ends(terminal, top).await;
    assert_eq!(&*zkc.server.probe().data("/a").expect("a node"), b"data-of-a");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_edited_from_the_tree() {
    let zkc = Zkc::start().await;
    let mut terminal = Terminal::open();
    let top = in_tree(&zkc, &mut terminal, &["--write"]).await;
    terminal.press("e");
    terminal.expect("edited");
    assert_eq!(&*zkc.server.probe().data("/a").expect("a node"), b"text-of-a");
    terminal.press(":set /a new\r");
    terminal.expect("done:");
    // A question that cannot be asked.
    terminal.press(":rm -r /zookeeper/quota /a\r");
    terminal.expect("/zookeeper");
    ends(terminal, top).await;
    assert_eq!(&*zkc.server.probe().data("/a").expect("a node"), b"new");
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_paths_are_counted_while_they_are_shown() {
    let zkc = Zkc::start().await;
    let mut terminal = Terminal::open();
    let top = in_tree(&zkc, &mut terminal, &[]).await;
    let watches = || zkc.server.probe().watches().len();
    assert_eq!(watches(), 0);
    terminal.press("7");
    zkc.server.until(|probe| !probe.watches().is_empty()).await;
    zkc.run(&["set", "/a", "new"]).await.ok();
    terminal.expect("/a");
    terminal.expect("data");
    terminal.press("1");
    zkc.server.until(|probe| probe.watches().is_empty()).await;
    ends(terminal, top).await;
}
