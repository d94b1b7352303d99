//! Caches with values of a type: reads, writes that are visible, modifications from memory, events
//! and indexes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{sleep, timeout};
use zk_curator::model::ModelSpec;
use zk_curator::value::{Failure, FromData, ToData};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::cache::{CacheEvent, CuratorCache, Lookup, TypedCache, TypedNode};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    always, builder, cluster_of_three, connected, cut_off, expire, in_memory, once, poll_then_drop,
    rule_if, session_id, simulated, simulated_from, simulated_on, simulated_with, start,
    two_in_memory,
};

use crate::cache::{ROOT, create, loaded};
use crate::cache_cost::distant;

zk_curator::path_template!(StockPath = "/tree/{shop}/{article}": shop: &str, article: u64);
const STOCK: ModelSpec<StockPath, u32> = StockPath::spec();

async fn typed(zk: &CuratorFramework) -> TypedCache<u32> {
    loaded(zk).await.typed()
}

fn value<T: Copy>(node: &TypedNode<T>) -> T {
    **node.value.as_ref().unwrap()
}

fn shown(cache: &TypedCache<u32>, path: &str) -> Option<u32> {
    cache.get(path).present().and_then(|node| node.value.ok()).map(|value| *value)
}

fn of(server: &TestServer, zk: &CuratorFramework) -> impl Fn(OpCode) -> usize + use<> {
    let (rule, requests) = zk_curator_tests::recorded(server);
    let session = session_id(zk).get();
    move |opcode| {
        let _rule = &rule;
        let requests = requests.lock().unwrap();
        requests.get(&session).into_iter().flatten().filter(|sent| **sent == opcode).count()
    }
}

/// A value that counts how often it is decoded.
#[derive(Debug)]
struct Counted;
static DECODED: AtomicUsize = AtomicUsize::new(0);

impl FromData for Counted {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        DECODED.fetch_add(1, Ordering::Relaxed);
        u32::from_data(data).map(|_| Self)
    }
}

#[test]
fn a_value_is_decoded_once_for_each_version() {
    simulated_with(async |_server, zk| {
        for (path, data) in [("/tree/a", "1"), ("/tree/b", "no number")] {
            create(&zk, path, data).await;
        }
        let cache = loaded(&zk).await.typed::<Counted>();
        let (first, second) = (cache.clone(), cache.cache().typed::<Counted>());
        let Lookup::Present(one) = first.get("/tree/a") else { panic!("it is loaded") };
        let Lookup::Present(two) = second.get("/tree/a") else { panic!("it is loaded") };
        assert!(Arc::ptr_eq(one.value.as_ref().unwrap(), two.value.as_ref().unwrap()));
        assert_eq!(DECODED.load(Ordering::Relaxed), 1);
        for _ in 0..3 {
            assert_eq!(cache.children_of(ROOT).len(), 2);
            assert!(cache.get("/tree/b").present().unwrap().value.is_err());
        }
        assert_eq!(DECODED.load(Ordering::Relaxed), 2, "errors are kept too");
        // Another type is decoded as well, and the first one stays.
        let text = cache.cache().typed::<String>();
        assert_eq!(text.get("/tree/a").present().unwrap().value.unwrap().as_str(), "1");
        let stat = zk.set_data("/tree/a", "2").await.unwrap();
        cache.cache().reflects(stat.mzxid).await.unwrap();
        assert!(cache.get("/tree/a").is_present());
        assert_eq!(DECODED.load(Ordering::Relaxed), 3);
        let all = cache.all();
        let paths: Vec<_> = all.iter().map(|node| (&*node.node.path, node.is_empty())).collect();
        assert_eq!(paths, [("/tree", true), ("/tree/a", false), ("/tree/b", false)]);
    });
}

