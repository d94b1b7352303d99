//! Orders of events and responses that once led to a state different from the server's.

use super::model::run;
use super::server::Write;
use super::setup::{Fault, Flaw, Setup, Step};

/// Plays an order of steps on a tree with everything in its scope, on servers whose events contain
/// zxids and on others.
pub(super) fn in_this_order(steps: &str) {
    let steps = script(steps);
    for (tells_zxids, is_persistent) in [(true, true), (true, false), (false, true), (false, false)]
    {
        let setup = Setup { tells_zxids, is_persistent, ..SETUP };
        run(setup, &steps).unwrap();
    }
}

/// Returns the steps of a text: `create root; rest; serve refused 0; receive 2`. A step without a
/// number takes all that there is.
fn script(text: &str) -> Vec<Step> {
    let steps = text.split(';').map(|step| step.split_whitespace().collect::<Vec<_>>());
    steps.map(|words| step(&words)).collect()
}

fn step(words: &[&str]) -> Step {
    let path =
        |name: &str| ["root", "a", "b", "c", "aa", "ab"].iter().position(|path| *path == name);
    let path = |name: &str| path(name).unwrap_or_else(|| panic!("no path {name}"));
    let write = |write| Step::Write(vec![write], false);
    let number = |text: &str| text.parse().unwrap();
    match *words {
        ["create", name] => write(Write::Create(path(name))),
        ["set", name] => write(Write::Set(path(name))),
        ["delete", name] => write(Write::Delete(path(name))),
        ["create", "all", name] => Step::CreateAll(path(name), false),
        ["delete", "all", name] => Step::DeleteAll(path(name), false),
        ["write", "elsewhere"] => Step::WriteElsewhere,
        ["replace", name] => Step::Replace(path(name)),
        ["refresh", name] => Step::Refresh(path(name)),
        ["send"] => Step::Send,
        ["serve"] => Step::Serve(None),
        ["serve", "lost", read] => Step::Serve(Some((number(read), Fault::Lost))),
        ["serve", "refused", read] => Step::Serve(Some((number(read), Fault::Refused))),
        ["serve", "noauth", read] => Step::Serve(Some((number(read), Fault::NoAuth))),
        ["receive"] => Step::Receive(usize::MAX),
        ["receive", count] => Step::Receive(number(count)),
        ["hear"] => Step::Hear(usize::MAX),
        ["hear", count] => Step::Hear(number(count)),
        ["answer"] => Step::Answer,
        ["take", "outcome"] => Step::TakeOutcome,
        ["cut"] => Step::Cut(false),
        ["cut", "retried"] => Step::Cut(true),
        ["reconnect"] => Step::Reconnect,
        ["lose"] => Step::Lose,
        ["rest"] => Step::Rest,
        ["sweep"] => Step::Sweep,
        ["audit"] => Step::Audit,
        ["retry"] => Step::Retry,
        ["turn"] => Step::Turn,
        ["sync"] => Step::Sync,
        ["check"] => Step::Check,
        ["ping"] => Step::Ping,
        _ => panic!("no step {words:?}"),
    }
}

/// Everything in the scope, on a present server, in large requests.
pub(super) const SETUP: Setup = Setup {
    root: "/r",
    max_depth: None,
    is_filtered: false,
    is_kept_in_part: false,
    most_bytes: usize::MAX,
    at_a_time: 1_000,
    tells_zxids: true,
    is_persistent: true,
    asks_quorum: false,
    tells_unchanged: false,
    size: 0,
    flaw: Flaw::None,
};

#[test]
fn a_parent_that_an_event_of_its_child_names_is_read() {
    in_this_order(
        "lose; create root; create a; reconnect; receive; hear; sweep; send; serve; create aa; \
         receive; answer",
    );
}

#[test]
fn a_change_of_an_unknown_node_does_not_report_its_children() {
    in_this_order(
        "lose; create all aa; reconnect; receive; hear; sweep; send; serve; set a; receive; \
         answer; send; serve; create ab; receive; answer",
    );
}

#[test]
fn a_read_from_before_a_creation_removes_nothing_below_it() {
    in_this_order(
        "create root; rest; create a; receive; hear; send; delete a; serve; create all aa; \
         receive; answer; send; serve; create ab; receive; answer",
    );
}

#[test]
fn a_child_that_was_missed_is_not_hidden_by_a_later_one() {
    in_this_order(
        "create root; rest; cut; create a; reconnect; create c; receive; hear; send; serve; \
         receive; answer",
    );
}

#[test]
fn a_parent_that_is_read_before_the_sweep_is_listed() {
    in_this_order(
        "rest; create root; create a; receive; hear; send; lose; delete all root; create root; \
         create b; reconnect; receive; hear; send; serve; receive; answer",
    );
}

/// The node is deleted while it is read, comes back, and is changed while there is no connection.
#[test]
fn a_read_from_before_an_outage_is_not_final() {
    in_this_order(
        "create all a; receive; hear; delete all a; receive; cut; create all a; send; \
         reconnect; serve; receive; cut; set a",
    );
}

