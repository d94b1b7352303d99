use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use zk_curator_client::internal::{bounded, sleep, sleep_until};
use zk_curator_client::{Error, SessionState, Stat};
use zookeeper_async::ZooKeeper;

use super::convert;
use super::link::{LinkState, Reports};
use super::registry::{ArmingRead, StaleWatch};

/// The handle with which requests are made.
pub(super) struct Api {
    pub(super) zk: ZooKeeper,
    pub(super) reports: Arc<Reports>,
}

type ActorWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A queued request.
pub(super) struct ActorRequest {
    /// Sends the request and delivers its response, or delivers the error if it was not sent.
    pub(super) run: Box<dyn FnOnce(Result<Arc<Api>, Error>) -> ActorWork + Send>,
    pub(super) progress: Arc<RequestProgress>,
    /// The time at which it fails if there is no connection.
    pub(super) patience: Instant,
}

pub(super) enum ActorCommand {
    Request(ActorRequest),
    AddAuth { identity: SessionIdentity, reply: ActorReply },
    Close { within: Duration, reply: ActorReply },
}

pub(super) struct SessionIdentity {
    pub(super) scheme: String,
    pub(super) auth: Vec<u8>,
}

type ActorReply = oneshot::Sender<Result<(), Error>>;

/// The state of a request: sent, or given up by its caller.
#[derive(Default)]
pub(super) struct RequestProgress(AtomicU8);

/// The pause before a watch is armed again that the server did not arm yet.
const PAUSE: Duration = Duration::from_millis(100);

const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

impl RequestProgress {
    /// Returns `true` if the request may be sent.
    fn send(&self) -> bool {
        self.0.compare_exchange(0, SENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Returns `true` if the request will never be sent.
    pub(super) fn give_up(&self) -> bool {
        self.0.compare_exchange(0, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(super) fn is_sent(&self) -> bool {
        self.0.load(Ordering::Acquire) == SENT
    }
}

/// Sends one request at a time, in the order of the calls. On every connection it first adds
/// identities and arms watches.
pub(super) struct Actor {
    api: Arc<Api>,
    commands: mpsc::UnboundedReceiver<ActorCommand>,
    link: watch::Receiver<LinkState>,
    identities: Vec<(SessionIdentity, Option<ActorReply>)>,
    /// The connection on which identities and watches are in place.
    prepared: u64,
}

impl Actor {
    pub(super) fn new(api: Arc<Api>, commands: mpsc::UnboundedReceiver<ActorCommand>) -> Self {
        let link = api.reports.link.subscribe();
        Self { api, commands, link, identities: Vec::new(), prepared: 0 }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.prepare().await;
            let command = tokio::select! {
                biased;
                // The next connection must be prepared, or the session is over.
                changed = self.link.changed() => match changed {
                    Ok(()) if *self.link.borrow() != LinkState::Over => continue,
                    _ => break,
                },
                command = self.commands.recv() => command,
            };
            match command {
                Some(ActorCommand::Request(request)) => self.serve(request).await,
                Some(ActorCommand::AddAuth { identity, reply }) => {
                    self.identities.push((identity, Some(reply)));
                    if let LinkState::Up(connection) = self.now()
                        && connection == self.prepared
                    {
                        self.prove(self.identities.len() - 1).await;
                    }
                }
                Some(ActorCommand::Close { within, reply }) => {
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

    /// Returns the reason why nothing can be sent any more.
    fn ended(&self) -> Error {
        self.api.reports.states.current().end().unwrap_or(Error::Closed { sent: false })
    }

    /// Adds all identities and arms all watches, once on every connection.
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

    /// Waits for a response while the connection lasts.
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
        let Some((SessionIdentity { scheme, auth }, _)) = self.identities.get(index) else {
            return true;
        };
        let (scheme, auth) = (scheme.clone(), auth.clone());
        let result = self.on_this_connection(self.api.zk.add_auth(scheme, auth)).await;
        match result {
            Err(Error::AuthFailed { .. }) => {
                self.api.reports.over(SessionState::AuthFailed);
                false
            }
            Err(_) => false,
            Ok(()) => {
                if let Some(reply) =
                    self.identities.get_mut(index).and_then(|(_, reply)| reply.take())
                {
                    drop(reply.send(Ok(())));
                }
                true
            }
        }
    }

    /// Reads the watched node again, and sets a watch. Reports a change since the last read.
    /// Repeats a read that is refused for a while, because later requests must not show a change
    /// that the watch has not reported. Any other refusal says nothing about the node, and ends the
    /// watch.
    async fn arm(&self, stale: &StaleWatch) -> bool {
        let registry = &self.api.reports.registry;
        let connection = self.now();
        loop {
            match self.read_again(stale).await {
                Ok(stat) => registry.rearmed(stale, stat.as_ref()),
                Err(Error::Refused(code)) if code.is_passing() => {
                    let mut link = self.link.clone();
                    tokio::select! {
                        biased;
                        _ = link.wait_for(|now| *now != connection) => return false,
                        () = sleep(PAUSE) => continue,
                    }
                }
                Err(Error::Refused(code)) => registry.refused(stale, code),
                Err(_) => return false,
            }
            return true;
        }
    }

    async fn read_again(&self, stale: &StaleWatch) -> Result<Option<Stat>, Error> {
        let (api, path) = (&self.api, &*stale.path);
        match stale.kind {
            // Needs no permission, and the watch of a node that exists is one of its data.
            ArmingRead::Absent | ArmingRead::Data => {
                self.on_this_connection(api.zk.exists(path, true)).await.map(converted)
            }
            ArmingRead::Children => {
                // The stat is read before the watch is set. A change in between is reported rather
                // than missed.
                match self.on_this_connection(api.zk.exists(path, false)).await.map(converted) {
                    Ok(Some(stat)) => {
                        match self.on_this_connection(api.zk.get_children(path, true)).await {
                            Ok(_) => Ok(Some(stat)),
                            Err(error) => gone(error),
                        }
                    }
                    other => other,
                }
            }
        }
    }

    async fn serve(&mut self, request: ActorRequest) {
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
            // Dropped without a response: the caller considers it lost. If the crate still sends
            // it, it does so before all later requests.
            _ = link.wait_for(|now| *now != connection) => {}
        }
    }

    async fn close(&mut self, within: Duration) -> Result<(), Error> {
        if self.api.reports.states.session().is_none() {
            // There is no session to close.
            return Ok(());
        }
        let deadline = Instant::now() + bounded(within);
        let lost = Err(Error::ConnectionLoss { sent: false });
        let closed = async {
            self.link.wait_for(|state| *state != LinkState::Down).await.ok()?;
            if *self.link.borrow() != LinkState::Over {
                self.api.zk.close().await.ok()?;
                // Until the server has responded.
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

    /// Fails all waiting callers.
    async fn end(mut self) {
        self.api.reports.over(SessionState::Closed);
        self.commands.close();
        while let Some(command) = self.commands.recv().await {
            match command {
                ActorCommand::Request(request) => (request.run)(Err(self.ended())).await,
                ActorCommand::AddAuth { reply, .. } => drop(reply.send(Err(self.ended()))),
                ActorCommand::Close { reply, .. } => drop(reply.send(Ok(()))),
            }
        }
        for (_, reply) in &mut self.identities {
            if let Some(reply) = reply.take() {
                drop(reply.send(Err(
                    self.api.reports.states.current().end().unwrap_or(Error::NotConnected),
                )));
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
