//! A handle that is bound to a session, which ends before the call or while it runs.

use std::future::poll_fn;
use std::task::Poll;

use futures_util::future::join;
use futures_util::poll;
use tokio::time::timeout;
use zk_curator::{ConnectionState, ErrorKind};
use zk_curator_testing::Verdict;
use zk_curator_tests::catalogue::{Call, Failure, Stage};
use zk_curator_tests::{expire, until_state};

use super::latent::{ENDS, is_of_the_handle};
use super::{A_MOMENT, AS_USUAL, AT, Disturbed, Judged, LONG, each, each_of, sample};

/// More requests than a call needs to learn of the end of the session.
const FEW: u64 = 20;

/// The first waits for a connection, and the second begins a session.
const OF_ANY_SESSION: [&str; 2] =
    ["framework::CuratorFramework::wait_connected", "lease::SessionLeaseBuilder::open"];

/// Returns the output of a call; `None` if it is polled again and again without a pause.
async fn unless_it_spins(mut call: Call) -> Option<Result<(), Failure>> {
    for _ in 0..100_000 {
        if let Poll::Ready(output) = poll!(&mut call) {
            return Some(output.map(drop));
        }
        // Returns with the next wake-up.
        let mut is_woken = false;
        poll_fn(|_| {
            if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    None
}

/// A stage whose framework is bound to its session, and the call.
async fn bound(row: zk_curator_tests::catalogue::Row) -> Judged<(Stage, Call)> {
    let mut stage = Stage::new(AT, AS_USUAL).await;
    stage.zk = stage.zk.bound_to_session().map_err(|why| why.to_string())?;
    let call = (row.set_up)(stage.clone()).await.map_err(|why| why.to_string())?;
    Ok((stage, call))
}

async fn is_over(stage: &Stage) {
    expire(&stage.server, &stage.zk).await;
    until_state(&stage.zk, ConnectionState::Reconnected { same_session: false }).await;
}

#[test]
fn a_bound_call_after_the_end_of_its_session_says_so() {
    each(async |row| {
        let (stage, call) = bound(row).await?;
        is_over(&stage).await;
        let sent = Disturbed::nothing(&stage);
        let Ok(Some(result)) = timeout(LONG, unless_it_spins(call)).await else {
            return Err(format!("it waits, with {} requests", sent.requests()));
        };
        stage.zk.close().await.map_err(|why| why.to_string())?;
        match result {
            Ok(()) if ENDS.contains(&row.method()) || OF_ANY_SESSION.contains(&row.name) => Ok(()),
            Ok(()) => Err("it succeeds".to_owned()),
            Err(failure) if failure.kind == Some(ErrorKind::SessionExpired) => Ok(()),
            Err(failure) if is_of_the_handle(&failure) => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    });
}

#[test]
fn a_bound_call_ends_with_its_session() {
    each_of(1, 2, async |row| {
        let (stage, call) = bound(row).await?;
        let all = Disturbed::nothing(&stage);
        drop(call.await);
        for n in sample(row, all.requests()) {
            let (stage, call) = bound(row).await?;
            let delayed = Disturbed::at(&stage, n..n + 1, Verdict::Delay(A_MOMENT / 5));
            let expired = async {
                delayed.reached(n + 1).await;
                is_over(&stage).await;
                delayed.requests()
            };
            let both = join(unless_it_spins(call), expired);
            let Ok((Some(_), before)) = timeout(LONG, both).await else {
                return Err(format!("it waits, with {} requests", delayed.requests()));
            };
            let more = delayed.requests() - before;
            if more > FEW {
                return Err(format!("{more} requests"));
            }
            stage.zk.close().await.map_err(|why| why.to_string())?;
        }
        Ok(())
    });
}
