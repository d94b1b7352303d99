//! The name service: bindings, their owners, and their lifetimes.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_proto::ErrorCode;
use zk_curator_proto::OpCode::{Create2, Delete, Exists, GetData, Multi, Ping, SetData};
use zk_curator_recipes::health::Health;
use zk_curator_recipes::name::{Bound, Error, NameService, NameWatch};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, assert_matches, builder, closes_clean, connected, cut_at_next_multi, expire,
    join_all, once, pairs, poll_then_drop, session_id, simulated_each, simulated_each_on,
    simulated_on, simulated_steps, simulated_with, start, two_in_memory, until, until_state,
};

const NAMES: &str = "/names";
const BILLING: &str = "/names/billing";
const HOUR: Duration = Duration::from_secs(3600);

fn names(zk: &CuratorFramework) -> NameService {
    NameService::new(zk, NAMES)
}

async fn next(watch: &mut NameWatch) -> Option<String> {
    let next = timeout(Duration::from_secs(3600), watch.next()).await;
    let bound = next.unwrap_or_else(|_| panic!("nothing happens: {watch:?}")).unwrap();
    bound.map(|bound| text(&bound))
}

fn text(bound: &Bound) -> String {
    bound.value().unwrap()
}

fn requests(probe: &Probe) -> u64 {
    probe.total_requests() - probe.requests(Ping)
}

/// The value was written by a client that does not compress.
#[test]
fn a_value_that_cannot_be_read_is_unbound_nevertheless() {
    simulated_on(TestServer::in_memory, async |server| {
        let plain = connected(&server).await;
        let zk = start(builder(&server).enable_compression()).await;
        let version = names(&plain).bind("billing", "10.0.0.1").await.unwrap();
        assert_matches!(names(&zk).resolve("billing").await, Err(Error::Framework(_)));
        let version = names(&zk).rebind("billing", "10.0.0.2", version).await.unwrap();
        assert_eq!(names(&zk).resolve("billing").await.unwrap().unwrap().version, version);
        names(&plain).bind("orders", "10.0.0.3").await.unwrap();
        for name in ["billing", "orders"] {
            names(&zk).unbind(name, None).await.unwrap();
            assert!(!server.probe().exists(&format!("{NAMES}/{name}")));
        }
        all_close_clean(&server, [&zk, &plain]).await;
    });
}

/// Without receipts.
fn names_of(probe: &Probe) -> Vec<&str> {
    probe.children(NAMES).into_iter().filter(|name| !name.starts_with("_r_")).collect()
}

/// An operator deletes a name, and another client binds it, with as many versions.
async fn replace(zk: &CuratorFramework) {
    zk.delete(BILLING).deleting_children().await.unwrap();
    names(zk).bind("billing", "theirs").await.unwrap();
}

#[test]
fn names_are_bound_rebound_and_unbound() {
    simulated_with(async |server, zk| {
        let names = names(&zk);
        assert_eq!(names.resolve("billing").await.unwrap(), None);
        assert!(names.list().await.unwrap().is_empty());
        let first = names.bind("billing", "one").await.unwrap();
        let probe = server.probe();
        assert!(probe.is_container(NAMES));
        assert_eq!(probe.data(BILLING).unwrap(), "one");
        assert_eq!(probe.stat(BILLING).unwrap().ephemeral_owner, 0);
        let taken = names.bind("billing", "two").await.unwrap_err();
        assert!(matches!(&taken, Error::Taken { path } if path == BILLING), "{taken}");
        // Also to the same value.
        assert!(matches!(names.bind("billing", "one").await, Err(Error::Taken { .. })));

        let second = names.rebind("billing", 5432, first).await.unwrap();
        let late = names.rebind("billing", "late", first).await.unwrap_err();
        assert!(matches!(late, Error::Rebound { .. }), "{late}");
        assert!(matches!(names.unbind("billing", Some(first)).await, Err(Error::Rebound { .. })));
        let bound = names.resolve("billing").await.unwrap().unwrap();
        assert_eq!(
            (bound.value::<u16>().unwrap(), bound.version, bound.is_ephemeral),
            (5432, second, false)
        );
        assert_matches!(bound.value::<bool>(), Err(Error::Undecodable { path, .. })
            if path == BILLING);

        let _orders = names.bind_ephemeral("orders", "here").await.unwrap();
        let list = names.list().await.unwrap();
        let listed: Vec<_> = list
            .iter()
            .map(|(name, bound)| (name.as_str(), text(bound), bound.is_ephemeral))
            .collect();
        assert_eq!(listed, [("billing", "5432".into(), false), ("orders", "here".into(), true)]);
        names.unbind("billing", Some(second)).await.unwrap();
        for gone in [
            names.unbind("billing", None).await.unwrap_err(),
            names.rebind("billing", "", second).await.unwrap_err(),
        ] {
            assert!(matches!(gone, Error::NotBound { .. }), "{gone}");
        }
        // Bound again it has the same numbers, and is another one.
        names.bind("billing", "one").await.unwrap();
        assert!(matches!(names.rebind("billing", "late", first).await, Err(Error::Rebound { .. })));
        names.unbind("billing", None).await.unwrap();
    });
}