#[test]
fn a_read_through_knows_absent_from_not_loaded() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a", "1").await;
        let hold = always(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(60)));
        let early: TypedCache<u32> = CuratorCache::tree(&zk, ROOT).start().typed();
        assert!(matches!(early.get("/tree/a"), Lookup::Unknown));
        let other = connected(&server).await;
        drop(early);
        drop(hold);
        let cache: TypedCache<u32> = CuratorCache::tree(&other, ROOT).start().typed();
        let read = cache.get_through("/tree/a").await.unwrap().unwrap();
        assert_eq!(value(&read), 1, "from the server, before the load");
        assert!(cache.get_through("/tree/none").await.unwrap().is_none());
        cache.cache().loaded().await.unwrap();
        let sent = of(&server, &other);
        assert_eq!(value(&cache.get_through("/tree/a").await.unwrap().unwrap()), 1);
        assert!(cache.get_through("/tree/none").await.unwrap().is_none());
        assert_eq!(sent(OpCode::GetData), 0, "from memory");
    });
}

#[test]
fn a_put_is_visible_when_it_returns() {
    simulated_on(two_in_memory, async |(server, _, other)| {
        let zk = distant(&server).await;
        create(&other, "/tree/a", "0").await;
        let cache = typed(&zk).await;
        for n in 1..20 {
            let stat = cache.put("/tree/a", &n).await.unwrap();
            assert_eq!(stat.version, i32::try_from(n).unwrap());
            assert_eq!(shown(&cache, "/tree/a"), Some(n));
        }
        cache.put("/tree/new/deep", &7).await.unwrap();
        assert_eq!(shown(&cache, "/tree/new/deep"), Some(7));
        // The session ends after the write, before the cache has read it.
        let us = session_id(&zk).get();
        let late = rule_if(
            &server,
            move |request| request.session_id() == us && request.is(OpCode::MultiRead),
            Verdict::LoseRequest,
        );
        let ended = async {
            late.fired().await;
            expire(&server, &zk).await;
        };
        let (put, ()) = tokio::join!(cache.put("/tree/a", &100), ended);
        put.unwrap();
        assert_eq!(shown(&cache, "/tree/a"), Some(100));
        drop(late);
        // Another client's later write counts as well.
        let (put, _) = tokio::join!(
            cache.put("/tree/a", &101),
            other.set_data("/tree/a", "102").into_future()
        );
        put.unwrap();
        assert!(shown(&cache, "/tree/a").unwrap() > 100);
    });
}

#[test]
fn a_put_is_visible_on_a_lagging_follower() {
    for seed in 0..30 {
        simulated_from(seed, async {
            let cluster = cluster_of_three().await;
            let zk = start(
                zk_curator_tests::builder_for(&cluster.connect_string())
                    .connector(Arc::new(cluster.connector())),
            )
            .await;
            create(&zk, "/tree/a", "0").await;
            let cache = typed(&zk).await;
            let member = usize::try_from(seed % 3).unwrap();
            let _late = cluster.lag_by(member, Duration::from_millis(20 * (seed + 1)));
            for n in 1..8 {
                if n == 4 {
                    cluster.disconnect(&zk);
                }
                match cache.put("/tree/a", &n).await {
                    Ok(_) => assert_eq!(shown(&cache, "/tree/a"), Some(n), "seed {seed}"),
                    Err(error) => assert!(error.may_have_applied() || error.is_retryable()),
                }
            }
            zk.close().await.unwrap();
        });
    }
}

#[test]
fn a_put_that_cannot_be_shown_says_that_it_was_applied() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a", "0").await;
        let cache = typed(&zk).await;
        let before = server.probe().total_requests();
        for path in ["/other", "/treetop", "tree", ""] {
            let error = cache.put(path, &1).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
            let error = cache.modify(path, |n| n).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
        }
        assert_eq!(server.probe().total_requests(), before);
        let hidden = CuratorCache::tree(&zk, ROOT).keep(|path| path != "/tree/a").start();
        let error = hidden.typed::<u32>().put("/tree/a", &1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        // The cache ends while the write is on its way.
        let late = once(&server, OpCode::SetData, Verdict::Delay(Duration::from_secs(1)));
        let ended = async {
            late.fired().await;
            cache.cache().clone().close().await;
        };
        let (put, ()) = tokio::join!(cache.put("/tree/a", &5), ended);
        let error = put.unwrap_err();
        assert!(error.kind() == ErrorKind::Closed && error.may_have_applied(), "{error}");
        assert_eq!(server.probe().data("/tree/a").unwrap(), "5");
        // A lost reply is unknown, as for every put.
        let cache = typed(&zk).await;
        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        let error = cache.put("/tree/a", &6).await.unwrap_err();
        assert!(error.may_have_applied() && lost.hits() == 1, "{error}");
    });
}

