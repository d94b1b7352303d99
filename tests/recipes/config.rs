//! The configuration store: what belongs together is seen together, whatever is lost on the way.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, pin_mut};
use tokio::time::timeout;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::config::{ConfigStore, ConfigWatch, Error, Revision, Snapshot};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    always, assert_matches, builder, closes_clean, connected, expire, in_memory, once, rule_if,
    session_id, simulated, simulated_each, simulated_each_on, simulated_on, simulated_with, start,
    two_in_memory, until,
};

const STORE: &str = "/config/orders";

fn store(zk: &CuratorFramework) -> ConfigStore {
    ConfigStore::new(zk, STORE)
}

async fn set(store: &ConfigStore, key: &str, value: i64) -> Revision {
    store.update().set(key, value).commit().await.unwrap()
}

async fn next(watch: &mut ConfigWatch) -> Snapshot {
    let next = timeout(Duration::from_secs(3600), watch.next()).await;
    next.unwrap_or_else(|_| panic!("nothing happens: {watch:?}")).unwrap()
}

fn values(snapshot: &Snapshot) -> Vec<(&str, &str)> {
    let value = |data: &'_ Bytes| std::str::from_utf8(data).unwrap().to_owned().leak() as &str;
    snapshot.entries().iter().map(|(key, entry)| (key.as_str(), value(&entry.data))).collect()
}

fn requests(probe: &Probe) -> u64 {
    probe.total_requests() - probe.requests(OpCode::Ping)
}

#[test]
fn a_store_directly_below_a_missing_namespace_is_created() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).namespace("tenants/a")).await;
        let store = ConfigStore::new(&zk, "/orders");
        assert!(store.snapshot().await.unwrap().entries().is_empty());
        set(&store, "limit", 7).await;
        assert_eq!(server.probe().data("/tenants/a/orders/values/limit").unwrap(), "7");
        assert_eq!(values(&store.snapshot().await.unwrap()), [("limit", "7")]);
    });
}

#[test]
fn values_are_nodes_with_the_data_as_people_write_them() {
    simulated_with(async |server, zk| {
        let store = store(&zk);
        let update = store
            .update()
            .set("db.host", "10.0.0.7")
            .set("db.port", 5432)
            .set("raw", &b"\x00\xff"[..]);
        let revision = update.commit().await.unwrap();
        let probe = server.probe();
        assert!(probe.is_container("/config"));
        assert_eq!(probe.data("/config/orders").unwrap(), "config 1");
        assert_eq!(probe.data("/config/orders/values/db.host").unwrap(), "10.0.0.7");
        assert_eq!(probe.data("/config/orders/values/db.port").unwrap(), "5432");
        assert_eq!(probe.children("/config/orders/history"), ["0000000001"]);
        for path in ["/config/orders", "/config/orders/values/db.port"] {
            assert_eq!(probe.stat(path).unwrap().mzxid, revision.get(), "{path}");
        }
        let now = store.snapshot().await.unwrap();
        assert_eq!(now.revision(), revision);
        assert_eq!(now.get::<u16>("db.port").unwrap(), Some(5432));
        assert_eq!(now.get::<String>("db.host").unwrap().as_deref(), Some("10.0.0.7"));
        assert_eq!(now.get::<Bytes>("raw").unwrap().unwrap(), &b"\x00\xff"[..]);
        assert_eq!(now.get::<String>("none").unwrap(), None);
        assert_eq!(now.entry("db.host").unwrap().revision, revision);
        let Err(Error::Undecodable { path, .. }) = now.get::<u16>("db.host") else {
            panic!("it is not a number")
        };
        assert_eq!(path, "/config/orders/values/db.host");

        let second =
            store.update().remove("raw").remove("never").set("db.port", 1).commit().await.unwrap();
        assert!(second > revision);
        let now = store.snapshot().await.unwrap();
        assert_eq!(values(&now), [("db.host", "10.0.0.7"), ("db.port", "1")]);
        assert_eq!(
            (now.entry("db.host").unwrap().revision, now.entry("db.port").unwrap().revision),
            (revision, second)
        );
    });
}

