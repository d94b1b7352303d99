use zk_curator::{EventType, PersistentEvent, Stat, WatchedEvent};
use zk_curator_ops::ensemble::ProbeTrouble;
use zk_curator_ops::ensemble::probe::ProbedServer;
use zk_curator_ops::ensemble::words::{self, ServerMode, SrvrResponse};
use zk_curator_recipes::inspect::{Node, recognise};

use super::*;
use crate::tui::hot::Window;
use crate::tui::table::CellValue;
use crate::tui::tree;

/// Returns the report of a server that serves.
fn serving(port: u16, mode: &ServerMode, zxid: i64) -> ProbeReport {
    let mut report = ProbeReport::empty(ProbedServer::new("zk", port));
    let text = format!("Zookeeper version: 3.9.3-abc, built\nZxid: {zxid:#x}\nMode: {mode}\n");
    report.srvr = SrvrResponse::parse(&text).ok_or(ProbeTrouble::Unknown);
    report
}

/// Returns a sample of two servers, with connections from two hosts.
pub(crate) fn sample(second: u64, requests: u64) -> Sample {
    let mut reports = vec![
        serving(1, &ServerMode::Leader, 0x1_0000_0005),
        serving(2, &ServerMode::Follower, 0x1_0000_0003),
    ];
    for (report, host) in reports.iter_mut().zip(["10.0.0.7", "10.0.0.8"]) {
        let srvr = report.srvr.as_mut().unwrap();
        srvr.received = Some(requests);
        srvr.latency = Some((0.5, 12.0));
        let session = report.server.port;
        report.cons = Ok(words::connections(&format!(
            " /{host}:4000[1](queued=0,recved={requests},sent=1,sid=0x1{session},lop=GETD,est=5,to=30000,lresp=9)"
        )));
        report.wchp = Ok(words::lists("/a\n\t0x11\n\t0x12\n/b\n\t0x11\n"));
    }
    Sample { reports, voters: Some(2), taken: 1_795_688_225_345, at: Duration::from_secs(second) }
}

pub(crate) fn state() -> AppState {
    AppState::new("prod".to_owned(), Duration::from_secs(2), true)
}

/// Returns the state after events, and the last effect.
pub(crate) fn after(
    state: AppState,
    events: impl IntoIterator<Item = TuiEvent>,
) -> (AppState, Option<TuiEffect>) {
    events.into_iter().fold((state, None), |(state, _), event| state.step(event))
}

pub(crate) fn keys(text: &str) -> Vec<TuiEvent> {
    text.chars().map(|letter| TuiEvent::Key(KeyPress::Char(letter))).collect()
}

fn names(state: &AppState) -> Vec<String> {
    state.table().rows.into_iter().map(|row| row.key).collect()
}

#[test]
fn each_key_has_its_effect() {
    let quit = Some(TuiEffect::Quit);
    for (pressed, expected) in [
        ("q", quit.clone()),
        ("?q", quit.clone()),
        ("/q", None),
        ("2", Some(TuiEffect::Ask)),
        ("6", Some(TuiEffect::List("/".to_owned()))),
        ("5", Some(TuiEffect::Inspect)),
        ("7", Some(TuiEffect::Ask)),
        ("8", None),
        (":q", None),
        ("x", None),
        ("p", None),
    ] {
        assert_eq!(after(state(), keys(pressed)).1, expected, "{pressed}");
    }
    let interrupted = keys("/a").into_iter().chain([TuiEvent::Key(KeyPress::Interrupt)]);
    assert_eq!(after(state(), interrupted).1, quit);
}

#[test]
fn digits_and_tab_change_the_screen() {
    for (pressed, screen) in [
        ("1", ScreenName::Servers),
        ("2", ScreenName::Clients),
        ("3", ScreenName::Sessions),
        ("4", ScreenName::Watches),
        ("5", ScreenName::Recipes),
        ("6", ScreenName::Tree),
        ("7", ScreenName::Hot),
    ] {
        assert_eq!(after(state(), keys(pressed)).0.screen, screen);
    }
    let tabs = |count| after(state(), vec![TuiEvent::Key(KeyPress::Tab); count]).0.screen;
    assert_eq!(
        (tabs(1), tabs(5), tabs(7)),
        (ScreenName::Clients, ScreenName::Tree, ScreenName::Servers)
    );
}

