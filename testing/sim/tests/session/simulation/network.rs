//! The network of the client under test: latency, cuts, silence in either direction, and refusals,
//! all of them traced.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use zk_curator_client::{Connector, Transport};
use zk_curator_testing::MemoryConnector;
use zk_curator_testing::wait::spend;

use super::trace::Trace;

/// The treatment of bytes in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Open,
    /// Bytes wait, and so does the end of the connection.
    Silent,
}

/// The maximum number of bytes that travel together.
const PIECE: usize = 16 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Network {
    server: MemoryConnector,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    trace: Arc<Mutex<Trace>>,
    rng: Mutex<Rng>,
    latency: Mutex<Duration>,
    down: AtomicBool,
    connections: AtomicU64,
    /// The number of cuts, and the flow of requests and of responses.
    condition: Mutex<(u64, Flow, Flow)>,
    /// Notifies without tokio's `watch`, because that wakes in random order.
    changed: Notify,
}

impl Network {
    pub(crate) fn new(server: MemoryConnector, trace: Arc<Mutex<Trace>>, seed: u64) -> Self {
        let state = State {
            trace,
            rng: Mutex::new(Rng::with_seed(seed ^ 0x5eed)),
            latency: Mutex::default(),
            down: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            condition: Mutex::new((0, Flow::Open, Flow::Open)),
            changed: Notify::new(),
        };
        Self { server, state: Arc::new(state) }
    }

    /// Cuts every connection. Both sides notice.
    pub(crate) fn cut(&self) {
        self.state.condition.lock().unwrap().0 += 1;
        self.state.changed.notify_waiters();
    }

    /// Cuts every connection and refuses new ones.
    pub(crate) fn set_down(&self, down: bool) {
        self.state.down.store(down, Ordering::Relaxed);
        if down {
            self.cut();
        }
    }

    pub(crate) fn flow(&self, requests: Flow, replies: Flow) {
        let mut condition = self.state.condition.lock().unwrap();
        (condition.1, condition.2) = (requests, replies);
        drop(condition);
        self.state.changed.notify_waiters();
    }

    /// Sets the maximum latency.
    pub(crate) fn latency(&self, most: Duration) {
        *self.state.latency.lock().unwrap() = most;
    }
}

impl State {
    /// Waits for a condition on the number of cuts, the flow of requests and the flow of responses.
    async fn until(&self, holds: impl Fn(u64, Flow, Flow) -> bool) {
        let now = || {
            let (cuts, requests, replies) = *self.condition.lock().unwrap();
            holds(cuts, requests, replies)
        };
        // Nothing runs between the check and the wait, because there is only one thread.
        while !now() {
            self.changed.notified().await;
        }
    }

    /// Draws the number of bytes that travel together: often a part of a frame, or all available
    /// bytes.
    fn piece(&self) -> usize {
        let mut rng = self.rng.lock().unwrap();
        let most = [60, 400, PIECE][rng.usize(..3)];
        rng.usize(1..=most)
    }

    /// Waits for the latency.
    async fn travel(&self) {
        let most = *self.latency.lock().unwrap();
        let time = self.rng.lock().unwrap().u64(0..=most.as_micros() as u64);
        spend(Duration::from_micros(time)).await;
    }
}

#[async_trait::async_trait]
impl Connector for Network {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let state = Arc::clone(&self.state);
        let number = state.connections.fetch_add(1, Ordering::Relaxed);
        state.travel().await;
        state.until(|_, requests, replies| (requests, replies) == (Flow::Open, Flow::Open)).await;
        if state.down.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let server = self.server.connect(host, port).await?;
        let (client, ours) = tokio::io::duplex(256 << 10);
        let cuts = state.condition.lock().unwrap().0;
        tokio::spawn(async move {
            let (from_client, to_client) = tokio::io::split(ours);
            let (from_server, to_server) = tokio::io::split(server);
            tokio::select! {
                biased;
                () = state.until(|now, _, _| now != cuts) => {}
                _ = pump(from_client, to_server, &state, (number, '>')) => {}
                _ = pump(from_server, to_client, &state, (number, '<')) => {}
            }
        });
        Ok(Box::new(client))
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: &State,
    (connection, direction): (u64, char),
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer[..state.piece()]).await?;
        state.travel().await;
        state
            .until(|_, requests, replies| {
                [replies, requests][usize::from(direction == '>')] == Flow::Open
            })
            .await;
        state.trace.lock().unwrap().bytes(connection, direction, &buffer[..read]);
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
