use std::time::Duration;

use zk_curator::SessionId;

use super::tree;
use crate::inspect::{KnownSession, Sessions, recognise, verdicts};

const LOCK: &str = "_c_{a}-lock-0000000001 @1 =one
     _c_{b}-lock-0000000002 @2 =two";

fn id(number: i64) -> SessionId {
    SessionId::new(number)
}

fn connected() -> KnownSession {
    KnownSession::new()
        .timeout(Duration::from_secs(30))
        .connected("zk2", "10.0.3.17:41234")
        .heard(Duration::from_millis(800))
}

/// Sessions 1 and 2 are connected, and all servers were asked.
fn sessions() -> Sessions {
    let mut sessions = Sessions::new();
    sessions.insert(id(1), connected());
    sessions.insert(id(2), connected());
    sessions.all_servers_asked();
    sessions
}

fn told(lines: &str, sessions: &Sessions) -> Vec<String> {
    let finding = recognise(&tree("/r", lines));
    let told = verdicts(&finding, sessions).into_iter();
    told.map(|verdict| verdict.to_string().replace("-0000-0000-0000-", "-")).collect()
}

#[track_caller]
fn assert_told(lines: &str, sessions: &Sessions, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|line| super::text(line)).collect();
    assert_eq!(told(lines, sessions), expected);
}

#[test]
fn a_live_holder_holds() {
    let holder = "held by one (_c_{a}-lock-0000000001), session 0x1, from 10.0.3.17:41234 at zk2";
    assert_told(LOCK, &sessions(), &[holder]);
    // Nothing is known to be wrong with it.
    assert_told(LOCK, &Sessions::new(), &["held by one (_c_{a}-lock-0000000001), session 0x1"]);
}

#[test]
fn our_own_lock_is_reported() {
    let mut sessions = Sessions::new();
    sessions.own(id(1));
    let own = "held by this process: one (_c_{a}-lock-0000000001), session 0x1";
    assert_told(LOCK, &sessions, &[own]);
}

#[test]
fn sessions_without_a_connection_end() {
    let mut sessions = sessions();
    let heard = Duration::from_millis(21_200);
    sessions.insert(id(1), KnownSession::new().timeout(Duration::from_secs(30)).heard(heard));
    assert_told(
        LOCK,
        &sessions,
        &[
            "held by one (_c_{a}-lock-0000000001), session 0x1, which has no connection: gone in at \
           most 9 s unless it reconnects",
        ],
    );
    sessions.insert(id(1), KnownSession::new());
    assert_told(
        LOCK,
        &sessions,
        &["held by one (_c_{a}-lock-0000000001), session 0x1, which has no connection to any \
           server: gone when its session expires"],
    );
}

#[test]
fn a_silent_holder_is_not_said_to_hold_on() {
    let mut sessions = sessions();
    sessions.insert(id(1), connected().heard(Duration::from_millis(21_200)));
    let silent = "held by one (_c_{a}-lock-0000000001), session 0x1, from 10.0.3.17:41234 at zk2, \
                  silent for at least 21 s: gone in at most 9 s unless it continues";
    assert_told(LOCK, &sessions, &[silent]);
    sessions.insert(id(1), connected().heard(Duration::from_secs(19)));
    assert!(!told(LOCK, &sessions)[0].contains("silent"));
}

#[test]
fn the_end_that_the_servers_tell_is_used() {
    let mut sessions = sessions();
    let away = KnownSession::new().timeout(Duration::from_secs(30));
    for (session, within) in [
        (away.clone(), "30 s"),
        (away.clone().expires(Duration::from_secs(3)), "3 s"),
        (away.expires(Duration::from_secs(33)), "30 s"),
        (KnownSession::new().expires(Duration::from_secs(4)), "4 s"),
    ] {
        sessions.insert(id(1), session);
        let told = told(LOCK, &sessions);
        assert!(told[0].contains(&format!("gone in at most {within} unless")), "{told:?}");
    }
}

#[test]
fn a_session_is_only_lost_if_all_servers_were_asked() {
    let mut sessions = Sessions::new();
    sessions.insert(id(1), KnownSession::new());
    assert_told(LOCK, &sessions, &["held by one (_c_{a}-lock-0000000001), session 0x1"]);
}

#[test]
fn the_old_node_of_a_client_is_reported() {
    let mut sessions = Sessions::new();
    sessions.insert(id(2), connected());
    sessions.all_servers_asked();
    let lines = LOCK.replace("=two", "=one");
    let told = told(&lines, &sessions);
    assert!(told[0].contains("earlier session of the same client"), "{told:?}");
    assert_eq!(told.len(), 2);
}

#[test]
fn a_waiter_without_a_watch_is_reported() {
    let mut sessions = sessions();
    assert_eq!(told(LOCK, &sessions).len(), 1);
    sessions.all_watches_known();
    sessions.watch("/router", id(2));
    let told = told(LOCK, &sessions);
    assert!(told[1].starts_with("two (") && told[1].contains("watches nothing"), "{told:?}");
    sessions.watch(super::text("/r/_c_{a}-lock-0000000001"), id(2));
    assert_eq!(super::verdicts::told(LOCK, &sessions).len(), 1);
}

#[test]
fn free_locks_and_untaken_leases_are_reported() {
    assert_told("locks\nleases", &Sessions::new(), &["free: no contender holds or waits"]);
    assert_told(
        "leases\nlocks/_c_{a}-lock-0000000001 @1",
        &Sessions::new(),
        &["free, but not taken by the first waiter, _c_{a}-lock-0000000001, session 0x1"],
    );
    let full = "leases/_c_{b}-lease-0000000001 @2\nlocks/_c_{a}-lock-0000000001 @1";
    assert_told(full, &Sessions::new(), &["held by _c_{b}-lease-0000000001, session 0x2"]);
}