#[test]
fn only_the_screens_of_sessions_and_watches_ask_costly_words() {
    for (pressed, dump, wchp) in [
        ("1", false, false),
        ("2", false, false),
        ("3", true, false),
        ("4", false, true),
        ("6", false, false),
    ] {
        let state = after(state(), keys(pressed)).0;
        assert_eq!(state.words().contains(&FourLetterWord::Dump), dump);
        assert_eq!(state.words().contains(&FourLetterWord::Wchp), wchp);
    }
}

#[test]
fn rates_are_differences_of_samples() {
    let first = after(state(), [TuiEvent::Sample(sample(0, 100))]).0;
    let rate = |state: &AppState| state.table().rows[0].cells[5].text().to_owned();
    assert_eq!((rate(&first).as_str(), first.history.len()), ("–", 0));
    let second = after(first, [TuiEvent::Sample(sample(2, 150))]).0;
    assert_eq!(rate(&second), "25");
    assert_eq!(second.history.back(), Some(&Load { requests: 50.0, latency: 0.5 }));
    // The counter was reset.
    let third = after(second, [TuiEvent::Sample(sample(4, 3))]).0;
    assert_eq!(rate(&third), "–");
}

#[test]
fn a_pause_keeps_the_sample() {
    let paused = after(
        state(),
        [TuiEvent::Sample(sample(0, 1))]
            .into_iter()
            .chain(keys("p"))
            .chain([TuiEvent::Sample(sample(2, 9))]),
    )
    .0;
    assert_eq!(paused.sample.as_ref().unwrap().at, Duration::ZERO);
    let resumed = after(paused, keys("p").into_iter().chain([TuiEvent::Sample(sample(2, 9))])).0;
    assert_eq!(resumed.sample.unwrap().at, Duration::from_secs(2));
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let with = |events: Vec<TuiEvent>| {
        let state = after(state(), [TuiEvent::Sample(sample(0, 1))].into_iter().chain(events)).0;
        (names(&state), state.typing)
    };
    let typed = keys("2/.8");
    let enter = [typed.clone(), vec![TuiEvent::Key(KeyPress::Enter)]].concat();
    let cleared = [enter.clone(), vec![TuiEvent::Key(KeyPress::Escape)]].concat();
    let corrected = [typed.clone(), vec![TuiEvent::Key(KeyPress::Backspace)]].concat();
    assert_eq!(with(typed), (vec!["10.0.0.8".to_owned()], true));
    assert_eq!(with(enter), (vec!["10.0.0.8".to_owned()], false));
    assert_eq!(with(cleared).0.len(), 2);
    assert_eq!(with(corrected).0.len(), 2);
}

#[test]
fn the_order_follows_the_column() {
    let sampled = after(state(), [TuiEvent::Sample(sample(0, 1))]).0;
    assert_eq!(names(&sampled), ["zk:1", "zk:2"]);
    assert_eq!(names(&after(sampled.clone(), keys("r")).0), ["zk:2", "zk:1"]);
    // By role: the follower comes first.
    assert_eq!(names(&after(sampled.clone(), keys("s")).0), ["zk:2", "zk:1"]);
    let around = "s".repeat(sampled.table().columns.len());
    assert_eq!(after(sampled.clone(), keys(&around)).0.selection(), sampled.selection());
}

#[test]
fn enter_opens_a_row() {
    for (pressed, title, line) in [
        ("1j", "zk:2", "version    3.9.3-abc, built"),
        (
            "2",
            "10.0.0.7",
            "10.0.0.7:4000          0x11               on zk:1: 1 requests, 0 queued, last GETD",
        ),
        ("3", "0x11", "0 ephemeral nodes"),
        ("4", "/a", "0x12               10.0.0.8:4000 on zk:1"),
    ] {
        let events = [TuiEvent::Sample(sample(0, 1))]
            .into_iter()
            .chain(keys(pressed))
            .chain([TuiEvent::Key(KeyPress::Enter)]);
        let detail = after(state(), events).0.detail.expect("a detail");
        assert_eq!(detail.title, title);
        assert!(detail.lines.iter().any(|shown| shown == line), "{:?}", detail.lines);
    }
}

#[test]
fn a_detail_scrolls_and_closes() {
    let open = after(state(), keys("?jjk")).0;
    assert_eq!(open.detail.as_ref().unwrap().first, 1);
    let end = after(open, keys("G")).0;
    let lines = end.detail.as_ref().unwrap().lines.len();
    assert_eq!(end.detail.as_ref().unwrap().first, lines - 1);
    assert_eq!(after(end, [TuiEvent::Key(KeyPress::Escape)]).0.detail, None);
}

