//! The task of a registration: performs what the machine decides.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::debug;
use zk_curator::internal::{Setbacks, Signal, is_conflict, sleep};
use zk_curator::op::Authorship;
use zk_curator::watch::{Watch, Watched};
use zk_curator::{
    ConnectionState, ConnectionStatus, CreateMode, Created, CuratorFramework, Error, ErrorKind,
    OpResult, OwnedNode, Stat,
};

use super::machine::{FoundNode, RegistrationAction, RegistrationEnd, RegistrationMachine};
use super::shared::{RegistrationShared, RequestedEnd};
use super::state::{Gate, RegistrationState, Rival};
use crate::json::{address, is_document};

/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);
/// The pause before a deleted node is created again: the first pause, which doubles each time, and
/// the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A node that has existed for this long has settled: its next deletion counts as the first.
const SETTLED: Duration = Duration::from_secs(60);

pub(super) struct RegistrationDriver {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) mode: CreateMode,
    pub(super) machine: RegistrationMachine,
    pub(super) shared: Arc<Signal<RegistrationShared>>,
    /// The creates without a response, which may have been applied.
    pub(super) author: Authorship,
    /// The data of the last of these creates. They identify its node.
    pub(super) sent: Option<Bytes>,
    /// The record as it was last written or read.
    pub(super) record: Bytes,
    /// The position of the gate that the record has.
    pub(super) gate: Gate,
    pub(super) since: Instant,
    pub(super) setbacks: Setbacks,
    /// The error of the last create that has met another node.
    pub(super) occupied: Option<Error>,
    /// The watch of our node when the registration ends. The delete fires it: to remove it would be
    /// a request.
    pub(super) watch: Option<Watch>,
}

/// A node, with the watch that its read has set.
struct PresentNode {
    found: FoundNode,
    data: Bytes,
    watch: Watch,
}

fn is_writable(status: &ConnectionStatus) -> bool {
    status.state.is_connected() && status.state != ConnectionState::ReadOnly
}

