use super::*;
use crate::checkers::script::{fails, passes};

const CHECKER: CacheViews = CacheViews::within(Duration::from_millis(100));

type Line = (u64, u32, Event);

fn node(czxid: i64, mzxid: i64) -> NodeState {
    NodeState { czxid, mzxid, data: format!("data {mzxid}").as_str().into() }
}

fn nodes<const N: usize>(nodes: [(&str, Option<NodeState>); N]) -> Nodes {
    nodes.map(|(path, node)| (path.into(), node)).into_iter().collect()
}

fn step(at: u64, step: CacheStep) -> Line {
    (at, 1, Cache::Step { cache: 1, step }.into())
}

fn looked<const N: usize>(at: u64, look: Look, shown: [(&str, Option<NodeState>); N]) -> Line {
    step(at, CacheStep::Looked { look, nodes: nodes(shown) })
}

fn told(at: u64, news: News) -> Line {
    step(at, CacheStep::Told { subscriber: 7, news })
}

fn loaded<const N: usize>(at: u64, shown: [(&str, Option<NodeState>); N]) -> Line {
    told(at, News::Loaded(nodes(shown)))
}

fn applied(zxid: i64, path: &str, czxid: Option<i64>) -> Line {
    (1_000, 0, Cache::Applied { zxid, path: path.into(), czxid }.into())
}

/// A story of a cache of everything below `/c`. On the servers, transaction 1 creates `/c/a`, 3
/// sets its data, 5 deletes it, and 7 creates it again. Transaction 2 creates `/c/b`.
fn story(lines: impl IntoIterator<Item = Line>) -> Vec<Line> {
    let began = step(0, CacheStep::Began { covers: vec!["/c/**".into()] });
    let log = [
        applied(1, "/c/a", Some(1)),
        applied(2, "/c/b", Some(2)),
        applied(3, "/c/a", Some(1)),
        applied(5, "/c/a", None),
        applied(7, "/c/a", Some(7)),
    ];
    std::iter::once(began).chain(lines).chain(log).collect()
}

#[test]
fn states_in_their_order_are_fine() {
    let b = Some(node(2, 2));
    passes(
        &CHECKER,
        story([
            looked(1, Look::Loading, [("/c/a", Some(node(1, 1)))]),
            looked(2, Look::Fresh(2), [("/c/a", Some(node(1, 1))), ("/c/b", b.clone())]),
            looked(3, Look::Exact(4), [("/c/a", Some(node(1, 3))), ("/c/b", b.clone())]),
            looked(4, Look::Stale(4), [("/c/a", None), ("/c/b", b.clone())]),
            looked(5, Look::Exact(6), [("/c/a", None), ("/c/b", b.clone())]),
            looked(6, Look::Fresh(9), [("/c/a", Some(node(7, 7))), ("/c/b", b)]),
        ]),
    );
}

#[test]
fn invented_states_are_found() {
    let invented = |node| story([looked(1, Look::Loading, [("/c/a", Some(node))])]);
    fails(&CHECKER, invented(node(1, 2)), "never was", &[1]);
    fails(&CHECKER, invented(node(3, 3)), "never was", &[1]);
    let elsewhere = story([looked(1, Look::Loading, [("/c/x", Some(node(1, 1)))])]);
    fails(&CHECKER, elsewhere, "never was", &[1]);
    fails(&CHECKER, story([looked(1, Look::Loading, [("/c/x", None)])]), "before the load", &[1]);
}

#[test]
fn other_data_are_found() {
    let other = NodeState { data: "other".into(), ..node(1, 1) };
    let wrote = (0, 2, Cache::Wrote { path: "/c/a".into(), node: node(1, 1) }.into());
    let shown = looked(2, Look::Fresh(1), [("/c/a", Some(other))]);
    fails(&CHECKER, story([wrote, shown]), "had \"data 1\" at 0x1", &[1, 2]);
}

