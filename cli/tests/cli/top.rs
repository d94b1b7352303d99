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