#[test]
fn the_tree_is_walked() {
    let child = |name: &str, children| {
        let stat = Stat { num_children: children, ..Stat::default() };
        tree::Child { name: name.to_owned(), stat }
    };
    let list = |path: &str, children| TuiEvent::Listed(path.to_owned(), Ok((children, 0)));
    let root = list("/", vec![child("a", 2), child("b", 0)]);
    let enter = TuiEvent::Key(KeyPress::Enter);
    let (inside, effect) =
        after(state(), keys("6").into_iter().chain([root.clone(), enter.clone()]));
    assert_eq!(effect, Some(TuiEffect::List("/a".to_owned())));
    assert!(names(&inside).is_empty());
    // A response that was on the way is for another node.
    let (inside, _) = after(inside, [root.clone(), list("/a", vec![child("c", 0)])]);
    assert_eq!(names(&inside), ["c"]);
    let (reading, effect) = after(inside, [enter]);
    assert_eq!(effect, Some(TuiEffect::Read("/a/c".to_owned())));
    let (open, _) = after(reading, [TuiEvent::Read("/a/c".to_owned(), Ok("x\ny".to_owned()))]);
    assert_eq!(open.detail.as_ref().unwrap().lines, ["x", "y"]);
    let (left, effect) =
        after(open, [TuiEvent::Key(KeyPress::Escape), TuiEvent::Key(KeyPress::Left), root]);
    assert_eq!(effect, None);
    assert_eq!((left.tree.path.as_str(), left.selection().place(&left.table())), ("/", Some(0)));
    let many = TuiEvent::Listed("/".to_owned(), Ok((vec![child("a", 2)], 7)));
    let cut = after(left.clone(), [many]).0.table();
    assert_eq!(cut.note.as_deref(), Some("7 further children are not shown"));
    let refused = TuiEvent::Listed("/".to_owned(), Err("no permission: /".to_owned()));
    assert_eq!(after(left, [refused]).0.table().note.as_deref(), Some("no permission: /"));
}

#[test]
fn recipes_are_looked_for_again_after_a_while() {
    let lock = Node::new("/locks/a").child("lock-0000000001", "worker-1");
    let findings = vec![recognise(&lock)];
    let shown = after(state(), [TuiEvent::Sample(sample(0, 1))].into_iter().chain(keys("5"))).0;
    assert_eq!(shown.table().note.as_deref(), Some("reading the tree …"));
    let (found, _) = after(shown, [TuiEvent::Inspected(Ok((findings.clone(), None)))]);
    let cut = TuiEvent::Inspected(Ok((findings, Some("recipes are missing".to_owned()))));
    let cut = after(found.clone(), [cut]).0.table();
    assert_eq!((cut.rows.len(), cut.note.as_deref()), (1, Some("recipes are missing")));
    assert_eq!(names(&found), ["/locks/a"]);
    assert_eq!(found.table().rows[0].cells[2].text(), "worker-1");
    let next = |second| after(found.clone(), [TuiEvent::Sample(sample(second, 1))]).1;
    assert_eq!((next(2), next(10)), (None, Some(TuiEffect::Inspect)));
    let opened = after(found.clone(), [TuiEvent::Key(KeyPress::Enter)]).1;
    assert_eq!(opened, Some(TuiEffect::Why("/locks/a".to_owned())));
    let failed = after(found, [TuiEvent::Inspected(Err("no connection".to_owned()))]).0;
    assert_eq!(failed.table().note.as_deref(), Some("no connection"));
}

#[test]
fn a_contender_that_no_session_removes_is_the_verdict() {
    let stat = |owner| Stat { ephemeral_owner: owner, ..Default::default() };
    let node = |name: &str, owner| Node::new(format!("/locks/a/{name}")).stat(stat(owner));
    let lock = Node::new("/locks/a").with(node("lock-0000000001", 7));
    let findings = vec![recognise(&lock.with(node("lock-0000000002", 0)))];
    let shown = after(state(), [TuiEvent::Sample(sample(0, 1))].into_iter().chain(keys("5"))).0;
    let (found, _) = after(shown, [TuiEvent::Inspected(Ok((findings, None)))]);
    let table = found.table();
    let verdict = table.rows[0].cells[5].text();
    assert!(verdict.starts_with("persistent: no session will ever remove it"), "{verdict}");
}

fn command(state: AppState, line: &str) -> (AppState, Option<TuiEffect>) {
    after(state, keys(&format!(":{line}")).into_iter().chain([TuiEvent::Key(KeyPress::Enter)]))
}

