//! The targets, each for as long as an ordinary test may take.

use std::sync::{Mutex, PoisonError};

#[path = "../../../fuzz/targets/flw.rs"]
mod flw;
#[path = "../../../fuzz/targets/history_log.rs"]
mod history_log;
#[path = "../../../fuzz/targets/history_record.rs"]
mod history_record;
#[path = "../../../fuzz/targets/history_snapshot.rs"]
mod history_snapshot;
#[path = "../../../fuzz/targets/mutation.rs"]
mod mutation;

/// Each test holds this lock, because allocations of other tests would be counted, too.
static ALONE: Mutex<()> = Mutex::new(());

fn fuzz(name: &str, inputs: u64, target: fn(&[u8])) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    mutation::for_each_input(name, inputs, target);
}

#[test]
fn no_bytes_make_a_parser_of_words_panic() {
    fuzz("flw", 5_000, flw::run);
}

#[test]
fn no_bytes_make_a_transaction_panic_or_take_memory() {
    fuzz("history_record", 20_000, history_record::run);
}

#[test]
fn no_bytes_make_a_log_panic_or_take_memory() {
    fuzz("history_log", 1_000, history_log::run);
}

#[test]
fn no_bytes_make_a_snapshot_panic_or_take_memory() {
    fuzz("history_snapshot", 1_000, history_snapshot::run);
}
