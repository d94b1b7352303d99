//! The future is dropped at one step.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use zk_curator_tests::catalogue::Call;
use zk_curator_tests::poll_then_drop;

use super::{Disturbed, as_usual, each, ended, play, sample, set_up};

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
        for step in sample(2 * polls.get()) {
            let (stage, call) = set_up(row, as_usual).await?;
            drop(poll_then_drop(call, usize::try_from(step).unwrap()).await);
            ended(&stage).await.map_err(|why| format!("step {step}: {why}"))?;
        }
        Ok(())
    });
}
