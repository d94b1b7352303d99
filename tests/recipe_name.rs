//! The name service: what names are bound to, for whom, and for how long.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod common;

use std::time::Duration;

use common::{
    ADAPTED, assert_clean_after_close, connected, expire, in_memory, once, poll_then_drop, simulated, until,
    until_state,
};
use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::name::{Bound, Error, NameService, NameWatch};
use zk_curator_testing::{Probe, Verdict};

const NAMES: &str = "/names";
const BILLING: &str = "/names/billing";

fn names(zk: &CuratorFramework) -> NameService {
    NameService::new(zk, NAMES).unwrap()
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
    probe.total_requests() - probe.requests(OpCode::Ping)
}

#[test]
fn names_are_bound_rebound_and_unbound() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let names = names(&zk);
        assert_eq!(names.resolve("billing").await.unwrap(), None);
        assert!(names.list().await.unwrap().is_empty());
        let first = names.bind("billing", "one").await.unwrap();
        let probe = server.probe();
        assert!(ADAPTED || probe.is_container(NAMES));
        assert_eq!(probe.data(BILLING).unwrap(), "one");
        assert_eq!(probe.stat(BILLING).unwrap().ephemeral_owner, 0);
        let taken = names.bind("billing", "two").await.unwrap_err();
        assert!(matches!(&taken, Error::Taken { path } if path == BILLING), "{taken}");
        // It is bound to that: whoever has done it.
        assert_eq!(names.bind("billing", "one").await.unwrap(), first);

        let second = names.rebind("billing", 5432, first).await.unwrap();
        let late = names.rebind("billing", "late", first).await.unwrap_err();
        assert!(matches!(late, Error::Rebound { .. }), "{late}");
        assert!(matches!(names.unbind("billing", Some(first)).await, Err(Error::Rebound { .. })));
        let bound = names.resolve("billing").await.unwrap().unwrap();
        assert_eq!((bound.value::<u16>().unwrap(), bound.version, bound.is_ephemeral), (5432, second, false));
        assert!(matches!(bound.value::<bool>(), Err(Error::Undecodable { path, .. }) if path == BILLING));

        let _orders = names.bind_ephemeral("orders", "here").await.unwrap();
        let list = names.list().await.unwrap();
        let listed: Vec<_> =
            list.iter().map(|(name, bound)| (name.as_str(), text(bound), bound.is_ephemeral)).collect();
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
    simulated(async {
        let (server, _zk) = in_memory().await;
        let mut bound = Vec::new();
        for number in 0..5 {
            let zk = connected(&server).await;
            bound.push(async move { names(&zk).bind("billing", number).await.map(|_| (number, zk)) });
        }
        let bound = futures_util::future::join_all(bound).await;
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
fn a_binding_goes_with_its_session_and_comes_back_only_if_that_was_asked_for() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let ours = names(&zk);
        let theirs = names(&connected(&server).await);
        let once_only = ours.bind_ephemeral("billing", "one").await.unwrap();
        let kept = ours.keep_bound("orders", "kept").unwrap();
        kept.bound().await.unwrap();
        assert!(once_only.is_bound() && kept.is_bound());
        assert_eq!((once_only.name(), kept.name()), ("billing", "orders"));
        // Nobody else changes them.
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
        until(&server, |probe| probe.children(NAMES) == ["orders"]).await;
        assert!(!once_only.is_bound() && kept.is_bound());
        assert!(matches!(once_only.rebind("three").await, Err(Error::NotBound { .. })));
        assert_eq!(text(&theirs.resolve("orders").await.unwrap().unwrap()), "kept 2");
        // Whoever has it now keeps it.
        theirs.bind("billing", "theirs").await.unwrap();
        once_only.unbind().await.unwrap();
        assert_eq!(text(&theirs.resolve("billing").await.unwrap().unwrap()), "theirs");
        kept.unbind().await.unwrap();
        assert_eq!(theirs.resolve("orders").await.unwrap(), None);
    });
}