#[test]
fn of_many_that_bind_a_name_one_succeeds() {
    simulated_with(async |server, _zk| {
        let mut bound = Vec::new();
        for number in 0..5 {
            let zk = connected(&server).await;
            bound.push(
                async move { names(&zk).bind("billing", number).await.map(|_| (number, zk)) },
            );
        }
        let bound = join_all(bound).await;
        let winners: Vec<_> = bound.iter().flatten().map(|(number, _)| *number).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(server.probe().data(BILLING).unwrap(), winners[0].to_string());
        assert!(
            bound
                .iter()
                .filter_map(|result| result.as_ref().err())
                .all(|error| matches!(error, Error::Taken { .. }))
        );
    });
}

#[test]
fn a_binding_ends_with_its_session_unless_rebinding_is_set() {
    simulated_with(async |server, zk| {
        let ours = names(&zk);
        let theirs = names(&connected(&server).await);
        let once_only = ours.bind_ephemeral("billing", "one").await.unwrap();
        let kept = ours.keep_bound("orders", "kept");
        kept.bound().await.unwrap();
        assert!(once_only.is_bound() && kept.is_bound());
        assert_eq!((once_only.name(), kept.name()), ("billing", "orders"));
        // No other client changes them.
        let seen = theirs.resolve("billing").await.unwrap().unwrap();
        assert!(seen.is_ephemeral);
        for held in [
            theirs.unbind("billing", None).await.unwrap_err(),
            theirs.rebind("billing", "stolen", seen.version).await.map(|_| ()).unwrap_err(),
        ] {
            assert!(matches!(&held, Error::Held { path } if path == BILLING), "{held}");
        }
        assert!(matches!(theirs.bind("billing", "stolen").await, Err(Error::Taken { .. })));

        once_only.rebind("two").await.unwrap();
        kept.rebind("kept 2").await.unwrap();
        expire(&server, &zk).await;
        once_only.lost().await;
        zk.wait_connected().await.unwrap();
        kept.bound().await.unwrap();
        until(&server, |probe| names_of(probe) == ["orders"]).await;
        assert!(!once_only.is_bound() && kept.is_bound());
        assert!(matches!(once_only.rebind("three").await, Err(Error::NotBound { .. })));
        assert_eq!(text(&theirs.resolve("orders").await.unwrap().unwrap()), "kept 2");
        // The present owner keeps it.
        theirs.bind("billing", "theirs").await.unwrap();
        once_only.unbind().await.unwrap();
        assert_eq!(text(&theirs.resolve("billing").await.unwrap().unwrap()), "theirs");
        kept.unbind().await.unwrap();
        assert_eq!(theirs.resolve("orders").await.unwrap(), None);
    });
}

#[test]
fn a_name_counts_as_bound_only_with_a_connection() {
    simulated_with(async |server, zk| {
        let names = names(&zk);
        let once_only = names.bind_ephemeral("billing", "one").await.unwrap();
        let kept = names.keep_bound("orders", "kept");
        kept.bound().await.unwrap();
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert!(!once_only.is_bound() && !kept.is_bound());
        until_state(&zk, ConnectionState::Lost).await;
        assert!(!once_only.is_bound() && !kept.is_bound());
        server.heal();
        zk.wait_connected().await.unwrap();
        kept.bound().await.unwrap();
        assert!(!once_only.is_bound() && kept.is_bound());
    });
}

