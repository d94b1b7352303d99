//! Reads before, during and after an outage: which of them fail, and whether the client works again
//! by itself.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::measure::{Outcome, Result, Samples};
use super::session::Session;
use super::stage::Stage;

/// The pause between two reads. They do not wait for each other.
const STEP: Duration = Duration::from_millis(10);
/// A client works again when this many reads that were begun after the outage have succeeded.
const ENOUGH: usize = 100;
/// The time limit of all reads, from the end of the outage on.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time limit of one question afterwards.
const QUESTION: Duration = Duration::from_secs(5);

/// The harness lets the program read for a while, then ends its connection and accepts none, and
/// says `healed` when the outage is over.
#[expect(clippy::too_many_lines, reason = "one story")]
pub(crate) async fn reads<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (path, own) = (stage.below("node"), stage.below("own"));
    let zk = stage.client().await?;
    zk.plant(&path, &stage.payload()).await?;
    // Exists for as long as the session.
    zk.create(&own, b"", true).await?;
    let begun = stage.begin().await?;
    let read = async || {
        let began = Instant::now();
        (began, zk.get(&path).await.is_ok(), Instant::now())
    };
    let mut under_way = FuturesUnordered::new();
    let (mut asked, mut failed, mut again) = (0, 0, 0);
    let (mut healed, mut first) = (None::<Instant>, None);
    let mut pause = interval(STEP);
    pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let asks = again < ENOUGH;
        if !asks && under_way.is_empty() {
            break;
        }
        tokio::select! {
            _ = pause.tick() => {
                if healed.is_some_and(|healed| healed.elapsed() > PATIENCE) {
                    break;
                }
                if asks {
                    asked += 1;
                    under_way.push(read());
                }
            }
            Some((began, succeeded, ended)) = under_way.next() => {
                failed += usize::from(!succeeded);
                if let Some(healed) = healed.filter(|healed| succeeded && ended > *healed) {
                    first.get_or_insert(ended - healed);
                    again += usize::from(began > healed);
                }
            }
            heard = stage.hear("healed"), if healed.is_none() => {
                heard?;
                healed = Some(Instant::now());
            }
        }
    }
    let survives = timeout(QUESTION, zk.exists(&own)).await;
    let survives = matches!(survives, Ok(Ok(true)));
    let works = again >= ENOUGH;
    let counted = [
        ("reads that failed", failed),
        ("reads without an answer", under_way.len()),
        ("works again by itself", usize::from(works)),
        ("the session survives", usize::from(survives)),
    ];
    for (name, count) in counted {
        stage.numbers.set(name, f64::from(u32::try_from(count)?));
    }
    if let Some(first) = first {
        stage.numbers.set("ms until a read succeeds", first.as_secs_f64() * 1e3);
    }
    let check = format!("asked={asked} works={} kept={}", u8::from(works), u8::from(survives));
    stage.report(&begun, None, Outcome { operations: 1, latencies: Samples::new(), check }).await?;
    drop(under_way);
    stage.clear_anew().await
}