impl RegistrationDriver {
    /// Registers, stays registered, and deletes the node at the end.
    pub(super) async fn run(mut self) {
        let mut states = self.zk.states();
        while self.machine.action() != RegistrationAction::Stop && !self.is_ending() {
            if self.is_of_before() {
                self.publish(RegistrationState::Lost);
                self.machine.session_lost();
            }
            let status = self.zk.status();
            if !is_writable(&status) {
                if status.state == ConnectionState::Suspended
                    && self.shared.look(RegistrationShared::is_registered)
                {
                    self.publish(RegistrationState::Suspended);
                }
                let may_be_lost = self.machine.held().is_some_and(|(_, owner)| owner != 0);
                let shared = Arc::clone(&self.shared);
                let is_news = |status: &ConnectionStatus| {
                    is_writable(status) || may_be_lost && status.state == ConnectionState::Lost
                };
                tokio::select! {
                    biased;
                    () = shared.until(|shared| shared.ending.is_some()) => {}
                    status = states.until(is_news) => if status.is_none() { break },
                }
                continue;
            }
            match self.step().await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Closed => break,
                Err(error) => self.failed(error).await,
            }
        }
        self.finish().await;
    }

    async fn step(&mut self) -> Result<(), Error> {
        match self.machine.action() {
            RegistrationAction::Create => self.create().await,
            RegistrationAction::Replace(found) => self.replace(found).await,
            RegistrationAction::Wait(found) => self.wait(found).await,
            RegistrationAction::Follow => self.follow().await,
            RegistrationAction::Stop => Ok(()),
        }
    }

    fn is_ending(&self) -> bool {
        self.shared.look(|shared| shared.ending.is_some())
    }

    /// Waits for a time, or for the end of the registration.
    async fn pause(&self, pause: Duration) {
        self.unless_ending(sleep(pause)).await;
    }

    async fn failed(&mut self, error: Error) {
        debug!(path = self.path, %error, "not registered");
        let mut pause = PAUSE;
        if !error.is_transient() {
            self.setbacks.report(&self.zk, &error);
            pause = self.setbacks.pause(&self.zk);
            self.publish(RegistrationState::Failed(error));
        }
        self.pause(pause).await;
    }

    fn publish(&self, state: RegistrationState) {
        self.shared.modify(|shared| shared.publish(state));
    }

    /// Returns the id of the current session, or zero.
    fn session(&self) -> i64 {
        self.zk.session().map_or(0, |session| session.id.get())
    }

    /// Creates the node. A sequential node that existed before keeps its number.
    async fn create(&mut self) -> Result<(), Error> {
        if let Some(again) = self.machine.deletions().checked_sub(1) {
            self.pause(AGAIN.0.saturating_mul(1 << again.min(5)).min(AGAIN.1)).await;
            if self.is_ending() {
                return Ok(());
            }
        }
        let data = self.sent.take().unwrap_or_else(|| self.record.clone());
        self.machine.sending(self.session());
        let Some(created) = self.unless_ending(self.send(data.clone())).await else {
            // The dropped create may have been applied.
            self.unanswered(data);
            return Ok(());
        };
        match created {
            Ok(created) => {
                self.created(&created.path, &created.stat, data);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NodeExists => {
                self.occupied = Some(error);
                self.look().await
            }
            Err(error) => {
                if error.may_have_applied() {
                    self.unanswered(data);
                }
                Err(error)
            }
        }
    }

    /// Sends the create of the node. This task deletes the node, so the guard is given up.
    fn send(&self, data: Bytes) -> impl Future<Output = Result<Created, Error>> + use<> {
        let create = self.zk.create(self.path.as_str()).mode(self.mode).data(data);
        let create = create.creating_parents_as_containers();
        let (mode, author) = (self.mode, self.author.clone());
        async move {
            match mode {
                CreateMode::EphemeralSequential => create.protected().owned().await,
                CreateMode::Ephemeral => create.idempotent().authored_by(&author).owned().await,
                _ => return create.await,
            }
            .map(OwnedNode::leak)
        }
    }

    /// Notes that a create of the node with these data may have been applied. The framework looks
    /// after protected ones.
    fn unanswered(&mut self, data: Bytes) {
        match self.mode {
            CreateMode::EphemeralSequential => {}
            CreateMode::Ephemeral => self.sent = Some(data),
            _ => self.machine.lost(self.session()),
        }
    }

    /// Waits for a future. When the registration ends, drops it and returns `None`: a request that
    /// waits for its next attempt must not bring the node back later.
    async fn unless_ending<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.shared.until(|shared| shared.ending.is_some()) => None,
            output = future => Some(output),
        }
    }

    fn created(&mut self, path: &str, stat: &Stat, data: Bytes) {
        if self.mode == CreateMode::EphemeralSequential {
            path.clone_into(&mut self.path);
            self.mode = CreateMode::Ephemeral;
            self.shared.modify(|shared| path.clone_into(&mut shared.path));
        }
        self.machine.created(stat.czxid, stat.ephemeral_owner);
        self.registered(data);
    }

    fn registered(&mut self, data: Bytes) {
        self.sent = None;
        self.setbacks.over();
        self.since = Instant::now();
        self.record = data;
        let session = zk_curator::SessionId::new(self.session());
        self.publish(RegistrationState::Registered { session });
    }

    /// Reads the node behind a quorum, so that all our earlier requests are settled, and decides.
    async fn look(&mut self) -> Result<(), Error> {
        let found = self.read().await?;
        let session = self.session();
        let (found, data) = found.unzip();
        self.machine.looked(found, session);
        self.judged(data);
        Ok(())
    }

    /// Reads the node behind a quorum.
    pub(super) async fn read(&self) -> Result<Option<(FoundNode, Bytes)>, Error> {
        match self.zk.get_data(self.path.as_str()).with_stat().linearizable().await {
            Ok((data, stat)) => Ok(Some((self.found(&data, &stat), data))),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn found(&self, data: &Bytes, stat: &Stat) -> FoundNode {
        let has_our_data = *data == self.record || self.sent.as_ref() == Some(data);
        FoundNode {
            czxid: stat.czxid,
            version: stat.version,
            owner: stat.ephemeral_owner,
            has_our_data,
        }
    }

    /// Publishes what the machine has decided after a read of these data.
    fn judged(&mut self, data: Option<Bytes>) {
        let rival = |data: Option<Bytes>| Rival { address: data.and_then(|data| address(&data)) };
        match (self.machine.action(), self.machine.end()) {
            (RegistrationAction::Follow, _)
                if !self.shared.look(RegistrationShared::is_registered) =>
            {
                let data = data.unwrap_or_else(|| self.record.clone());
                self.registered(data);
            }
            // No session will ever remove a persistent node.
            (RegistrationAction::Wait(with), _) if with.owner == 0 && self.mode.is_ephemeral() => {
                if let Some(error) = self.occupied.clone() {
                    self.setbacks.report(&self.zk, &error);
                    self.publish(RegistrationState::Failed(error));
                }
            }
            (RegistrationAction::Wait(_), _) => {
                let by = rival(data);
                self.publish(RegistrationState::Waiting { by });
            }
            (_, Some(RegistrationEnd::Superseded)) => {
                let by = rival(data);
                self.publish(RegistrationState::Superseded { by });
            }
            (_, Some(RegistrationEnd::Refused)) => {
                let by = rival(data);
                self.publish(RegistrationState::Refused { by });
            }
            (_, Some(RegistrationEnd::Deleted)) => self.publish(RegistrationState::Deleted),
            _ => {}
        }
    }

    /// Deletes the node of another session and creates ours, in one transaction. The new node never
    /// has the version of the old one, so a late write to the old one is refused.
    async fn replace(&mut self, with: FoundNode) -> Result<(), Error> {
        let zk = self.zk.bound_to_session()?;
        let session = self.session();
        self.machine.sending(session);
        let (path, data) = (self.path.as_str(), self.record.clone());
        let mut replacement = zk.transaction().delete_if(path, with.version).create_with_mode(
            path,
            data.clone(),
            self.mode,
        );
        if with.version == 0 {
            replacement = replacement.set_data(path, data.clone());
        }
        let Some(replaced) = self.unless_ending(replacement.commit()).await else {
            self.machine.lost(session);
            return Ok(());
        };
        match replaced {
            Ok(results) => {
                let created = results.iter().rev().find_map(OpResult::stat);
                let known = created.filter(|stat| stat.czxid > 0);
                match known {
                    Some(stat) => {
                        self.machine.replaced(&with, stat.czxid, stat.ephemeral_owner);
                        self.registered(data);
                        Ok(())
                    }
                    // ZooKeeper before 3.5 does not return the stat.
                    None => {
                        self.machine.lost(session);
                        self.look().await
                    }
                }
            }
            Err(error) if error.may_have_applied() => {
                self.machine.lost(session);
                self.settle(&error).await
            }
            Err(error) if error.kind() == ErrorKind::SessionExpired => Err(error),
            // The node was deleted or changed since it was read.
            Err(error) if error.code().is_some_and(is_conflict) => self.look().await,
            Err(error) => Err(error),
        }
    }

    /// Reads until the outcome of a transaction is known. `lost` is its error.
    async fn settle(&mut self, lost: &Error) -> Result<(), Error> {
        debug!(path = self.path, %lost, "a replacement without a response");
        while let Err(error) = self.look().await {
            if !error.is_transient() {
                return Err(error);
            }
            if self.is_ending() {
                break;
            }
            self.zk.wait_for_recovery(error).await?;
        }
        Ok(())
    }

    /// Waits until the node of another session is deleted or replaced.
    async fn wait(&mut self, with: FoundNode) -> Result<(), Error> {
        let Some(PresentNode { found, data, watch }) = self.watched().await? else {
            self.machine.looked(None, self.session());
            return Ok(());
        };
        self.machine.looked(Some(found), self.session());
        self.judged(Some(data));
        if found.czxid == with.czxid {
            drop(self.unless_ending(watch).await);
        }
        Ok(())
    }

    async fn watched(&self) -> Result<Option<PresentNode>, Error> {
        match self.zk.get_data(self.path.as_str()).watched().await {
            Ok(Watched { value: (data, stat), watch, .. }) => {
                Ok(Some(PresentNode { found: self.found(&data, &stat), data, watch }))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The node is ours: waits until something happens to it.
    async fn follow(&mut self) -> Result<(), Error> {
        let present = self.watched().await?;
        let (found, data) = match present {
            // A later session has begun during the read.
            _ if self.is_of_before() => return Ok(()),
            None => return self.gone(None),
            Some(present) if Some(present.found.czxid) == self.held() => {
                return self.stay(present).await;
            }
            Some(PresentNode { found, data, .. }) => (found, data),
        };
        self.gone(Some((found, data)))
    }

    pub(super) fn held(&self) -> Option<i64> {
        self.machine.held().map(|(czxid, _)| czxid)
    }

    /// Returns `true` if the session of the node is over.
    pub(super) fn is_of_before(&self) -> bool {
        let status = self.zk.status();
        let present = status.session.map(|session| session.id.get());
        match self.machine.held() {
            None | Some((_, 0)) => false,
            Some((_, owner)) => {
                status.state == ConnectionState::Lost
                    || present.is_some_and(|present| present != owner)
            }
        }
    }

    /// Decides after the node was deleted, or another one (`found`) has taken its place.
    pub(super) fn gone(&mut self, found: Option<(FoundNode, Bytes)>) -> Result<(), Error> {
        if self.since.elapsed() > SETTLED {
            self.machine.settled();
        }
        let (found, data) = found.unzip();
        self.machine.followed(found);
        if self.machine.action() == RegistrationAction::Create {
            self.publish(RegistrationState::Deleted);
        }
        self.judged(data);
        Ok(())
    }

    /// Adopts the data of our node, which other clients may have written, and waits for a change.
    async fn stay(&mut self, present: PresentNode) -> Result<(), Error> {
        let PresentNode { found, data, mut watch } = present;
        if is_document(&data) {
            self.record = data.clone();
        }
        self.publish_registered();
        let mut states = self.zk.states();
        loop {
            tokio::select! {
                biased;
                () = self.shared.until(|shared| shared.ending.is_some()) => {
                    self.watch = Some(watch);
                    return Ok(());
                }
                // The watch also fires at the end of the session, which the next step notices.
                _ = &mut watch => return Ok(()),
                () = self.shared.until(|shared| !shared.changes.is_empty()) => {
                    let change = self.shared.modify(|shared| shared.changes.pop_front());
                    return match change {
                        // The watch is kept until the write, which lets it fire.
                        Some(change) => self.change(change, (found, data)).await,
                        None => Ok(()),
                    };
                }
                status = states.next() => match status {
                    None => return Ok(()),
                    Some(status) if status.state == ConnectionState::Suspended => {
                        self.publish(RegistrationState::Suspended);
                    }
                    Some(_) if self.is_of_before() => return Ok(()),
                    Some(status) if status.state.is_connected() => self.publish_registered(),
                    Some(_) => {}
                },
            }
        }
    }

    fn publish_registered(&self) {
        if let Some((_, owner)) = self.machine.held() {
            let session = if owner == 0 { self.session() } else { owner };
            let session = zk_curator::SessionId::new(session);
            self.publish(RegistrationState::Registered { session });
        }
    }

    /// Deletes the node, and completes the waiting calls. Retries until the node is deleted or the
    /// framework is closed.
    async fn finish(self) {
        let deletes = match self.shared.look(|shared| shared.ending) {
            Some(RequestedEnd { deletes }) => deletes && self.machine.end().is_none(),
            // The framework is closed, or the machine has ended.
            None => false,
        };
        let is_deleted = self.machine.end() == Some(RegistrationEnd::Deleted)
            || deletes && self.remove_with_retries().await;
        // The changes are dropped without the lock: they are code of the user.
        drop(self.shared.modify(|shared| shared.end(is_deleted)));
    }

    /// Deletes our node, and retries without a limit. Returns `false` if the framework was closed
    /// first.
    async fn remove_with_retries(&self) -> bool {
        let mut setbacks = Setbacks::default();
        while let Err(error) = self.remove().await {
            if error.kind() == ErrorKind::Closed {
                return false;
            }
            debug!(path = self.path, %error, "not unregistered yet");
            let pause = if error.is_transient() {
                PAUSE
            } else {
                setbacks.report(&self.zk, &error);
                setbacks.pause(&self.zk)
            };
            self.shared.modify(|shared| shared.not_ended(error));
            sleep(pause).await;
        }
        true
    }

    /// Deletes our node, if there may be one.
    async fn remove(&self) -> Result<(), Error> {
        let held = self.held();
        if let Some(czxid) = held {
            self.delete(czxid).await?;
        } else if self.machine.may_have_left()
            && let Some((found, _)) = self.read().await?
            && self.machine.answers_for(&found, self.session(), self.sent.is_some())
        {
            self.delete(found.czxid).await?;
        }
        Ok(())
    }

    async fn delete(&self, czxid: i64) -> Result<(), Error> {
        self.zk.delete(self.path.as_str()).czxid(czxid).guaranteed().quietly().await
    }
}
