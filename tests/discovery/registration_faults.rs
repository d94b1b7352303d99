//! Registrations whose requests or responses are lost.

use std::time::Duration;

use futures_util::FutureExt;
use zk_curator::{ConnectionState, ErrorKind};
use zk_curator_discovery::{RegistrationError, RegistrationState, ServiceInstance, ServiceType};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{RuleRequest, Verdict};
use zk_curator_tests::{
    all_close_clean, assert_matches, closes_clean, cut_at_next_write, expire, is_write_multi, once,
    poll_then_drop, rule_if, simulated_on, until_state,
};

use crate::support::{
    ORDERS, discovery, instance, record, registered, registered_again, simulated_each,
    simulated_with, state, two_in_memory,
};

const NODE: &str = "/services/orders/a";
const LOST: [Verdict; 2] = [Verdict::LoseReply, Verdict::LoseRequest];

fn creates_instance(request: &RuleRequest<'_>) -> bool {
    request.is_create_under(ORDERS)
}

#[test]
fn a_create_without_a_response_is_done_once() {
    let kinds = [ServiceType::Dynamic, ServiceType::DynamicSequential, ServiceType::Permanent];
    let cases = kinds.into_iter().flat_map(|kind| LOST.map(|verdict| (kind.clone(), verdict)));
    simulated_each(cases, async |(kind, verdict), server, zk| {
        let rule = rule_if(&server, creates_instance, verdict).times(1);
        let mut lost = instance("a");
        lost.service_type = kind.clone();
        let mut me = discovery(&zk).register(lost).await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert_eq!(server.probe().children(ORDERS).len(), 1, "{kind} {verdict:?}");
        me.unregister().await.unwrap();
        assert_eq!(server.probe().children(ORDERS), [""; 0], "{kind} {verdict:?}");
        closes_clean(&server, &zk).await;
    });
}

/// The handle may be gone, so no caller learns of it. An attempt every 500 ms would be refused
/// 7,200 times.
#[test]
fn a_refused_end_is_repeated_ever_more_slowly() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let mut errors = zk.background_errors();
        let verdict = Verdict::Refuse(ErrorCode::NoAuth);
        let refused = rule_if(&server, |request| request.is_delete(), verdict);
        let RegistrationError::Framework(error) = me.unregister().await.unwrap_err() else {
            panic!("not refused")
        };
        assert_eq!(error.kind(), ErrorKind::NoAuth);
        drop(me);
        idle(Duration::from_secs(3600)).await;
        assert!((120..400).contains(&refused.hits()), "{}", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        drop(refused);
        idle(Duration::from_secs(60)).await;
        assert!(!server.probe().exists(NODE));
    });
}

