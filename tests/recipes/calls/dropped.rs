//! The future is dropped at one step.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::select;
use zk_curator_testing::Verdict;
use zk_curator_testing::wait::past;
use zk_curator_tests::catalogue::{Call, Stage};
use zk_curator_tests::{pairs, poll_then_drop};

use super::{A_MOMENT, AS_USUAL, Disturbed, Judged, again, each_of, ended, play, sample, set_up};

/// Creates without protection, which do not know their node after a lost response.
const UNPROTECTED: [&str; 3] = [
    "framework::CreateBuilder<Owned>::into_future",
    "framework::CreateBuilder<OwnedWithData>::into_future",
    "framework::CuratorFramework::in_one_session",
];

/// Counts the polls of a call.
fn counted(mut call: Call) -> (Call, Rc<Cell<u64>>) {
    let polls = Rc::new(Cell::new(0));
    let count = Rc::clone(&polls);
    let call = poll_fn(move |context| {
        count.set(count.get() + 1);
        call.as_mut().poll(context)
    });
    (Box::pin(call), polls)
}

/// The moment of a drop: after so many polls, or when so many requests have arrived.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Step(u64),
    Request(u64),
}

#[test]
fn a_dropped_call_leaves_nothing_and_can_be_repeated() {
    each_of(0, 2, async |row| {
        let (stage, call) = set_up(row, AS_USUAL).await?;
        let (call, polls) = counted(call);
        let requests = play(&stage, call, Disturbed::nothing(&stage)).await?.requests;
        let is_repeatable = again(row, &stage).await.is_ok();
        let steps = sample(row, 2 * polls.get()).map(Moment::Step);
        let moments: Vec<_> = steps.chain(sample(row, requests).map(Moment::Request)).collect();
        // Without a lost response; no request has this number.
        let losses = [requests].into_iter().chain(sample(row, requests));
        for (lost, moment) in pairs(losses, moments) {
            if lost < requests && UNPROTECTED.contains(&row.name) {
                continue;
            }
            let (stage, call) = set_up(row, AS_USUAL).await?;
            drop_at(&stage, call, moment, lost).await;
            let judged = match abandoned(&stage).await {
                Ok(()) if is_repeatable => again(row, &stage).await,
                judged => judged,
            };
            judged.map_err(|why| format!("{moment:?}, response {lost} lost: {why}"))?;
        }
        Ok(())
    });
}

async fn drop_at(stage: &Stage, call: Call, moment: Moment, lost: u64) {
    let disturbed = Disturbed::at(stage, lost..lost + 1, Verdict::LoseReply);
    match moment {
        Moment::Step(step) => drop(poll_then_drop(call, usize::try_from(step).unwrap()).await),
        Moment::Request(n) => {
            // The call does not see a response that comes with the request.
            drop(select(pin!(disturbed.reached(n + 1)), call).await);
        }
    }
}

/// The cleanup is done while the session lives, not by its end.
async fn abandoned(stage: &Stage) -> Judged {
    past(A_MOMENT).await;
    let probe = stage.server.probe();
    let has_nodes = probe.sessions().iter().any(|one| !one.ephemerals.is_empty());
    if has_nodes || !probe.watches().is_empty() {
        return Err(format!("something is left\n{probe}"));
    }
    ended(stage).await
}
