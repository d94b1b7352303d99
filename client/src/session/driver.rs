use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::machine::{Effect, Machine};
use super::{Command, StateHub};
use crate::HostPort;
use crate::connector::{Connector, Transport};

/// How much is read at once, in bytes.
const READ_CHUNK: usize = 64 * 1024;
/// How many commands are taken at once, so that they leave in one write.
const COMMAND_BATCH: usize = 256;

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// The only loop with I/O: feeds the machine and performs its effects until it is done.
pub(crate) async fn run_driver(
    mut machine: Machine,
    connector: Arc<dyn Connector>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    states: Arc<StateHub>,
) {
    let mut link = Link::None;
    let mut input = BytesMut::new();
    let mut batch = Vec::with_capacity(COMMAND_BATCH);
    let mut handles_left = true;
    loop {
        while let Some(effect) = machine.next_effect() {
            match effect {
                Effect::Connect(host) => link = Link::Connecting(open(Arc::clone(&connector), host)),
                Effect::Disconnect => {
                    link = Link::None;
                    input = BytesMut::new();
                }
                Effect::State(state) => states.publish(state),
                Effect::Done => {
                    commands.close();
                    while let Ok(command) = commands.try_recv() {
                        machine.on_command(command, Instant::now());
                    }
                    return;
                }
            }
        }
        let timer = machine.next_timer();
        // In a fixed order: what the server says is heard before time is judged.
        tokio::select! {
            biased;
            event = poll_fn(|cx| link.poll(machine.output(), &mut input, cx)) => {
                let now = Instant::now();
                match event {
                    LinkEvent::Open => machine.on_connected(now),
                    LinkEvent::Read => machine.on_read(&mut input, now),
                    LinkEvent::Written => {}
                    LinkEvent::Failed(error) => machine.on_io_error(now, &error.to_string()),
                }
                // A server that never stops talking must starve neither the handles nor the timer.
                for _ in 0..COMMAND_BATCH {
                    let Ok(command) = commands.try_recv() else { break };
                    machine.on_command(command, now);
                }
                if machine.next_timer().is_some_and(|timer| timer <= now) {
                    machine.on_timer(now);
                }
            }
            count = commands.recv_many(&mut batch, COMMAND_BATCH), if handles_left => {
                let now = Instant::now();
                for command in batch.drain(..) {
                    machine.on_command(command, now);
                }
                if count == 0 {
                    handles_left = false;
                    machine.on_close(None, now);
                }
            }
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {
                machine.on_timer(Instant::now());
            }
        }
    }
}

fn open(connector: Arc<dyn Connector>, host: HostPort) -> Connecting {
    Box::pin(async move { connector.connect(&host.host, host.port).await })
}

enum Link {
    None,
    Connecting(Connecting),
    Open { transport: Box<dyn Transport>, unflushed: bool },
}

enum LinkEvent {
    Open,
    Read,
    Written,
    Failed(io::Error),
}

impl Link {
    /// Makes progress on whatever the connection can do: opening, else writing, else reading.
    fn poll(&mut self, output: &mut BytesMut, input: &mut BytesMut, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        let result = match self {
            Self::None => return Poll::Pending,
            Self::Connecting(attempt) => std::task::ready!(attempt.as_mut().poll(cx)).map(|transport| {
                *self = Self::Open { transport, unflushed: false };
                LinkEvent::Open
            }),
            Self::Open { transport, unflushed } => {
                std::task::ready!(poll_open(transport, unflushed, output, input, cx))
            }
        };
        Poll::Ready(result.unwrap_or_else(LinkEvent::Failed))
    }
}

fn poll_open(
    transport: &mut Box<dyn Transport>,
    unflushed: &mut bool,
    output: &mut BytesMut,
    input: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<LinkEvent>> {
    if !output.is_empty() {
        // The future holds no state of its own, so it may be made anew at every poll.
        if let Poll::Ready(written) = pin!(transport.write_buf(output)).poll(cx) {
            *unflushed = true;
            return Poll::Ready(match written {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => Ok(LinkEvent::Written),
                Err(error) => Err(error),
            });
        }
    } else if *unflushed && let Poll::Ready(flushed) = Pin::new(&mut *transport).poll_flush(cx) {
        *unflushed = false;
        if let Err(error) = flushed {
            return Poll::Ready(Err(error));
        }
    }
    if input.capacity() - input.len() < READ_CHUNK / 4 {
        input.reserve(READ_CHUNK);
    }
    let read = std::task::ready!(pin!(transport.read_buf(input)).poll(cx));
    Poll::Ready(match read {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(LinkEvent::Read),
        Err(error) => Err(error),
    })
}