#[test]
fn the_command_line_goes_and_runs() {
    for (line, expected) in [
        ("q", Some(TuiEffect::Quit)),
        ("clients", Some(TuiEffect::Ask)),
        ("/locks/a", Some(TuiEffect::List("/locks/a".to_owned()))),
        ("get /a", Some(TuiEffect::Run("get /a".to_owned()))),
        ("", None),
        ("filter .8", None),
    ] {
        let (state, effect) = command(state(), line);
        assert_eq!((effect, state.command), (expected, None), "{line}");
    }
    let (tree, _) = command(state(), "/locks/a");
    assert_eq!((tree.screen, tree.tree.path.as_str()), (ScreenName::Tree, "/locks/a"));
    let sampled = after(state(), [TuiEvent::Sample(sample(0, 1))]).0;
    let (filtered, _) = command(sampled.clone(), "filter follower");
    assert_eq!(names(&filtered), ["zk:2"]);
    let (sorted, _) = command(sampled.clone(), "sort role");
    assert_eq!(names(&sorted), ["zk:2", "zk:1"]);
    let (wrong, _) = command(sampled, "sort nothing");
    assert_eq!(wrong.message.as_deref(), Some("no column nothing"));
    assert_eq!(command(state(), "/a/").0.tree.path, "/a");
}

#[test]
fn a_command_line_is_corrected_and_recalled() {
    let backspaces = [TuiEvent::Key(KeyPress::Backspace), TuiEvent::Key(KeyPress::Backspace)];
    let (closed, effect) = after(state(), keys(":a").into_iter().chain(backspaces));
    assert_eq!((closed.command, effect), (None, None));
    let (closed, _) =
        after(state(), keys(":a").into_iter().chain([TuiEvent::Key(KeyPress::Escape)]));
    assert_eq!(closed.command, None);
    let (ran, _) = command(state(), "get /a");
    let again =
        keys(":").into_iter().chain([TuiEvent::Key(KeyPress::Up), TuiEvent::Key(KeyPress::Enter)]);
    assert_eq!(after(ran, again).1, Some(TuiEffect::Run("get /a".to_owned())));
}

#[test]
fn the_output_of_a_command_is_shown() {
    let ran = |answer: Result<&str, &str>| {
        let answer = answer.map(str::to_owned).map_err(str::to_owned);
        after(state(), keys("6").into_iter().chain([TuiEvent::Ran("get /a".to_owned(), answer)]))
    };
    let (shown, effect) = ran(Ok("x\ny\n"));
    assert_eq!(shown.detail.expect("a detail").lines, ["x", "y"]);
    // The command may have changed the listed nodes.
    assert_eq!(effect, Some(TuiEffect::List("/".to_owned())));
    assert_eq!(ran(Err("no node: /a")).0.detail.expect("a detail").lines, ["no node: /a"]);
    let (quiet, _) = ran(Ok(""));
    assert_eq!((quiet.detail, quiet.message.as_deref()), (None, Some("done: get /a")));
}

/// Returns the tree with `/a`, on its screen.
fn tree(can_write: bool) -> AppState {
    let child = tree::Child { name: "a".to_owned(), stat: Stat::default() };
    let state = AppState::new("prod".to_owned(), Duration::from_secs(2), can_write);
    let listed = TuiEvent::Listed("/".to_owned(), Ok((vec![child], 0)));
    after(state, keys("6").into_iter().chain([listed])).0
}

#[test]
fn paths_are_copied_and_edited() {
    let (copied, effect) = after(tree(false), keys("y"));
    assert_eq!(effect, Some(TuiEffect::Copy("/a".to_owned())));
    assert_eq!(copied.message.as_deref(), Some("copied /a"));
    assert_eq!(after(copied, keys("j")).0.message, None);
    let (refused, effect) = after(tree(false), keys("e"));
    assert_eq!(effect, None);
    assert!(refused.message.expect("a message").contains("--write"));
    assert_eq!(after(tree(true), keys("e")).1, Some(TuiEffect::Edit("/a".to_owned())));
    let edited = TuiEvent::Edited("/a".to_owned(), Ok(()));
    let (edited, effect) = after(tree(true), [edited]);
    assert_eq!(
        (edited.message.as_deref(), effect),
        (Some("edited /a"), Some(TuiEffect::List("/".to_owned())))
    );
    let sampled = after(state(), [TuiEvent::Sample(sample(0, 1))].into_iter().chain(keys("y"))).1;
    assert_eq!(sampled, Some(TuiEffect::Copy("zk:1".to_owned())));
    assert_eq!(after(state(), keys("y")).1, None);
}

