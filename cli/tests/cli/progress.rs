//! The progress of long work, on a pseudo-terminal.

use std::time::Duration;

use zk_curator_testing::Verdict;

use crate::support::Zkc;
use crate::terminal::{PATIENCE, Terminal};

/// Creates `/t` with ten children, each in a folder of its own so that work has several steps.
async fn tree(zkc: &Zkc) {
    zkc.run(&["create", "/t"]).await.ok();
    for n in 0..10 {
        zkc.run(&["create", "-p", &format!("/t/{n}/a"), "data"]).await.ok();
    }
}

/// Delays the first request of a kind about a node until the progress is shown.
fn slow(zkc: &Zkc, path: &'static str, is_delete: bool) -> impl Sized + use<> {
    let slow = zkc.server.rule(move |request| {
        let is_slow = request.is_delete() == is_delete && request.paths().any(|of| of == path);
        if is_slow { Verdict::Delay(Duration::from_millis(1_500)) } else { Verdict::Pass }
    });
    slow.times(1)
}

async fn ends_well(mut child: tokio::process::Child) {
    let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn long_work_shows_its_progress() {
    let zkc = Zkc::start().await;
    tree(&zkc).await;
    let backup = zkc.file("backup.zkb").display().to_string();
    let folder = zkc.file("folder").display().to_string();
    for (arguments, shown, path) in [
        (&["backup", "/t", &backup][..], "backup", "/t/0/a"),
        (&["export", "/t", &folder], "export", "/t/0/a"),
        (&["cp", "-r", "/t", "/copy"], "copy", "/copy/0/a"),
        (&["restore", &backup, "--root", "/u/v", "--yes"], "restore", "/u/v/0/a"),
        (&["rm", "-r", "/u/v", "--yes"], "delete", "/u/v/0/a"),
    ] {
        let _slow = slow(&zkc, path, shown == "delete");
        let mut terminal = Terminal::open();
        let child = terminal.start(&mut zkc.command(arguments));
        terminal.expect(shown);
        terminal.expect(" nodes, ");
        // The line is erased at the end.
        terminal.expect("\u{1b}[?7h\r\u{1b}[2K");
        ends_well(child).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_see_no_progress() {
    let zkc = Zkc::start().await;
    tree(&zkc).await;
    let backup = zkc.file("backup.zkb").display().to_string();
    for option in [&["-q"][..], &["-o", "json"]] {
        let _slow = slow(&zkc, "/t/0/a", false);
        let mut terminal = Terminal::open();
        let arguments = [option, &["backup", "/t", &backup]].concat();
        ends_well(terminal.start(&mut zkc.command(&arguments))).await;
        terminal.press("end\n");
        let before = terminal.expect("end");
        assert!(!before.contains('\u{1b}'), "{before:?}");
    }
    let _slow = slow(&zkc, "/t/0/a", false);
    let piped = zkc.run(&["backup", "/t", &backup]).await;
    assert_eq!((piped.code, &*piped.stderr), (0, ""));
}
