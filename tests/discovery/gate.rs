//! The gate of a registration: a local check takes it out of traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use zk_curator::{ConnectionState, ErrorKind};
use zk_curator_discovery::{PayloadCodec, Registration};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::{idle, past};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{always, closes_clean, once, poll_then_drop, simulated_on, until_state};

use crate::support::{
    ORDERS, discovery, record, registered, registered_again, simulated_each, simulated_with,
    two_in_memory,
};

const EVERY: Duration = Duration::from_secs(5);

/// A check that passes while the flag is set.
fn gated(me: &mut Registration<u32>) -> Arc<AtomicBool> {
    let passes = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&passes);
    me.gate(EVERY, move || {
        let passes = flag.load(Ordering::Relaxed);
        async move { passes }
    });
    passes
}

/// Sets the result of the check, and waits for its effect.
async fn check(passes: &AtomicBool, now: bool) {
    passes.store(now, Ordering::Relaxed);
    past(EVERY * 2).await;
}

fn is_enabled(server: &TestServer) -> bool {
    record(server, "a").enabled
}

#[test]
fn an_instance_is_drained_while_its_check_fails() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let provider = discovery(&zk).provider("orders").start();
        provider.wait_ready(1).await.unwrap();
        let before = server.writes().len();
        let passes = gated(&mut me);
        idle(EVERY * 10).await;
        assert_eq!(server.writes().len(), before, "nothing changes while it passes");
        for _ in 0..3 {
            check(&passes, false).await;
            assert!(!is_enabled(&server) && me.is_gated() && me.is_registered());
            assert!(provider.get().is_err());
            check(&passes, true).await;
            assert!(is_enabled(&server) && !me.is_gated());
            assert!(provider.get().is_ok());
        }
        assert_eq!(server.writes().len(), before + 6);
        me.unregister().await.unwrap();
        drop(provider);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn an_instance_that_was_drained_by_hand_stays_drained() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let passes = gated(&mut me);
        // Before the check fails, and while it fails.
        me.drain().await.unwrap();
        check(&passes, false).await;
        check(&passes, true).await;
        assert!(!is_enabled(&server));
        me.resume().await.unwrap();
        assert!(is_enabled(&server));
        check(&passes, false).await;
        me.drain().await.unwrap();
        check(&passes, true).await;
        assert!(!is_enabled(&server) && !me.is_gated());
        // Resumed while it fails, it is back when the check passes.
        check(&passes, false).await;
        me.resume().await.unwrap();
        assert!(!is_enabled(&server) && me.is_gated());
        check(&passes, true).await;
        assert!(is_enabled(&server));
    });
}

#[test]
fn updates_do_not_see_the_gate() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let passes = gated(&mut me);
        check(&passes, false).await;
        me.update(|instance| {
            assert!(instance.enabled);
            instance.payload = 7;
        })
        .await
        .unwrap();
        me.touch().await.unwrap();
        assert!(!is_enabled(&server) && record(&server, "a").payload == 7);
        check(&passes, true).await;
        assert!(is_enabled(&server) && record(&server, "a").payload == 7);
    });
}

#[test]
fn an_operator_overrules_the_gate() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let passes = gated(&mut me);
        check(&passes, false).await;
        let path = me.path();
        let data = zk.get_data(path.as_str()).await.unwrap();
        let forced = String::from_utf8(data.to_vec()).unwrap().replace(",\"enabled\":false", "");
        zk.set_data(path.as_str(), forced).await.unwrap();
        idle(EVERY * 3).await;
        assert!(is_enabled(&server), "it is not written again");
        me.update(|instance| instance.payload = 7).await.unwrap();
        assert!(is_enabled(&server));
        check(&passes, true).await;
        assert!(is_enabled(&server));
        check(&passes, false).await;
        assert!(!is_enabled(&server), "the check fails again");
    });
}

#[test]
fn a_check_that_hangs_has_failed() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        me.gate(EVERY, std::future::pending::<bool>);
        past(EVERY * 2).await;
        assert!(!is_enabled(&server));
        // Another check replaces it, and its effect.
        let passes = gated(&mut me);
        check(&passes, true).await;
        assert!(is_enabled(&server));
        check(&passes, false).await;
        assert!(!is_enabled(&server));
        me.ungate().await.unwrap();
        assert!(is_enabled(&server) && !me.is_gated());
        idle(EVERY * 3).await;
        assert!(is_enabled(&server));
    });
}

#[test]
fn the_gate_ends_with_the_registration() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let checks = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&checks);
        me.gate(EVERY, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async { false }
        });
        past(EVERY * 2).await;
        me.unregister().await.unwrap();
        let before = checks.load(Ordering::Relaxed);
        idle(EVERY * 10).await;
        assert_eq!(checks.load(Ordering::Relaxed), before);
        assert!(me.ungate().await.is_err());
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn the_gate_is_that_of_the_next_session() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let passes = gated(&mut me);
        check(&passes, false).await;
        registered_again(&server, &zk, &me).await;
        assert!(!is_enabled(&server));
        check(&passes, true).await;
        assert!(is_enabled(&server));
    });
}

