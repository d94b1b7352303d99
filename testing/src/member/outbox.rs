//! [`Outbox`]: the outgoing queue of a connection.

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::{Locked, LockedGuard};
use zk_curator_proto::{Encoder, frame};

/// Queued bytes above which the requests of the client are not read.
const HIGH_WATER: usize = 1 << 20;

/// A larger queue, in bytes, frees its memory when it is emptied.
const KEPT: usize = 64 << 10;

/// The outgoing side of one connection: filled under the lock of the server's state, so that the
/// order of its frames is the order of the transactions, and emptied by the connection's task.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Locked<Queue>,
    filled: Notify,
    drained: Notify,
    /// Set when no more frames are accepted; the connection ends after the queue is sent.
    sealed: CancellationToken,
    /// Set when the connection ends immediately.
    cut: CancellationToken,
    /// The maximum number of bytes queued for a client that does not read.
    limit: usize,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: BytesMut,
    /// The number of bytes that were taken and may not be sent yet.
    sending: usize,
    closed: bool,
}

impl Outbox {
    /// Creates the outbox of a connection that ends when `cut` is cancelled, or when a frame is
    /// pushed while more than `limit` bytes are queued.
    pub(crate) fn new(cut: CancellationToken, limit: usize) -> Self {
        Self {
            queue: Locked::default(),
            filled: Notify::new(),
            drained: Notify::new(),
            sealed: CancellationToken::new(),
            cut,
            limit,
        }
    }

    /// Appends bytes without a frame header.
    pub(crate) fn push_raw(&self, bytes: &[u8]) {
        let mut queue = self.lock();
        if !queue.closed {
            queue.bytes.extend_from_slice(bytes);
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Appends a frame. Returns `true` if it was accepted. Cuts a connection whose client does not
    /// read.
    pub(crate) fn push(&self, fill: impl FnOnce(&mut Encoder)) -> bool {
        let mut queue = self.lock();
        if queue.closed {
            return false;
        }
        // Requests wait above the high water mark. Only watch events exceed it, and reads that a
        // lagging server responds to all together.
        if queue.bytes.len() + queue.sending > self.limit {
            tracing::info!(limit = self.limit, "disconnected: the client does not read");
            drop(queue);
            self.cut();
            return false;
        }
        frame::put(&mut queue.bytes, fill);
        drop(queue);
        self.filled.notify_one();
        true
    }

    /// Accepts no more frames, and ends the connection after the queued frames are sent.
    pub(crate) fn seal(&self) {
        self.lock().closed = true;
        self.sealed.cancel();
        self.filled.notify_one();
    }

    /// Ends the connection immediately. Queued frames are lost.
    pub(crate) fn cut(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.bytes = BytesMut::new();
        drop(queue);
        self.cut.cancel();
    }

    /// Completes when the outbox is sealed.
    pub(crate) async fn sealed(&self) {
        self.sealed.cancelled().await;
    }

    /// Completes when the connection must end immediately.
    pub(crate) async fn was_cut(&self) {
        self.cut.cancelled().await;
    }

    /// Waits for bytes to send. Returns `false` if none will come. Marks taken bytes as sent.
    pub(crate) async fn ready(&self) -> bool {
        loop {
            {
                let mut queue = self.lock();
                queue.sending = 0;
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

    /// Takes all queued bytes.
    pub(crate) fn take(&self) -> BytesMut {
        let mut queue = self.lock();
        let large = queue.bytes.capacity() > KEPT;
        let bytes = if large { std::mem::take(&mut queue.bytes) } else { queue.bytes.split() };
        queue.sending = bytes.len();
        drop(queue);
        self.drained.notify_one();
        bytes
    }

    /// Waits until the client has read enough. Returns `false` if the connection ends.
    pub(crate) async fn has_room(&self) -> bool {
        loop {
            {
                let queue = self.lock();
                if queue.closed || queue.bytes.len() <= HIGH_WATER {
                    return !queue.closed;
                }
            }
            self.drained.notified().await;
        }
    }

    fn lock(&self) -> LockedGuard<'_, Queue> {
        self.queue.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 4 << 20;

    fn push(outbox: &Outbox, bytes: usize) -> bool {
        outbox.push(|out| out.buffer(Some(&vec![7; bytes])))
    }

    #[tokio::test]
    async fn the_outbox_of_a_client_holds_its_limit_and_one_frame() {
        let outbox = Outbox::new(CancellationToken::new(), LIMIT);
        let mut waiting = 0;
        while push(&outbox, 10_000) {
            waiting += 10_008;
            // Bytes in flight count until their arrival is confirmed.
            if waiting == 100_080 {
                assert!(outbox.ready().await);
                assert_eq!(outbox.take().len(), waiting);
            }
        }
        assert!((LIMIT + 1..=LIMIT + 10_008).contains(&waiting), "{waiting}");
        outbox.was_cut().await;
        assert_eq!(outbox.lock().bytes.capacity(), 0);
        assert!(!outbox.has_room().await && !outbox.ready().await);
    }

    #[tokio::test]
    async fn what_was_sent_does_not_count() {
        let outbox = Outbox::new(CancellationToken::new(), LIMIT);
        for _ in 0..10 {
            // A single frame may be larger than the limit of the queue.
            assert!(push(&outbox, LIMIT + 1));
            assert!(outbox.ready().await);
            assert_eq!(outbox.take().len(), LIMIT + 9);
            assert_eq!(outbox.lock().bytes.capacity(), 0, "the memory is given back");
            // A request for more bytes confirms that the last ones were sent.
            let asking = tokio::time::timeout(std::time::Duration::ZERO, outbox.ready());
            assert!(asking.await.is_err());
        }
    }
}
