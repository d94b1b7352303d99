//! The future is dropped at one step.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use zk_curator_testing::wait::past;
use zk_curator_tests::catalogue::{Call, Stage};
use zk_curator_tests::poll_then_drop;

use super::{A_MOMENT, Disturbed, Judged, again, as_usual, each, ended, play, sample, set_up};

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

#[test]
fn a_dropped_call_leaves_nothing_and_can_be_repeated() {
    each(async |row| {
        let (stage, call) = set_up(row, as_usual).await?;
        let (call, polls) = counted(call);
        let nothing = Disturbed::nothing(&stage);
        play(&stage, call, nothing).await?;
        let is_repeatable = again(row, &stage).await.is_ok();
        for step in sample(row, 2 * polls.get()) {
            let (stage, call) = set_up(row, as_usual).await?;
            drop(poll_then_drop(call, usize::try_from(step).unwrap()).await);
            let judged = match abandoned(&stage).await {
                Ok(()) if is_repeatable => again(row, &stage).await,
                judged => judged,
            };
            judged.map_err(|why| format!("step {step}: {why}"))?;
        }
        Ok(())
    });
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