/// Of two requests that are tried again, the second has its response before another outage, and the
/// first one after it.
#[test]
fn a_read_from_before_a_replaced_parent_restores_nothing() {
    let steps = script(
        "create all aa; rest; audit; send; send; cut retried; reconnect; serve; receive 2; \
         cut retried; delete all root; create all root",
    );
    run(Setup { size: 200_000, ..SETUP }, &steps).unwrap();
}

#[test]
fn an_older_absence_of_a_parent_forgets_no_reported_child() {
    in_this_order(
        "rest; create root; receive; hear; delete root; send; serve; create root; create a; \
         receive; answer; send; serve; create b; receive; answer",
    );
}

#[test]
fn a_replaced_parent_keeps_the_children_that_were_reported() {
    in_this_order(
        "create all aa; rest; cut; delete all root; create root; reconnect; receive; hear; \
         sweep; send; serve; create a; receive; answer",
    );
}

/// Both events of a transaction come before a response that shows the new node.
#[test]
fn a_node_replaced_in_one_transaction_is_as_new_as_its_deletion() {
    in_this_order(
        "create all a; rest; set a; receive; hear; send; replace a; serve; receive; answer",
    );
}

#[test]
fn a_second_cut_before_the_sweep_forgets_no_split_transaction() {
    in_this_order(
        "create all ab; rest; replace ab; receive 1; hear 1; lose; reconnect; create b; \
         receive 2; cut",
    );
}

#[test]
fn a_cut_during_the_sweep_forgets_no_split_transaction() {
    in_this_order(
        "create all ab; rest; replace ab; receive 1; hear 1; cut; reconnect; receive; hear; \
         sweep; send; create b; receive; hear; cut",
    );
}

#[test]
fn a_transaction_that_the_cut_splits_leaves_no_complete_list() {
    in_this_order("create all aa; rest; replace aa; receive 1; cut");
}

/// The root is read in one request with its list, which may fail alone.
#[test]
fn a_failed_list_forgets_no_change_of_the_node() {
    in_this_order(
        "receive; create root; hear; sweep; send; serve lost 1; set root; receive; answer",
    );
}

#[test]
fn a_deleted_node_that_cannot_be_read_is_tried_again() {
    in_this_order(
        "create all a; rest; set a; receive; hear; send; delete a; serve noauth 0; receive; \
         answer; send; serve noauth 0; receive; answer",
    );
}

/// The list of a node fails, and the node is written.
#[test]
fn a_change_does_not_make_a_list_readable() {
    in_this_order(
        "lose; create all aa; reconnect; receive; hear; sweep; send; serve noauth 1; receive; \
         answer; set root; rest",
    );
}

#[test]
fn an_audit_does_not_doubt_an_absence() {
    in_this_order("rest; audit; send; audit");
}

/// An older checkpoint is reached while a later read is refused.
#[test]
fn a_refused_read_holds_back_the_checkpoint_before_it() {
    let steps = "create all a; create all b; rest; set a; receive; hear; send; turn; set b; receive; \
         hear; send; serve; serve refused 0; receive; answer; answer; turn";
    in_this_order(steps);
    let broken = run(Setup { flaw: Flaw::RefusedIsRead, ..SETUP }, &script(steps));
    assert!(broken.is_err());
}

/// A session that visits one place at a time, asks a quorum after a lost event, and learns that
/// nothing has happened.
const SLOW: Setup = Setup { at_a_time: 1, asks_quorum: true, tells_unchanged: true, ..SETUP };

/// An event comes, then a response that is not one of the cache, and the connection is lost. The
/// next connection shows that nothing has happened since.
const BLIP: &str = "create b; receive; hear; ping; receive; cut; hear; reconnect";

#[test]
fn an_outage_without_changes_ends_no_sweep() {
    let sweep = "create all a; rest; cut; set a; reconnect; receive; hear; sweep";
    run(SLOW, &script(&format!("{sweep}; {BLIP}"))).unwrap();
}

#[test]
fn an_outage_without_changes_ends_no_refresh() {
    let steps = script(&format!("create all a; rest; refresh root; send; {BLIP}"));
    run(SLOW, &steps).unwrap();
    assert!(run(Setup { flaw: Flaw::UntoldOutage, ..SLOW }, &steps).is_err());
}

/// The watch of a read fires before the cache knows it, and a checkpoint begins in between.
#[test]
fn a_watch_that_fired_early_belongs_to_earlier_checkpoints() {
    let steps = script(
        "create all a; rest; set a; receive; hear; send; serve; set a; ping; receive; turn; \
         answer; turn",
    );
    let single = Setup { is_persistent: false, ..SETUP };
    run(single, &steps).unwrap();
    assert!(run(Setup { flaw: Flaw::LateWatches, ..single }, &steps).is_err());
}

/// The connection is lost while a quorum is asked for a caller.
#[test]
fn a_caller_outlives_an_outage_while_a_quorum_is_asked() {
    let steps = script("create all a; rest; lose; reconnect; receive; hear; sync; send; cut; hear");
    run(SLOW, &steps).unwrap();
}