#[test]
fn updates_are_made_only_if_their_conditions_hold() {
    simulated_with(async |_server, zk| {
        let store = store(&zk);
        let one =
            store.update().if_unchanged_since(Revision::NONE).set("a", 1).commit().await.unwrap();
        let two = store.update().if_revision("b", None).set("b", 1).commit().await.unwrap();
        let late = store.update().if_revision("b", None).set("a", 9).set("b", 9).commit().await;
        let Err(error @ Error::Conflict { .. }) = late else { panic!("{late:?}") };
        let told =
            format!("/config/orders/values/b has revision {two}, but the update expects no value");
        assert_eq!(error.to_string(), told);
        let Error::Conflict { path, expected, found } = error else { unreachable!() };
        assert_eq!((path.as_str(), expected, found), ("/config/orders/values/b", None, Some(two)));
        // Of a value that has not changed, though the store has.
        let three = store.update().if_revision("a", Some(one)).set("a", 2).commit().await.unwrap();
        let late = store.update().if_revision("a", Some(one)).set("b", 9).commit().await;
        assert_matches!(late, Err(Error::Conflict { found: Some(found), .. }) if found == three);
        let late = store.update().if_unchanged_since(two).set("b", 9).commit().await;
        assert_matches!(late, Err(Error::Changed { expected, found, .. })
            if (expected, found) == (two, three));
        // A value that is removed and set again is not the same one.
        store.update().remove("b").commit().await.unwrap();
        let gone = store.update().if_revision("b", Some(two)).set("b", 9).commit().await;
        assert!(matches!(gone, Err(Error::Conflict { found: None, .. })), "{gone:?}");
        set(&store, "b", 1).await;
        assert!(store.update().if_revision("b", Some(two)).set("b", 9).commit().await.is_err());
        assert_eq!(values(&store.snapshot().await.unwrap()), [("a", "2"), ("b", "1")]);
    });
}

