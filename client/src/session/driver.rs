use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::machine::{SessionEffect, SessionMachine};
use super::{RequestBatch, RequestQueue, SessionState, StateHub};
use crate::connector::{Connector, Transport};
use crate::sasl::{Worked, Working};
use crate::timer::sleep_until;
use crate::{Credentials, CredentialsProvider, HostPort, SessionInfo};

/// The size of one read in bytes.
const READ_CHUNK: usize = 64 * 1024;
/// The largest empty buffer that is kept, in bytes.
const KEPT_BUFFER: usize = 4 * READ_CHUNK;
/// The time that a server has to report if it is writable.
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

type Looking = Pin<Box<dyn Future<Output = (HostPort, bool)> + Send>>;
type Asking = Pin<Box<dyn Future<Output = ProvidedCredentials> + Send>>;
type ProvidedCredentials = Result<Credentials, Box<dyn Error + Send + Sync>>;
type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// The only loop with I/O: feeds the machine and performs its effects until the machine is done.
pub(crate) fn run_driver(
    machine: SessionMachine,
    connector: Arc<dyn Connector>,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    queue: Arc<RequestQueue>,
    states: Arc<StateHub>,
) -> impl Future<Output = ()> + Send {
    // Created outside the task, because a runtime that shuts down drops tasks that it has never
    // polled.
    let ended = EndedOnDrop { states, queue: Arc::clone(&queue), is_done: false };
    drive(machine, connector, credentials, queue, ended)
}

#[expect(clippy::too_many_lines, reason = "one loop over the events of a session")]
async fn drive(
    mut machine: SessionMachine,
    connector: Arc<dyn Connector>,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    queue: Arc<RequestQueue>,
    ended: EndedOnDrop,
) {
    // Locals are dropped before arguments, so the state is published before the machine drops the
    // watches.
    let mut ended = ended;
    let states = Arc::clone(&ended.states);
    let (look_every, mut next_look) = (states.look_every(), Instant::now());
    let mut suspended = states.suspended();
    let mut link = ServerLink::None;
    let mut input = Buffer::default();
    let mut large_output = false;
    let mut aside = AsideWork::default();
    let mut batch = RequestBatch::default();
    let mut handles_left = true;
    let mut alarm = pin!(sleep_until(Instant::now()));
    loop {
        while let Some(effect) = machine.next_effect() {
            match effect {
                SessionEffect::Done => {
                    queue.close(&mut batch);
                    machine.on_batch(&mut batch, Instant::now() + suspended);
                    machine.deliver();
                    ended.is_done = true;
                    return;
                }
                SessionEffect::Prove => aside.prove = machine.take_work(),
                SessionEffect::Look(host) => {
                    aside.look = Some(Box::pin(look_at(Arc::clone(&connector), host)));
                }
                SessionEffect::Ask => {
                    aside.ask = credentials.clone().map(|provider| -> Asking {
                        Box::pin(async move { provider.credentials().await })
                    });
                }
                SessionEffect::Connect(host) => {
                    let attempt = open(Arc::clone(&connector), host.clone());
                    link.attempt(host, attempt);
                }
                SessionEffect::Abandon(host) => link.abandon(&host),
                SessionEffect::Disconnect => {
                    link = ServerLink::None;
                    (aside.ask, aside.prove) = (None, None);
                    input = Buffer::default();
                }
            }
        }
        machine.deliver();
        shrink(machine.output(), &mut large_output);
        let timer = machine
            .next_timer()
            .map(|timer| timer.checked_sub(suspended).unwrap_or_else(Instant::now));
        // Notices a suspension soon after it, and not only at the next ping.
        if let Some(pause) = look_every.filter(|_| next_look <= Instant::now()) {
            next_look = Instant::now() + pause;
        }
        let timer =
            timer.map(|timer| if look_every.is_some() { timer.min(next_look) } else { timer });
        if let Some(timer) = timer.filter(|timer| *timer != alarm.deadline()) {
            alarm.as_mut().reset(timer);
        }
        // In a fixed order, so that input from the server is processed before timers.
        let wake = tokio::select! {
            biased;
            event = poll_fn(|cx| link.poll(machine.output(), &mut input.bytes, cx)) => Wake::Link(event),
            () = poll_fn(|cx| queue.poll_take(&mut batch, !handles_left, cx)) => Wake::Commands,
            wake = poll_fn(|cx| aside.poll(cx)) => wake,
            () = &mut alarm, if timer.is_some() => Wake::Timer,
        };
        suspended = states.suspended();
        let now = Instant::now() + suspended;
        machine.on_wake(now);
        let has_batch = matches!(wake, Wake::Commands);
        pass(wake, &mut machine, &mut input, now);
        // Polled on every wake-up, so that none of the three branches can starve the others.
        if !has_batch {
            queue.take(&mut batch);
        }
        machine.on_batch(&mut batch, now);
        if batch.is_unused && handles_left {
            handles_left = false;
            machine.on_close(None, false, now);
        }
        if machine.next_timer().is_some_and(|timer| timer <= now) {
            machine.on_timer(now);
        }
    }
}

