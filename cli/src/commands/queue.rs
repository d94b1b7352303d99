use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use clap::{Subcommand, ValueEnum};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_ops::holders::QueuedItems;
use zk_curator_ops::tree::walk;
use zk_curator_recipes::queue::{
    self, AutoAckConsumer, DistributedPriorityQueue, DistributedQueue, FifoQueue, Item,
    LockingQueue, Peeked, SimpleDistributedQueue,
};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{
    Cell, CommandOutput, OutputColumn, Rows, TextReport, data, number, text, time,
};
use crate::path;
use crate::unreadable::NameUnreadable;

/// The most characters of an item in a table.
const SHOWN: usize = 80;

/// The arguments of `zkc queue`.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
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
        kind: QueueFamily,
        /// Priority in a priority queue or locking queue: lower numbers come first
        #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
        priority: i32,
    },
    /// Print the first item and remove it. It is removed once it is printed: if it cannot be
    /// printed, or `zkc` is killed in between, it stays in the queue. Other consumers cannot take
    /// it in between, except those of Curator's queues; then the command fails
    Take {
        /// Queue
        #[arg(value_parser = path::parse)]
        path: String,
        /// Kind of queue
        #[arg(long, value_enum, value_name = "KIND")]
        kind: QueueFamily,
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
pub(crate) enum QueueFamily {
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

const COLUMNS: &[OutputColumn] =
    &[text("item"), text("data"), number("size"), text("since"), text("state")];

impl QueueVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Ls { path, first } => list(app, &path, first).await,
            Self::Put { path, item, kind, priority } => {
                let item = data::argument(&item).await?;
                put(app.zk_to_change().await?, path, item, kind, priority).await?;
                Ok(CommandOutput::nothing())
            }
            Self::Take { path, kind, wait } => {
                let zk = app.zk_to_change().await?;
                take(zk, path, kind, wait.unwrap_or_default()).await
            }
            Self::Requeue { path, first } => requeue(app, path, first).await,
        }
    }
}

fn answer(item: Bytes) -> CommandOutput {
    TextReport::new(data::show(&item), data::value(&item)).raw(item).into()
}

async fn list(
    app: &App,
    path: &str,
    first: Option<usize>,
) -> Result<CommandOutput, CommandFailure> {
    let zk = app.zk().await?;
    let mut items = QueuedItems::list(zk, path).await?;
    let mut shown = std::mem::take(&mut items.paths);
    shown.truncate(first.unwrap_or(usize::MAX));
    let states = items.states(zk, &shown).await?;
    let states = states.iter().map(ToString::to_string);
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
        app.out().say(format!("nodes that are not items: {}", items.others));
    }
    Ok(items.unreadable.complete(app.out(), rows))
}

async fn put(
    zk: &CuratorFramework,
    path: String,
    item: Bytes,
    kind: QueueFamily,
    priority: i32,
) -> Result<(), CommandFailure> {
    match kind {
        QueueFamily::Simple => SimpleDistributedQueue::new(zk, path).offer(item).await?,
        QueueFamily::Curator => DistributedQueue::new(zk, path).put(item).await?,
        QueueFamily::Priority => {
            DistributedPriorityQueue::new(zk, path).put(item, priority).await?;
        }
        QueueFamily::Fifo => FifoQueue::new(zk, path).put(item).await?,
        QueueFamily::Locking => {
            let queue = LockingQueue::new(zk, path).prioritized();
            queue.put_with_priority(item, priority).await?;
        }
    }
    Ok(())
}

/// Takes an item, which is removed once it is printed. Waits for one for at most this time.
async fn take(
    zk: &CuratorFramework,
    path: String,
    kind: QueueFamily,
    wait: Duration,
) -> Result<CommandOutput, CommandFailure> {
    let consumer = match kind {
        QueueFamily::Simple => SimpleDistributedQueue::new(zk, path).auto_ack_consumer(),
        QueueFamily::Fifo => FifoQueue::new(zk, path).auto_ack_consumer(),
        QueueFamily::Curator => DistributedQueue::new(zk, path).auto_ack_consumer(),
        QueueFamily::Priority => DistributedPriorityQueue::new(zk, path).auto_ack_consumer(),
        QueueFamily::Locking => return take_claimed(zk, path, wait).await,
    };
    // The consumer and what it has peeked are kept by one future, up to the answer and behind it.
    let (found, item) = oneshot::channel();
    let (printed, is_printed) = oneshot::channel();
    let mut taking = Box::pin(peek(consumer.prefetch(1), wait, found, is_printed));
    tokio::select! {
        biased;
        ended = &mut taking => ended.map(|()| Exit::NO.into()),
        Ok(item) = item => Ok(answer(item).then(async move {
            match printed.send(()) {
                Ok(()) => taking.await,
                // It has ended.
                Err(()) => Ok(()),
            }
        })),
    }
}

/// Looks for an item, and removes it once it is printed.
async fn peek(
    mut consumer: AutoAckConsumer,
    wait: Duration,
    found: oneshot::Sender<Bytes>,
    is_printed: oneshot::Receiver<()>,
) -> Result<(), CommandFailure> {
    if let Ok(peeked) = timeout(wait, consumer.peek()).await {
        return hand_over(peeked?, found, is_printed).await;
    }
    // The wait can be zero.
    match consumer.try_peek().await? {
        Some(peeked) => hand_over(peeked, found, is_printed).await,
        None => Ok(()),
    }
}

async fn hand_over(
    peeked: Peeked<'_>,
    found: oneshot::Sender<Bytes>,
    is_printed: oneshot::Receiver<()>,
) -> Result<(), CommandFailure> {
    if found.send(lines(peeked.item())).is_ok() && is_printed.await.is_ok() {
        peeked.ack().await.map_err(not_removed)?;
    }
    Ok(())
}

/// A node of a queue of Curator may have several items, which are printed as lines.
fn lines(item: &Item) -> Bytes {
    match item.items.as_slice() {
        [one] => one.clone(),
        many => many.join(&b'\n').into(),
    }
}

async fn take_claimed(
    zk: &CuratorFramework,
    path: String,
    wait: Duration,
) -> Result<CommandOutput, CommandFailure> {
    let mut consumer = LockingQueue::new(zk, path).prioritized().consumer();
    let next = match timeout(wait, consumer.next()).await {
        Ok(next) => Some(next?),
        Err(_) => consumer.try_next().await?,
    };
    let Some(delivery) = next else { return Ok(Exit::NO.into()) };
    let item = answer(delivery.data().clone());
    Ok(item.then(async move { delivery.ack().await.map_err(not_removed) }))
}

/// The item was printed, and may be delivered to another consumer.
fn not_removed(error: queue::Error) -> CommandFailure {
    CommandFailure::from(error).hint("the item was printed, and was not removed by this command")
}

async fn requeue(
    app: &App,
    path: String,
    first: Option<usize>,
) -> Result<CommandOutput, CommandFailure> {
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
    Ok(TextReport::new(format!("{count} put back"), json!({ "requeued": count })).into())
}
