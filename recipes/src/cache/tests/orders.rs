//! Orders of events and responses that once led to a state different from the server's.

use super::model::run;
use super::server::Write;
use super::setup::{Fault, Flaw, Setup, Step};

/// An order of steps on a tree with everything in its scope, on servers whose events contain zxids
/// and on others.
pub(super) fn in_this_order(steps: &[Step]) {
    for (tells_zxids, is_persistent) in [(true, true), (true, false), (false, true), (false, false)]
    {
        let setup = Setup { tells_zxids, is_persistent, ..SETUP };
        run(setup, steps).unwrap();
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

pub(super) fn write(write: Write) -> Step {
    Step::Write(vec![write], false)
}

const ALL: usize = usize::MAX;
/// The numbers of the paths in the cases below.
pub(super) const ROOT: usize = 0;
const A: usize = 1;
const B: usize = 2;
pub(super) const C: usize = 3;
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

/// Of two requests that are tried again, the second is answered before another outage, and the
/// first one after it.
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

/// Both events of a transaction come before a response that shows the new node.
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
        Step::Serve(Some((1, Fault::Lost))),
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
        Step::Serve(Some((0, Fault::NoAuth))),
        Step::Receive(ALL),
        Step::Answer,
        Step::Send,
        Step::Serve(Some((0, Fault::NoAuth))),
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
        Step::Serve(Some((1, Fault::NoAuth))),
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

/// An older checkpoint is reached while a later read is refused.
#[test]
fn a_refused_read_holds_back_the_checkpoint_before_it() {
    let steps = [
        Step::CreateAll(A, false),
        Step::CreateAll(B, false),
        Step::Rest,
        write(Write::Set(A)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Turn,
        write(Write::Set(B)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Serve(None),
        Step::Serve(Some((0, Fault::Refused))),
        Step::Receive(ALL),
        Step::Answer,
        Step::Answer,
        Step::Turn,
    ];
    in_this_order(&steps);
    let broken = run(Setup { flaw: Flaw::RefusedIsRead, ..SETUP }, &steps);
    assert!(broken.is_err());
}

/// A session that visits one place at a time, asks a quorum after a lost event, and learns that
/// nothing has happened.
const SLOW: Setup = Setup { at_a_time: 1, asks_quorum: true, tells_unchanged: true, ..SETUP };

/// An event comes, then a response that is not one of the cache, and the connection is lost. The
/// next connection shows that nothing has happened since.
fn blip() -> [Step; 8] {
    [
        write(Write::Create(B)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Ping,
        Step::Receive(ALL),
        Step::Cut(false),
        Step::Hear(ALL),
        Step::Reconnect,
    ]
}

#[test]
fn an_outage_without_changes_ends_no_sweep() {
    let sweep = [
        Step::CreateAll(A, false),
        Step::Rest,
        Step::Cut(false),
        write(Write::Set(A)),
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sweep,
    ];
    run(SLOW, &[&sweep[..], &blip()].concat()).unwrap();
}

#[test]
fn an_outage_without_changes_ends_no_refresh() {
    let refresh = [Step::CreateAll(A, false), Step::Rest, Step::Refresh(ROOT), Step::Send];
    let steps = [&refresh[..], &blip()].concat();
    run(SLOW, &steps).unwrap();
    assert!(run(Setup { flaw: Flaw::UntoldOutage, ..SLOW }, &steps).is_err());
}

/// The watch of a read fires before the cache knows it, and a checkpoint begins in between.
#[test]
fn a_watch_that_fired_early_belongs_to_earlier_checkpoints() {
    let steps = [
        Step::CreateAll(A, false),
        Step::Rest,
        write(Write::Set(A)),
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Send,
        Step::Serve(None),
        write(Write::Set(A)),
        Step::Ping,
        Step::Receive(ALL),
        Step::Turn,
        Step::Answer,
        Step::Turn,
    ];
    let single = Setup { is_persistent: false, ..SETUP };
    run(single, &steps).unwrap();
    assert!(run(Setup { flaw: Flaw::LateWatches, ..single }, &steps).is_err());
}

/// The connection is lost while a quorum is asked for a caller.
#[test]
fn a_caller_outlives_an_outage_while_a_quorum_is_asked() {
    let steps = [
        Step::CreateAll(A, false),
        Step::Rest,
        Step::Lose,
        Step::Reconnect,
        Step::Receive(ALL),
        Step::Hear(ALL),
        Step::Sync,
        Step::Send,
        Step::Cut(false),
        Step::Hear(ALL),
    ];
    run(SLOW, &steps).unwrap();
}
