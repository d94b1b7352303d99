use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::{
    AutoAck, Consumer, DistributedPriorityQueue, DistributedQueue, FifoQueue, LockingQueue,
    SimpleDistributedQueue,
};

use crate::app::App;
use crate::exit::{Exit, Failure};
use crate::items::Items;
use crate::output::{Answer, Cell, Column, Report, Rows, data, number, text, time};
use crate::{path, walk};

/// The most characters of an item in a table.
const SHOWN: usize = 80;

/// The arguments of `zkc queue`.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the items of a queue in the order in which they are taken, and take none
    Ls {
        /// Queue of any kind
        #[arg(value_parser = path::parse)]
        path: String,
        /// Show only the first items
        #[arg(long, value_name = "N")]
        first: Option<usize>,
    },
    /// Put an item into a queue
    Put {
        /// Queue; created if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// Item: text, `@FILE`, or `-` for standard input
        #[arg(allow_hyphen_values = true)]
        item: String,
        /// Kind of queue
        #[arg(long, value_enum, value_name = "KIND")]
        kind: Kind,
        /// Priority in a priority queue or locking queue: lower numbers come first
        #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
        priority: i32,
    },
    /// Take the first item and print it. It is removed before it is printed: if `zkc` is killed in
    /// between, it is lost
    Take {
        /// Queue
        #[arg(value_parser = path::parse)]
        path: String,
        /// Kind of queue
        #[arg(long, value_enum, value_name = "KIND")]
        kind: Kind,
        /// Wait this long for an item
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        wait: Option<Duration>,
    },
    /// Put the dead letters of a locking queue back, and print their number
    Requeue {
        /// Queue
        #[arg(value_parser = path::parse)]
        path: String,
        /// Put back at most this many
        #[arg(long, value_name = "N")]
        first: Option<usize>,
    },
}

/// A kind of queue, which the nodes of an empty one do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// SimpleDistributedQueue of Curator and ZooKeeper's recipes
    Simple,
    /// DistributedQueue of Curator
    Curator,
    /// DistributedPriorityQueue of Curator
    Priority,
    /// FifoQueue
    Fifo,
    /// LockingQueue
    Locking,
}

const COLUMNS: &[Column] =
    &[text("item"), text("data"), number("size"), text("since"), text("state")];

impl Queue {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        match self.verb {
            Verb::Ls { path, first } => list(app, &path, first).await,
            Verb::Put { path, item, kind, priority } => {
                let item = data::argument(&item).await?;
                put(app.zk_to_change().await?, path, item, kind, priority).await?;
                Ok(Answer::nothing())
            }
            Verb::Take { path, kind, wait } => {
                let zk = app.zk_to_change().await?;
                let taken = take(zk, path, kind, wait).await?;
                Ok(taken.map_or_else(|| Exit::NO.into(), answer))
            }
            Verb::Requeue { path, first } => requeue(app, path, first).await,
        }
    }
}

fn answer(item: bytes::Bytes) -> Answer {
    Report::new(data::show(&item), data::value(&item)).raw(item).into()
}

async fn list(app: &App, path: &str, first: Option<usize>) -> Result<Answer, Failure> {
    let zk = app.zk().await?;
    let mut items = Items::list(zk, path).await?;
    let mut shown = std::mem::take(&mut items.paths);
    shown.truncate(first.unwrap_or(usize::MAX));
    let states = items.states(zk, &shown).await?;
    let states: BTreeMap<_, _> = shown.iter().cloned().zip(states).collect();
    let mut rows = Rows::new(COLUMNS);
    let unread = walk::read(zk, &shown, |item| {
        let name = item.path.strip_prefix(path).unwrap_or(&item.path);
        rows.push(vec![
            name.trim_start_matches('/').into(),
            data::cell(&item.data, SHOWN),
            Cell::from(item.data.len()),
            time::cell(item.stat.ctime),
            states.get(&item.path).cloned().into(),
        ]);
    });
    items.unreadable.extend(unread.await?);
    if items.others > 0 {
        app.out().say(format!("nodes that are no items: {}", items.others));
    }
    Ok(items.unreadable.complete(app.out(), rows))
}

async fn put(
    zk: &CuratorFramework,
    path: String,
    item: bytes::Bytes,
    kind: Kind,
    priority: i32,
) -> Result<(), Failure> {
    match kind {
        Kind::Simple => SimpleDistributedQueue::new(zk, path).offer(item).await?,
        Kind::Curator => DistributedQueue::new(zk, path).put(item).await?,
        Kind::Priority => DistributedPriorityQueue::new(zk, path).put(item, priority).await?,
        Kind::Fifo => FifoQueue::new(zk, path).put(item).await?,
        Kind::Locking => {
            let queue = LockingQueue::new(zk, path).prioritized();
            queue.put_with_priority(item, priority).await?;
        }
    }
    Ok(())
}

/// Takes an item. Waits for one for at most this time. A take that is given up may have removed an
/// item, which the next call on the same queue returns, so there always is a next call.
async fn take(
    zk: &CuratorFramework,
    path: String,
    kind: Kind,
    wait: Option<Duration>,
) -> Result<Option<bytes::Bytes>, Failure> {
    let wait = wait.unwrap_or_default();
    match kind {
        Kind::Simple => {
            let queue = SimpleDistributedQueue::new(zk, path);
            if let Ok(item) = timeout(wait, queue.take()).await {
                return Ok(Some(item?));
            }
            Ok(queue.poll().await?)
        }
        Kind::Fifo => {
            let queue = FifoQueue::new(zk, path);
            if let Ok(item) = timeout(wait, queue.take()).await {
                return Ok(Some(item?));
            }
            Ok(queue.poll().await?)
        }
        Kind::Curator => {
            of_curator(DistributedQueue::new(zk, path).auto_ack_consumer(), wait).await
        }
        Kind::Priority => {
            of_curator(DistributedPriorityQueue::new(zk, path).auto_ack_consumer(), wait).await
        }
        Kind::Locking => {
            let mut consumer = LockingQueue::new(zk, path).prioritized().consumer();
            let next = match timeout(wait, consumer.next()).await {
                Ok(next) => Some(next?),
                Err(_) => consumer.try_next().await?,
            };
            let Some(delivery) = next else { return Ok(None) };
            let item = delivery.data().clone();
            delivery.ack().await?;
            Ok(Some(item))
        }
    }
}

/// Takes a node of a queue of Curator. It may have several items, which are printed as lines.
async fn of_curator(
    mut consumer: Consumer<AutoAck>,
    wait: Duration,
) -> Result<Option<bytes::Bytes>, Failure> {
    let next = match timeout(wait, consumer.next()).await {
        Ok(next) => Some(next?),
        Err(_) => consumer.try_next().await?,
    };
    Ok(next.map(|item| match item.items.as_slice() {
        [one] => one.clone(),
        many => many.join(&b'\n').into(),
    }))
}

async fn requeue(app: &App, path: String, first: Option<usize>) -> Result<Answer, Failure> {
    let queue = LockingQueue::new(app.zk_to_change().await?, path);
    let mut dead = queue.dead_letters().consumer();
    let mut count = 0;
    while count < first.unwrap_or(usize::MAX) {
        let Some(letter) = dead.try_next().await? else { break };
        // A failure in between leaves the letter, so the item may be put back twice, but is not
        // lost.
        queue.put_with_priority(letter.data().clone(), letter.priority()).await?;
        letter.ack().await?;
        count += 1;
    }
    Ok(Report::new(format!("{count} put back"), json!({ "requeued": count })).into())
}