#[test]
fn mistakes_are_refused() {
    let twice = LOCK.replace("@2", "@1");
    let told = told(&twice, &Sessions::new());
    assert!(told[1].starts_with("session 0x1 has 2 contenders"), "{told:?}");
    let foreign = format!("{LOCK}\nnote");
    assert_eq!(
        super::verdicts::told(&foreign, &Sessions::new())[1],
        "one node does not belong to it"
    );
    let revoked = LOCK.replace("=one", "=__REVOKE__");
    let told = super::verdicts::told(&revoked, &Sessions::new());
    assert!(told[1].ends_with("was asked to release it, and has not yet"), "{told:?}");
}

#[test]
fn the_end_of_the_numbers_is_reported() {
    for (number, word) in [("2000000000", "end at"), ("2147483647", "have ended")] {
        let told = told(&LOCK.replace("0000000002", number), &Sessions::new());
        assert!(told[1].contains(word), "{told:?}");
    }
    let mixed = "_c_{a}-lock-0000000001 @1\n{A}__lock__0000000002 @2";
    assert!(told(mixed, &Sessions::new())[1].starts_with("contenders of Curator and of kazoo"));
}

#[test]
fn persistent_contenders_are_reported_before_others() {
    let ghost =
        "_c_{a}-lock-0000000001 =one\n_c_{b}-lock-0000000002 @2 =two\n_c_{c}-lock-0000000003 @3";
    let persistent = "persistent: no session will ever remove it (held by one \
                      (_c_{a}-lock-0000000001)); find out who made it, then delete it";
    let stuck = "two (_c_{b}-lock-0000000002), session 0x2 waits for /r/_c_{a}-lock-0000000001, \
                 which no session will ever remove";
    assert_told(ghost, &Sessions::new(), &[persistent, stuck]);
    let behind = "_c_{a}-lock-0000000001 @1 =one\n_c_{b}-lock-0000000002 =two";
    let told = told(behind, &Sessions::new());
    assert!(
        told[0].starts_with("persistent:") && told[0].contains("(waited for by two"),
        "{told:?}"
    );
    assert!(told[1].starts_with("held by one"), "{told:?}");
}

/// The names of the contenders that no session will ever remove.
#[track_caller]
fn assert_persistent(lines: &str, expected: &[&str]) {
    let finding = recognise(&tree("/r", lines));
    let contenders = finding.holders.iter().chain(&finding.waiting);
    let persistent = contenders.filter(|one| one.is_persistent).map(|one| one.name.clone());
    let expected: Vec<_> = expected.iter().map(|name| super::text(name)).collect();
    assert_eq!(persistent.collect::<Vec<_>>(), expected, "{lines}");
}

#[test]
fn persistent_contenders_of_every_recipe_are_known() {
    for (lines, expected) in [
        ("latch-0000000001\nlatch-0000000002 @2", &["latch-0000000001"][..]),
        ("_c_{a}-__READ__0000000001\n_c_{b}-__WRIT__0000000002 @1", &["_c_{a}-__READ__0000000001"]),
        (
            "leases/_c_{a}-lease-0000000001\nlocks/_c_{b}-lock-0000000001",
            &["leases/_c_{a}-lease-0000000001", "locks/_c_{b}-lock-0000000001"],
        ),
        ("ready\n{a}\n{b} @2", &["{a}"]),
        ("{A}-worker @1\n{B}-worker", &["{B}-worker"]),
        ("{A}__party__ @1\n{B}__party__", &["{B}__party__"]),
        (
            "entries/entry-100-0000000001\ntaken/entry-100-0000000001",
            &["taken/entry-100-0000000001"],
        ),
        ("queue-0000000001 @1\nqueue-0000000002", &["queue-0000000002"]),
        ("members/one @1 =member 1\nmembers/two =member 1\nparts", &["members/two"]),
        (
            "items =buckets 1\nitems/b-100000000|0000000000/item-0000000007\n\
             items/b-100000000|0000000000/_c_{a}-taker-0000000009\n\
             producers/producer-0000000001\nproducers/producer-0000000002 @3",
            &[
                "items/b-100000000|0000000000/_c_{a}-taker-0000000009",
                "producers/producer-0000000001",
            ],
        ),
        (
            "all/one\npending =buckets 1\nleases/{a}\n\
             executing/{a} =executing 1\\njob pending/x\\nsession 17\\n\\nworker-1",
            &["leases/{a}"],
        ),
        (
            ". =two-phase commit 2\\nstate preparing\\nform ephemeral\\ndeadline_ms 100\\nid x\\n\
             site a\\nsite b\\nsite c\\n\\nload\na =commit\nb @3 =commit\nc =done",
            &["a"],
        ),
        // Items are persistent by design, and so is a lease with an end.
        ("queue-0000000001\nqueue-0000000002", &[]),
        ("lease_holder ={}", &[]),
    ] {
        assert_persistent(lines, expected);
    }
}

#[test]
fn only_dynamic_instances_belong_to_a_session() {
    let instance = |kind: &str| {
        format!(
            r#"i ={{"name":"n","id":"i","registrationTimeUTC":1,"serviceType" : "{kind}","address":"DYNAMIC"}}"#
        )
    };
    for (kind, expected) in [
        ("DYNAMIC", &["i"][..]),
        ("DYNAMIC_SEQUENTIAL", &["i"]),
        ("STATIC", &[]),
        ("PERMANENT", &[]),
    ] {
        assert_persistent(&instance(kind), expected);
    }
}