#[test]
fn of_many_that_replace_one_value_each_replaces_that_of_another() {
    simulated_with(async |server, zk| {
        set(&store(&zk), "count", 0).await;
        let refused = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..5)
            .map(|_| {
                let (server, refused) = (server.clone(), Arc::clone(&refused));
                tokio::spawn(async move {
                    let zk = connected(&server).await;
                    let store = store(&zk);
                    let mut done = 0;
                    while done < 10 {
                        let now = store.snapshot().await.unwrap();
                        let count: i64 = now.get("count").unwrap().unwrap();
                        let since = now.entry("count").map(|entry| entry.revision);
                        let update =
                            store.update().if_revision("count", since).set("count", count + 1);
                        match update.commit().await {
                            Ok(_) => done += 1,
                            Err(Error::Conflict { .. }) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(store(&zk).snapshot().await.unwrap().get("count").unwrap(), Some(50));
        assert!(refused.load(Ordering::Relaxed) > 0);
    });
}

/// Writers repeatedly set two keys to one common value; no reader ever sees different values.
#[test]
fn no_reader_sees_half_of_an_update() {
    simulated_with(async |server, zk| {
        let writer = async {
            let store = store(&zk).kept(100);
            for number in 0..200 {
                let update = store.update().set("a", number).set("b.c", number);
                let update =
                    if number % 3 == 0 { update.remove("d") } else { update.set("d", number) };
                update.commit().await.unwrap();
                spend(Duration::from_micros(number as u64 % 7 * 100)).await;
            }
        };
        let whole = |snapshot: &Snapshot| {
            let [a, c, d] = ["a", "b.c", "d"].map(|key| snapshot.get::<i64>(key).unwrap());
            assert_eq!(a, c);
            assert_eq!(d, a.filter(|number| number % 3 != 0));
            a
        };
        let reader = async {
            let distant = server.connector();
            distant.set_latency(0, Duration::from_micros(50)..=Duration::from_millis(2), 7);
            let zk = start(builder(&server).connector(Arc::new(distant))).await;
            let store = store(&zk);
            let mut seen = 0;
            while whole(&store.snapshot().await.unwrap()) != Some(199) {
                seen += 1;
            }
            seen
        };
        let follower = async {
            let zk = connected(&server).await;
            let (mut watch, mut last, mut seen) = (store(&zk).follow(), None, 0);
            while last != Some(199) {
                let now = whole(&next(&mut watch).await);
                assert!(now > last || last.is_none());
                (last, seen) = (now, seen + 1);
            }
            seen
        };
        let ((), read, followed) = tokio::join!(writer, reader, follower);
        assert!(read > 10 && followed > 10, "{read} {followed}");
    });
}

/// There are always more updates between two reads than the history keeps.
#[test]
fn a_store_that_changes_too_fast_to_be_read_says_so() {
    simulated_with(async |server, zk| {
        let distant = server.connector();
        distant.set_latency(0, Duration::from_millis(100)..=Duration::from_millis(100), 0);
        let far = start(builder(&server).connector(Arc::new(distant))).await;
        let writer = async {
            let store = store(&zk).kept(1);
            for number in 0.. {
                set(&store, "a", number).await;
                spend(Duration::from_millis(10)).await;
            }
        };
        let reader = async { store(&far).snapshot().await };
        tokio::select! {
            biased;
            read = reader => assert!(matches!(read, Err(Error::Busy { .. })), "{read:?}"),
            () = writer => {}
        }
    });
}

#[test]
fn followers_see_only_changes_of_their_keys() {
    simulated_with(async |server, zk| {
        let store = store(&zk);
        let mut all = store.follow();
        let mut below = store.follow_below("db");
        assert_eq!(next(&mut all).await.revision(), Revision::NONE);
        assert!(next(&mut below).await.entries().is_empty());
        let (now, _) = tokio::join!(next(&mut all), set(&store, "dbs", 1));
        assert_eq!(values(&now), [("dbs", "1")]);
        set(&store, "db.port", 2).await;
        let last = set(&store, "db", 3).await;
        // Those in between are left out.
        let now = next(&mut below).await;
        assert_eq!((values(&now), now.revision()), (vec![("db", "3"), ("db.port", "2")], last));
        assert_eq!(values(&next(&mut all).await), [("db", "3"), ("db.port", "2"), ("dbs", "1")]);
        // It costs no requests but these.
        store.update().remove("db.port").commit().await.unwrap();
        assert_eq!(values(&next(&mut below).await), [("db", "3")]);
        // The store goes, and comes again.
        zk.delete(STORE).deleting_children().await.unwrap();
        assert!(next(&mut below).await.entries().is_empty());
        assert!(next(&mut all).await.entries().is_empty());
        set(&store, "db.port", 4).await;
        assert_eq!(values(&next(&mut below).await), [("db.port", "4")]);
        let stream = below.into_stream();
        pin_mut!(stream);
        let (now, _) = tokio::join!(stream.next(), set(&store, "db.port", 5));
        assert_eq!(values(&now.unwrap().unwrap()), [("db.port", "5")]);
        let (end, closed) = tokio::join!(stream.next(), zk.close());
        closed.unwrap();
        assert_matches!(end, Some(Err(Error::Framework(error)))
            if error.kind() == ErrorKind::Closed);
        assert!(stream.next().await.is_none());
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}

#[test]
fn followers_survive_the_session_and_an_outage() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let (ours, theirs) = (store(&zk), store(&other));
        let mut watch = ours.follow();
        next(&mut watch).await;
        set(&theirs, "a", 1).await;
        assert_eq!(values(&next(&mut watch).await), [("a", "1")]);
        expire(&server, &zk).await;
        // More than the history keeps.
        for number in 0..20 {
            set(&theirs, "a", number).await;
        }
        assert_eq!(values(&next(&mut watch).await), [("a", "19")]);
        server.stop().await;
        let restart = async {
            spend(Duration::from_secs(120)).await;
            server.restart().await.unwrap();
            let zk = connected(&server).await;
            set(&store(&zk), "a", 20).await;
        };
        let (now, ()) = tokio::join!(next(&mut watch), restart);
        assert_eq!(values(&now), [("a", "20")]);
    });
}

#[test]
fn history_tells_what_was_changed_and_goes_back() {
    simulated_with(async |server, zk| {
        let store = store(&zk).kept(4);
        let mut made = Vec::new();
        for number in 1..=6 {
            let update = store.update().set("a", number);
            let update = if number == 4 { update.set("once", 1) } else { update.remove("once") };
            made.push(update.commit().await.unwrap());
        }
        let history = store.history().await.unwrap();
        assert_eq!(history.iter().map(|change| change.revision).collect::<Vec<_>>(), made[2..]);
        let [_, fourth, fifth, _] = &history[..] else { panic!("{history:?}") };
        let data = |text: &'static str| Some(Bytes::from(text));
        assert_eq!((&fourth.keys["a"].before, &fourth.keys["a"].after), (&data("3"), &data("4")));
        assert_eq!((&fifth.keys["once"].before, &fifth.keys["once"].after), (&data("1"), &None));
        assert!(fourth.at_ms > 0 && fourth.at_ms <= fifth.at_ms);
        assert_eq!(server.probe().children("/config/orders/history").len(), 4);

        for gone in [made[1], Revision::new(1), Revision::new(i64::MAX), Revision::NONE] {
            let error = store.roll_back(gone).await.unwrap_err();
            assert_matches!(error, Error::NotKept { revision, .. } if revision == gone);
        }
        assert_eq!(store.roll_back(made[5]).await.unwrap(), made[5]);
        let back = store.roll_back(made[3]).await.unwrap();
        let now = store.snapshot().await.unwrap();
        assert_eq!((values(&now), now.revision()), (vec![("a", "4"), ("once", "1")], back));
        // A rollback is an update, too, and can be rolled back.
        store.roll_back(made[5]).await.unwrap();
        assert_eq!(values(&store.snapshot().await.unwrap()), [("a", "6")]);
        // Fewer are kept from now on.
        let store = store.kept(1);
        set(&store, "a", 7).await;
        assert_eq!(store.history().await.unwrap().len(), 1);
    });
}

#[test]
fn a_follower_waits_while_the_server_is_read_only() {
    simulated_on(TestServer::in_memory, async |server| {
        server.set_read_only(true);
        let zk = start(builder(&server).read_only(true)).await;
        let store = store(&zk);
        let mut watch = store.follow();
        // Only a quorum knows if there is a store.
        timeout(Duration::from_secs(30), watch.next()).await.expect_err("a response");
        assert!(requests(&server.probe()) < 10, "{}", server.probe());
        server.set_read_only(false);
        assert_eq!(next(&mut watch).await.revision(), Revision::NONE);
        set(&store, "a", 1).await;
        assert_eq!(values(&next(&mut watch).await), [("a", "1")]);
    });
}

/// An operator deletes records of the history.
#[test]
fn roll_back_needs_the_record_of_every_update_since() {
    simulated_with(async |server, zk| {
        let store = store(&zk);
        let mut made = vec![Revision::new(0)];
        for number in 1..=5 {
            // An update that only one record knows of.
            let update = store.update().set("a", number).set(format!("k{number}"), number);
            made.push(update.commit().await.unwrap());
        }
        made[0] = Revision::new(server.probe().stat(STORE).unwrap().czxid);
        zk.delete("/config/orders/history/0000000003").await.unwrap();
        let before = store.snapshot().await.unwrap();
        for to in &made[..=3] {
            let error = store.roll_back(*to).await.unwrap_err();
            assert!(matches!(error, Error::NotKept { revision, .. } if revision == *to), "{error}");
        }
        assert_eq!(store.snapshot().await.unwrap(), before);
        let back = store.roll_back(made[4]).await.unwrap();
        let now = store.snapshot().await.unwrap();
        let expected = [("a", "4"), ("k1", "1"), ("k2", "2"), ("k3", "3"), ("k4", "4")];
        assert_eq!((values(&now), now.revision()), (expected.to_vec(), back));
        assert_eq!(store.history().await.unwrap().len(), 5);
    });
}

#[test]
fn a_store_can_be_emptied_again() {
    simulated_with(async |server, zk| {
        let store = store(&zk);
        set(&store, "a", 1).await;
        set(&store, "b", 1).await;
        let made = Revision::new(server.probe().stat(STORE).unwrap().czxid);
        store.roll_back(made).await.unwrap();
        assert!(store.snapshot().await.unwrap().entries().is_empty());
        let nothing = ConfigStore::new(&zk, "/config/none");
        assert!(matches!(nothing.roll_back(made).await, Err(Error::NotKept { .. })));
        assert!(nothing.history().await.unwrap().is_empty());
    });
}

/// Every request and every response of each kind once.
#[test]
fn lost_messages_make_no_difference() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for opcode in [OpCode::Multi, OpCode::GetData, OpCode::GetChildren2, OpCode::Sync] {
                for skipped in 0..4 {
                    let (server, zk) = in_memory().await;
                    let store = store(&zk);
                    let mut watch = store.follow();
                    let lost = always(&server, opcode, verdict).after(skipped).times(1);
                    let mut made = Vec::new();
                    for number in 1..=3 {
                        made.push(
                            store
                                .update()
                                .set("a", number)
                                .set("b", number)
                                .commit()
                                .await
                                .unwrap(),
                        );
                    }
                    let last = store.roll_back(made[1]).await.unwrap();
                    let (read, followed) =
                        (store.snapshot().await.unwrap(), next(&mut watch).await);
                    assert_eq!(read, followed);
                    assert_eq!(
                        (values(&read), read.revision()),
                        (vec![("a", "2"), ("b", "2")], last)
                    );
                    // Nothing was done twice.
                    let made: Vec<_> = made.into_iter().chain([last]).collect();
                    let history = store.history().await.unwrap();
                    assert_eq!(
                        history.iter().map(|change| change.revision).collect::<Vec<_>>(),
                        made
                    );
                    assert_eq!(lost.hits(), 1, "{opcode:?} {verdict:?} {skipped}");
                }
            }
        }
    });
}