/// A create that waits for its next attempt would bring the instance back.
#[test]
fn a_dropped_registration_creates_nothing_later() {
    simulated_with(async |server, zk| {
        let me = registered(&zk, "a").await;
        let refused = rule_if(&server, creates_instance, Verdict::Refuse(ErrorCode::Throttled));
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        refused.fired().await;
        drop(me);
        drop(refused);
        let before = server.writes().len();
        idle(Duration::from_secs(60)).await;
        let added: Vec<_> = server.writes().split_off(before);
        assert!(added.iter().all(|write| write.path != NODE), "{added:?}");
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_replacement_without_a_response_is_done_once() {
    for verdict in LOST {
        simulated_on(two_in_memory, async |(server, zk, other)| {
            let old = registered(&zk, "a").await;
            let rule = rule_if(&server, is_write_multi, verdict).times(1);
            let new = registered(&other, "a").await;
            assert_eq!(rule.hits(), 1);
            state(&old, |state| matches!(state, RegistrationState::Superseded { .. })).await;
            let before = server.writes().len();
            idle(Duration::from_secs(120)).await;
            assert_eq!(server.writes().len(), before, "{verdict:?}");
            assert!(new.is_registered());
            drop((old, new));
            all_close_clean(&server, [&zk, &other]).await;
        });
    }
}

/// Another process replaces the node between the loss and the read.
#[test]
fn a_session_that_ends_with_a_lost_replacement_leaves_one_node() {
    for verdict in LOST {
        simulated_on(two_in_memory, async |(server, zk, other)| {
            let old = registered(&zk, "a").await;
            let cut = cut_at_next_write(&server, &other, verdict);
            let registering = discovery(&other);
            let (new, ()) = tokio::join!(registering.register(instance("a")), async {
                until_state(&other, ConnectionState::Suspended).await;
                expire(&server, &other).await;
                drop(cut);
            });
            // Either the new one is registered, or the old one was registered again first.
            let owners = server.probe().children(ORDERS).len();
            assert_eq!(owners, 1, "{verdict:?} {new:?} {old:?}");
            drop((old, new));
            all_close_clean(&server, [&zk, &other]).await;
        });
    }
}

/// With every response of the deletion lost.
#[test]
fn unregister_with_a_lost_response_succeeds() {
    simulated_each(LOST, async |verdict, server, zk| {
        let mut me = registered(&zk, "a").await;
        let rule = once(&server, OpCode::Delete, verdict);
        me.unregister().await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert!(!server.probe().exists(NODE));
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn unregister_without_a_connection_is_done_later() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert!(me.unregister().await.is_err());
        server.heal();
        me.unregister().await.unwrap();
        assert!(!server.probe().exists(NODE));
        closes_clean(&server, &zk).await;
    });
}

/// By our clock the session is over, but the server does not know this.
#[test]
fn unregister_after_a_lost_session_deletes_the_old_node() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        server.partition();
        state(&me, |state| matches!(state, RegistrationState::Lost)).await;
        assert!(server.probe().exists(NODE));
        server.heal();
        me.unregister().await.unwrap();
        assert!(!server.probe().exists(NODE));
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn updates_with_lost_responses_are_applied_once() {
    simulated_each(LOST, async |verdict, server, zk| {
        let mut me = registered(&zk, "a").await;
        let rule = once(&server, OpCode::SetData, verdict);
        me.update(|instance| instance.payload += 1).await.unwrap();
        assert_eq!(rule.hits(), 1);
        assert_eq!(record(&server, "a").payload, 2, "{verdict:?}");
        drop(me);
        closes_clean(&server, &zk).await;
    });
}

/// Another client writes between the lost response and the next read.
#[test]
fn an_update_that_may_have_been_applied_is_not_repeated() {
    let plus = |instance: &mut ServiceInstance<u32>| instance.payload += 1;
    let set = |instance: &mut ServiceInstance<u32>| instance.port = Some(1);
    type Edit = fn(&mut ServiceInstance<u32>);
    // The edit, the payload in the end, and whether the outcome is known.
    let cases: [(Verdict, Edit, u32, bool); 4] = [
        (Verdict::LoseRequest, plus, 12, true),
        (Verdict::LoseReply, plus, 12, false),
        (Verdict::LoseRequest, set, 11, true),
        // The other client has kept it.
        (Verdict::LoseReply, set, 11, true),
    ];
    for (verdict, edit, payload, is_known) in cases {
        simulated_on(two_in_memory, async |(server, zk, operator)| {
            let mut me = registered(&zk, "a").await;
            let lost = once(&server, OpCode::SetData, verdict);
            let (updated, ()) = tokio::join!(me.update(edit), async {
                lost.fired().await;
                drop(lost);
                let (data, stat) =
                    operator.get_data(NODE).with_stat().linearizable().await.unwrap();
                let data = String::from_utf8(data.to_vec()).unwrap();
                let more = data.replace("\"payload\":1", "\"payload\":11");
                let more = more.replace("\"payload\":2", "\"payload\":12");
                operator.set_data(NODE, more).version(stat.version).await.unwrap();
            });
            match updated {
                Ok(()) => assert!(is_known, "{verdict:?}"),
                Err(RegistrationError::Framework(error)) => {
                    assert!(!is_known && error.may_have_applied(), "{verdict:?} {error:?}");
                }
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(record(&server, "a").payload, payload, "{verdict:?}");
            me.drain().await.unwrap();
            assert!(!record(&server, "a").enabled);
            drop(me);
            all_close_clean(&server, [&zk, &operator]).await;
        });
    }
}

/// The next session registers the data of the last successful update.
#[test]
fn an_update_survives_the_loss_of_its_session() {
    simulated_each(LOST, async |verdict, server, zk| {
        let mut me = registered(&zk, "a").await;
        let cut = cut_at_next_write(&server, &zk, verdict);
        let ((), updated) = tokio::join!(
            async {
                until_state(&zk, ConnectionState::Suspended).await;
                expire(&server, &zk).await;
                drop(cut);
            },
            me.update(|instance| instance.payload += 1)
        );
        updated.unwrap();
        assert_eq!(record(&server, "a").payload, 2, "{verdict:?}");
        assert!(me.is_registered());
        drop(me);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_refused_update_changes_nothing() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let rule = once(&server, OpCode::SetData, Verdict::Refuse(ErrorCode::NoAuth));
        assert!(me.update(|instance| instance.payload = 9).await.is_err());
        drop(rule);
        assert_eq!(record(&server, "a").payload, 1);
        registered_again(&server, &zk, &me).await;
        assert_eq!(record(&server, "a").payload, 1);
        // A repetition succeeds.
        me.update(|instance| instance.payload = 9).await.unwrap();
        assert_eq!(record(&server, "a").payload, 9);
    });
}

/// Another process replaces the node while an update is in flight. The update is not written to the
/// new node, because its version differs.
#[test]
fn a_late_update_does_not_reach_another_node() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut old = registered(&zk, "a").await;
        let delayed = once(&server, OpCode::SetData, Verdict::Delay(Duration::from_secs(2)));
        let late = tokio::spawn(async move { old.update(|instance| instance.payload = 9).await });
        delayed.fired().await;
        let new = registered(&other, "a").await;
        assert!(late.await.unwrap().is_err());
        idle(Duration::from_secs(10)).await;
        assert_eq!(record(&server, "a").payload, 1);
        assert!(new.is_registered());
        drop(new);
        all_close_clean(&server, [&zk, &other]).await;
    });
}

#[test]
fn an_edit_that_panics_fails_the_update_and_nothing_else() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        let error = me.update(|_| panic!("an edit that panics")).await.unwrap_err();
        let RegistrationError::Framework(error) = error else { panic!("{error}") };
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidArgument, NODE));
        me.update(|instance| instance.payload = 5).await.unwrap();
        assert_eq!(record(&server, "a").payload, 5);
        me.unregister().await.unwrap();
        assert!(!server.probe().exists(NODE));
        closes_clean(&server, &zk).await;
    });
}