#[test]
fn keep_bound_waits_until_the_name_is_free() {
    simulated_with(async |server, zk| {
        let theirs =
            names(&connected(&server).await).bind_ephemeral("billing", "first").await.unwrap();
        let ours = names(&zk).keep_bound("billing", "second");
        until(&server, |probe| !probe.watches().is_empty()).await;
        assert!(!ours.is_bound());
        drop(theirs);
        ours.bound().await.unwrap();
        assert_eq!(server.probe().data(BILLING).unwrap(), "second");
    });
}

#[test]
fn followers_end_with_the_present_binding() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let theirs = names(&other);
        let mut watch = names(&zk).follow("billing");
        assert_eq!(next(&mut watch).await, None);
        let (told, bound) = tokio::join!(next(&mut watch), theirs.bind("billing", "one"));
        assert_eq!(told.as_deref(), Some("one"));
        theirs.rebind("billing", "two", bound.unwrap()).await.unwrap();
        assert_eq!(next(&mut watch).await.as_deref(), Some("two"));
        theirs.unbind("billing", None).await.unwrap();
        assert_eq!(next(&mut watch).await, None);
        // Between two calls our session ends, and the name is bound twice.
        expire(&server, &zk).await;
        let binding = theirs.bind_ephemeral("billing", "three").await.unwrap();
        binding.unbind().await.unwrap();
        let _binding = theirs.bind_ephemeral("billing", "four").await.unwrap();
        assert_eq!(next(&mut watch).await.as_deref(), Some("four"));
        expire(&server, &other).await;
        assert_eq!(next(&mut watch).await, None);
        let (end, closed) = tokio::join!(watch.next(), zk.close());
        closed.unwrap();
        assert!(matches!(end, Err(Error::Framework(error)) if error.kind() == ErrorKind::Closed));
    });
}

#[test]
fn lost_messages_make_no_difference() {
    let cases = pairs(
        [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect],
        [Create2, SetData, Multi, Delete, GetData, Exists],
    );
    simulated_each(cases, async |(verdict, opcode), server, zk| {
        zk.create_containers(NAMES).await.unwrap();
        let names = names(&zk);
        let mut watch = names.follow("billing");
        let _lost = once(&server, opcode, verdict);
        let first = names.bind("billing", "one").await.unwrap();
        let second = names.rebind("billing", "two", first).await.unwrap();
        assert_eq!(next(&mut watch).await.as_deref(), Some("two"), "{opcode:?} {verdict:?}");
        names.unbind("billing", Some(second)).await.unwrap();
        assert_eq!(next(&mut watch).await, None);
        let binding = names.bind_ephemeral("billing", "three").await.unwrap();
        binding.rebind("four").await.unwrap();
        assert_eq!(next(&mut watch).await.as_deref(), Some("four"));
        binding.unbind().await.unwrap();
        assert!(!server.probe().exists(BILLING));
    });
}

#[test]
fn equal_binds_of_one_session_give_one_owner() {
    simulated_with(async |server, zk| {
        let first = names(&zk).bind_ephemeral("billing", "same").await.unwrap();
        for _ in 0..2 {
            let second = names(&zk).bind_ephemeral("billing", "same").await;
            assert!(matches!(second, Err(Error::Taken { .. })), "{second:?}");
            let persistent = names(&zk).bind("billing", "same").await;
            assert!(matches!(persistent, Err(Error::Taken { .. })), "{persistent:?}");
        }
        assert!(first.is_bound());
        assert_eq!(server.probe().data(BILLING).unwrap(), "same");
        let orders = join_all((0..10).map(|_| {
            let names = names(&zk);
            async move { names.bind_ephemeral("orders", "same").await }
        }));
        assert_eq!(orders.await.iter().filter(|bound| bound.is_ok()).count(), 1);
    });
}

/// The request is lost, and another client has bound the name to the same value by the time it is
/// repeated.
#[test]
fn a_repeated_bind_does_not_take_the_name_of_another() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        names(&other).bind("orders", "").await.unwrap();
        let away = cut_at_next_multi(&server, &zk, Verdict::LoseRequest);
        let meanwhile = async {
            away.fired().await;
            names(&other).bind("billing", "same").await.unwrap();
            drop(away);
        };
        let ours = names(&zk);
        let (bound, ()) = tokio::join!(ours.bind("billing", "same"), meanwhile);
        assert!(matches!(bound, Err(Error::Taken { .. })), "{bound:?}");
    });
}

