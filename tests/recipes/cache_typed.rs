//! Caches with values of a type: reads, events, indexes and models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use zk_curator::model::ModelSpec;
use zk_curator::value::{Failure, FromData, ToData};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::{CacheEvent, CuratorCache, Lookup, TypedCache, TypedNode};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    always, builder, connected, expire, recorded, session_id, simulated_with, start,
};

use crate::cache::{ROOT, create, loaded};

zk_curator::path_template!(StockPath = "/tree/{shop}/{article}": shop: &str, article: u64);
const STOCK: ModelSpec<StockPath, u32> = StockPath::spec();

pub(crate) async fn typed(zk: &CuratorFramework) -> TypedCache<u32> {
    loaded(zk).await.typed()
}

fn value<T: Copy>(node: &TypedNode<T>) -> T {
    **node.value.as_ref().unwrap()
}

/// Counts the requests of a framework from now on, by their kind.
pub(crate) fn of(server: &TestServer, zk: &CuratorFramework) -> impl Fn(OpCode) -> usize + use<> {
    let (rule, requests) = recorded(server);
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
fn events_have_values_and_hide_nothing() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "1").await;
        let cache = typed(&zk).await;
        let (mut events, mut changes) = (cache.events(), cache.events_from_now());
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

/// A value whose decoding panics for 13.
#[derive(Debug)]
struct Explosive(u32);

impl FromData for Explosive {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        let value = u32::from_data(data)?;
        assert_ne!(value, 13, "as the test wants it");
        Ok(Self(value))
    }
}

#[test]
fn a_panic_in_a_value_or_a_key_concerns_one_node() {
    simulated_with(async |_server, zk| {
        for (path, data) in [("/tree/a", "1"), ("/tree/b", "13"), ("/tree/c", "17")] {
            create(&zk, path, data).await;
        }
        let cache = loaded(&zk).await.typed::<Explosive>();
        let index = cache.index_by(|value| {
            assert_ne!(value.0, 17, "as the test wants it");
            value.0
        });
        let value = |path: &str| match cache.get(path) {
            Lookup::Present(node) => node.value.map(|value| value.0).map_err(|why| why.to_string()),
            _ => panic!("{path} is not there"),
        };
        assert_eq!(value("/tree/a"), Ok(1));
        assert_eq!(value("/tree/b"), Err("its `FromData` panicked".to_owned()));
        assert_eq!(value("/tree/c"), Ok(17));
        assert_eq!(index.keys(), [1]);
        let zxid = zk.set_data("/tree/b", "2").await.unwrap().mzxid;
        cache.cache().reflects(zxid).await.unwrap();
        let zxid = zk.set_data("/tree/c", "3").await.unwrap().mzxid;
        cache.cache().reflects(zxid).await.unwrap();
        assert_eq!(index.keys(), [1, 2, 3]);
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
