//! A way for bytes between two tasks, on which they take time.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long bytes are on the way that are sent now.
pub(crate) trait Distance: Send + Sync {
    /// When what is sent now arrives; `None` at once.
    fn arrival(&self) -> Option<Instant>;
}

/// A new way for bytes, with room for so many.
pub(crate) fn pipe<D: Distance>(room: usize, distance: Arc<D>) -> (Sender<D>, Receiver) {
    let pipe = Arc::new(Pipe(Mutex::new(State { room, ..State::default() })));
    (Sender { pipe: Arc::clone(&pipe), distance }, Receiver { pipe, timer: None })
}

#[derive(Debug)]
struct Pipe(Mutex<State>);

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Each with the time of its arrival; in order, so none overtakes another.
    pieces: VecDeque<(Option<Instant>, Bytes)>,
    /// How many bytes more may be sent.
    room: usize,
    /// The sender has ended, which its last, empty piece tells.
    ended: bool,
    /// Nobody receives any more.
    deserted: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl State {
    fn push(&mut self, arrival: Option<Instant>, bytes: Bytes) {
        let last = self.pieces.back().and_then(|(last, _)| *last);
        let arrival = match (arrival, last) {
            (Some(arrival), Some(last)) => Some(arrival.max(last)),
            (arrival, last) => arrival.or(last),
        };
        self.pieces.push_back((arrival, bytes));
        // It waits for the piece in front otherwise.
        if self.pieces.len() == 1
            && let Some(receiver) = self.receiver.take()
        {
            receiver.wake();
        }
    }
}

/// Where bytes go in. Dropping it ends them, as a shutdown does.
#[derive(Debug)]
pub(crate) struct Sender<D: Distance> {
    pipe: Arc<Pipe>,
    distance: Arc<D>,
}

impl<D: Distance> Sender<D> {
    fn end(&self) {
        let mut state = self.pipe.lock();
        if !state.ended {
            state.ended = true;
            state.push(self.distance.arrival(), Bytes::new());
        }
    }
}

impl<D: Distance> Drop for Sender<D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<D: Distance> AsyncWrite for Sender<D> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.pipe.lock();
        if state.deserted || state.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let takes = bytes.len().min(state.room);
        if takes == 0 && !bytes.is_empty() {
            state.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if takes > 0 {
            state.room -= takes;
            state.push(self.distance.arrival(), Bytes::copy_from_slice(&bytes[..takes]));
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

/// Where bytes come out.
#[derive(Debug)]
pub(crate) struct Receiver {
    pipe: Arc<Pipe>,
    /// Rings when the next piece arrives.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.pipe.lock();
        state.deserted = true;
        state.pieces.clear();
        if let Some(sender) = state.sender.take() {
            sender.wake();
        }
    }
}

impl AsyncRead for Receiver {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { pipe, timer } = self.get_mut();
        let mut state = pipe.lock();
        let before = buf.filled().len();
        let mut now = Instant::now();
        while buf.remaining() > 0
            && let Some((arrival, bytes)) = state.pieces.front_mut()
        {
            if let Some(arrival) = arrival.filter(|arrival| *arrival > now) {
                if buf.filled().len() > before {
                    break;
                }
                let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(arrival)));
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
                // The end stays: it is read again and again.
                return Poll::Ready(Ok(()));
            }
            let takes = bytes.len().min(buf.remaining());
            buf.put_slice(&bytes[..takes]);
            bytes.advance(takes);
            if bytes.is_empty() {
                state.pieces.pop_front();
            }
        }
        let taken = buf.filled().len() - before;
        if taken == 0 && buf.remaining() > 0 {
            state.receiver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.room += taken;
        if let Some(sender) = state.sender.take() {
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
    struct Fixed(Mutex<Option<Duration>>);

    impl Distance for Fixed {
        fn arrival(&self) -> Option<Instant> {
            let distance = *self.0.lock().unwrap();
            distance.map(|distance| Instant::now() + distance)
        }
    }

    fn of_millis(millis: u64) -> Arc<Fixed> {
        Arc::new(Fixed(Mutex::new(Some(Duration::from_millis(millis)))))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_arrive_in_their_order_and_in_time_and_so_does_the_end() {
        let distance = of_millis(50);
        let (mut sender, mut receiver) = pipe(100, Arc::clone(&distance));
        let began = Instant::now();
        sender.write_all(b"far").await.unwrap();
        *distance.0.lock().unwrap() = Some(Duration::from_millis(10));
        sender.write_all(b"near").await.unwrap();
        drop(sender);
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).await.unwrap();
        assert_eq!((all.as_slice(), began.elapsed()), (&b"farnear"[..], Duration::from_millis(50)));
        assert_eq!(receiver.read(&mut [0; 8]).await.unwrap(), 0, "the end stays");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_first_byte_hears_of_it() {
        let (mut sender, mut receiver) = pipe(100, of_millis(7));
        let began = Instant::now();
        let reading = tokio::spawn(async move { receiver.read_u8().await.unwrap() });
        tokio::task::yield_now().await;
        sender.write_u8(9).await.unwrap();
        assert_eq!((reading.await.unwrap(), began.elapsed()), (9, Duration::from_millis(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_pipe_lets_nobody_write_until_it_is_read() {
        let (mut sender, mut receiver) = pipe(4, Arc::new(Fixed::default()));
        assert_eq!(sender.write(b"abcdef").await.unwrap(), 4);
        assert!(timeout(Duration::from_secs(1), sender.write(b"ef")).await.is_err());
        let mut two = [0; 2];
        receiver.read_exact(&mut two).await.unwrap();
        assert_eq!((sender.write(b"efgh").await.unwrap(), &two), (2, b"ab"));
    }

    #[tokio::test]
    async fn nobody_writes_to_nobody() {
        let (mut sender, receiver) = pipe(1, Arc::new(Fixed::default()));
        sender.write_all(b"a").await.unwrap();
        let writing = tokio::spawn(async move { sender.write(b"b").await });
        tokio::task::yield_now().await;
        drop(receiver);
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