/// Other clients update before the outcome is known. The record shows it for the time that it is
/// kept.
#[test]
fn an_update_with_a_lost_response_is_found_or_unknown() {
    let cases = [(0, true), (9, true), (10, false)];
    simulated_each_on(cases, two_in_memory, async |(others, is_known), (server, zk, other)| {
        let theirs = store(&other);
        let first = set(&theirs, "a", 0).await;
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let ours = zk.session().unwrap().id.get();
        let _slow = server.rule(move |request| {
            let is_ours = request.is(OpCode::Sync) && request.session_id() == ours;
            if is_ours { Verdict::Delay(Duration::from_secs(2)) } else { Verdict::Pass }
        });
        // A condition that no longer holds when it is read again.
        let update = store(&zk).update().if_revision("a", Some(first)).set("a", -1);
        let update = tokio::spawn(update.commit());
        let probe =
            until(&server, |probe| probe.data("/config/orders/values/a").unwrap() == "-1").await;
        let made = Revision::new(probe.stat(STORE).unwrap().mzxid);
        drop(lost);
        for number in 0..others {
            set(&theirs, "a", number).await;
        }
        match update.await.unwrap() {
            Ok(revision) => assert!(is_known && revision == made),
            Err(error) => assert!(!is_known && error.may_have_applied(), "{error}"),
        }
        let updates = server.probe().stat(STORE).unwrap().version;
        assert_eq!(updates, 2 + i32::try_from(others).unwrap());
    });
}

