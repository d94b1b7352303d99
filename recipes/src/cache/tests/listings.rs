//! Complete and incomplete lists.

use bytes::Bytes;
use zk_curator::{ErrorKind, EventType, Stat, WatchedEvent};

use super::orders::in_this_order;
use crate::cache::state::{CacheReadAnswer, CacheScope, CachedNode, Lookup, ReadKind, TreeState};

/// Returns a node whose children last changed `num_children` transactions after its creation.
pub(super) fn node(path: &str, czxid: i64, num_children: i32) -> CacheReadAnswer {
    node_at(path, czxid, num_children, czxid + i64::from(num_children))
}

pub(super) fn node_at(path: &str, czxid: i64, num_children: i32, pzxid: i64) -> CacheReadAnswer {
    let stat = Stat { czxid, mzxid: czxid, pzxid, num_children, ..Stat::default() };
    CacheReadAnswer::Data(CachedNode::new(path, Bytes::new(), stat))
}

/// Responds to every requested read, until there is none.
pub(super) fn serve(state: &mut TreeState, answer: impl Fn(&str, ReadKind) -> CacheReadAnswer) {
    loop {
        let jobs = state.next_batch();
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            state.answered(&job, answer(&job.path, job.what), &mut Vec::new());
        }
    }
}

/// An unreadable child is created, which is not reported, and then another one.
#[test]
fn an_audit_finds_what_the_parent_has_hidden() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data if path == "/r" => node_at("/r", 1, 1, 2),
        ReadKind::Data => node(path, 2, 0),
        ReadKind::Names => CacheReadAnswer::Names(vec!["a".to_owned()]),
    });
    let created = WatchedEvent::new(EventType::NodeCreated, "/r/b".to_owned()).with_zxid(Some(4));
    state.event(&created, state.news(), &mut Vec::new());
    let server = |path: &str, what| match (what, path) {
        (ReadKind::Data, "/r") => node_at("/r", 1, 3, 4),
        (ReadKind::Data, _) => node(path, if path == "/r/a" { 2 } else { 4 }, 0),
        (ReadKind::Names, _) => {
            CacheReadAnswer::Names(["a", "b", "hidden"].map(str::to_owned).to_vec())
        }
    };
    serve(&mut state, server);
    assert!(state.tree().node("/r/b").is_some() && state.tree().node("/r/hidden").is_none());
    state.audit();
    assert!(state.is_settled());
    serve(&mut state, server);
    assert!(state.tree().node("/r/hidden").is_some());
}

/// The node is replaced while it is read, and the connection is lost.
#[test]
fn an_audit_guesses_nothing_about_the_children_of_a_new_node() {
    for is_deletion_told in [true, false] {
        let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
        state.sweep();
        serve(&mut state, |path, what| match what {
            ReadKind::Data if path == "/r" => node_at("/r", 1, 1, 2),
            ReadKind::Data => node(path, 2, 0),
            ReadKind::Names => CacheReadAnswer::Names(vec!["a".to_owned()]),
        });
        state.audit();
        let jobs = state.next_batch();
        if is_deletion_told {
            let deleted =
                WatchedEvent::new(EventType::NodeDeleted, "/r/a".to_owned()).with_zxid(Some(4));
            state.event(&deleted, state.news(), &mut Vec::new());
        }
        state.unanswered(&jobs);
        for job in state.next_batch() {
            let answer =
                if &*job.path == "/r" { node_at("/r", 1, 1, 5) } else { node(&job.path, 5, 1) };
            state.answered(&job, answer, &mut Vec::new());
        }
        assert!(state.tree().node("/r/a").is_some() && !state.is_settled());
        assert!(matches!(state.lookup("/r/a/b", true), Lookup::Unknown));
    }
}

/// The children of a node could not be listed.
#[test]
fn an_audit_guesses_nothing_about_unlisted_children() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    let server = |can_list| {
        move |path: &str, what| match what {
            ReadKind::Data if path == "/r" => node("/r", 1, 1),
            ReadKind::Data => node(path, 2, 0),
            ReadKind::Names if can_list => CacheReadAnswer::Names(vec!["a".to_owned()]),
            ReadKind::Names => CacheReadAnswer::Failed(ErrorKind::NoAuth),
        }
    };
    state.sweep();
    serve(&mut state, server(false));
    assert!(matches!(state.lookup("/r/a", true), Lookup::Unknown));
    state.audit();
    for job in state.next_batch() {
        state.answered(&job, server(true)(&job.path, job.what), &mut Vec::new());
    }
    assert!(matches!(state.lookup("/r/a", true), Lookup::Unknown) && !state.is_settled());
    serve(&mut state, server(true));
    assert!(matches!(state.lookup("/r/a", true), Lookup::Present(_)) && state.is_settled());
}

