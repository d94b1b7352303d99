//! The state of a cache beside a model of a server, in every order of events and answers that the wire allows.

mod model;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use zk_curator::{ErrorKind, EventType, Stat, WatchedEvent};

use super::node::{CachedNode, Lookup};
use super::reads::{Answer, What};
use super::tree_state::{Scope, TreeState};

use model::{BELOW, Flaw, Setup, Step, Write, run};

fn writes() -> impl Strategy<Value = Write> {
    let path = 0..BELOW.len();
    prop_oneof![
        4 => path.clone().prop_map(Write::Create),
        2 => path.clone().prop_map(Write::Set),
        2 => path.prop_map(Write::Delete),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let path = 0..BELOW.len();
    prop_oneof![
        6 => (prop::collection::vec(writes(), 1..4), any::<bool>())
            .prop_map(|(writes, is_one)| Step::Write(writes, is_one)),
        4 => (path.clone(), any::<bool>()).prop_map(|(number, is_one)| Step::CreateAll(number, is_one)),
        2 => (path.clone(), any::<bool>()).prop_map(|(number, is_one)| Step::DeleteAll(number, is_one)),
        2 => path.prop_map(Step::Replace),
        6 => Just(Step::Send),
        6 => prop_oneof![
            3 => Just(None),
            1 => any::<(usize, bool)>().prop_map(Some),
        ].prop_map(Step::Serve),
        6 => (1_usize..6).prop_map(Step::Receive),
        3 => (1_usize..4).prop_map(Step::Hear),
        6 => Just(Step::Answer),
        1 => any::<bool>().prop_map(Step::Cut),
        3 => Just(Step::Reconnect),
        1 => Just(Step::Lose),
        2 => Just(Step::Sweep),
        1 => Just(Step::Audit),
        4 => Just(Step::Checkpoint),
        2 => Just(Step::Rest),
    ]
}

fn setups(flaw: Flaw) -> impl Strategy<Value = Setup> {
    let max_depth = prop_oneof![5 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(1)), 1 => Just(Some(2))];
    let sizes = prop_oneof![Just(0), Just(200_000), Just(300_000)];
    let is_lasting = prop::bool::weighted(0.75);
    (any::<(bool, bool)>(), is_lasting, max_depth, prop::bool::weighted(0.2), sizes).prop_map(
        move |((is_everything, tells_zxids), is_lasting, max_depth, is_filtered, size)| Setup {
            root: if is_everything { "/" } else { "/r" },
            max_depth,
            is_filtered,
            tells_zxids,
            is_lasting,
            size,
            flaw,
        },
    )
}

