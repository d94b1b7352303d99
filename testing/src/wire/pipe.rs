//! [`pipe`]: a byte stream between two tasks, with latency.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use zk_curator_client::internal::{Locked, LockedGuard, sleep_until};

/// The latency of a pipe.
pub(super) trait Distance: Send + Sync {
    /// Returns the arrival time of bytes sent now; `None` for immediate arrival.
    fn arrival(&self) -> Option<Instant>;
}

/// Creates a pipe that holds this many bytes.
pub(super) fn pipe<D: Distance>(room: usize, distance: Arc<D>) -> (Sender<D>, Receiver) {
    let pipe = Arc::new(Pipe(Locked::new(Pieces { room, ..Pieces::default() })));
    (Sender { pipe: Arc::clone(&pipe), distance }, Receiver { pipe, timer: None })
}

#[derive(Debug)]
struct Pipe(Locked<Pieces>);

impl Pipe {
    fn lock(&self) -> LockedGuard<'_, Pieces> {
        self.0.lock()
    }
}

/// The bytes in flight.
#[derive(Debug, Default)]
struct Pieces {
    /// The pieces with their arrival times, in order.
    queue: VecDeque<(Option<Instant>, Bytes)>,
    /// The number of bytes that may still be sent.
    room: usize,
    /// The sender has ended; the last piece is empty.
    ended: bool,
    /// The receiver was dropped.
    deserted: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl Pieces {
    fn push(&mut self, arrival: Option<Instant>, bytes: Bytes) {
        let last = self.queue.back().and_then(|(last, _)| *last);
        let arrival = match (arrival, last) {
            (Some(arrival), Some(last)) => Some(arrival.max(last)),
            (arrival, last) => arrival.or(last),
        };
        self.queue.push_back((arrival, bytes));
        // Otherwise the receiver waits for the first piece.
        if self.queue.len() == 1
            && let Some(receiver) = self.receiver.take()
        {
            receiver.wake();
        }
    }
}

/// The sending end. Dropping it ends the stream, like a shutdown.
#[derive(Debug)]
pub(super) struct Sender<D: Distance> {
    pipe: Arc<Pipe>,
    distance: Arc<D>,
}

impl<D: Distance> Sender<D> {
    fn end(&self) {
        let mut pieces = self.pipe.lock();
        if !pieces.ended {
            pieces.ended = true;
            pieces.push(self.distance.arrival(), Bytes::new());
        }
    }
}

impl<D: Distance> Drop for Sender<D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<D: Distance> AsyncWrite for Sender<D> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pieces = self.pipe.lock();
        if pieces.deserted || pieces.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let takes = bytes.len().min(pieces.room);
        if takes == 0 && !bytes.is_empty() {
            pieces.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if takes > 0 {
            pieces.room -= takes;
            pieces.push(self.distance.arrival(), Bytes::copy_from_slice(&bytes[..takes]));
        }
        Poll::Ready(Ok(takes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Receiver {
    pipe: Arc<Pipe>,
    /// Completes when the next piece arrives.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut pieces = self.pipe.lock();
        pieces.deserted = true;
        pieces.queue.clear();
        if let Some(sender) = pieces.sender.take() {
            sender.wake();
        }
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { pipe, timer } = self.get_mut();
        let mut pieces = pipe.lock();
        let before = buf.filled().len();
        let mut now = Instant::now();
        while buf.remaining() > 0
            && let Some((arrival, bytes)) = pieces.queue.front_mut()
        {
            if let Some(arrival) = arrival.filter(|arrival| *arrival > now) {
                if buf.filled().len() > before {
                    break;
                }
                let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(arrival)));
                if timer.deadline() != arrival {
                    timer.as_mut().reset(arrival);
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                now = arrival;
                continue;
            }
            if bytes.is_empty() {
                // The end stays, and can be read again.
                return Poll::Ready(Ok(()));
            }
            let takes = bytes.len().min(buf.remaining());
            buf.put_slice(&bytes[..takes]);
            bytes.advance(takes);
            if bytes.is_empty() {
                pieces.queue.pop_front();
            }
        }
        let taken = buf.filled().len() - before;
        if taken == 0 && buf.remaining() > 0 {
            pieces.receiver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pieces.room += taken;
        if let Some(sender) = pieces.sender.take() {
            sender.wake();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;

    #[derive(Debug, Default)]
    struct Fixed(Locked<Option<Duration>>);

    impl Distance for Fixed {
        fn arrival(&self) -> Option<Instant> {
            let distance = *self.0.lock();
            distance.map(|distance| Instant::now() + distance)
        }
    }

    fn of_millis(millis: u64) -> Arc<Fixed> {
        Arc::new(Fixed(Locked::new(Some(Duration::from_millis(millis)))))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_arrive_in_their_order_and_in_time_and_so_does_the_end() {
        let distance = of_millis(50);
        let (mut sender, mut receiver) = pipe(100, Arc::clone(&distance));
        let began = Instant::now();
        sender.write_all(b"far").await.unwrap();
        *distance.0.lock() = Some(Duration::from_millis(10));
        sender.write_all(b"near").await.unwrap();
        drop(sender);
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).await.unwrap();
        assert_eq!((all.as_slice(), began.elapsed()), (&b"farnear"[..], Duration::from_millis(50)));
        assert_eq!(receiver.read(&mut [0; 8]).await.unwrap(), 0, "the end stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_for_the_first_byte_is_woken() {
        let (mut sender, mut receiver) = pipe(100, of_millis(7));
        let began = Instant::now();
        let reading = tokio::spawn(async move { receiver.read_u8().await.unwrap() });
        tokio::task::yield_now().await;
        sender.write_u8(9).await.unwrap();
        assert_eq!((reading.await.unwrap(), began.elapsed()), (9, Duration::from_millis(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_pipe_blocks_writers_until_it_is_read() {
        let (mut sender, mut receiver) = pipe(4, Arc::new(Fixed::default()));
        assert_eq!(sender.write(b"abcdef").await.unwrap(), 4);
        assert!(timeout(Duration::from_secs(1), sender.write(b"ef")).await.is_err());
        let mut two = [0; 2];
        receiver.read_exact(&mut two).await.unwrap();
        assert_eq!((sender.write(b"efgh").await.unwrap(), &two), (2, b"ab"));
    }

    #[tokio::test]
    async fn a_writer_without_a_reader_gets_broken_pipe() {
        let (mut sender, receiver) = pipe(1, Arc::new(Fixed::default()));
        sender.write_all(b"a").await.unwrap();
        let writing = tokio::spawn(async move { sender.write(b"b").await });
        tokio::task::yield_now().await;
        drop(receiver);
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