#[test]
fn nobody_takes_a_name_for_bound_without_a_connection() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let names = names(&zk);
        let once_only = names.bind_ephemeral("billing", "one").await.unwrap();
        let kept = names.keep_bound("orders", "kept").unwrap();
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
fn who_keeps_a_name_bound_waits_until_it_is_free() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let theirs = names(&connected(&server).await).bind_ephemeral("billing", "first").await.unwrap();
        let ours = names(&zk).keep_bound("billing", "second").unwrap();
        until(&server, |probe| !probe.watches().is_empty()).await;
        assert!(!ours.is_bound());
        drop(theirs);
        ours.bound().await.unwrap();
        assert_eq!(server.probe().data(BILLING).unwrap(), "second");
    });
}

#[test]
fn who_follows_ends_with_what_there_is() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        let theirs = names(&other);
        let mut watch = names(&zk).follow("billing").unwrap();
        assert_eq!(next(&mut watch).await, None);
        let (told, bound) = tokio::join!(next(&mut watch), theirs.bind("billing", "one"));
        assert_eq!(told.as_deref(), Some("one"));
        theirs.rebind("billing", "two", bound.unwrap()).await.unwrap();
        assert_eq!(next(&mut watch).await.as_deref(), Some("two"));
        theirs.unbind("billing", None).await.unwrap();
        assert_eq!(next(&mut watch).await, None);
        // While nobody looks: our session ends, and the name is bound and bound again.
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
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for opcode in [
                OpCode::Create2,
                OpCode::SetData,
                OpCode::Multi,
                OpCode::Delete,
                OpCode::GetData,
                OpCode::Exists,
            ] {
                let (server, zk) = in_memory().await;
                zk.create_containers(NAMES).await.unwrap();
                let names = names(&zk);
                let mut watch = names.follow("billing").unwrap();
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
            }
        }
    });
}

#[test]
fn requests_are_those_of_the_documentation() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
        let mut watch = names.follow("a").unwrap();
        watch.next().await.unwrap();
        count();
        // A sync goes with the read of those that change something.
        assert_eq!(counted, [1, 1, 3, 5, 3, 1]);
    });
}

#[test]
fn mistakes_are_told() {
    simulated(async {
        let (server, zk) = in_memory().await;
        assert_eq!(NameService::new(&zk, "no-slash").unwrap_err().kind(), ErrorKind::InvalidPath);
        let names = names(&zk);
        for name in ["", ".", "..", "a/b", "/a", "a\n"] {
            let is_refused =
                |error: Error| matches!(&error, Error::InvalidName { name: told, .. } if told == name);
            assert!(is_refused(names.bind(name, 1).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.bind_ephemeral(name, 1).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.keep_bound(name, 1).unwrap_err()), "{name:?}");
            assert!(is_refused(names.unbind(name, None).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.resolve(name).await.unwrap_err()), "{name:?}");
            assert!(is_refused(names.follow(name).unwrap_err()), "{name:?}");
        }
        let _refuse = server.rule(|request| {
            let refused = request.is(OpCode::GetData) || request.is(OpCode::Create2);
            if refused { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        let denied =
            |error: Error| matches!(error, Error::Framework(error) if error.kind() == ErrorKind::NoAuth);
        assert!(denied(names.bind("a", 1).await.unwrap_err()));
        assert!(denied(names.follow("a").unwrap().next().await.unwrap_err()));
    });
}

/// Dropped at every point: what goes with a session leaves nothing.
#[test]
fn bindings_that_are_given_up_leave_nothing() {
    simulated(async {
        for kept in [false, true] {
            let mut step = 0;
            loop {
                let (server, zk) = in_memory().await;
                let names = names(&zk);
                let run = async {
                    let mut watch = names.follow("billing").unwrap();
                    watch.next().await.unwrap();
                    if kept {
                        let binding = names.keep_bound("billing", "one").unwrap();
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
                zk.close().await.unwrap();
                assert_clean_after_close(&server);
                if done {
                    break;
                }
                step += 1;
            }
            assert!(step > 8, "only {step} steps");
        }
    });
}

#[test]
fn lasting_names_are_changed_or_not_wherever_that_is_given_up() {
    simulated(async {
        let mut step = 0;
        loop {
            let (server, zk) = in_memory().await;
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
            if done {
                break;
            }
            step += 1;
        }
        assert!(step > 8, "only {step} steps");
    });
}