/// Between the read and the write, a new name with the same versions replaces the name that was
/// read.
#[test]
fn a_late_change_does_not_hit_the_next_binding() {
    simulated_each_on([false, true], two_in_memory, async |unbinds, (server, zk, other)| {
        let ours = names(&zk);
        let seen = ours.bind("billing", "ours").await.unwrap();
        let victim = session_id(&zk).get();
        let late = server.rule(move |request| {
            let is_write = request.is(Multi) || request.is(SetData) || request.is_delete();
            match request.session_id() == victim && is_write {
                true => Verdict::Delay(Duration::from_secs(1)),
                false => Verdict::Pass,
            }
        });
        let late = late.times(1);
        let change = async {
            match unbinds {
                true => ours.unbind("billing", Some(seen)).await,
                false => ours.rebind("billing", "late", seen).await.map(|_| ()),
            }
        };
        let meanwhile = async {
            late.fired().await;
            replace(&other).await;
        };
        let (changed, ()) = tokio::join!(change, meanwhile);
        assert!(matches!(changed, Err(Error::Rebound { .. })), "{changed:?}");
        assert_eq!(server.probe().data(BILLING).unwrap(), "theirs");
    });
}

#[test]
fn the_owner_of_a_deleted_name_does_not_write_to_the_next() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let binding = names(&zk).bind_ephemeral("billing", "ours").await.unwrap();
        replace(&other).await;
        let late = binding.rebind("late").await;
        assert!(matches!(late, Err(Error::NotBound { .. })), "{late:?}");
        assert_eq!(server.probe().data(BILLING).unwrap(), "theirs");
    });
}

/// As programs of before bound it.
#[test]
fn names_without_an_identity_are_served() {
    simulated_with(async |server, zk| {
        let names = names(&zk);
        zk.create(BILLING).creating_parents().data("one").await.unwrap();
        let seen = names.resolve("billing").await.unwrap().unwrap().version;
        let seen = names.rebind("billing", "two", seen).await.unwrap();
        assert_eq!(server.probe().data(BILLING).unwrap(), "two");
        names.unbind("billing", Some(seen)).await.unwrap();
        assert!(!server.probe().exists(BILLING));
    });
}

#[test]
fn requests_are_those_of_the_documentation() {
    simulated_with(async |server, zk| {
        let names = names(&zk);
        for name in ["a", "b", "c"] {
            names.bind(name, name).await.unwrap();
        }
        let mut counted = Vec::new();
        let mut before = requests(&server.probe());
        let mut count = || {
            let now = requests(&server.probe());
            counted.push(now - std::mem::replace(&mut before, now));
        };
        let bound = names.bind("d", "d").await.unwrap();
        count();
        names.resolve("d").await.unwrap();
        count();
        names.rebind("d", "e", bound).await.unwrap();
        count();
        names.list().await.unwrap();
        count();
        names.unbind("d", None).await.unwrap();
        count();
        let mut watch = names.follow("a");
        watch.next().await.unwrap();
        count();
        // A sync goes with the read of the ones that change something.
        assert_eq!(counted, [1, 1, 4, 2, 4, 1]);
    });
}

