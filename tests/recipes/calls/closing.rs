//! The framework is closed while the call runs.

use futures_util::future::join;
use tokio::time::timeout;
use zk_curator_testing::Verdict;

use super::{A_MOMENT, AS_USUAL, Disturbed, LONG, each, ended, expected, sample, set_up};

#[test]
fn a_close_ends_a_call_and_leaves_nothing() {
    each(async |row| {
        for n in sample(row, expected(row).await?.requests) {
            let (stage, call) = set_up(row, AS_USUAL).await?;
            // The request arrives while the framework closes.
            let delayed = Disturbed::at(&stage, n..n + 1, Verdict::Delay(A_MOMENT / 5));
            let close = async {
                delayed.reached(n + 1).await;
                stage.zk.close().await
            };
            let Ok((output, closed)) = timeout(LONG, join(call, close)).await else {
                return Err(format!("it hangs, closed at request {n}"));
            };
            drop(output);
            closed.map_err(|why| format!("close fails at request {n}: {why}"))?;
            ended(&stage).await.map_err(|why| format!("closed at request {n}: {why}"))?;
        }
        Ok(())
    });
}