fn permanent() -> ServiceInstance<u32> {
    let mut instance = instance("a");
    instance.service_type = ServiceType::Permanent;
    instance
}

/// Nothing else deletes the node, so it must not be taken for deleted.
#[test]
fn a_permanent_instance_that_was_not_deleted_says_so() {
    simulated_with(async |server, zk| {
        let mut me = discovery(&zk).register(permanent()).await.unwrap();
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert!(me.unregister().await.is_err());
        let (closed, unregistered) = tokio::join!(zk.close(), me.unregister());
        drop(closed);
        let error = unregistered.unwrap_err();
        assert!(server.probe().exists(NODE), "{error}");
        assert_matches!(me.unregister().await, Err(RegistrationError::Ended { .. }));
    });
}

#[test]
fn an_instance_that_others_have_deleted_is_unregistered() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut me = discovery(&zk).register(permanent()).await.unwrap();
        other.delete(NODE).await.unwrap();
        state(&me, |state| matches!(state, RegistrationState::Deleted)).await;
        me.unregister().await.unwrap();
        me.unregister().await.unwrap();
        all_close_clean(&server, [zk, other]).await;
    });
}

/// A program renews its instance every few seconds, and gives up waiting in an outage.
#[test]
fn renewals_without_a_waiter_are_written_once() {
    simulated_with(async |server, zk| {
        let mut me = registered(&zk, "a").await;
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        for _ in 0..50 {
            poll_then_drop(me.touch(), 1).await;
        }
        assert!(matches!(me.state(), RegistrationState::Suspended), "{:?}", me.state());
        let before = server.writes().len();
        server.heal();
        me.update(|instance| instance.payload = 5).await.unwrap();
        let written = server.writes();
        let ours = written[before..].iter().filter(|write| write.path == NODE);
        assert!(ours.count() <= 3, "{:?}", &written[before..]);
        me.unregister().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}
