use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use zk_curator::value::ToData;
use zk_curator::{CuratorFramework, ErrorKind};

use crate::queue::consume::auto_ack::AutoAckConsumer;
use crate::queue::consume::consumer::Consumer;
use crate::queue::error::Error;
use crate::queue::produce::producer::Producer;
use crate::queue::wire::item::Item;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::NamingRules;
use crate::queue::wire::value::encode;

/// The queue of ZooKeeper's recipes and of Apache Curator's `SimpleDistributedQueue`: byte strings,
/// first in, first out.
///
/// # Layout
/// ```text
/// /queue                             container, made on first use
///   ├─ qn-0000000000                 persistent, sequential; data: the item
///   └─ _c_<uuid>-taker-0000000001    ephemeral, sequential: a consumer; data: the item that it has removed last
/// ```
/// Java's class skips the nodes of this crate's consumers, and logs a warning.
///
/// # Protocol
/// 1. To offer an item, create its node.
/// 2. To take one, create a node of our own, list the queue, and read the nodes in the order of
///    their numbers, prefetching a few. In one transaction, delete the first item and write its
///    name into our own node. After a lost response that node shows whether the item is ours. As
///    long as the node exists, the container was not deleted and re-created, so no listed name can
///    belong to another item. If another consumer was faster, continue with the next item. The
///    queue is listed again at the end of the list.
/// 3. To wait for one, watch the children.
///
/// # Guarantees
/// An item is delivered at most once: see [`AutoAckConsumer`]. It is lost if its consumer crashes.
///
/// # Connection loss
/// * SUSPENDED: operations wait for a connection.
/// * LOST: waiters continue in the next session. If the response to a removal was lost with
///   the session, the outcome cannot be known: [`Error::Unknown`].
///
/// # Cancel safety
/// If a dropped [`take`](Self::take) or [`poll`](Self::poll) has already removed an item, the next
/// call on this queue or a clone returns it. So `tokio::time::timeout` is a safe time limit.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::queue::SimpleDistributedQueue;
///
/// let queue = SimpleDistributedQueue::new(&zk, "/queue");
/// queue.offer("one").await?;
/// assert_eq!(queue.peek().await?.unwrap(), "one");
/// assert_eq!(queue.take().await?, "one");
/// assert_eq!(queue.poll().await?, None);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SimpleDistributedQueue {
    producer: Producer,
    consumers: SharedConsumers,
}

impl SimpleDistributedQueue {
    /// Returns the queue at a path. Nothing is sent. The first operation reports an invalid path.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let layout = QueueLayout::new(zk, path.into(), NamingRules::Simple);
        let consumers =
            SharedConsumers::new(|| Consumer::with_receipts(layout.clone(), None, None));
        Self { producer: Producer::new(layout), consumers }
    }

    /// Puts every item exactly once, even if the response is lost: see
    /// [`CuratorQueue::idempotent_puts`](crate::queue::CuratorQueue::idempotent_puts).
    #[must_use]
    pub fn idempotent_puts(mut self, path: impl Into<String>) -> Self {
        self.producer.with_ids(path);
        self
    }

    /// Returns the path of the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.producer.layout.path.as_str()
    }

    /// Puts an item at the end.
    ///
    /// # Errors
    /// As [`DistributedQueue::put`](crate::queue::DistributedQueue::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn offer(&self, item: impl ToData) -> Result<(), Error> {
        let item = encode(self.path(), &item)?;
        self.producer.put(&[(NamingRules::Simple.tag().to_owned(), item)]).await
    }

    /// Takes the first item. Waits for one, without a time limit.
    ///
    /// # Errors
    /// As [`Consumer::next`].
    ///
    /// # Cancel safety
    /// An item that was removed in between is returned by the next call.
    pub async fn take(&self) -> Result<Bytes, Error> {
        self.consumers.take().await
    }

    /// Takes the first item if there is one. Never waits for other clients.
    ///
    /// # Errors
    /// As [`Consumer::next`].
    ///
    /// # Cancel safety
    /// An item that was removed in between is returned by the next call.
    pub async fn poll(&self) -> Result<Option<Bytes>, Error> {
        self.consumers.poll().await
    }

    /// Takes the first item. Fails if there is none.
    ///
    /// # Errors
    /// As [`Consumer::next`]; [`Error::Empty`] if there is none.
    ///
    /// # Cancel safety
    /// An item that was removed in between is returned by the next call.
    pub async fn remove(&self) -> Result<Bytes, Error> {
        self.poll().await?.ok_or_else(|| self.empty())
    }

    /// Returns a consumer that removes each item before it delivers it. Nothing is sent yet.
    pub fn auto_ack_consumer(&self) -> AutoAckConsumer {
        Consumer::with_receipts(self.producer.layout.clone(), None, None)
    }

    /// Reads the first item if there is one, without removing it.
    ///
    /// # Errors
    /// Those of a read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn peek(&self) -> Result<Option<Bytes>, Error> {
        first(&self.producer.layout).await
    }

    /// Reads the first item without removing it. Fails if there is none.
    ///
    /// # Errors
    /// As every read of the framework; [`Error::Empty`] when there is none.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn element(&self) -> Result<Bytes, Error> {
        self.peek().await?.ok_or_else(|| self.empty())
    }

    fn empty(&self) -> Error {
        Error::Empty { path: self.path().to_owned() }
    }
}

/// The data of the first item.
async fn first(layout: &QueueLayout) -> Result<Option<Bytes>, Error> {
    layout.check()?;
    loop {
        let names = match layout.zk.children(layout.path.as_str()).await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
            names => names?,
        };
        let first = names.iter().filter_map(|name| Some((layout.kind.place(name)?, name))).min();
        let Some((_, name)) = first else { return Ok(None) };
        match layout.zk.get_data(layout.item(name)).await {
            // Another client has taken it: read again.
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            data => {
                let corrupt = |why| Error::Corrupt { path: layout.item(name), why };
                return Ok(Some(layout.unpack(data?).map_err(corrupt)?));
            }
        }
    }
}

/// The consumers behind the methods of a queue: one for callers that wait, and one for callers that
/// do not wait behind them.
#[derive(Debug, Clone)]
pub(in crate::queue) struct SharedConsumers(Arc<[Mutex<AutoAckConsumer>; 2]>);

impl SharedConsumers {
    pub(in crate::queue) fn new(make: impl Fn() -> AutoAckConsumer) -> Self {
        Self(Arc::new([Mutex::new(make()), Mutex::new(make())]))
    }

    pub(in crate::queue) async fn take(&self) -> Result<Bytes, Error> {
        let [waiting, polling] = &*self.0;
        let mut waiting = waiting.lock().await;
        if let Ok(mut polling) = polling.try_lock()
            && polling.has_removed()
            && let Some(item) = polling.try_next().await?
        {
            return bytes(item);
        }
        bytes(waiting.next().await?)
    }

    pub(in crate::queue) async fn poll(&self) -> Result<Option<Bytes>, Error> {
        let [waiting, polling] = &*self.0;
        let mut polling = polling.lock().await;
        if let Ok(mut waiting) = waiting.try_lock()
            && (waiting.has_removed() || !polling.has_removed())
        {
            drop(polling);
            return waiting.try_next().await?.map(bytes).transpose();
        }
        polling.try_next().await?.map(bytes).transpose()
    }
}

/// The one item in a node.
fn bytes(mut item: Item) -> Result<Bytes, Error> {
    match item.items.pop() {
        Some(data) => Ok(data),
        None => Err(Error::Empty { path: item.path }),
    }
}
