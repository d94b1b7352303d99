//! Writes through a typed cache: visible when they return, and modifications that begin with the
//! value in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::ErrorKind;
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::cache::{CuratorCache, TypedCache};
use zk_curator_testing::Verdict;
use zk_curator_testing::wait::spend;
use zk_curator_tests::{
    builder_for, cluster_of_three, cut_off, expire, in_memory, join_all, once, poll_then_drop,
    rule_if, session_id, simulated, simulated_from, simulated_on, simulated_with, start,
    two_in_memory,
};

use crate::cache::{ROOT, create};
use crate::cache_cost::distant;
use crate::cache_faults::on_member;
use crate::cache_typed::{of, typed};

fn shown(cache: &TypedCache<u32>, path: &str) -> Option<u32> {
    cache.get(path).present().and_then(|node| node.value.ok()).map(|value| *value)
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
                builder_for(&cluster.connect_string()).connector(Arc::new(cluster.connector())),
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
        for (path, kind) in [
            ("/other", ErrorKind::InvalidArgument),
            ("/treetop", ErrorKind::InvalidArgument),
            ("tree", ErrorKind::InvalidPath),
            ("", ErrorKind::InvalidPath),
        ] {
            assert_eq!(cache.put(path, &1).await.unwrap_err().kind(), kind, "{path}");
            assert_eq!(cache.modify(path, |n| n).await.unwrap_err().kind(), kind, "{path}");
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
        let began = Instant::now();
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
        // A node that the servers do not have either.
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
                for result in join_all(both).await {
                    match result {
                        Ok(_) => applied += 1,
                        Err(error) if error.may_have_applied() => unknown += 1,
                        Err(error) => {
                            assert!(error.is_retryable() || error.is_session_lost(), "{error}");
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
            spend(Duration::from_millis(100)).await;
            drop(cut);
        };
        let (modified, ()) = tokio::join!(modified, back);
        assert_eq!(modified.unwrap().value, 71);
        assert!(timeout(Duration::from_secs(60), cache.put("/tree/a", &1)).await.unwrap().is_ok());
    });
}

/// The events of the deletion and of the creation come late, and the versions are equal.
#[test]
fn a_modification_of_a_replaced_node_is_reported() {
    simulated_on(cluster_of_three, async |cluster| {
        let leader = cluster.leader().unwrap();
        let follower = (leader + 1) % 3;
        let (zk, other) = (on_member(&cluster, follower).await, on_member(&cluster, leader).await);
        create(&other, "/tree/a", "1").await;
        zk.sync("/").await.unwrap();
        let cache = typed(&zk).await;
        assert_eq!(shown(&cache, "/tree/a"), Some(1));
        let late = cluster.lag_by(follower, Duration::from_secs(1));
        other.delete("/tree/a").await.unwrap();
        other.create("/tree/a").data("100").await.unwrap();
        let error = cache.modify("/tree/a", |n| n + 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadVersion);
        assert!(error.may_have_applied(), "{error}");
        drop(late);
        cache.cache().synced().await.unwrap();
        assert_eq!(shown(&cache, "/tree/a"), Some(2));
        assert_eq!(cache.modify("/tree/a", |n| n + 1).await.unwrap().value, 3);
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

/// Values that are never used are not kept: without data, and while the cache cannot read.
#[test]
fn modifications_that_are_not_used_are_not_remembered() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let paths: Vec<_> = (0..10).map(|n| format!("/tree/{n}")).collect();
        for path in &paths {
            create(&other, path, "1").await;
        }
        let remembered = |cache: &TypedCache<u32>| {
            let text = format!("{cache:?}");
            let (_, count) = text.split_once("own_writes: ").unwrap();
            count.trim_end_matches(" }").parse::<usize>().unwrap()
        };
        let bare = CuratorCache::tree(&zk, ROOT).without_data().start();
        bare.loaded().await.unwrap();
        let (bare, cache) = (bare.typed::<u32>(), typed(&zk).await);
        for path in &paths {
            assert_eq!(bare.modify(path.as_str(), |n| n + 1).await.unwrap().value, 2);
        }
        assert_eq!(remembered(&bare), 0);
        let reads = Verdict::Refuse(ErrorCode::Throttled);
        let refused = rule_if(&server, |request| request.is(OpCode::MultiRead), reads);
        other.set_data("/tree/0", "2").await.unwrap();
        let mut freshness = cache.cache().freshness_changes();
        while freshness.next().await.unwrap().is_fresh() {}
        for path in &paths {
            assert_eq!(cache.modify(path.as_str(), |n| n + 1).await.unwrap().value, 3);
        }
        assert_eq!(remembered(&cache), 0);
        drop(refused);
        while !freshness.next().await.unwrap().is_fresh() {}
        for path in &paths {
            assert_eq!(cache.modify(path.as_str(), |n| n + 1).await.unwrap().value, 4);
        }
        let last = cache.modify("/tree/0", |n| n + 1).await.unwrap();
        cache.cache().reflects(last.stat.mzxid).await.unwrap();
        assert_eq!(cache.modify("/tree/0", |n| n + 1).await.unwrap().value, 6);
        assert!(remembered(&cache) <= 1);
    });
}