#[test]
fn the_latest_result_is_written_when_there_is_a_connection() {
    for passes_again in [false, true] {
        simulated_with(async |server, zk| {
            let mut me = registered(&zk, "a").await;
            let passes = gated(&mut me);
            let brief = Verdict::Delay(Duration::from_millis(1));
            let written = always(&server, OpCode::SetData, brief);
            server.partition();
            until_state(&zk, ConnectionState::Suspended).await;
            check(&passes, false).await;
            if passes_again {
                check(&passes, true).await;
            }
            server.heal();
            me.registered().await.unwrap();
            past(EVERY * 12).await;
            assert_eq!(is_enabled(&server), passes_again);
            assert_eq!(me.is_gated(), !passes_again);
            assert_eq!(written.hits(), u64::from(!passes_again));
            check(&passes, true).await;
            assert!(is_enabled(&server));
        });
    }
}

#[test]
fn moves_with_lost_responses_are_done() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let mut me = registered(&zk, "a").await;
        let passes = gated(&mut me);
        for now in [false, true] {
            let rule = once(&server, OpCode::SetData, verdict);
            check(&passes, now).await;
            past(EVERY * 4).await;
            assert_eq!(rule.hits(), 1);
            assert_eq!(is_enabled(&server), now, "{verdict:?}");
        }
    });
}

#[test]
fn refused_moves_are_reported_and_repeated() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let mut errors = zk.background_errors();
        let passes = gated(&mut me);
        let rule = always(&server, OpCode::SetData, Verdict::Refuse(ErrorCode::NoAuth));
        check(&passes, false).await;
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        assert!(is_enabled(&server) && !me.is_gated());
        drop(rule);
        past(EVERY * 3).await;
        assert!(!is_enabled(&server) && me.is_gated());
    });
}

/// A move with every check would be refused 720 times.
#[test]
fn refused_moves_are_repeated_ever_more_slowly() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let mut errors = zk.background_errors();
        let passes = gated(&mut me);
        let rule = always(&server, OpCode::SetData, Verdict::Refuse(ErrorCode::NoAuth));
        check(&passes, false).await;
        idle(Duration::from_secs(3600)).await;
        assert!((60..300).contains(&rule.hits()), "{}", rule.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        drop(rule);
        past(EVERY * 10).await;
        assert!(!is_enabled(&server) && me.is_gated());
    });
}

#[test]
fn a_check_that_panics_has_failed() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let mut errors = zk.background_errors();
        me.gate(EVERY, async || panic!("a check that panics"));
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::BodyFailed);
        past(EVERY * 10).await;
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        assert!(!is_enabled(&server) && me.is_gated() && me.is_registered());
        let passes = gated(&mut me);
        check(&passes, true).await;
        assert!(is_enabled(&server) && !me.is_gated());
    });
}

/// A move of the old gate is under way when the new one begins. The result of the new one counts.
#[test]
fn a_new_gate_corrects_the_move_of_the_old_one() {
    for (before, now) in [(false, true), (true, false)] {
        simulated_with(async |server, zk| {
            let mut me = registered(&zk, "a").await;
            let old = gated(&mut me);
            if before {
                check(&old, false).await;
            }
            server.partition();
            until_state(&zk, ConnectionState::Suspended).await;
            if before {
                poll_then_drop(me.ungate(), 1).await;
            } else {
                check(&old, false).await;
            }
            me.gate(EVERY, move || async move { now });
            past(EVERY * 2).await;
            server.heal();
            me.registered().await.unwrap();
            past(EVERY * 12).await;
            assert_eq!((is_enabled(&server), me.is_gated()), (now, !now));
        });
    }
}

/// The response is lost, and another client writes before the gate looks again.
#[test]
fn a_move_that_others_have_written_over_is_no_wish_of_the_user() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut me = registered(&zk, "a").await;
        let passes = gated(&mut me);
        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        passes.store(false, Ordering::Relaxed);
        lost.fired().await;
        let path = format!("{ORDERS}/a");
        let mut edited = record(&server, "a");
        assert!(!edited.enabled);
        edited.payload = 77;
        let data = zk_curator_discovery::json::write(
            &edited,
            &PayloadCodec::map(),
            zk_curator_discovery::json::JsonMode::Compatible,
        );
        other.set_data(path, data.unwrap()).await.unwrap();
        past(EVERY * 4).await;
        assert!(!is_enabled(&server) && me.is_gated());
        check(&passes, true).await;
        assert!(is_enabled(&server) && !me.is_gated());
        assert_eq!(record(&server, "a").payload, 77);
    });
}
