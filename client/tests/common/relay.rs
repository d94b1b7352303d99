//! A TCP relay between a client and the servers: cuts, stalls, and loses what goes one way.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What a relay does with the bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// They pass.
    Open,
    /// They wait.
    Stalled,
    /// They vanish.
    Lost,
}

/// One address for each server, each led to it. Dropping it cuts all connections.
#[derive(Debug)]
pub(crate) struct Relay {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    /// Every connection ends when it changes; the relay, when it is dropped.
    generation: watch::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    down: watch::Sender<bool>,
    requests: watch::Sender<Flow>,
    replies: watch::Sender<Flow>,
    counts: watch::Sender<Counts>,
    /// What the servers have sent first on the last connection.
    handshake: Mutex<Vec<u8>>,
}

/// What has come so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Attempts to connect, those that were refused as well.
    pub(crate) connections: u64,
    /// Frames that were passed on to servers, with those of the handshakes and pings.
    pub(crate) requests: u64,
}

impl Relay {
    pub(crate) async fn start(servers: &[SocketAddr]) -> Self {
        let generation = watch::Sender::new(());
        let shared = Arc::new(Shared {
            down: watch::Sender::new(false),
            requests: watch::Sender::new(Flow::Open),
            replies: watch::Sender::new(Flow::Open),
            counts: watch::Sender::default(),
            handshake: Mutex::default(),
        });
        let mut addresses = Vec::new();
        for server in servers {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap());
            tokio::spawn(Arc::clone(&shared).listen(listener, *server, generation.subscribe()));
        }
        Self { addresses, shared, generation }
    }

    /// The addresses as clients want them.
    pub(crate) fn connect_string(&self) -> String {
        self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Cuts every connection. New ones are accepted.
    pub(crate) fn cut(&self) {
        self.generation.send_replace(());
    }

    /// Cuts every connection and closes new ones at once, until [`Relay::up`].
    pub(crate) fn down(&self) {
        self.shared.down.send_replace(true);
        self.cut();
    }

    pub(crate) fn up(&self) {
        self.shared.down.send_replace(false);
    }

    /// What is done with what clients send.
    pub(crate) fn requests(&self, flow: Flow) {
        self.shared.requests.send_replace(flow);
    }

    /// What is done with what servers send.
    pub(crate) fn replies(&self, flow: Flow) {
        self.shared.replies.send_replace(flow);
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Waits until so many frames have been passed on to servers.
    pub(crate) async fn passed(&self, requests: u64) {
        self.shared.counts.subscribe().wait_for(|counts| counts.requests >= requests).await.unwrap();
    }

    /// What the server has sent first on the last connection.
    pub(crate) fn handshake(&self) -> Vec<u8> {
        self.shared.handshake.lock().unwrap().clone()
    }
}

impl Shared {
    async fn listen(
        self: Arc<Self>,
        listener: TcpListener,
        server: SocketAddr,
        generation: watch::Receiver<()>,
    ) {
        let accept = async {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                self.counts.send_modify(|counts| counts.connections += 1);
                let mut generation = generation.clone();
                generation.mark_unchanged();
                if !*self.down.borrow() {
                    let relayed = Arc::clone(&self).relay(client, server);
                    tokio::spawn(async move {
                        tokio::select! {
                            // First: what is let go after a cut must not slip through.
                            biased;
                            _ = generation.changed() => {}
                            () = relayed => {}
                        }
                    });
                }
            }
        };
        let mut end = generation.clone();
        tokio::select! {
            () = accept => {}
            () = async { while end.changed().await.is_ok() {} } => {}
        }
    }

    /// Ends, and with it the connection, when either direction does.
    async fn relay(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        let Ok(server) = TcpStream::connect(server).await else { return };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        self.handshake.lock().unwrap().clear();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mut frames = Frames::default();
        let count = |bytes: &[u8]| {
            let complete = frames.feed(bytes);
            self.counts.send_modify(|counts| counts.requests += complete);
        };
        let keep = |bytes: &[u8]| {
            let mut handshake = self.handshake.lock().unwrap();
            // Longer than any.
            let room = 256_usize.saturating_sub(handshake.len());
            handshake.extend_from_slice(&bytes[..bytes.len().min(room)]);
        };
        // Why a direction ended is of no interest: the connection has.
        tokio::select! {
            _ = pump(from_client, to_server, self.requests.subscribe(), count) => {}
            _ = pump(from_server, to_client, self.replies.subscribe(), keep) => {}
        }
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut flow: watch::Receiver<Flow>,
    mut passed: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let flow = flow.wait_for(|flow| *flow != Flow::Stalled).await;
        if flow.is_ok_and(|flow| *flow == Flow::Lost) {
            continue;
        }
        to.write_all(&buffer[..read]).await?;
        passed(&buffer[..read]);
    }
}

/// Counts frames: a length of four bytes, and as many bytes.
#[derive(Default)]
struct Frames {
    length: u32,
    digits: u32,
    left: u32,
}

impl Frames {
    fn feed(&mut self, mut bytes: &[u8]) -> u64 {
        let mut complete = 0;
        while let Some((first, rest)) = bytes.split_first() {
            if self.digits < 4 {
                (self.length, self.digits, bytes) =
                    (self.length << 8 | u32::from(*first), self.digits + 1, rest);
                self.left = self.length;
            } else {
                let taken = bytes.len().min(self.left as usize);
                self.left -= taken as u32;
                bytes = &bytes[taken..];
            }
            if self.digits == 4 && self.left == 0 {
                complete += 1;
                (self.length, self.digits) = (0, 0);
            }
        }
        complete
    }
}