#[test]
fn an_uncontended_modification_takes_one_request() {
    simulated_on(two_in_memory, async |(server, _, other)| {
        let zk = distant(&server).await;
        create(&other, "/tree/a", "1").await;
        let cache = typed(&zk).await;
        let began = tokio::time::Instant::now();
        let sent = of(&server, &zk);
        let node = cache.modify("/tree/a", |n| n + 1).await.unwrap();
        assert_eq!((node.value, node.stat.version), (2, 1));
        assert_eq!(began.elapsed().as_millis(), 2, "one round trip");
        // The next ones begin with the last result, whether the cache shows it or not.
        for n in 3..10 {
            assert_eq!(cache.modify("/tree/a", |n| n + 1).await.unwrap().value, n);
        }
        assert_eq!(began.elapsed().as_millis(), 16);
        assert_eq!((sent(OpCode::SetData), sent(OpCode::GetData)), (8, 0));
        cache
            .cache()
            .reflects(cache.modify("/tree/a", |n| n).await.unwrap().stat.mzxid)
            .await
            .unwrap();
        assert_eq!(shown(&cache, "/tree/a"), Some(9));
        // A write of another client that the cache has not seen costs a read.
        let late = rule_if(
            &server,
            |request| request.is(OpCode::MultiRead),
            Verdict::Delay(Duration::from_secs(1)),
        );
        other.set_data("/tree/a", "50").await.unwrap();
        assert_eq!(cache.modify("/tree/a", |n| n + 1).await.unwrap().value, 51);
        drop(late);
        // A node that only the servers have, and one that they do not have either.
        assert_eq!(cache.modify("/tree/none", |n| n).await.unwrap_err().kind(), ErrorKind::NoNode);
        other.delete("/tree/a").await.unwrap();
        let error = cache.modify("/tree/a", |n| n).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::NoNode, false));
    });
}

#[test]
fn concurrent_modifications_lose_nothing() {
    for seed in 0..10 {
        simulated_from(seed, async {
            let (server, zk, other) = two_in_memory().await;
            create(&zk, "/tree/a", "0").await;
            let caches =
                [typed(&zk).await, typed(&other).await, typed(&distant(&server).await).await];
            let tasks: Vec<_> = (0..30)
                .map(|n| {
                    let cache = caches[n % 3].clone();
                    tokio::spawn(async move { cache.modify("/tree/a", |n| n + 1).await })
                })
                .collect();
            let mut values = BTreeSet::new();
            for task in tasks {
                values.insert(task.await.unwrap().unwrap().value);
            }
            assert_eq!(values.into_iter().collect::<Vec<_>>(), (1..=30).collect::<Vec<_>>());
            assert_eq!(server.probe().data("/tree/a").unwrap(), "30");
        });
    }
}

#[test]
fn modifications_survive_faults_without_a_lost_update() {
    for seed in 0..20 {
        simulated_from(seed, async {
            let (server, zk, other) = two_in_memory().await;
            create(&zk, "/tree/a", "0").await;
            let (ours, theirs) = (typed(&zk).await, typed(&other).await);
            let verdicts = [
                Verdict::LoseReply,
                Verdict::LoseRequest,
                Verdict::Refuse(ErrorCode::Throttled),
                Verdict::Disconnect,
            ];
            let (mut applied, mut unknown) = (0, 0);
            for n in 0..12 {
                let _fault = (n % 2 == 0)
                    .then(|| once(&server, OpCode::SetData, verdicts[(n / 2 + seed as usize) % 4]));
                if n == 7 {
                    expire(&server, &zk).await;
                }
                let more = |n: u32| n + 1;
                let both = [ours.modify("/tree/a", more), theirs.modify("/tree/a", more)];
                for result in futures_util::future::join_all(both).await {
                    match result {
                        Ok(_) => applied += 1,
                        Err(error) if error.may_have_applied() => unknown += 1,
                        Err(error) => {
                            assert!(error.is_retryable() || error.is_session_lost(), "{error}")
                        }
                    }
                }
            }
            let count: u32 = zk.typed().get("/tree/a").await.unwrap().value;
            assert!((applied..=applied + unknown).contains(&count), "{applied} {count} {unknown}");
        });
    }
}

