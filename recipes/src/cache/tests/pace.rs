//! The number of bytes that are requested at a time, for trees with nodes of all sizes.

use std::collections::VecDeque;

use zk_curator::Stat;

use crate::cache::state::{
    CacheRead, CacheReadAnswer, CacheScope, CachedNode, ReadKind, TreeState,
};
use bytes::Bytes;

const MIB: usize = 1024 * 1024;

/// The maximum number of bytes that were requested at a time, and the number of requests.
#[derive(Debug)]
struct Load {
    most: usize,
    requests: usize,
}

/// Loads a tree of directories, each with nodes of the sizes that `size` returns, with four
/// requests in flight.
fn load(
    most_bytes: usize,
    dirs: usize,
    nodes: usize,
    size: impl Fn(usize, usize) -> usize,
) -> Load {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), most_bytes);
    let numbers = |path: &str| -> Vec<usize> {
        path.split('/').skip(2).map(|name| name.trim_start_matches('n').parse().unwrap()).collect()
    };
    let data_of = |path: &str| match numbers(path)[..] {
        [dir, node] => size(dir, node),
        _ => 0,
    };
    let answer = |job: &CacheRead| {
        let count = match numbers(&job.path).len() {
            0 => dirs,
            1 => nodes,
            _ => 0,
        };
        match job.what {
            ReadKind::Names => {
                CacheReadAnswer::Names((0..count).map(|n| format!("n{n}")).collect())
            }
            ReadKind::Data => {
                let stat = Stat {
                    czxid: 1,
                    mzxid: 1,
                    pzxid: 2,
                    num_children: i32::try_from(count).unwrap(),
                    data_length: i32::try_from(data_of(&job.path)).unwrap(),
                    ..Stat::default()
                };
                CacheReadAnswer::Data(CachedNode::new(&job.path, Bytes::new(), stat))
            }
        }
    };
    state.sweep();
    let mut flights: VecDeque<Vec<CacheRead>> = VecDeque::new();
    let mut load = Load { most: 0, requests: 0 };
    loop {
        while flights.len() < 4 {
            let jobs = state.next_batch();
            if jobs.is_empty() {
                break;
            }
            flights.push_back(jobs);
            load.requests += 1;
        }
        let data = flights.iter().flatten().filter(|job| job.what == ReadKind::Data);
        load.most = load.most.max(data.map(|job| data_of(&job.path)).sum());
        let Some(jobs) = flights.pop_front() else { break };
        for job in jobs {
            state.answered(&job, answer(&job), &mut Vec::new());
        }
    }
    assert!(state.is_settled());
    assert_eq!(state.tree().len(), 1 + dirs + dirs * nodes);
    load
}

#[test]
fn many_small_nodes_are_asked_for_in_few_requests() {
    for (dirs, nodes, most) in
        [(1, 1_000, 9), (1, 10_000, 19), (100, 200, 70), (1_000, 10, 40), (10, 10, 9)]
    {
        let load = load(8 * MIB, dirs, nodes, |_, _| 100);
        assert!(load.requests <= most, "{dirs} x {nodes}: {load:?}");
    }
}

#[test]
fn large_nodes_are_asked_for_a_few_at_a_time() {
    for most_bytes in [MIB, 8 * MIB, 32 * MIB] {
        let load = load(most_bytes, 1, 300, |_, _| 900_000);
        assert!(load.most <= most_bytes, "{load:?}");
        assert!(load.requests <= 310, "{load:?}");
    }
}

#[test]
fn large_nodes_among_small_ones_do_not_surprise() {
    // A few large nodes among thousands of small ones, the reverse, and a directory of large nodes
    // next to others.
    let one_in_a_hundred =
        load(8 * MIB, 1, 20_000, |_, n| if n % 100 == 99 { 900_000 } else { 100 });
    let behind = load(8 * MIB, 1, 10_000, |_, n| if n >= 9_700 { 900_000 } else { 100 });
    let beside = load(8 * MIB, 20, 300, |dir, _| if dir == 19 { 900_000 } else { 100 });
    let growing = load(8 * MIB, 1, 2_000, |_, n| n * 450);
    for load in [one_in_a_hundred, behind, beside, growing] {
        assert!(load.most <= 24 * MIB, "{load:?}");
    }
}

#[test]
fn nodes_below_small_ones_may_be_large() {
    let load = load(8 * MIB, 5_000, 1, |_, _| 900_000);
    assert!(load.most <= 8 * MIB, "{load:?}");
}

/// The lock that readers need is held for as many places as are visited at a time.
#[test]
fn a_resync_is_asked_for_in_parts() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    let stat =
        |count: i32| Stat { czxid: 1, mzxid: 1, pzxid: 2, num_children: count, ..Stat::default() };
    state.sweep();
    super::listings::serve(&mut state, |path, what| match what {
        ReadKind::Names => CacheReadAnswer::Names((0..20_000).map(|n| n.to_string()).collect()),
        ReadKind::Data if path == "/r" => {
            CacheReadAnswer::Data(CachedNode::new(path, Bytes::new(), stat(20_000)))
        }
        ReadKind::Data => CacheReadAnswer::Data(CachedNode::new(path, Bytes::new(), stat(0))),
    });
    state.missed();
    state.sweep();
    let mark = state.checkpoint();
    let (mut most, mut read) = (0, 0);
    loop {
        most = most.max(state.reads.open().count());
        let jobs = state.next_batch();
        if jobs.is_empty() {
            break;
        }
        assert!(state.progress().reached < mark && !state.is_settled());
        most = most.max(state.reads.open().count());
        read += jobs.len();
        for job in jobs {
            let count = if &*job.path == "/r" { 20_000 } else { 0 };
            let node = CachedNode::new(&job.path, Bytes::new(), stat(count));
            state.answered(&job, CacheReadAnswer::Data(node), &mut Vec::new());
        }
    }
    assert_eq!((read, state.is_settled()), (20_001, true));
    assert!(most <= 2_000, "{most} places at a time");
}

#[test]
fn a_tree_of_twenty_thousand_levels_is_dropped() {
    let mut state = TreeState::new("/".to_owned(), CacheScope::default(), usize::MAX);
    let path = "/a".repeat(20_000);
    assert!(state.tree.make(&path).is_some());
    drop(state);
}
