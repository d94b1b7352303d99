//! The screens as text.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use zk_curator_ops::ensemble::ProbeTrouble;

use super::app::AppState;
use super::app::tests::{after, keys, sample, state};
use super::model::{KeyPress, ScreenName, TuiEvent};
use super::{draw, screens};

fn drawn(state: &AppState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(frame, state, true)).unwrap();
    terminal.backend().to_string()
}

fn two_samples() -> AppState {
    after(state(), [TuiEvent::Sample(sample(0, 100)), TuiEvent::Sample(sample(2, 150))]).0
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[test]
fn the_servers_are_shown_with_their_rates() {
    let text = drawn(&two_samples(), 130, 24);
    has(
        &text,
        &[
            "zkc top ─ prod ─ 2 servers, leader zk:1 ─ zxid 0x100000005 epoch 1 ─ 10:17:05 UTC ─ every 2s",
            "SERVER▾",
            "zk:1",
            "leader",
            "follower",
            "3.9.3",
            " requests 50/s ",
            " greatest average latency 0.5 ms ",
            "1 servers  2 clients  3 sessions  4 watches  5 recipes  6 tree  7 hot",
        ],
    );
    let follower = text.lines().find(|line| line.contains("follower")).unwrap();
    has(follower, &["25", "0.5", "12.0"]);
}

#[test]
fn each_screen_is_drawn() {
    for (pressed, parts) in [
        ("2", &["CLIENT", "10.0.0.7", "10.0.0.8"][..]),
        ("3", &["SESSION", "0x11", "10.0.0.8:4000", "30 s"]),
        ("4", &["PATH", "/a", "zk:1 zk:2"]),
        ("5", &["PATH", "RECIPE", "reading the tree"]),
        ("6", &["NAME", "MODIFIED"]),
        ("7", &["PATH", "EVENTS/s", "waiting for changes"]),
        (":get /a", &[":get /a▏"]),
        ("y", &["copied zk:1"]),
        ("?", &["keys", "filter the rows"]),
        ("2/.7", &["filter: .7", "10.0.0.7", "1 with \".7\""]),
        ("p", &["PAUSED"]),
    ] {
        has(&drawn(&after(two_samples(), keys(pressed)).0, 130, 24), parts);
    }
}

#[test]
fn a_problem_is_in_the_line_above_the_keys() {
    let mut broken = sample(4, 200);
    broken.reports[1].srvr = Err(ProbeTrouble::NotServing);
    let text = drawn(&after(two_samples(), [TuiEvent::Sample(broken)]).0, 130, 24);
    has(&text, &["! 1 of 2 voting servers are serving (and 1 more)", "not-serving"]);
}

#[test]
fn a_small_terminal_is_enough() {
    for (width, height) in [(1, 1), (10, 3), (40, 8), (80, 24)] {
        for pressed in ["1", "2", "3", "4", "5", "6", "7", "?", "/x", ":x"] {
            drawn(&after(two_samples(), keys(pressed)).0, width, height);
        }
    }
    drawn(&state(), 80, 24);
    let narrow = drawn(&two_samples(), 80, 24);
    has(&narrow, &["SERVER▾", "REQ/s", "OUT", "LAG", "7 hot ─ ? help q quit"]);
    assert!(!narrow.contains("WATCHES") && !narrow.contains("VERSION"), "{narrow}");
    has(&drawn(&two_samples(), 40, 24), &["1-7 screens  ? help  q quit"]);
}

#[test]
fn each_column_has_room_for_its_title_and_the_mark_of_the_order() {
    for (screen, ..) in ScreenName::ALL {
        for column in screens::columns(screen) {
            let needed = column.title.chars().count() + 1;
            assert!(column.width == 0 || usize::from(column.width) >= needed, "{column:?}");
        }
    }
}

#[test]
fn the_column_of_the_order_is_shown_in_a_small_terminal() {
    let sorted = keys("3:sort ephemerals").into_iter().chain([TuiEvent::Key(KeyPress::Enter)]);
    let state = after(two_samples(), sorted).0;
    has(&drawn(&state, 80, 24), &["SESSION", "EPHEMERALS▾"]);
}

#[test]
fn names_cannot_command_the_terminal() {
    let mut hostile = sample(0, 1);
    hostile.reports[0].wchp = Ok(vec![("/\u{1b}[2J".to_owned(), Vec::new())]);
    let state = after(state(), [TuiEvent::Sample(hostile)].into_iter().chain(keys("4"))).0;
    assert!(!drawn(&state, 80, 24).contains('\u{1b}'));
}