#[test]
fn a_way_back_is_found() {
    let new = looked(1, Look::Stale(1), [("/c/a", Some(node(1, 3)))]);
    let old = looked(2, Look::Stale(1), [("/c/a", Some(node(1, 1)))]);
    fails(&CHECKER, story([new.clone(), old]), "over before 0x3", &[1, 2, 5]);
    // The node was absent again later.
    let gone = looked(2, Look::Stale(1), [("/c/a", None)]);
    let back = looked(3, Look::Stale(1), [("/c/a", Some(node(1, 3)))]);
    passes(&CHECKER, story([new.clone(), gone.clone()]));
    fails(&CHECKER, story([new, gone, back]), "over before 0x5", &[2, 3, 7]);
}

#[test]
fn contents_that_are_older_than_they_claim_are_found() {
    for look in
        [Look::Fresh(3), Look::Stale(3), Look::Reflects(3), Look::Synced { call: 1, zxid: 3 }]
    {
        let shown = |mzxid| {
            let nodes = [("/c/a", Some(node(1, mzxid))), ("/c/b", Some(node(2, 2)))];
            story([looked(1, look, nodes)])
        };
        fails(&CHECKER, shown(1), "over before 0x3", &[1, 1, 4]);
        passes(&CHECKER, shown(3));
    }
}

#[test]
fn a_node_that_is_left_out_is_found() {
    let a = ("/c/a", Some(node(1, 1)));
    fails(&CHECKER, story([looked(1, Look::Fresh(2), [a.clone()])]), "/c/b is not shown", &[1]);
    // A missing node may have been deleted, or may not have existed yet.
    passes(&CHECKER, story([looked(1, Look::Fresh(2), [("/c/b", Some(node(2, 2)))])]));
    passes(&CHECKER, story([looked(1, Look::Fresh(1), [a.clone()])]));
    passes(&CHECKER, story([looked(1, Look::Loading, [a])]));
}

#[test]
fn an_exact_state_has_everything_and_nothing_newer() {
    let b = || ("/c/b", Some(node(2, 2)));
    let exact = |zxid, a| story([looked(1, Look::Exact(zxid), [("/c/a", a), b()])]);
    passes(&CHECKER, exact(4, Some(node(1, 3))));
    fails(&CHECKER, exact(4, None), "was 0x1/0x3 at 0x4", &[1]);
    fails(&CHECKER, exact(4, Some(node(7, 7))), "was 0x1/0x3 at 0x4", &[1]);
    fails(&CHECKER, exact(5, Some(node(1, 3))), "was absent at 0x5", &[1]);
    let incomplete = story([looked(1, Look::Exact(6), [("/c/a", None)])]);
    fails(&CHECKER, incomplete, "/c/b is shown as absent", &[1]);
}

#[test]
fn a_wait_for_everything_includes_what_anybody_knew() {
    let known = (1, 2, Cache::Committed { zxid: 6 }.into());
    let syncing = step(2, CacheStep::Syncing { call: 3 });
    let nodes = || [("/c/a", None), ("/c/b", Some(node(2, 2)))];
    let synced = |zxid| looked(3, Look::Synced { call: 3, zxid }, nodes());
    passes(&CHECKER, story([known.clone(), syncing.clone(), synced(6)]));
    fails(&CHECKER, story([known.clone(), syncing.clone(), synced(5)]), "0x6 was known", &[1, 3]);
    // Transactions that were learnt of after the begin do not count.
    passes(&CHECKER, story([syncing, known, synced(5)]));
}

