use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use zk_curator_client::{Error, SessionState, Stat};
use zookeeper_async::ZooKeeper;

use super::convert;
use super::link::{LinkState, Reports};
use super::registry::{Kind, Stale};

/// What requests are made with.
pub(super) struct Api {
    pub(super) zk: ZooKeeper,
    pub(super) reports: Arc<Reports>,
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A request, queued by its method.
pub(super) struct Request {
    /// Sends it and answers it; or answers why it was not sent.
    pub(super) run: Box<dyn FnOnce(Result<Arc<Api>, Error>) -> Work + Send>,
    pub(super) progress: Arc<Progress>,
    /// When it fails for want of a connection.
    pub(super) patience: Instant,
}

pub(super) enum Command {
    Request(Request),
    AddAuth { identity: Identity, reply: Reply },
    Close { within: Duration, reply: Reply },
}

pub(super) struct Identity {
    pub(super) scheme: String,
    pub(super) auth: Vec<u8>,
}

type Reply = oneshot::Sender<Result<(), Error>>;

/// Whether a request was sent before its caller gave it up.
#[derive(Default)]
pub(super) struct Progress(AtomicU8);

const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Progress {
    /// Whether it may be sent.
    fn send(&self) -> bool {
        self.0.compare_exchange(0, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether it will never be sent.
    pub(super) fn give_up(&self) -> bool {
        self.0.compare_exchange(0, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Acquire) == SENT
    }
}

/// Sends one request at a time, in the order of the calls; identities and watches first on every connection.
pub(super) struct Actor {
    api: Arc<Api>,
    commands: mpsc::UnboundedReceiver<Command>,
    link: watch::Receiver<LinkState>,
    identities: Vec<(Identity, Option<Reply>)>,
    /// The connection on which identities and watches are in place.
    prepared: u64,
}

impl Actor {
    pub(super) fn new(api: Arc<Api>, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        let link = api.reports.link.subscribe();
        Self { api, commands, link, identities: Vec::new(), prepared: 0 }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.prepare().await;
            let command = tokio::select! {
                biased;
                // To prepare the next connection, or to end.
                changed = self.link.changed() => match changed {
                    Ok(()) if *self.link.borrow() != LinkState::Over => continue,
                    _ => break,
                },
                command = self.commands.recv() => command,
            };
            match command {
                Some(Command::Request(request)) => self.serve(request).await,
                Some(Command::AddAuth { identity, reply }) => {
                    self.identities.push((identity, Some(reply)));
                    if let LinkState::Up(connection) = self.now()
                        && connection == self.prepared
                    {
                        self.prove(self.identities.len() - 1).await;
                    }
                }
                Some(Command::Close { within, reply }) => {
                    let result = self.close(within).await;
                    drop(reply.send(result));
                    break;
                }
                None => break,
            }
        }
        self.end().await;
    }

    fn now(&self) -> LinkState {
        *self.link.borrow()
    }

    /// Why nothing can be sent any more.
    fn ended(&self) -> Error {
        self.api.reports.states.current().end().unwrap_or(Error::Closed { sent: false })
    }

    /// Proves all identities and arms all watches, once on every connection.
    async fn prepare(&mut self) {
        loop {
            let LinkState::Up(connection) = *self.link.borrow_and_update() else { return };
            if connection == self.prepared {
                return;
            }
            let mut whole = true;
            for index in 0..self.identities.len() {
                whole = whole && self.prove(index).await;
            }
            for stale in self.api.reports.registry.stale() {
                whole = whole && self.arm(&stale).await;
            }
            if whole && self.now() == LinkState::Up(connection) {
                self.prepared = connection;
            }
            if self.now() == LinkState::Up(connection) {
                return;
            }
        }
    }

    /// Waits for an answer, for as long as the connection lasts.
    async fn on_this_connection<T>(
        &self,
        answer: impl Future<Output = Result<T, zookeeper_async::ZkError>>,
    ) -> Result<T, Error> {
        let mut link = self.link.clone();
        let connection = *link.borrow();
        tokio::select! {
            biased;
            answer = answer => answer.map_err(convert::error),
            _ = link.wait_for(|now| *now != connection) => Err(Error::ConnectionLoss { sent: true }),
        }
    }

    async fn prove(&mut self, index: usize) -> bool {
        let Some((Identity { scheme, auth }, _)) = self.identities.get(index) else { return true };
        let (scheme, auth) = (scheme.clone(), auth.clone());
        let result = self.on_this_connection(self.api.zk.add_auth(scheme, auth)).await;
        match result {
            Err(Error::AuthFailed { .. }) => {
                self.api.reports.over(SessionState::AuthFailed);
                false
            }
            Err(_) => false,
            Ok(()) => {
                if let Some(reply) = self.identities.get_mut(index).and_then(|(_, reply)| reply.take()) {
                    drop(reply.send(Ok(())));
                }
                true
            }
        }
    }

    /// Reads again what a watch is about, and leaves a watch; tells what has happened meanwhile.
    async fn arm(&self, stale: &Stale) -> bool {
        let (api, path) = (&self.api, &*stale.path);
        let read: Result<Option<Stat>, Error> = match stale.kind {
            Kind::Absent => self.on_this_connection(api.zk.exists(path, true)).await.map(converted),
            Kind::Data => match self.on_this_connection(api.zk.get_data(path, true)).await {
                Ok((_, stat)) => Ok(Some(convert::stat(&stat))),
                Err(error) => gone(error),
            },
            Kind::Children => {
                // The stat before the watch: a change in between is told, rather than not.
                match self.on_this_connection(api.zk.exists(path, false)).await.map(converted) {
                    Ok(Some(stat)) => match self.on_this_connection(api.zk.get_children(path, true)).await {
                        Ok(_) => Ok(Some(stat)),
                        Err(error) => gone(error),
                    },
                    other => other,
                }
            }
        };
        match read {
            Ok(stat) => {
                api.reports.registry.rearmed(stale, stat.as_ref());
                true
            }
            Err(Error::ConnectionLoss { .. }) => false,
            // No longer allowed to read it, for example: whoever waits reads, and learns why.
            Err(_) => {
                api.reports.registry.rearmed(stale, None);
                true
            }
        }
    }

    async fn serve(&mut self, request: Request) {
        loop {
            self.prepare().await;
            match self.now() {
                LinkState::Over => return (request.run)(Err(self.ended())).await,
                LinkState::Up(connection) if connection == self.prepared => break,
                _ => {}
            }
            tokio::select! {
                biased;
                _ = self.link.changed() => {}
                () = sleep_until(request.patience) => return (request.run)(Err(Error::NotConnected)).await,
            }
        }
        if !request.progress.send() {
            return;
        }
        let mut link = self.link.clone();
        let connection = *link.borrow();
        tokio::select! {
            biased;
            () = (request.run)(Ok(Arc::clone(&self.api))) => {}
            // Dropped unanswered: the caller takes it for lost. Should the crate send it yet, it does so before
            // everything that comes later.
            _ = link.wait_for(|now| *now != connection) => {}
        }
    }

    async fn close(&mut self, within: Duration) -> Result<(), Error> {
        if self.api.reports.states.session().is_none() {
            // There is none to close.
            return Ok(());
        }
        let deadline = Instant::now() + within;
        let lost = Err(Error::ConnectionLoss { sent: false });
        let closed = async {
            self.link.wait_for(|state| *state != LinkState::Down).await.ok()?;
            if *self.link.borrow() != LinkState::Over {
                self.api.zk.close().await.ok()?;
                // Until the server has answered.
                self.link.wait_for(|state| *state == LinkState::Over).await.ok()?;
            }
            Some(())
        };
        tokio::select! {
            biased;
            closed = closed => match closed {
                Some(()) => Ok(()),
                None => lost,
            },
            () = sleep_until(deadline) => lost,
        }
    }

    /// Answers everybody.
    async fn end(mut self) {
        self.api.reports.over(SessionState::Closed);
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            match command {
                Command::Request(request) => (request.run)(Err(self.ended())).await,
                Command::AddAuth { reply, .. } => drop(reply.send(Err(self.ended()))),
                Command::Close { reply, .. } => drop(reply.send(Ok(()))),
            }
        }
        for (_, reply) in &mut self.identities {
            if let Some(reply) = reply.take() {
                drop(reply.send(Err(self.api.reports.states.current().end().unwrap_or(Error::NotConnected))));
            }
        }
    }
}

pub(super) fn converted(stat: Option<zookeeper_async::Stat>) -> Option<Stat> {
    stat.as_ref().map(convert::stat)
}

fn gone(error: Error) -> Result<Option<Stat>, Error> {
    match error {
        Error::Refused(zk_curator_client::ErrorCode::NoNode) => Ok(None),
        error => Err(error),
    }
}