#[test]
fn a_cache_without_data_or_connection_reads_first() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&zk, "/tree/a", "4").await;
        let bare = CuratorCache::tree(&zk, ROOT).without_data().start();
        bare.loaded().await.unwrap();
        let sent = of(&server, &zk);
        assert_eq!(bare.typed::<u32>().modify("/tree/a", |n| n + 1).await.unwrap().value, 5);
        assert_eq!(sent(OpCode::GetData), 1);
        // Data that are no value are an error, and are not replaced.
        create(&zk, "/tree/b", "no number").await;
        let cache = typed(&zk).await;
        assert_eq!(
            cache.modify("/tree/b", |n| n).await.unwrap_err().kind(),
            ErrorKind::Undecodable
        );
        // During an outage the value in memory is not used.
        let cut = cut_off(&server, &zk);
        let mut freshness = cache.cache().freshness_changes();
        while freshness.next().await.unwrap().is_fresh() {}
        other.set_data("/tree/a", "70").await.unwrap();
        let modified = cache.modify("/tree/a", |n| n + 1);
        let back = async {
            sleep(Duration::from_millis(100)).await;
            drop(cut);
        };
        let (modified, ()) = tokio::join!(modified, back);
        assert_eq!(modified.unwrap().value, 71);
        assert!(timeout(Duration::from_secs(60), cache.put("/tree/a", &1)).await.unwrap().is_ok());
    });
}

#[test]
fn a_modification_of_a_replaced_node_is_reported() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&zk, "/tree/a", "1").await;
        let cache = typed(&zk).await;
        let late = always(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(1)));
        other.delete("/tree/a").await.unwrap();
        other.create("/tree/a").data("100").await.unwrap();
        let error = cache.modify("/tree/a", |n| n + 1).await.unwrap_err();
        // The deletion alone is known at once, and then the server is asked.
        assert!(error.may_have_applied(), "{error}");
        drop(late);
    });
}

#[test]
fn a_dropped_write_is_applied_or_not() {
    for step in 0..25 {
        simulated(async {
            let (server, zk) = in_memory().await;
            create(&zk, "/tree/a", "1").await;
            let cache = typed(&zk).await;
            let put = poll_then_drop(cache.put("/tree/a", &2), step).await;
            let modified = poll_then_drop(cache.modify("/tree/a", |n| n + 10), step).await;
            zk.sync("/").await.unwrap();
            let data = server.probe().data("/tree/a").unwrap();
            let possible: &[&str] = match (put, modified) {
                (None, None) => &["1", "2", "11", "12"],
                (None, Some(_)) => &["11", "12"],
                (Some(_), None) => &["2", "12"],
                (Some(_), Some(_)) => &["12"],
            };
            assert!(possible.contains(&std::str::from_utf8(&data).unwrap()), "{step} {data:?}");
            assert!(cache.modify("/tree/a", |n| n + 1).await.is_ok());
            drop(cache);
            zk.close().await.unwrap();
            assert!(server.probe().watches().is_empty() && server.probe().sessions().is_empty());
        });
    }
}

#[test]
fn events_have_values_and_hide_nothing() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "1").await;
        let cache = typed(&zk).await;
        let (mut events, mut changes) = (cache.events(), cache.changes());
        let Some(CacheEvent::Loaded(snapshot)) = events.next().await else { panic!("the first") };
        let values: Vec<_> = snapshot.nodes.iter().map(|node| node.value.as_deref().ok()).collect();
        assert_eq!(values, [None, Some(&1)]);
        cache.put("/tree/a", &2).await.unwrap();
        let Some(CacheEvent::Changed { old, new }) = changes.next().await else {
            panic!("changed")
        };
        assert_eq!((value(&old), value(&new)), (1, 2));
        zk.set_data("/tree/a", "no number").await.unwrap();
        let Some(CacheEvent::Changed { new, .. }) = changes.next().await else { panic!("changed") };
        assert!(new.value.is_err() && !new.is_empty());
        zk.delete("/tree/a").await.unwrap();
        let mut changes = Box::pin(changes.into_stream());
        let Some(CacheEvent::Deleted(node)) = changes.next().await else { panic!("deleted") };
        assert_eq!(&*node.node.path, "/tree/a");
        cache.cache().clone().close().await;
        while changes.next().await.is_some() {}
    });
}

