use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use zk_curator::value::ToData;
use zk_curator::{CuratorFramework, ErrorKind};

use super::auto_ack::AutoAckConsumer;
use super::core::name::Kind;
use super::error::Error;
use super::item::Item;
use super::layout::QueueLayout;
use super::put::Producer;
use super::value::encode;

/// The queue of ZooKeeper's recipes, and of Apache Curator's `SimpleDistributedQueue`: bytes, first in, first out.
///
/// # Layout
/// ```text
/// /queue                             container, made on first use
///   ├─ qn-0000000000                 persistent, sequential; data: the item
///   └─ _c_<uuid>-taker-0000000001    ephemeral, sequential: one who takes; data: the item that it has removed last
/// ```
/// Java's class skips the nodes of those who take here, with a warning in its log.
///
/// # Protocol
/// 1. To offer an item, create its node.
/// 2. To take one, create our own node, list the queue, and read the nodes in the order of their numbers, a few ahead; in
///    one transaction, delete the first and write its name into our own node. After a lost answer that node says whether
///    the item is ours; and as long as it is there, no name that was listed can be that of another item, as it could when
///    the container has been taken away and created again. If somebody else was faster, go on with the next. The list is
///    worked through before the queue is listed again.
/// 3. To wait for one, watch the children.
///
/// # Guarantees
/// An item is handed out at most once: see [`AutoAckConsumer`]. It is lost if its consumer crashes with it.
///
/// # Connection loss
/// * SUSPENDED: operations wait for a connection.
/// * LOST: those that wait go on in the next session. If the answer to a removal was lost with the session, nobody can tell
///   what has become of it: [`Error::Unknown`].
///
/// # Cancel safety
/// An item that a dropped [`take`](Self::take) or [`poll`](Self::poll) has removed is handed out by the next one of this queue or
/// of a clone. So a time limit is `tokio::time::timeout`.
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
    /// The queue at a path. Nothing is sent.
    /// An invalid path is refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let layout = QueueLayout::new(zk, path.into(), Kind::Simple);
        let consumers = SharedConsumers::new(|| AutoAckConsumer::with_receipts(layout.clone(), None, None));
        Self { producer: Producer::new(layout), consumers }
    }

    /// Puts every item exactly once, also when the answer is lost: see [`CuratorQueue::idempotent_puts`](super::CuratorQueue::idempotent_puts).
    #[must_use]
    pub fn idempotent_puts(mut self, path: impl Into<String>) -> Self {
        self.producer.with_ids(path);
        self
    }

    /// The path of the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.producer.layout.path.as_str()
    }

    /// Puts an item at the end.
    ///
    /// # Errors
    /// As [`DistributedQueue::put`](super::DistributedQueue::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn offer(&self, item: impl ToData) -> Result<(), Error> {
        let item = encode(self.path(), &item)?;
        self.producer.put(&[(Kind::Simple.tag().to_owned(), item)]).await
    }

    /// Takes the first item, however long it takes until there is one.
    ///
    /// # Errors
    /// As [`AutoAckConsumer::next`].
    ///
    /// # Cancel safety
    /// An item that was removed meanwhile is handed out by the next call.
    pub async fn take(&self) -> Result<Bytes, Error> {
        self.consumers.take().await
    }

    /// Takes the first item if there is one. Never waits for others.
    ///
    /// # Errors
    /// As [`AutoAckConsumer::next`].
    ///
    /// # Cancel safety
    /// An item that was removed meanwhile is handed out by the next call.
    pub async fn poll(&self) -> Result<Option<Bytes>, Error> {
        self.consumers.poll().await
    }

    /// Takes the first item, which has to be there.
    ///
    /// # Errors
    /// As [`AutoAckConsumer::next`]; [`Error::Empty`] when there is none.
    ///
    /// # Cancel safety
    /// An item that was removed meanwhile is handed out by the next call.
    pub async fn remove(&self) -> Result<Bytes, Error> {
        self.poll().await?.ok_or(Error::Empty)
    }

    /// Reads the first item if there is one, and leaves it where it is.
    ///
    /// # Errors
    /// As every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn peek(&self) -> Result<Option<Bytes>, Error> {
        first(&self.producer.layout).await
    }

    /// Reads the first item, which has to be there, and leaves it where it is.
    ///
    /// # Errors
    /// As every read of the framework; [`Error::Empty`] when there is none.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn element(&self) -> Result<Bytes, Error> {
        self.peek().await?.ok_or(Error::Empty)
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
            // Another client has taken it: look again.
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            data => {
                let corrupt = |why| Error::Corrupt { path: layout.item(name), why };
                return Ok(Some(layout.unpack(data?).map_err(corrupt)?));
            }
        }
    }
}

/// The consumers behind the methods of a queue: one for those who wait, and one for those who do not wait behind them.
#[derive(Debug, Clone)]
pub(super) struct SharedConsumers(Arc<[Mutex<AutoAckConsumer>; 2]>);

impl SharedConsumers {
    pub(super) fn new(make: impl Fn() -> AutoAckConsumer) -> Self {
        Self(Arc::new([Mutex::new(make()), Mutex::new(make())]))
    }

    pub(super) async fn take(&self) -> Result<Bytes, Error> {
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

    pub(super) async fn poll(&self) -> Result<Option<Bytes>, Error> {
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
    item.items.pop().ok_or(Error::Empty)
}