fn changes(seconds: u64, events: &[(EventType, &str)]) -> TuiEvent {
    let mut window = Window::default();
    window.passed = Duration::from_secs(seconds);
    for (kind, path) in events {
        let event = WatchedEvent::new(*kind, (*path).to_owned());
        window.note(PersistentEvent::Changed(event));
    }
    TuiEvent::Followed(window)
}

#[test]
fn hot_paths_have_rates_and_sums() {
    let data = (EventType::NodeDataChanged, "/a");
    let first = changes(2, &[data, data, data, (EventType::NodeDeleted, "/b")]);
    let (hot, _) = after(state(), keys("7").into_iter().chain([first]));
    let rows = |state: &AppState| -> Vec<String> {
        let rows = state.table().rows.into_iter();
        rows.map(|row| row.cells.iter().map(CellValue::text).collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(rows(&hot), ["/a 1.5 3 data", "/b 0.5 1 deleted"]);
    let (hot, _) = after(hot, [changes(1, &[(EventType::NodeCreated, "/b")])]);
    assert_eq!(rows(&hot), ["/b 1.0 2 created", "/a 0.0 3 data"]);
    let opened = after(hot.clone(), [TuiEvent::Key(KeyPress::Enter)]).1;
    assert_eq!(opened, Some(TuiEffect::Read("/b".to_owned())));
    // A pause keeps the table.
    let paused = after(hot.clone(), keys("p").into_iter().chain([changes(1, &[data])])).0;
    assert_eq!(rows(&paused), rows(&hot));
    let mut lost = Window::default();
    lost.note(PersistentEvent::Rearmed { unchanged: false });
    let lost = after(hot, [TuiEvent::Followed(lost)]).0;
    assert!(lost.table().note.expect("a note").contains("changes are missing"));
}

#[test]
fn the_memory_for_hot_paths_is_bounded() {
    let paths: Vec<_> = (0..6_000).map(|n| format!("/{n}")).collect();
    let events = |from: usize| -> Vec<(EventType, &str)> {
        paths[from..].iter().map(|path| (EventType::NodeCreated, path.as_str())).collect()
    };
    let (hot, _) = after(state(), keys("7").into_iter().chain([changes(1, &events(0))]));
    assert_eq!(hot.table().rows.len(), 5_000);
    assert_eq!(hot.table().note.as_deref(), Some("1000 changes of further nodes are not shown"));
    let hot = after(hot, [changes(1, &events(5_500))]).0;
    assert_eq!(hot.table().rows.len(), 500);
}

#[test]
fn a_new_epoch_is_an_election() {
    let mut later = sample(2, 1);
    later.reports[0].srvr.as_mut().unwrap().zxid = Some(0x2_0000_0001);
    let events =
        [TuiEvent::Sample(sample(0, 1)), TuiEvent::Sample(sample(1, 1)), TuiEvent::Sample(later)];
    assert_eq!(after(state(), events).0.elections, 1);
}

proptest::proptest! {
    #[test]
    fn no_keys_make_a_screen_panic(pressed in proptest::collection::vec(0..25_usize, 0..60), with_sample: bool) {
        const KEYS: [KeyPress; 25] = [
            KeyPress::Char('1'), KeyPress::Char('2'), KeyPress::Char('3'), KeyPress::Char('4'), KeyPress::Char('5'), KeyPress::Char('6'), KeyPress::Char('s'),
            KeyPress::Char('r'), KeyPress::Char('/'), KeyPress::Char('?'), KeyPress::Char('p'), KeyPress::Enter, KeyPress::Escape, KeyPress::Tab,
            KeyPress::Backspace, KeyPress::Up, KeyPress::Down, KeyPress::PageUp, KeyPress::End, KeyPress::Home, KeyPress::Left, KeyPress::Char('7'),
            KeyPress::Char(':'), KeyPress::Char('y'), KeyPress::Char('e'),
        ];
        let mut state = state();
        if with_sample {
            state = after(state, [TuiEvent::Sample(sample(0, 1))]).0;
        }
        for key in pressed {
            state = state.step(TuiEvent::Key(KEYS[key])).0;
            let table = state.table();
            proptest::prop_assert!(state.selection().place(&table).is_none_or(|place| place < table.rows.len()));
        }
    }
}
