//! A service with a queue. Each process puts mails into it, and sends the mails of all processes.
//!
//! The code does not depend on the simulation: the same functions run in production, with
//! `Shutdown::on_signals()`.
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

use std::convert::Infallible;
use std::error::Error as StdError;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator::observe::{Outcome, Recorder, Step};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::{Error, LockingQueue, Message};

pub(crate) type Failure = Box<dyn StdError + Send + Sync>;

pub(crate) const MAILS: &str = "mails";
const QUEUE: &str = "/mails";

/// Puts mails until the stop, sends mails until the queue is empty, and returns.
pub(crate) async fn careful(
    zk: CuratorFramework,
    recorder: impl Recorder,
    shutdown: Shutdown,
) -> Result<(), Failure> {
    let is_drained = Shutdown::new();
    let mails = LockingQueue::new(&zk, QUEUE);
    let put = async {
        put_until(&zk, &mails, &recorder, &shutdown).await?;
        while mails.count().await? > 0 {
            sleep(Duration::from_millis(100)).await;
        }
        is_drained.begin();
        Ok(())
    };
    // ANCHOR: careful
    let body = async |mail: Message| {
        let item = String::from_utf8_lossy(&mail.data);
        recorder.record(Step::Taken { queue: MAILS, item: &item, attempt: mail.attempt });
        send(&zk).await;
        // The mail is acknowledged after the body has returned.
        recorder.record(Step::Finishing { queue: MAILS, item: &item });
        Ok::<_, Infallible>(())
    };
    let consumed = mails.consumer().run(4, body).until(is_drained.clone());
    // ANCHOR_END: careful
    tokio::try_join!(put, consumed)?;
    Ok(())
}

/// Acknowledges each mail before it is sent.
pub(crate) async fn careless(
    zk: CuratorFramework,
    recorder: impl Recorder,
    shutdown: Shutdown,
) -> Result<(), Failure> {
    let mails = LockingQueue::new(&zk, QUEUE);
    let consume = async || -> Result<(), Error> {
        let mut consumer = mails.consumer();
        loop {
            let mail = consumer.next().await?;
            let (data, attempt) = (mail.data().clone(), mail.attempt());
            let item = String::from_utf8_lossy(&data);
            recorder.record(Step::Taken { queue: MAILS, item: &item, attempt });
            mail.ack().await?;
            // If the process ends now, the mail is lost.
            send(&zk).await;
            recorder.record(Step::Finishing { queue: MAILS, item: &item });
        }
    };
    let put = put_until(&zk, &mails, &recorder, &shutdown);
    tokio::try_join!(put, consume())?;
    Ok(())
}

async fn put_until(
    zk: &CuratorFramework,
    mails: &LockingQueue,
    recorder: &impl Recorder,
    shutdown: &Shutdown,
) -> Result<(), Error> {
    while !shutdown.has_begun() {
        let item = format!("{:016x}", zk.random_u64());
        recorder.record(Step::Putting { queue: MAILS, item: &item, rank: 0 });
        let put = mails.put(item.clone()).await;
        let outcome = match &put {
            Ok(_) => Outcome::Sure,
            Err(Error::Framework(error)) => Outcome::of_failure(error.may_have_applied()),
            Err(_) => Outcome::Unknown,
        };
        recorder.record(Step::Put { queue: MAILS, item: &item, outcome });
        put?;
        sleep(zk.jitter(Duration::from_millis(500))).await;
    }
    Ok(())
}

async fn send(zk: &CuratorFramework) {
    sleep(zk.jitter(Duration::from_millis(100))).await;
}