#[test]
fn an_index_agrees_with_the_cache() {
    simulated_with(async |server, zk| {
        for n in 0..20_u32 {
            create(&zk, &format!("/tree/{n}"), &n.to_string()).await;
        }
        let cache = typed(&zk).await;
        let index = cache.index_by(|value| value % 3);
        let agrees = || {
            for key in 0..4 {
                let expected = cache
                    .all()
                    .into_iter()
                    .filter(|node| node.value.as_ref().is_ok_and(|value| **value % 3 == key));
                let mut expected: Vec<_> = expected.map(|node| node.node.path.clone()).collect();
                expected.sort();
                let found: Vec<_> =
                    index.get(&key).iter().map(|node| node.node.path.clone()).collect();
                assert_eq!(found, expected, "{key}");
            }
        };
        agrees();
        assert_eq!(index.keys(), [0, 1, 2]);
        for n in 0..60_u32 {
            let path = format!("/tree/{}", n % 20);
            let zxid = match n % 5 {
                0 => {
                    zk.delete(&path).quietly().await.unwrap();
                    cache.cache().synced().await.unwrap()
                }
                1 => zk.create(&path).or_set_data().data("no number").await.unwrap().stat.mzxid,
                _ => cache.put(path.as_str(), &(n * 7)).await.unwrap().mzxid,
            };
            cache.cache().reflects(zxid).await.unwrap();
            agrees();
        }
        // A node that cannot be read any more has no value.
        let last = cache.put("/tree/last", &3).await.unwrap();
        assert!(index.get(&0).iter().any(|node| &*node.node.path == "/tree/last"));
        assert!(last.version >= 0);
        expire(&server, &zk).await;
        cache.cache().synced().await.unwrap();
        agrees();
        let index = loaded(&zk).await.typed::<u32>().index_by(|_| ());
        assert!(!index.get(&()).is_empty(), "the index keeps the cache alive");
    });
}

#[test]
fn a_model_is_cached_as_it_is_specified() {
    simulated_with(async |server, zk| {
        let stock = zk.model(STOCK.compressed());
        stock.at(("berlin", 7)).put(&3).await.unwrap();
        assert_ne!(server.probe().data("/tree/berlin/7").unwrap(), "3");
        let berlin = TypedCache::of(&stock.under("berlin"))
            .configure(|cache| cache.filter(|path| path != "/tree/berlin/13"))
            .start()
            .unwrap();
        // The parent has no data, so it is not compressed either.
        assert_eq!(berlin.cache().loaded().await.unwrap().unreadable, 0);
        assert_eq!(value(&berlin.get("/tree/berlin/7").present().unwrap()), 3);
        berlin.put("/tree/berlin/8", &4).await.unwrap();
        assert_eq!(berlin.modify("/tree/berlin/7", |n| n * 2).await.unwrap().value, 6);
        assert_eq!(stock.at(("berlin", 8)).get().await.unwrap().value, 4);
        assert_ne!(server.probe().data("/tree/berlin/8").unwrap(), "4");
        assert!(matches!(berlin.get("/tree/berlin/13"), Lookup::Unknown));
        let error = TypedCache::of(&stock.under("a/b")).start().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
        let packing = start(builder(&server).enable_compression()).await;
        let plain = CuratorCache::tree(&packing, ROOT).undecompressed().start().typed::<u32>();
        plain.put("/tree/plain", &5).await.unwrap();
        assert_eq!(server.probe().data("/tree/plain").unwrap(), 5_u32.to_data().unwrap());
    });
}