/// Passes what has happened to the machine.
fn pass(wake: Wake, machine: &mut SessionMachine, input: &mut Buffer, now: Instant) {
    match wake {
        Wake::Link(LinkEvent::Open(host)) => machine.on_connected(&host, now),
        Wake::Link(LinkEvent::NotOpen(host, error)) => machine.on_attempt_failed(&host, error, now),
        Wake::Link(LinkEvent::Read) => {
            machine.on_read(&mut input.bytes, now);
            input.shrink();
        }
        Wake::Looked(host, writable) => machine.on_looked(&host, writable, now),
        Wake::Asked(answer) => machine.on_credentials(answer, now),
        Wake::Proven(worked) => machine.on_worked(worked, now),
        Wake::Link(LinkEvent::Written) | Wake::Timer | Wake::Commands => {}
        Wake::Link(LinkEvent::Failed(error)) => machine.on_io_error(now, error),
    }
}

/// Publishes the end if the task ends early, because its runtime was shut down or a connector
/// panicked. Followers of the state are notified first, and then the callers that wait for
/// responses.
struct EndedOnDrop {
    states: Arc<StateHub>,
    queue: Arc<RequestQueue>,
    /// `true` if the task has ended normally.
    is_done: bool,
}

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        if !self.is_done && self.states.session().is_some() {
            self.states.untold(crate::Error::ConnectionLoss { sent: true });
        }
        if self.states.current().end().is_none() {
            warn_of_early_end(self.states.session());
            self.states.publish(SessionState::Closed);
        }
        self.queue.end();
    }
}

/// Logs what a session leaves behind when its task ends without [`close`](crate::ZooKeeper::close),
/// and how to avoid that.
fn warn_of_early_end(session: Option<SessionInfo>) {
    if std::thread::panicking() {
        tracing::warn!("the task of a session ended early: it panicked");
    } else if let Some(SessionInfo { id, timeout, .. }) = session {
        tracing::warn!(
            session = %id,
            "the runtime ended before the session was closed: its ephemeral nodes and locks stay for up to {timeout:?}. \
             Call close() and await it before the runtime ends, even if `?` leaves main"
        );
    }
}

#[derive(Default)]
struct Buffer {
    bytes: BytesMut,
    large: bool,
}

impl Buffer {
    fn shrink(&mut self) {
        shrink(&mut self.bytes, &mut self.large);
    }
}

/// Frees a buffer that was once needed for something large: it would never shrink by itself.
fn shrink(buffer: &mut BytesMut, large: &mut bool) {
    *large |= buffer.len() > KEPT_BUFFER;
    if *large && buffer.is_empty() {
        *buffer = BytesMut::new();
        *large = false;
    }
}

enum Wake {
    Link(LinkEvent),
    Commands,
    Looked(HostPort, bool),
    Asked(ProvidedCredentials),
    Proven(Worked),
    Timer,
}

/// The work that the session waits for in addition to its connection.
#[derive(Default)]
struct AsideWork {
    look: Option<Looking>,
    ask: Option<Asking>,
    prove: Option<Working>,
}

impl AsideWork {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        if let Poll::Ready((host, writable)) = poll_some(&mut self.look, cx) {
            return Poll::Ready(Wake::Looked(host, writable));
        }
        if let Poll::Ready(answer) = poll_some(&mut self.ask, cx) {
            return Poll::Ready(Wake::Asked(answer));
        }
        poll_some(&mut self.prove, cx).map(Wake::Proven)
    }
}

/// Polls a future if there is one, and removes it when it is ready.
fn poll_some<F: Future + Unpin>(slot: &mut Option<F>, cx: &mut Context<'_>) -> Poll<F::Output> {
    let Some(future) = slot else { return Poll::Pending };
    let output = std::task::ready!(Pin::new(future).poll(cx));
    *slot = None;
    Poll::Ready(output)
}

