//! The state of a cache compared with a model of a server, in every order of events and responses
//! that the wire allows.

mod callers;
mod checks;
mod listings;
mod model;
mod orders;
mod pace;
mod server;
mod setup;
mod subscribers;
mod wants;
mod wire;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use model::run;
use server::{BELOW, Write};
use setup::{Fault, Flaw, Setup, Step};

fn writes() -> impl Strategy<Value = Write> {
    let path = 0..BELOW.len();
    prop_oneof![
        4 => path.clone().prop_map(Write::Create),
        2 => path.clone().prop_map(Write::Set),
        2 => path.prop_map(Write::Delete),
    ]
}

fn faults() -> impl Strategy<Value = Fault> {
    prop_oneof![Just(Fault::Lost), Just(Fault::Refused), Just(Fault::NoAuth), Just(Fault::Broken)]
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
            1 => (any::<usize>(), faults()).prop_map(Some),
        ].prop_map(Step::Serve),
        6 => (1_usize..6).prop_map(Step::Receive),
        3 => (1_usize..4).prop_map(Step::Hear),
        6 => Just(Step::Answer),
        1 => any::<bool>().prop_map(Step::Cut),
        3 => Just(Step::Reconnect),
        1 => Just(Step::Lose),
        2 => Just(Step::Sweep),
        1 => Just(Step::Audit),
        1 => (0..BELOW.len()).prop_map(Step::Refresh),
        1 => Just(Step::Retry),
        4 => Just(Step::TakeOutcome),
        1 => Just(Step::Ping),
        1 => Just(Step::WriteElsewhere),
        6 => Just(Step::Turn),
        2 => Just(Step::Sync),
        1 => Just(Step::Check),
        1 => any::<usize>().prop_map(Step::GiveUp),
        1 => any::<bool>().prop_map(Step::Prove),
        2 => Just(Step::Rest),
    ]
}

fn setups(flaw: Flaw) -> impl Strategy<Value = Setup> {
    let max_depth =
        prop_oneof![5 => Just(None), 1 => Just(Some(0)), 1 => Just(Some(1)), 1 => Just(Some(2))];
    let sizes = prop_oneof![Just(0), Just(200_000), Just(300_000)];
    let is_persistent = prop::bool::weighted(0.75);
    let most_bytes = prop_oneof![Just(1), Just(2 << 20), Just(usize::MAX)];
    let at_a_time = prop_oneof![Just(1), Just(3), Just(1_000)];
    let filters = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let reconnects = any::<(bool, bool)>();
    (
        any::<(bool, bool)>(),
        (is_persistent, reconnects),
        max_depth,
        filters,
        (sizes, most_bytes, at_a_time),
    )
        .prop_map(
            move |((is_everything, tells_zxids), connection, max_depth, filters, sizes)| Setup {
                root: if is_everything { "/" } else { "/r" },
                max_depth,
                is_filtered: filters.0,
                is_kept_in_part: filters.1,
                most_bytes: sizes.1,
                at_a_time: sizes.2,
                tells_zxids,
                is_persistent: connection.0,
                asks_quorum: connection.1.0,
                tells_unchanged: connection.1.1,
                size: sizes.0,
                flaw,
            },
        )
}

fn cases(flaw: Flaw) -> impl Strategy<Value = (Setup, Vec<Step>)> {
    (setups(flaw), prop::collection::vec(steps(), 0..120))
}

// `PROPTEST_CASES` replaces the number of cases.
proptest! {
    #![proptest_config(Config { cases: 150, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_order_of_events_and_reads_ends_in_the_servers_state((setup, steps) in cases(Flaw::None)) {
        run(setup, &steps)?;
    }
}

#[test]
fn a_broken_rule_is_found() {
    for flaw in [
        Flaw::LateEvents,
        Flaw::NoSweep,
        Flaw::LostDeletions,
        Flaw::EarlyCheckpoint,
        Flaw::EarlyBarrier,
        Flaw::EarlyRefresh,
        Flaw::UncountedEvents,
    ] {
        // The same cases in every run.
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let config = Config {
            cases: 2_000,
            failure_persistence: None,
            max_shrink_iters: 0,
            ..Config::default()
        };
        let result = TestRunner::new_with_rng(config, rng)
            .run(&cases(flaw), |(setup, steps)| run(setup, &steps));
        assert!(result.is_err(), "{flaw:?} is not found");
    }
}