#[test]
fn an_update_survives_the_end_of_its_session() {
    simulated_each([true, false], async |applied, server, zk| {
        let store = store(&zk);
        set(&store, "a", 0).await;
        let verdict = if applied { Verdict::LoseReply } else { Verdict::LoseRequest };
        let lost = once(&server, OpCode::Multi, verdict);
        let update = tokio::spawn(store.update().set("a", 1).commit());
        lost.fired().await;
        expire(&server, &zk).await;
        update.await.unwrap().unwrap();
        assert_eq!(store.history().await.unwrap().len(), 2, "{applied}");
    });
}

#[test]
fn requests_are_those_of_the_documentation() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let ours = store(&zk);
        let mut update = ours.update();
        for number in 0..20 {
            update = update.set(format!("k{number}"), number);
        }
        update.commit().await.unwrap();
        let cost = async |run: &mut (dyn Future<Output = ()> + Unpin)| {
            let before = server.probe();
            run.await;
            let after = server.probe();
            (requests(&after) - requests(&before), after.notifications() - before.notifications())
        };
        let mut watch = store(&other).follow();
        assert_eq!(cost(&mut Box::pin(async { drop(ours.snapshot().await) })).await, (23, 0));
        assert_eq!(cost(&mut Box::pin(async { drop(next(&mut watch).await) })).await, (22, 0));
        for keys in [1, 5] {
            let update =
                (0..keys).fold(ours.update(), |update, key| update.set(format!("k{key}"), "new"));
            // And the notification of the follower.
            let commit = async { assert!(update.set("always", keys).commit().await.is_ok()) };
            assert_eq!(cost(&mut Box::pin(commit)).await.0, keys + 1 + 4);
        }
        assert_eq!(cost(&mut Box::pin(async { drop(next(&mut watch).await) })).await.0, 3);
    });
}

