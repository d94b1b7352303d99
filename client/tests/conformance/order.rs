//! The order of requests and responses, and the reports about lost ones.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use zk_curator_client::{CreateMode, Error, Pending};
use zk_curator_testing::Flow;

use super::{Case, away};
use crate::common::open;

/// Returns the result of a future that is ready.
fn ready<T>(pending: &mut Pending<T>) -> Option<Result<T, Error>> {
    // Unconstrained, because tokio makes a task wait that has polled too often.
    let mut pending = tokio::task::unconstrained(pending);
    match Pin::new(&mut pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

pub(crate) async fn responses_to_ten_thousand_requests_in_flight_are_in_order(case: Case) {
    const REQUESTS: usize = 10_000;
    let (zk, relay) = case.relayed().await;
    zk.create("/n", b"", &open(), CreateMode::Persistent).await.unwrap();
    // No response comes before all have been sent.
    relay.replies(Flow::Stalled);
    let sent = relay.counts().requests;
    let mut pending: Vec<_> = (0..REQUESTS).map(|_| zk.set_data("/n", b"v", None)).collect();
    relay.passed(sent + REQUESTS as u64).await;
    assert!(pending.iter_mut().all(|pending| ready(pending).is_none()));
    relay.replies(Flow::Open);
    // If one request has its response, all earlier ones have theirs.
    let mut answered = 0;
    for mark in (0..REQUESTS).step_by(997).chain([REQUESTS - 1]) {
        let (before, from) = pending.split_at_mut(mark);
        let stat = (&mut from[0]).await.unwrap();
        assert_eq!(stat.version, mark as i32 + 1);
        for (n, pending) in before.iter_mut().enumerate().skip(answered) {
            let stat = ready(pending).expect("a response out of order").unwrap();
            assert_eq!(stat.version, n as i32 + 1);
        }
        answered = mark + 1;
    }
}

pub(crate) async fn a_create_and_its_read_share_a_flight(case: Case) {
    let (zk, relay) = case.relayed().await;
    relay.replies(Flow::Stalled);
    let sent = relay.counts().requests;
    let created = zk.create("/a-", b"v", &open(), CreateMode::EphemeralSequential);
    let children = zk.get_children("/");
    let nothing = zk.delete("/none", None);
    let exists = zk.exists("/a-0000000000");
    relay.passed(sent + 4).await;
    relay.replies(Flow::Open);
    assert!(exists.await.unwrap().is_some());
    assert!(nothing.await.is_err());
    assert_eq!(children.await.unwrap().names, ["a-0000000000"]);
    assert_eq!(created.await.unwrap().path, "/a-0000000000");
}

pub(crate) async fn lost_requests_have_correct_errors(case: Case) {
    const BATCH: usize = 20;
    let ((zk, relay), other) = (case.relayed().await, case.client().await);
    let mut outcomes = Vec::new();
    for round in 0..24 {
        let fault = round % 4;
        match fault {
            0 => relay.requests(Flow::Lost),
            1 => relay.replies(Flow::Lost),
            2 => relay.replies(Flow::Stalled),
            _ => {}
        }
        let sent = relay.counts().requests;
        let path = |n| format!("/{round}-{n}");
        let pending: Vec<_> =
            (0..BATCH).map(|n| zk.create(&path(n), b"", &open(), CreateMode::Persistent)).collect();
        match fault {
            0 => tokio::task::yield_now().await,
            1 | 2 => relay.passed(sent + BATCH as u64).await,
            // The cut happens in the middle of it.
            _ => relay.passed(sent + 1).await,
        }
        // The requests of the second half are issued without a connection, and sent on the next
        // one.
        let mut queued = Vec::new();
        away(&zk, &relay, async {
            relay.requests(Flow::Open);
            relay.replies(Flow::Open);
            queued = (BATCH..2 * BATCH)
                .map(|n| zk.create(&path(n), b"", &open(), CreateMode::Persistent))
                .collect();
        })
        .await;
        for (n, pending) in pending.into_iter().chain(queued).enumerate() {
            outcomes.push((path(n), pending.await));
        }
    }
    other.sync("/").await.unwrap();
    let names: HashSet<_> = other.get_children("/").await.unwrap().names.into_iter().collect();
    let (mut unknown, mut known) = (0, 0);
    for (path, outcome) in outcomes {
        match (names.contains(&path[1..]), outcome) {
            (true, Ok(_)) => known += 1,
            (_, Err(error)) if error.may_have_applied() => unknown += 1,
            (exists, outcome) => panic!("{path} exists: {exists}, but {outcome:?}"),
        }
    }
    // Half of all requests are sent on a connection that stays open.
    assert!(known >= 24 * BATCH && unknown >= 12 * BATCH, "{known} known, {unknown} unknown");
}