/// Asks a server if it is writable, with the four-letter word `isro`. The server responds with `rw`
/// or `ro`.
async fn look_at(connector: Arc<dyn Connector>, host: HostPort) -> (HostPort, bool) {
    let answer = timeout(LOOK_TIMEOUT, async {
        let mut transport = connector.connect(&host.host, host.port).await?;
        transport.write_all(b"isro").await?;
        transport.flush().await?;
        let mut answer = [0; 2];
        transport.read_exact(&mut answer).await?;
        io::Result::Ok(answer)
    });
    let writable = matches!(answer.await, Ok(Ok(answer)) if &answer == b"rw");
    (host, writable)
}

fn open(connector: Arc<dyn Connector>, host: HostPort) -> Connecting {
    Box::pin(async move { connector.connect(&host.host, host.port).await })
}

enum ServerLink {
    None,
    /// The attempts to connect, in the order in which they began.
    Connecting(Vec<(HostPort, Connecting)>),
    Open {
        transport: Box<dyn Transport>,
        unflushed: bool,
    },
}

enum LinkEvent {
    Open(HostPort),
    NotOpen(HostPort, io::Error),
    Read,
    Written,
    Failed(io::Error),
}

impl ServerLink {
    /// Adds an attempt to connect.
    fn attempt(&mut self, host: HostPort, attempt: Connecting) {
        match self {
            Self::Connecting(attempts) => attempts.push((host, attempt)),
            _ => *self = Self::Connecting(vec![(host, attempt)]),
        }
    }

    fn abandon(&mut self, host: &HostPort) {
        if let Self::Connecting(attempts) = self {
            attempts.retain(|(other, _)| other != host);
        }
    }

    /// Makes progress on the connection: opens it, or else reads and writes.
    fn poll(
        &mut self,
        output: &mut BytesMut,
        input: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<LinkEvent> {
        let result = match self {
            Self::None => return Poll::Pending,
            Self::Connecting(attempts) => {
                let ready =
                    |(place, (_, attempt)): (usize, &mut (HostPort, Connecting))| match attempt
                        .as_mut()
                        .poll(cx)
                    {
                        Poll::Ready(result) => Some((place, result)),
                        Poll::Pending => None,
                    };
                let Some((place, result)) = attempts.iter_mut().enumerate().find_map(ready) else {
                    return Poll::Pending;
                };
                let (host, _) = attempts.remove(place);
                Ok(match result {
                    Ok(transport) => {
                        *self = Self::Open { transport, unflushed: false };
                        LinkEvent::Open(host)
                    }
                    Err(error) => LinkEvent::NotOpen(host, error),
                })
            }
            Self::Open { transport, unflushed } => {
                let read = poll_read(transport, input, cx);
                let written = poll_write(transport, unflushed, output, cx);
                match (read, written) {
                    // Before the failure of a write is handled, the last input from the server is
                    // read: it may say why the server closed the connection. The next write fails
                    // again.
                    (Poll::Ready(read), _) => read,
                    (Poll::Pending, Poll::Ready(written)) => written,
                    (Poll::Pending, Poll::Pending) => return Poll::Pending,
                }
            }
        };
        Poll::Ready(result.unwrap_or_else(LinkEvent::Failed))
    }
}

fn poll_read(
    transport: &mut Box<dyn Transport>,
    input: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<LinkEvent>> {
    if input.capacity() - input.len() < READ_CHUNK / 4 {
        input.reserve(READ_CHUNK);
    }
    // The future has no state of its own, so it can be created again at every poll.
    Poll::Ready(match std::task::ready!(pin!(transport.read_buf(input)).poll(cx)) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(LinkEvent::Read),
        Err(error) => Err(error),
    })
}

/// Returns `Ready` when bytes were written, or the connection failed.
fn poll_write(
    transport: &mut Box<dyn Transport>,
    unflushed: &mut bool,
    output: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<LinkEvent>> {
    if !output.is_empty() {
        let written = std::task::ready!(pin!(transport.write_buf(output)).poll(cx));
        *unflushed = true;
        return Poll::Ready(match written {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => Ok(LinkEvent::Written),
            Err(error) => Err(error),
        });
    }
    if *unflushed {
        let flushed = std::task::ready!(Pin::new(transport).poll_flush(cx));
        *unflushed = false;
        if let Err(error) = flushed {
            return Poll::Ready(Err(error));
        }
    }
    Poll::Pending
}
