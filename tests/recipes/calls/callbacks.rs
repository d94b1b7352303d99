//! A callback of the user panics.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{AS_USUAL, LONG, again, each, ended, set_up};

#[test]
fn a_panic_in_a_callback_leaves_nothing() {
    each(async |row| {
        let (stage, call) = set_up(row, AS_USUAL).await?;
        stage.panic_in_callbacks();
        let call = AssertUnwindSafe(timeout(LONG, call)).catch_unwind().await;
        match call {
            Ok(Err(_)) => return Err("it hangs".to_owned()),
            // Without callbacks.
            _ if stage.callbacks() == 0 => return Ok(()),
            Ok(Ok(Ok(_))) => return Err("it succeeds".to_owned()),
            _ => {}
        }
        ended(&stage).await?;
        again(row, &stage).await
    });
}
