//! The cost of callers that have given up.

use tokio::sync::oneshot;

use crate::cache::task::Wants;

#[test]
fn callers_that_have_given_up_are_forgotten() {
    let wants = Wants::default();
    let (waiter, waits) = oneshot::channel();
    wants.sync(waiter);
    for n in 0..10_000 {
        let (waiter, gives_up) = oneshot::channel();
        if n % 2 == 0 {
            wants.sync(waiter);
        } else {
            wants.refresh("/r".to_owned(), waiter);
        }
        drop(gives_up);
    }
    let new = wants.take();
    assert!(new.syncs.len() + new.refreshes.len() <= 16, "{new:?}");
    assert!(new.syncs.iter().any(|waiter| !waiter.is_closed()));
    drop(waits);
}
