//! Caches at servers that refuse to read, or to read single nodes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::{ErrorCode, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::{CacheEvent, CuratorCache, Freshness, Lookup, StaleCause};
use zk_curator_testing::wait::{idle, past};
use zk_curator_testing::{RuleGuard, TestServer, Verdict};
use zk_curator_tests::{rule_if, simulated_each_on, simulated_with, two_in_memory, until};

use crate::cache::{ROOT, assert_same, create, loaded, next, without_persistent_watches};

/// Every request that reads is refused.
fn refuse_reads(server: &TestServer, code: ErrorCode) -> RuleGuard {
    server.rule(move |request| match request.opcode() {
        OpCode::MultiRead | OpCode::GetData | OpCode::GetChildren2 => Verdict::Refuse(code),
        _ => Verdict::Pass,
    })
}

/// A refusal of the server is no response about a node: neither during the load nor later.
#[test]
fn a_server_that_is_overloaded_empties_no_cache() {
    let cases = [true, false];
    simulated_each_on(cases, two_in_memory, async |has_persistent_watches, (server, zk, other)| {
        let _before_3_6 = (!has_persistent_watches).then(|| without_persistent_watches(&server));
        for n in 0..100 {
            create(&other, &format!("/tree/{n}"), "1").await;
        }
        let refused = refuse_reads(&server, ErrorCode::Throttled);
        let cache = CuratorCache::tree(&zk, ROOT).start();
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, cache.loaded()).await.is_err(), "it has loaded nothing");
        assert_eq!(
            (cache.freshness(), cache.get("/tree/1")),
            (Freshness::Loading, Lookup::Unknown)
        );
        assert!(refused.hits() < 40 * 3600 / 5, "{} requests in an hour", refused.hits());
        drop(refused);
        let told = cache.loaded().await.unwrap();
        assert_eq!((told.nodes, told.unreadable), (101, 0));
        // The same for a change.
        let mut changes = cache.events_from_now();
        let refused = refuse_reads(&server, ErrorCode::Throttled);
        other.set_data("/tree/1", "2").await.unwrap();
        let event = changes.next().await.unwrap();
        let CacheEvent::Stale { cause, .. } = event else { panic!("{event:?}") };
        assert_eq!(cause, StaleCause::Refused(ErrorKind::Throttled));
        assert!(timeout(hour, cache.synced()).await.is_err(), "it is not read");
        assert!(!cache.freshness().is_fresh());
        assert_eq!(cache.get("/tree/1").present().unwrap().data, "1", "the state from before");
        drop(refused);
        assert_eq!(next(&mut changes, 2).await, ["=/tree/1", "fresh"]);
        assert_same(&cache, &server).await;
        assert!(cache.freshness().is_complete());
    });
}

/// A node that temporarily cannot be read is named, counted, and retried.
#[test]
fn a_node_that_could_not_be_read_is_tried_again() {
    simulated_with(async |server, zk| {
        let _before_3_6 = without_persistent_watches(&server);
        create(&zk, "/tree/good", "1").await;
        create(&zk, "/tree/broken", "1").await;
        let broken = server.rule(|request| match request.opcode() {
            OpCode::GetData if request.path() == Some("/tree/broken") => {
                Verdict::Refuse(ErrorCode::MarshallingError)
            }
            _ => Verdict::Pass,
        });
        let cache = CuratorCache::tree(&zk, ROOT).start();
        let told = cache.loaded().await.unwrap();
        assert_eq!((told.nodes, told.unreadable), (2, 1));
        let kind = ErrorKind::Server(ErrorCode::MarshallingError);
        assert_eq!(cache.unreadable(), [("/tree/broken".to_owned(), kind)]);
        assert!(matches!(cache.freshness(), Freshness::Fresh { unreadable: 1, .. }));
        assert!(!cache.freshness().is_complete());
        past(Duration::from_secs(3600)).await;
        assert!((50..=130).contains(&broken.hits()), "{} requests in an hour", broken.hits());
        let mut freshness = cache.freshness_changes();
        assert!(!freshness.next().await.unwrap().is_complete());
        drop(broken);
        let told =
            timeout(Duration::from_secs(120), freshness.next()).await.expect("it is tried again");
        assert!(told.unwrap().is_complete());
        assert_same(&cache, &server).await;
        // A node that must not be read is not retried.
        drop((cache, freshness));
        until(&server, |probe| probe.watches().is_empty()).await;
        let closed = rule_if(
            &server,
            |request| request.is(OpCode::GetData) && request.path() == Some("/tree/broken"),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        let cache = loaded(&zk).await;
        idle(Duration::from_secs(3600)).await;
        assert_eq!(closed.hits(), 1);
        // Unless a caller requests it.
        drop(closed);
        cache.refresh("/tree/broken").await.unwrap();
        assert!(cache.freshness().is_complete() && cache.get("/tree/broken").is_present());
    });
}

/// All of them, one by one: neither together nor forever.
#[test]
fn a_request_that_is_refused_as_a_whole_is_no_storm() {
    simulated_with(async |server, zk| {
        for n in 0..500 {
            create(&zk, &format!("/tree/{n}"), "1").await;
        }
        let refused = refuse_reads(&server, ErrorCode::MarshallingError);
        let cache = CuratorCache::tree(&zk, ROOT).start();
        let told = cache.loaded().await.unwrap();
        assert_eq!((told.nodes, told.unreadable), (0, 1));
        assert!(!cache.freshness().is_complete());
        drop(refused);
        let mut freshness = cache.freshness_changes();
        while !freshness.next().await.unwrap().is_complete() {}
        assert_same(&cache, &server).await;
        assert_eq!(cache.len(), 501);
    });
}

/// The bytes of the nodes that were asked for within the time that a request is under way, at most.
#[test]
fn a_load_asks_for_few_bytes_at_a_time() {
    const FLIGHT: Duration = Duration::from_millis(10);
    const LARGE: usize = 400_000;
    const MOST: usize = 4 * 1024 * 1024;
    simulated_with(async |server, zk| {
        zk.create(ROOT).await.unwrap();
        for n in 0..500 {
            zk.create(format!("/tree/small-{n}")).data("1").await.unwrap();
        }
        for n in 0..60 {
            zk.create(format!("/tree/large-{n}")).data(vec![0; LARGE]).await.unwrap();
        }
        let asked: Arc<Mutex<Vec<(Instant, usize)>>> = Arc::default();
        let _slow = server.rule({
            let asked = Arc::clone(&asked);
            move |request| match request.opcode() {
                OpCode::MultiRead => {
                    let large = request.paths().filter(|path| path.contains("large")).count();
                    asked.lock().unwrap().push((Instant::now(), large * LARGE));
                    Verdict::Delay(FLIGHT)
                }
                _ => Verdict::Pass,
            }
        });
        let cache = CuratorCache::tree(&zk, ROOT).most_bytes(MOST).start();
        assert_eq!(cache.loaded().await.unwrap().nodes, 561);
        let asked = asked.lock().unwrap();
        let under_way = |until: Instant| -> usize {
            asked
                .iter()
                .filter(|(at, _)| *at <= until && until - *at < FLIGHT)
                .map(|(_, bytes)| bytes)
                .sum()
        };
        let most = asked.iter().map(|(at, _)| under_way(*at)).max().unwrap();
        assert!((LARGE..=2 * MOST).contains(&most), "{most} bytes at a time");
        assert!(asked.len() <= 110, "{} requests", asked.len());
    });
}