fn cases(flaw: Flaw) -> impl Strategy<Value = (Setup, Vec<Step>)> {
    (setups(flaw), prop::collection::vec(steps(), 0..120))
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_order_of_events_and_answers_leads_to_the_state_of_the_server((setup, steps) in cases(Flaw::None)) {
        run(setup, &steps)?;
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn any_of_many_orders_of_events_and_answers_leads_to_the_state_of_the_server() {
    let config = Config { cases: 5_000, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&cases(Flaw::None), |(setup, steps)| run(setup, &steps));
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// An order of steps on a tree with everything in its scope, on servers that tell zxids and on others.
fn in_this_order(steps: &[Step]) {
    for (tells_zxids, is_lasting) in [(true, true), (true, false), (false, true), (false, false)] {
        let setup = Setup { tells_zxids, is_lasting, ..SETUP };
        run(setup, steps).unwrap();
    }
}

/// Everything in the scope, on a present server, in large requests.
const SETUP: Setup = Setup {
    root: "/r",
    max_depth: None,
    is_filtered: false,
    tells_zxids: true,
    is_lasting: true,
    size: 0,
    flaw: Flaw::None,
};

fn write(write: Write) -> Step {
    Step::Write(vec![write], false)
}

const ALL: usize = usize::MAX;
/// The numbers of the paths in the cases below.
const ROOT: usize = 0;
const A: usize = 1;
const B: usize = 2;
const C: usize = 3;
const AA: usize = 4;
const AB: usize = 5;

#[test]
fn a_parent_that_an_event_of_its_child_names_is_read() {
    in_this_order(&[
        Step::Lose,
        write(Write::Create(ROOT)),
        write(Write::Create(A)),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sweep,
        Step::Send,
        Step::Serve(None),
        write(Write::Create(AA)),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn a_change_of_an_unknown_node_does_not_report_its_children() {
    in_this_order(&[
        Step::Lose,
        Step::CreateAll(AA, false),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sweep,
        Step::Send,
        Step::Serve(None),
        write(Write::Set(A)),
        Step::Receive(ALL),
        Step::Answer,
        Step::Send,
        Step::Serve(None),
        write(Write::Create(AB)),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn an_answer_from_before_a_creation_removes_nothing_below_it() {
    in_this_order(&[
        write(Write::Create(ROOT)),
        Step::Rest,
        write(Write::Create(A)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        write(Write::Delete(A)),
        Step::Serve(None),
        Step::CreateAll(AA, false),
        Step::Receive(ALL),
        Step::Answer,
        Step::Send,
        Step::Serve(None),
        write(Write::Create(AB)),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn a_child_that_was_missed_is_not_hidden_by_a_later_one() {
    in_this_order(&[
        write(Write::Create(ROOT)),
        Step::Rest,
        Step::Cut(false),
        write(Write::Create(A)),
        Step::Reconnect,
        write(Write::Create(C)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Serve(None),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn a_parent_that_is_read_before_the_sweep_is_listed() {
    in_this_order(&[
        Step::Rest,
        write(Write::Create(ROOT)),
        write(Write::Create(A)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Lose,
        Step::DeleteAll(ROOT, false),
        write(Write::Create(ROOT)),
        write(Write::Create(B)),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Serve(None),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

/// A node whose last child was created or deleted by the transaction after so many others as it has children.
fn node(path: &str, czxid: i64, num_children: i32) -> Answer {
    node_at(path, czxid, num_children, czxid + i64::from(num_children))
}

fn node_at(path: &str, czxid: i64, num_children: i32, pzxid: i64) -> Answer {
    let stat = Stat { czxid, mzxid: czxid, pzxid, num_children, ..Stat::default() };
    Answer::Data(CachedNode { path: path.into(), data: Bytes::new(), stat })
}

/// Answers every read that is asked for, until there is none.
fn serve(state: &mut TreeState, answer: impl Fn(&str, What) -> Answer) {
    loop {
        let jobs = state.next_batch();
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            state.answered(&job, answer(&job.path, job.what), &mut Vec::new());
        }
    }
}

/// A child is created that must not be read, which is not reported, and then another one.
#[test]
fn an_audit_finds_what_the_parent_has_hidden() {
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    state.sweep();
    serve(&mut state, |path, what| match what {
        What::Data if path == "/r" => node_at("/r", 1, 1, 2),
        What::Data => node(path, 2, 0),
        What::Names => Answer::Names(vec!["a".to_owned()]),
    });
    let created = WatchedEvent::new(EventType::NodeCreated, "/r/b".to_owned()).with_zxid(Some(4));
    state.event(&created, state.news(), &mut Vec::new());
    let server = |path: &str, what| match (what, path) {
        (What::Data, "/r") => node_at("/r", 1, 3, 4),
        (What::Data, _) => node(path, if path == "/r/a" { 2 } else { 4 }, 0),
        (What::Names, _) => Answer::Names(["a", "b", "hidden"].map(str::to_owned).to_vec()),
    };
    serve(&mut state, server);
    assert!(state.tree().node("/r/b").is_some() && state.tree().node("/r/hidden").is_none());
    state.audit();
    assert!(state.is_settled());
    serve(&mut state, server);
    assert!(state.tree().node("/r/hidden").is_some());
}

/// The node is replaced while it is read, and the connection is lost.
#[test]
fn an_audit_guesses_nothing_about_the_children_of_a_new_node() {
    for is_deletion_told in [true, false] {
        let mut state = TreeState::new("/r".to_owned(), Scope::default());
        state.sweep();
        serve(&mut state, |path, what| match what {
            What::Data if path == "/r" => node_at("/r", 1, 1, 2),
            What::Data => node(path, 2, 0),
            What::Names => Answer::Names(vec!["a".to_owned()]),
        });
        state.audit();
        let jobs = state.next_batch();
        if is_deletion_told {
            let deleted = WatchedEvent::new(EventType::NodeDeleted, "/r/a".to_owned()).with_zxid(Some(4));
            state.event(&deleted, state.news(), &mut Vec::new());
        }
        state.unanswered(&jobs);
        for job in state.next_batch() {
            let answer = if &*job.path == "/r" { node_at("/r", 1, 1, 5) } else { node(&job.path, 5, 1) };
            state.answered(&job, answer, &mut Vec::new());
        }
        assert!(state.tree().node("/r/a").is_some() && !state.is_settled());
        assert!(matches!(state.lookup("/r/a/b", true), Lookup::Unknown));
    }
}

/// The children of a node could not be listed.
#[test]
fn an_audit_guesses_nothing_about_children_that_were_never_listed() {
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    let server = |can_list| {
        move |path: &str, what| match what {
            What::Data if path == "/r" => node("/r", 1, 1),
            What::Data => node(path, 2, 0),
            What::Names if can_list => Answer::Names(vec!["a".to_owned()]),
            What::Names => Answer::Failed(ErrorKind::NoAuth),
        }
    };
    state.sweep();
    serve(&mut state, server(false));
    assert!(matches!(state.lookup("/r/a", true), Lookup::Unknown));
    state.audit();
    for job in state.next_batch() {
        state.answered(&job, server(true)(&job.path, job.what), &mut Vec::new());
    }
    assert!(matches!(state.lookup("/r/a", true), Lookup::Unknown) && !state.is_settled());
    serve(&mut state, server(true));
    assert!(matches!(state.lookup("/r/a", true), Lookup::Present(_)) && state.is_settled());
}

/// What an audit has begun, a sweep needs.
#[test]
fn an_audit_in_an_outage_guesses_nothing() {
    in_this_order(&[
        write(Write::Create(ROOT)),
        Step::Rest,
        Step::Audit,
        Step::Send,
        Step::Cut(true),
        Step::CreateAll(C, false),
        Step::Sweep,
    ]);
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    state.sweep();
    serve(&mut state, |path, what| match what {
        What::Data if path == "/r" => node("/r", 1, 1),
        What::Data => node(path, 2, 0),
        What::Names => Answer::Names(vec!["b".to_owned()]),
    });
    // Another child has taken the place of this one.
    state.missed();
    state.audit();
    for _ in 0..2 {
        // The list is not answered.
        for job in state.next_batch().into_iter().filter(|job| &*job.path == "/r" && job.what == What::Data) {
            state.answered(&job, node_at("/r", 1, 1, 4), &mut Vec::new());
        }
        state.sweep();
    }
    assert!(matches!(state.lookup("/r/a", true), Lookup::Unknown));
}

/// The same as four tests above, and an outage is what asks.
#[test]
fn a_sweep_finds_what_the_parent_has_hidden() {
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    state.sweep();
    serve(&mut state, |path, what| match what {
        What::Data if path == "/r" => node_at("/r", 1, 1, 2),
        What::Data => node(path, 2, 0),
        What::Names => Answer::Names(vec!["a".to_owned()]),
    });
    state.sweep();
    serve(&mut state, |path, what| match what {
        What::Data if path == "/r" => node_at("/r", 1, 2, 2),
        What::Data => node(path, 2, 0),
        What::Names => Answer::Names(["a", "hidden"].map(str::to_owned).to_vec()),
    });
    assert!(state.tree().node("/r/hidden").is_some());
}

/// Its data are no compressed ones, for example.
#[test]
fn the_children_of_a_node_with_bad_data_are_read() {
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    state.sweep();
    serve(&mut state, |path, what| match (path, what) {
        ("/r", What::Data) => node_at("/r", 1, 1, 2),
        ("/r", What::Names) => Answer::Names(vec!["a".to_owned()]),
        ("/r/a", What::Data) => Answer::Failed(ErrorKind::Malformed),
        ("/r/a", What::Names) => Answer::Names(vec!["b".to_owned()]),
        _ => node(path, 3, 0),
    });
    assert!(state.tree().node("/r/a/b").is_some());
    assert_eq!(state.unreadable().keys().map(|path| &**path).collect::<Vec<_>>(), ["/r/a"]);
    assert!(state.is_settled());
}

/// The second server tells again what the first one has told, but for the last transaction.
#[test]
fn events_that_are_told_again_forget_no_split_transaction() {
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    state.sweep();
    serve(&mut state, |path, what| match what {
        What::Data if path == "/r" => node_at("/r", 1, 1, 2),
        What::Data => node(path, 2, 0),
        What::Names => Answer::Names(vec!["a".to_owned()]),
    });
    let event =
        |event_type, path: &str, zxid| WatchedEvent::new(event_type, path.to_owned()).with_zxid(Some(zxid));
    // One transaction deletes one child and creates another one, of which the event is lost.
    state.event(&event(EventType::NodeDeleted, "/r/a", 15), state.news(), &mut Vec::new());
    state.missed();
    state.event(&event(EventType::NodeDataChanged, "/r", 13), state.news(), &mut Vec::new());
    state.missed();
    state.sweep();
    serve(&mut state, |path, what| match what {
        What::Data if path == "/r" => node_at("/r", 1, 1, 15),
        What::Data => node(path, 15, 0),
        What::Names => Answer::Names(vec!["b".to_owned()]),
    });
    assert!(state.tree().node("/r/b").is_some());
}

/// It had no place when the comparison began, since its deletion had come: no comparison names it.
#[test]
fn a_node_that_is_read_during_a_comparison_is_listed() {
    let mut state = TreeState::new("/r".to_owned(), Scope::default());
    let mut changes = Vec::new();
    state.sweep();
    for job in state.next_batch() {
        let answer = if job.what == What::Data { node("/r", 1, 0) } else { Answer::Names(Vec::new()) };
        state.answered(&job, answer, &mut changes);
    }
    let event = |event_type| WatchedEvent::new(event_type, "/r/a".to_owned());
    state.event(&event(EventType::NodeCreated), state.news(), &mut changes);
    assert_eq!(state.next_batch().len(), 1);
    state.event(&event(EventType::NodeDeleted), state.news(), &mut changes);
    state.forget_reads();
    assert_eq!(state.compared_paths().0, ["/r"]);
    let [job] = &state.next_batch()[..] else { panic!("one read") };
    state.answered(job, node("/r/a", 7, 1), &mut changes);
    state.doubt(["/r"]);
    let jobs = state.next_batch();
    assert!(jobs.iter().any(|job| &*job.path == "/r/a" && job.what == What::Names), "{jobs:?}");
}

/// The node is deleted while it is read, comes back, and is changed while there is no connection.
#[test]
fn an_answer_from_before_an_outage_is_not_the_last_word() {
    in_this_order(&[
        Step::CreateAll(A, false),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::DeleteAll(A, false),
        Step::Receive(ALL),
        Step::Cut(false),
        Step::CreateAll(A, false),
        Step::Send,
        Step::Reconnect,
        Step::Serve(None),
        Step::Receive(ALL),
        Step::Cut(false),
        write(Write::Set(A)),
    ]);
}

/// Of two requests that are tried again, the second is answered before another outage, and the first one after it.
#[test]
fn an_answer_from_before_a_parent_was_replaced_brings_nothing_back() {
    let steps = [
        Step::CreateAll(AA, false),
        Step::Rest,
        Step::Audit,
        Step::Send,
        Step::Send,
        Step::Cut(true),
        Step::Reconnect,
        Step::Serve(None),
        Step::Receive(2),
        Step::Cut(true),
        Step::DeleteAll(ROOT, false),
        Step::CreateAll(ROOT, false),
    ];
    run(Setup { size: 200_000, ..SETUP }, &steps).unwrap();
}

#[test]
fn an_older_absence_of_a_parent_forgets_no_child_that_was_reported() {
    in_this_order(&[
        Step::Rest,
        write(Write::Create(ROOT)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        write(Write::Delete(ROOT)),
        Step::Send,
        Step::Serve(None),
        write(Write::Create(ROOT)),
        write(Write::Create(A)),
        Step::Receive(ALL),
        Step::Answer,
        Step::Send,
        Step::Serve(None),
        write(Write::Create(B)),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn a_replaced_parent_keeps_the_children_that_were_reported() {
    in_this_order(&[
        Step::CreateAll(AA, false),
        Step::Rest,
        Step::Cut(false),
        Step::DeleteAll(ROOT, false),
        write(Write::Create(ROOT)),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sweep,
        Step::Send,
        Step::Serve(None),
        write(Write::Create(A)),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

/// Both events of a transaction come before an answer that shows the new node.
#[test]
fn a_node_that_one_transaction_replaced_is_not_older_than_its_deletion() {
    in_this_order(&[
        Step::CreateAll(A, false),
        Step::Rest,
        write(Write::Set(A)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Replace(A),
        Step::Serve(None),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn a_second_cut_before_the_sweep_forgets_no_split_transaction() {
    in_this_order(&[
        Step::CreateAll(AB, false),
        Step::Rest,
        Step::Replace(AB),
        Step::Receive(1),
        Step::Hear(1),
        Step::Lose,
        Step::Reconnect,
        write(Write::Create(B)),
        Step::Receive(2),
        Step::Cut(false),
    ]);
}

#[test]
fn a_cut_during_the_sweep_forgets_no_split_transaction() {
    in_this_order(&[
        Step::CreateAll(AB, false),
        Step::Rest,
        Step::Replace(AB),
        Step::Receive(1),
        Step::Hear(1),
        Step::Cut(false),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sweep,
        Step::Send,
        write(Write::Create(B)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Cut(false),
    ]);
}

#[test]
fn a_transaction_that_the_cut_splits_leaves_no_complete_list() {
    in_this_order(&[
        Step::CreateAll(AA, false),
        Step::Rest,
        Step::Replace(AA),
        Step::Receive(1),
        Step::Cut(false),
    ]);
}

/// The root is read in one request with its list, which may fail alone.
#[test]
fn a_list_that_is_not_answered_forgets_no_change_of_the_node() {
    in_this_order(&[
        Step::Receive(ALL),
        write(Write::Create(ROOT)),
        Step::Hear(ALL),
        Step::Sweep,
        Step::Send,
        Step::Serve(Some((1, true))),
        write(Write::Set(ROOT)),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

#[test]
fn a_deleted_node_that_cannot_be_read_is_tried_again() {
    in_this_order(&[
        Step::CreateAll(A, false),
        Step::Rest,
        write(Write::Set(A)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        write(Write::Delete(A)),
        Step::Serve(Some((0, false))),
        Step::Receive(ALL),
        Step::Answer,
        Step::Send,
        Step::Serve(Some((0, false))),
        Step::Receive(ALL),
        Step::Answer,
    ]);
}

/// The list of a node fails, and the node is written.
#[test]
fn a_change_does_not_make_a_list_readable() {
    in_this_order(&[
        Step::Lose,
        Step::CreateAll(AA, false),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sweep,
        Step::Send,
        Step::Serve(Some((1, false))),
        Step::Receive(ALL),
        Step::Answer,
        write(Write::Set(ROOT)),
        Step::Rest,
    ]);
}

#[test]
fn an_audit_does_not_doubt_an_absence() {
    in_this_order(&[Step::Rest, Step::Audit, Step::Send, Step::Audit]);
}

#[test]
fn a_broken_rule_is_found() {
    for flaw in [Flaw::LateEvents, Flaw::NoSweep, Flaw::LostDeletions, Flaw::EarlyCheckpoint] {
        // The same cases in every run.
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let config =
            Config { cases: 2_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let result =
            TestRunner::new_with_rng(config, rng).run(&cases(flaw), |(setup, steps)| run(setup, &steps));
        assert!(result.is_err(), "{flaw:?} is not found");
    }
}