#[test]
fn mistakes_are_refused() {
    simulated_with(async |server, zk| {
        let nowhere = NameService::new(&zk, "no-slash");
        for (operation, error) in [
            ("bind", nowhere.bind("a", 1).await.unwrap_err()),
            ("bind_ephemeral", nowhere.bind_ephemeral("a", 1).await.unwrap_err()),
            ("keep_bound", nowhere.keep_bound("a", 1).bound().await.unwrap_err()),
            ("unbind", nowhere.unbind("a", None).await.unwrap_err()),
            ("resolve", nowhere.resolve("a").await.unwrap_err()),
            ("follow", nowhere.follow("a").next().await.unwrap_err()),
            ("list", nowhere.list().await.unwrap_err()),
        ] {
            let Error::Framework(error) = error else { panic!("{operation}: {error}") };
            let told = (error.kind(), error.operation(), error.path());
            assert_eq!(told, (ErrorKind::InvalidPath, operation, "no-slash"));
        }
        let names = names(&zk);
        for name in ["", ".", "..", "a/b", "/a", "a\n", "_r_a"] {
            let is_refused = |error: Error| matches!(&error, Error::InvalidName { name: told, .. } if told == name);
            assert!(is_refused(names.bind(name, 1).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.bind_ephemeral(name, 1).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.keep_bound(name, 1).bound().await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.unbind(name, None).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.resolve(name).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.follow(name).next().await.unwrap_err()), "{name:?}");
        }
        let _refuse = server.rule(|request| {
            let refused = request.is(GetData) || request.is(Multi);
            if refused { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        let denied = |error: Error| matches!(error, Error::Framework(error) if error.kind() == ErrorKind::NoAuth);
        assert!(denied(names.bind("a", 1).await.unwrap_err()));
        assert!(denied(names.follow("a").next().await.unwrap_err()));
    });
}

/// Dropped at every point: what goes with a session leaves nothing.
#[test]
fn bindings_that_are_given_up_leave_nothing() {
    for kept in [false, true] {
        simulated_steps(8, async |step, server, zk| {
            let names = names(&zk);
            let run = async {
                let mut watch = names.follow("billing");
                watch.next().await.unwrap();
                if kept {
                    let binding = names.keep_bound("billing", "one");
                    binding.bound().await.unwrap();
                    binding.rebind("two").await.unwrap();
                    watch.next().await.unwrap();
                    binding.unbind().await.unwrap();
                } else {
                    let binding = names.bind_ephemeral("billing", "one").await.unwrap();
                    binding.rebind("two").await.unwrap();
                    watch.next().await.unwrap();
                    binding.unbind().await.unwrap();
                }
            };
            let done = poll_then_drop(run, step).await.is_some();
            closes_clean(&server, &zk).await;
            done
        });
    }
}

#[test]
fn persistent_names_are_changed_or_not_at_every_step() {
    simulated_steps(8, async |step, server, zk| {
        let names = names(&zk);
        let run = async {
            let bound = names.bind("billing", "one").await.unwrap();
            let bound = names.rebind("billing", "two", bound).await.unwrap();
            names.unbind("billing", Some(bound)).await.unwrap();
        };
        let done = poll_then_drop(run, step).await.is_some();
        zk.close().await.unwrap();
        let probe = server.probe();
        if let Some(data) = probe.data(BILLING) {
            assert!(data == "one" || data == "two");
        }
        assert!(probe.sessions().is_empty() && probe.watches().is_empty(), "{probe}");
        done
    });
}

/// Regardless of the value, the node belongs to the binding that has created it.
#[test]
fn a_kept_binding_waits_for_a_binding_of_its_own_session() {
    simulated_each(["ours", "another"], async |value, server, zk| {
        let names = names(&zk);
        let passing = names.bind_ephemeral("billing", "ours").await.unwrap();
        let created = server.probe().stat(BILLING).unwrap();
        let kept = names.keep_bound("billing", value);
        assert!(timeout(HOUR, kept.bound()).await.is_err(), "{value}");
        assert_eq!((passing.is_bound(), kept.is_bound()), (true, false), "{value}");
        assert!(matches!(kept.health().next().await, Some(Health::Waiting)), "{value}");
        assert_eq!(server.probe().stat(BILLING), Some(created), "{value}");
        assert_eq!(server.probe().data(BILLING).unwrap(), "ours");
        // Neither is it unbound by a handle that has never had it.
        kept.unbind().await.unwrap();
        drop(names.keep_bound("billing", value));
        zk.sync("/").await.unwrap();
        assert_eq!(server.probe().stat(BILLING), Some(created), "{value}");

        let kept = names.keep_bound("billing", value);
        let second = names.keep_bound("billing", value);
        assert!(
            timeout(HOUR, futures_util::future::join(kept.bound(), second.bound())).await.is_err()
        );
        passing.unbind().await.unwrap();
        let (bound, waiting) = match timeout(HOUR, kept.bound()).await {
            Ok(bound) => (bound.map(|()| kept), second),
            Err(_) => (second.bound().await.map(|()| second), kept),
        };
        assert_eq!((bound.as_ref().unwrap().is_bound(), waiting.is_bound()), (true, false));
        assert_eq!(server.probe().data(BILLING).unwrap(), value);
        bound.unwrap().unbind().await.unwrap();
        waiting.bound().await.unwrap();
    });
}
