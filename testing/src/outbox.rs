//! What a connection still has to send, and whether it may go on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zk_curator_proto::{Encoder, frame};

/// Bytes queued for a client above which its requests have to wait.
const HIGH_WATER: usize = 1 << 20;

/// The outgoing side of one connection: filled under the lock of the server's state, so that the order of
/// its frames is the order of the transactions, and emptied by the connection's task.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
    drained: Notify,
    /// Nothing more goes in; what is in is sent, then the connection ends.
    sealed: CancellationToken,
    /// The connection ends now.
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: BytesMut,
    closed: bool,
}

impl Outbox {
    /// An empty outbox of a connection that ends when `cut` is cancelled.
    pub(crate) fn new(cut: CancellationToken) -> Self {
        Self {
            queue: Mutex::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            sealed: CancellationToken::new(),
            cut,
        }
    }

    /// Appends bytes that are no frame.
    pub(crate) fn push_raw(&self, bytes: &[u8]) {
        let mut queue = self.lock();
        if !queue.closed {
            queue.bytes.extend_from_slice(bytes);
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Appends a frame; whether the connection still takes any.
    pub(crate) fn push(&self, fill: impl FnOnce(&mut Encoder)) -> bool {
        let mut queue = self.lock();
        if queue.closed {
            return false;
        }
        frame::put(&mut queue.bytes, fill);
        drop(queue);
        self.filled.notify_one();
        true
    }

    /// Takes no more frames, and ends the connection when those queued are sent.
    pub(crate) fn seal(&self) {
        self.lock().closed = true;
        self.sealed.cancel();
        self.filled.notify_one();
    }

    /// Ends the connection at once; what is queued is lost.
    pub(crate) fn cut(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.bytes.clear();
        drop(queue);
        self.cut.cancel();
    }

    /// Whether [`Outbox::seal`] or [`Outbox::cut`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Completes when the outbox is sealed.
    pub(crate) async fn sealed(&self) {
        self.sealed.cancelled().await;
    }

    /// Completes when the connection must end at once.
    pub(crate) async fn was_cut(&self) {
        self.cut.cancelled().await;
    }

    /// Waits for something to send; false when there is nothing and never will be.
    pub(crate) async fn ready(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if !queue.bytes.is_empty() {
                    return true;
                }
                if queue.closed {
                    return false;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Takes everything that is queued.
    pub(crate) fn take(&self) -> BytesMut {
        let bytes = self.lock().bytes.split();
        self.drained.notify_one();
        bytes
    }

    /// Waits until a client that does not read has read enough.
    pub(crate) async fn has_room(&self) {
        while self.lock().bytes.len() > HIGH_WATER {
            self.drained.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
