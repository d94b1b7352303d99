//! A protocol of lines over TCP: the response to every line is the name of the server. And the
//! calls of the show.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tower::balance::p2c::Balance;
use tower::load::PendingRequestsDiscover;
use tower::{Service, ServiceExt};
use zk_curator_discovery::ServiceInstance;
use zk_curator_discovery::provider::InstanceChanges;

use crate::support::Result;

/// Responds to every line with the name of the server.
pub(crate) async fn respond(listener: TcpListener, name: &str) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let response = format!("{name}\n");
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|length| length > 0) {
                if stream.write_all(response.as_bytes()).await.is_err() {
                    break;
                }
                line.clear();
            }
        });
    }
}

type Future<T> = Pin<Box<dyn std::future::Future<Output = io::Result<T>> + Send>>;
type Request = (String, oneshot::Sender<String>);

/// A client of one server. It connects when it is polled, and has failed once the connection is
/// broken.
pub(crate) enum Client {
    Connecting(Future<TcpStream>),
    Connected(mpsc::UnboundedSender<Request>),
}

impl Client {
    pub(crate) fn of(server: &ServiceInstance<()>) -> Self {
        let address = server.address.clone().unwrap_or_default();
        let port = server.port.unwrap_or_default();
        Self::Connecting(Box::pin(TcpStream::connect((address, port))))
    }
}

impl Service<String> for Client {
    type Response = String;
    type Error = io::Error;
    type Future = Future<String>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Connecting(stream) = self {
            let stream = ready!(stream.as_mut().poll(cx))?;
            let (requests, queue) = mpsc::unbounded_channel();
            tokio::spawn(converse(stream, queue));
            *self = Self::Connected(requests);
        }
        Poll::Ready(match self {
            Self::Connected(requests) if requests.is_closed() => Err(broken()),
            _ => Ok(()),
        })
    }

    fn call(&mut self, line: String) -> Future<String> {
        let (response, result) = oneshot::channel();
        if let Self::Connected(requests) = self {
            // If the connection is broken, the response is dropped.
            drop(requests.send((line, response)));
        }
        Box::pin(async { result.await.map_err(|_| broken()) })
    }
}

/// Sends the requests one after another, until the connection breaks.
async fn converse(stream: TcpStream, mut queue: mpsc::UnboundedReceiver<Request>) {
    let mut stream = BufReader::new(stream);
    while let Some((line, response)) = queue.recv().await {
        let mut name = String::new();
        if stream.write_all(format!("{line}\n").as_bytes()).await.is_err()
            || !stream.read_line(&mut name).await.is_ok_and(|length| length > 0)
            || response.send(name.trim_end().to_owned()).is_err()
        {
            return;
        }
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection is broken")
}

/// The servers print nothing.
pub(crate) fn ignored() -> mpsc::UnboundedSender<(&'static str, String)> {
    mpsc::unbounded_channel().0
}

type Balanced = Balance<PendingRequestsDiscover<InstanceChanges<Client>>, String>;

/// Calls through a balancer, one after another.
pub(crate) struct Calls {
    balance: Balanced,
    /// The number of calls that have failed.
    pub(crate) failed: u32,
}

impl Calls {
    pub(crate) const fn of(balance: Balanced) -> Self {
        Self { balance, failed: 0 }
    }

    /// Calls 300 times, and then until the condition holds. Prints how often each server has
    /// responded.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        is_done: impl Fn(&BTreeMap<String, u32>) -> bool,
    ) -> Result<()> {
        let (mut by, mut failed) = (BTreeMap::new(), 0);
        while by.values().sum::<u32>() < 300 || !is_done(&by) {
            match self.balance.ready().await?.call("hello".to_owned()).await {
                Ok(name) => *by.entry(name).or_default() += 1,
                Err(_) => failed += 1,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!("{what}: {by:?}, and {failed} failed");
        self.failed += failed;
        Ok(())
    }
}