#[test]
fn mistakes_are_refused() {
    simulated_with(async |server, zk| {
        let nowhere = ConfigStore::new(&zk, "no-slash");
        for (operation, error) in [
            ("snapshot", nowhere.snapshot().await.unwrap_err()),
            ("update", nowhere.update().set("a", 1).commit().await.unwrap_err()),
            ("follow", nowhere.follow().next().await.unwrap_err()),
            ("follow", nowhere.follow_below("a").next().await.unwrap_err()),
            ("history", nowhere.history().await.unwrap_err()),
            ("roll_back", nowhere.roll_back(Revision::NONE).await.unwrap_err()),
        ] {
            let Error::Framework(error) = error else { panic!("{operation}: {error}") };
            let told = (error.kind(), error.operation(), error.path());
            assert_eq!(told, (ErrorKind::InvalidPath, operation, "no-slash"));
        }
        let store = store(&zk);
        for key in ["", ".", "a/b", "a..b", ".a", "a.", "a\nb", ".."] {
            let set = store.update().set(key, 1).commit().await;
            assert_matches!(&set, Err(Error::InvalidKey { key: told, .. }) if told == key);
            let condition = store.update().set("a", 1).if_revision(key, None).commit().await;
            assert!(matches!(condition, Err(Error::InvalidKey { .. })), "{key:?}");
            let below = store.follow_below(key).next().await;
            assert!(matches!(below, Err(Error::InvalidKey { .. })), "{key:?}");
        }
        assert!(matches!(store.update().commit().await, Err(Error::NoChanges { .. })));
        assert!(!server.probe().exists("/config"));

        zk.create("/other").data("something else").await.unwrap();
        let other = ConfigStore::new(&zk, "/other");
        for error in [
            other.snapshot().await.unwrap_err(),
            other.update().set("a", 1).commit().await.unwrap_err(),
            other.follow().next().await.unwrap_err(),
        ] {
            assert!(matches!(&error, Error::NotAStore { path } if path == "/other"), "{error}");
        }

        set(&store, "a", 1).await;
        let large =
            store.update().set("large", Bytes::from(vec![0; 2 << 20])).commit().await.unwrap_err();
        assert!(!large.may_have_applied());
        assert_matches!(&large, Error::Framework(error) if error.kind() == ErrorKind::TooLarge);
        let refuse = always(&server, OpCode::Multi, Verdict::Refuse(ErrorCode::NoAuth));
        let denied = store.update().set("a", 2).commit().await.unwrap_err();
        assert_matches!(&denied, Error::Framework(error)
            if error.code() == Some(ErrorCode::NoAuth));
        drop(refuse);
        assert_eq!(values(&store.snapshot().await.unwrap()), [("a", "1")]);
    });
}

/// An error of the store is returned once, and then the next different state.
#[test]
fn a_follower_of_a_store_with_a_foreign_value_does_not_spin() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let store = store(&zk);
        set(&store, "a", 1).await;
        let mut watch = store.follow();
        next(&mut watch).await;
        let by_hand = async |n: u8| {
            other.set_data("/config/orders/values/a", n.to_string()).await.unwrap();
            set(&ConfigStore::new(&other, STORE), "b", n.into()).await;
        };
        let mut fresh = store.follow();
        other.set_data("/config/orders/values/a", "2").await.unwrap();
        let error = fresh.next().await.unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        let before = requests(&server.probe());
        assert!(timeout(Duration::from_secs(3600), fresh.next()).await.is_err());
        let cost = requests(&server.probe()) - before;
        assert!(cost <= 400, "{cost} requests in an hour");
        // An update of the key puts it right.
        set(&store, "a", 3).await;
        assert_eq!(values(&next(&mut fresh).await), [("a", "3")]);
        // A node that is no store is reported once, and again when it becomes a store.
        by_hand(4).await;
        other.delete(STORE).deleting_children().await.unwrap();
        other.create(STORE).data("something else").await.unwrap();
        let mut fresh = store.follow();
        assert!(matches!(fresh.next().await.unwrap_err(), Error::NotAStore { .. }));
        assert!(timeout(Duration::from_secs(600), fresh.next()).await.is_err());
        other.delete(STORE).await.unwrap();
        set(&store, "a", 5).await;
        let last = async {
            loop {
                let now = next(&mut fresh).await;
                if !now.entries().is_empty() {
                    break now;
                }
            }
        };
        assert_eq!(values(&last.await), [("a", "5")]);
    });
}

#[test]
fn values_that_are_written_by_hand_are_found_out() {
    simulated_with(async |_server, zk| {
        let store = store(&zk);
        set(&store, "a", 1).await;
        set(&store, "b", 1).await;
        zk.set_data("/config/orders/values/a", "2").await.unwrap();
        let error = store.snapshot().await.unwrap_err();
        assert_matches!(&error, Error::Foreign { path } if path == "/config/orders/values/a");
        let error = store.follow().next().await.unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error}");
        // Of the other one an update says nothing about this, but one of it mends it.
        set(&store, "a", 3).await;
        assert_eq!(values(&store.snapshot().await.unwrap()), [("a", "3"), ("b", "1")]);
        let history = store.history().await.unwrap();
        assert_eq!(history.last().unwrap().keys["a"].before.as_deref(), Some(&b"2"[..]));
    });
}

