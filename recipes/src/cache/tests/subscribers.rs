//! The cost of a subscriber that does not read its events.

use std::sync::Arc;

use zk_curator::{EventType, WatchedEvent};

use super::listings::{node, serve};
use crate::cache::state::{CacheReadAnswer, CacheScope, ReadKind, TreeState};
use crate::cache::told::Subscriber;

#[test]
fn nodes_that_came_and_went_cost_a_subscriber_nothing() {
    let mut state = TreeState::new("/r".to_owned(), CacheScope::default(), usize::MAX);
    state.sweep();
    serve(&mut state, |path, what| match what {
        ReadKind::Data => node(path, 1, 0),
        ReadKind::Names => CacheReadAnswer::Names(Vec::new()),
    });
    let mut subscriber = Subscriber::new(false, true, true, 0);
    // It knows this node, and must be notified of its deletion.
    subscriber.record(&[("/r/known".into(), state.tree().node("/r").map(Arc::clone))], &state);
    let mut most = 0;
    for n in 0..50_000_i64 {
        let (path, mut changes) = (format!("/r/{n}"), Vec::new());
        let event = |kind, zxid| WatchedEvent::new(kind, path.clone()).with_zxid(Some(zxid));
        state.event(&event(EventType::NodeCreated, 2 * n + 2), state.news(), &mut changes);
        for job in state.next_batch() {
            state.answered(&job, node(&job.path, 2 * n + 2, 0), &mut changes);
        }
        assert!(state.tree().node(&path).is_some());
        state.event(&event(EventType::NodeDeleted, 2 * n + 3), state.news(), &mut changes);
        assert_eq!(changes.len(), 2);
        subscriber.record(&changes, &state);
        most = most.max(subscriber.told.as_ref().map_or(0, |told| told.len()));
    }
    assert!(most <= 1_001, "{most} nodes");
    assert!(subscriber.told.is_some_and(|told| told.contains_key("/r/known")));
}