/// A sweep needs the reads that an audit has begun.
#[test]
fn an_audit_in_an_outage_guesses_nothing() {
    in_this_order("create root; rest; audit; send; cut retried; create all c; sweep");
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data if path == "/r" => node("/r", 1, 1),
        ReadKind::Data => node(path, 2, 0),
        ReadKind::Names => CacheReadAnswer::Names(vec!["b".to_owned()]),
    });
    // Another child has taken the place of this one.
    state.missed();
    state.audit();
    for _ in 0..2 {
        // The list gets no response.
        for job in state
            .next_batch()
            .into_iter()
            .filter(|job| &*job.path == "/r" && job.what == ReadKind::Data)
        {
            state.answered(&job, node_at("/r", 1, 1, 4), &mut Vec::new());
        }
        state.sweep();
    }
    assert!(matches!(state.lookup("/r/a", true), Lookup::Unknown));
}

/// The same as four tests above, and an outage is what asks.
#[test]
fn a_sweep_finds_what_the_parent_has_hidden() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data if path == "/r" => node_at("/r", 1, 1, 2),
        ReadKind::Data => node(path, 2, 0),
        ReadKind::Names => CacheReadAnswer::Names(vec!["a".to_owned()]),
    });
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data if path == "/r" => node_at("/r", 1, 2, 2),
        ReadKind::Data => node(path, 2, 0),
        ReadKind::Names => CacheReadAnswer::Names(["a", "hidden"].map(str::to_owned).to_vec()),
    });
    assert!(state.tree().node("/r/hidden").is_some());
}

/// For example, its data are not compressed.
#[test]
fn the_children_of_a_node_with_bad_data_are_read() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    state.sweep();
    serve(&mut state, |path, what| match (path, what) {
        ("/r", ReadKind::Data) => node_at("/r", 1, 1, 2),
        ("/r", ReadKind::Names) => CacheReadAnswer::Names(vec!["a".to_owned()]),
        ("/r/a", ReadKind::Data) => CacheReadAnswer::Failed(ErrorKind::Malformed),
        ("/r/a", ReadKind::Names) => CacheReadAnswer::Names(vec!["b".to_owned()]),
        _ => node(path, 3, 0),
    });
    assert!(state.tree().node("/r/a/b").is_some());
    assert_eq!(state.unreadable().keys().map(|path| &**path).collect::<Vec<_>>(), ["/r/a"]);
    assert!(state.is_settled());
}

/// The second server reports again what the first one has reported, except the last transaction.
#[test]
fn repeated_events_forget_no_split_transaction() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data if path == "/r" => node_at("/r", 1, 1, 2),
        ReadKind::Data => node(path, 2, 0),
        ReadKind::Names => CacheReadAnswer::Names(vec!["a".to_owned()]),
    });
    let event = |event_type, path: &str, zxid| {
        WatchedEvent::new(event_type, path.to_owned()).with_zxid(Some(zxid))
    };
    // One transaction deletes one child and creates another one, of which the event is lost.
    state.event(&event(EventType::NodeDeleted, "/r/a", 15), state.news(), &mut Vec::new());
    state.missed();
    state.event(&event(EventType::NodeDataChanged, "/r", 13), state.news(), &mut Vec::new());
    state.missed();
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data if path == "/r" => node_at("/r", 1, 1, 15),
        ReadKind::Data => node(path, 15, 0),
        ReadKind::Names => CacheReadAnswer::Names(vec!["b".to_owned()]),
    });
    assert!(state.tree().node("/r/b").is_some());
}

/// It had no place when the comparison began, because its deletion was already reported: no
/// comparison names it.
#[test]
fn a_node_that_is_read_during_a_comparison_is_listed() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    let mut changes = Vec::new();
    state.sweep();
    for job in state.next_batch() {
        let answer = if job.what == ReadKind::Data {
            node("/r", 1, 0)
        } else {
            CacheReadAnswer::Names(Vec::new())
        };
        state.answered(&job, answer, &mut changes);
    }
    let event = |event_type| WatchedEvent::new(event_type, "/r/a".to_owned());
    state.event(&event(EventType::NodeCreated), state.news(), &mut changes);
    assert_eq!(state.next_batch().len(), 1);
    state.event(&event(EventType::NodeDeleted), state.news(), &mut changes);
    state.forget_reads();
    assert_eq!(state.compared_paths(None, 10).0, ["/r"]);
    let [job] = &state.next_batch()[..] else { panic!("one read") };
    state.answered(job, node("/r/a", 7, 1), &mut changes);
    state.doubt(["/r"]);
    let jobs = state.next_batch();
    assert!(jobs.iter().any(|job| &*job.path == "/r/a" && job.what == ReadKind::Names), "{jobs:?}");
}