#[test]
fn nothing_is_left_behind_but_the_store() {
    simulated_with(async |server, zk| {
        let store = store(&zk);
        set(&store, "a", 1).await;
        let mut watch = store.follow();
        next(&mut watch).await;
        drop(watch);
        zk.delete(STORE).deleting_children().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_history_of_no_updates_is_refused() {
    simulated_with(async |server, zk| {
        let error = store(&zk).kept(0).update().set("a", 1_i64).commit().await.unwrap_err();
        assert_matches!(&error, Error::Zero { path, setting: "kept" } if path == STORE);
        assert!(!server.probe().exists(STORE), "{}", server.probe());
    });
}

/// The typed configuration of a service.
#[derive(Debug, PartialEq)]
struct Limits {
    requests: u32,
}

impl TryFrom<Snapshot> for Limits {
    type Error = Error;

    fn try_from(now: Snapshot) -> Result<Self, Error> {
        Ok(Self { requests: now.get("requests")?.unwrap_or(100) })
    }
}

#[test]
fn a_service_receives_its_configuration_as_a_value() {
    simulated_with(async |server, zk| {
        let store = ConfigStore::new(&zk, "/config/limits");
        let mut limits = store.follow_as::<Limits>().await.unwrap();
        assert_eq!(limits.get().requests, 100, "there is no store yet");
        let mut clone = limits.clone();
        store.update().set("requests", 200).commit().await.unwrap();
        assert_eq!(limits.changed().await.unwrap().requests, 200);
        assert_eq!(clone.changed().await.unwrap().requests, 200);
        assert_eq!(clone.get(), limits.get());

        // An invalid value changes nothing, and is reported.
        let mut errors = zk.background_errors();
        store.update().set("requests", "many").commit().await.unwrap();
        let error = errors.next().await.unwrap();
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Undecodable, "follow_as"));
        assert!(error.path().ends_with("/requests"), "{error}");
        assert_eq!(limits.get().requests, 200);
        assert!(limits.changed().now_or_never().is_none());
        let refused = store.follow_as::<Limits>().await.unwrap_err();
        assert!(matches!(refused, Error::Undecodable { .. }), "{refused}");

        // Across sessions.
        store.update().set("requests", 300).commit().await.unwrap();
        assert_eq!(limits.changed().await.unwrap().requests, 300);
        expire(&server, &zk).await;
        store.update().set("requests", 400).commit().await.unwrap();
        assert_eq!(limits.changed().await.unwrap().requests, 400);

        let part = store.follow_below("other").receive::<Limits>().await.unwrap();
        assert_eq!(part.get().requests, 100);
        drop(part);
        zk.close().await.unwrap();
        assert_eq!(limits.changed().await, None);
        assert_eq!(limits.get().requests, 400);
    });
}

/// A read every second would be refused 3,600 times.
#[test]
fn refused_reads_are_repeated_ever_more_slowly() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let theirs = store(&other);
        set(&theirs, "requests", 200).await;
        let mut limits = store(&zk).follow_as::<Limits>().await.unwrap();
        let mut errors = zk.background_errors();
        let us = session_id(&zk).get();
        let refused = rule_if(
            &server,
            move |request| {
                let is_read = request.paths().any(|path| path.starts_with(STORE));
                is_read && request.session_id() == us
            },
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        set(&theirs, "requests", 300).await;
        idle(Duration::from_secs(3600)).await;
        assert!((100..1000).contains(&refused.hits()), "{}", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        assert_eq!(limits.get().requests, 200);
        drop(refused);
        assert_eq!(limits.changed().await.unwrap().requests, 300);
    });
}

#[test]
fn the_task_of_a_configuration_ends_with_its_last_value() {
    simulated_with(async |server, zk| {
        let store = ConfigStore::new(&zk, "/config/limits");
        let limits = store.follow_as::<Limits>().await.unwrap();
        let other = limits.clone();
        until(&server, |probe| !probe.watches().is_empty()).await;
        drop(limits);
        assert!(!server.probe().watches().is_empty());
        drop(other);
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}