#[test]
fn events_add_up_to_the_contents() {
    let a = |czxid, mzxid| ("/c/a", Some(node(czxid, mzxid)));
    let begin = loaded(1, [a(1, 1)]);
    let changed = told(2, News::Changed("/c/a".into(), node(1, 1), node(1, 3)));
    let deleted = told(3, News::Deleted("/c/a".into(), node(1, 3)));
    let created = told(4, News::Created("/c/a".into(), node(7, 7)));
    let drained = |at, node| looked(at, Look::Drained(7), [("/c/a", node)]);
    passes(
        &CHECKER,
        story([
            begin.clone(),
            drained(1, Some(node(1, 1))),
            changed.clone(),
            deleted.clone(),
            drained(3, None),
            created.clone(),
            drained(5, Some(node(7, 7))),
        ]),
    );
    fails(
        &CHECKER,
        story([begin.clone(), drained(2, Some(node(1, 3)))]),
        "was notified as 0x1",
        &[1, 2],
    );
    fails(
        &CHECKER,
        story([begin.clone(), changed.clone(), drained(3, None)]),
        "is absent",
        &[2, 3],
    );
    fails(
        &CHECKER,
        story([begin.clone(), deleted]),
        "not the state that was notified before",
        &[1, 2],
    );
    fails(
        &CHECKER,
        story([begin.clone(), created]),
        "not the state that was notified before",
        &[1, 2],
    );
    fails(&CHECKER, story([changed.clone()]), "before the loaded contents", &[1]);
    fails(&CHECKER, story([begin.clone(), begin.clone()]), "twice", &[1, 2]);
    let replaced = told(2, News::Replaced("/c/a".into(), node(1, 1), node(7, 7)));
    passes(&CHECKER, story([begin.clone(), replaced]));
    for wrong in [
        News::Changed("/c/a".into(), node(1, 1), node(7, 7)),
        News::Changed("/c/a".into(), node(1, 1), node(1, 1)),
        News::Replaced("/c/a".into(), node(1, 1), node(1, 3)),
    ] {
        fails(&CHECKER, story([begin.clone(), told(2, wrong)]), "not of this kind", &[1, 2]);
    }
    let back = told(3, News::Changed("/c/a".into(), node(1, 3), node(1, 1)));
    fails(&CHECKER, story([begin, changed, back]), "over before 0x3", &[2, 3, 6]);
}

#[test]
fn outages_are_reported_as_pairs() {
    let begin = || loaded(1, []);
    passes(
        &CHECKER,
        story([begin(), told(2, News::Stale), told(3, News::Fresh(1)), told(4, News::Stale)]),
    );
    fails(&CHECKER, story([begin(), told(2, News::Fresh(1))]), "told twice", &[1, 2]);
    fails(
        &CHECKER,
        story([begin(), told(2, News::Stale), told(3, News::Stale)]),
        "told twice",
        &[2, 3],
    );
}

#[test]
fn after_the_faults_the_newest_is_shown() {
    let calm = (10, 0, Event::FaultsOver);
    let known = (20, 2, Cache::Committed { zxid: 7 }.into());
    let begin = || vec![calm.clone(), known.clone()];
    let with = |line| story(begin().into_iter().chain([line]));
    let old = Some(node(1, 3));
    // The cache may take its time, also the second time.
    let fresh = looked(105, Look::Fresh(1), []);
    let stale =
        |at| story(begin().into_iter().chain([fresh.clone(), looked(at, Look::Stale(1), [])]));
    passes(&CHECKER, stale(204));
    fails(&CHECKER, stale(205), "is not fresh", &[4]);
    passes(&CHECKER, with(looked(109, Look::Stale(1), [("/c/a", old.clone())])));
    passes(&CHECKER, with(looked(119, Look::Fresh(1), [("/c/a", old.clone())])));
    fails(&CHECKER, with(looked(110, Look::Stale(1), [])), "is not fresh", &[3]);
    fails(&CHECKER, with(looked(110, Look::Loading, [])), "is not fresh", &[3]);
    fails(
        &CHECKER,
        with(looked(120, Look::Fresh(1), [("/c/a", old)])),
        "over before 0x7",
        &[2, 3, 7],
    );
    passes(&CHECKER, with(looked(120, Look::Fresh(1), [("/c/a", Some(node(7, 7)))])));
}

#[test]
fn without_the_log_of_the_servers_the_rest_is_checked() {
    let began = step(0, CacheStep::Began { covers: vec!["/c/**".into()] });
    let shown = looked(1, Look::Exact(3), [("/c/a", Some(node(1, 3)))]);
    passes(&CHECKER, [began.clone(), shown]);
    let early = looked(1, Look::Loading, [("/c/a", None)]);
    fails(&CHECKER, [began, early], "before the load", &[1]);
    fails(&CHECKER, [looked(1, Look::Loading, [])], "has not begun", &[0]);
}
