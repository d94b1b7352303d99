//! The base of followed reads: a read, a watch for its next change, and the order of the states that they see.

use std::marker::PhantomData;
use std::sync::Arc;

use zk_curator_client::{Children, Data, Error as RawError, ErrorCode, EventType, OneshotWatch, Stat};

use super::handles::{Watch, Watched};
use super::order::{Order, Place, Seen, Verdict};
use crate::core::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::op::{Freshness, Target, observed};
use crate::raw::{RawClient, RawFuture};
use crate::retry::Budget;
use crate::schema::Intent;

/// The kind of a followed read.
pub(super) trait Kind: Send + 'static {
    type Answer: Send + 'static;

    /// Reads it, and leaves a watch for its next change.
    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Self::Answer, OneshotWatch)>;

    fn place(answer: &Self::Answer) -> Place;

    /// The answer that a stat is, if that is enough.
    fn of_stat(_stat: Stat) -> Option<Self::Answer> {
        None
    }
}

/// Data and stat.
pub(super) enum OfData {}

impl Kind for OfData {
    type Answer = Data;

    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Data, OneshotWatch)> {
        raw.get_data_watched(path)
    }

    fn place(answer: &Data) -> Place {
        Place { czxid: answer.stat.czxid, changed: answer.stat.mzxid }
    }
}

/// The names of the children, and the stat of the parent.
pub(super) enum OfChildren {}

impl Kind for OfChildren {
    type Answer = Children;

    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Children, OneshotWatch)> {
        raw.get_children_watched(path)
    }

    fn place(answer: &Children) -> Place {
        Place { czxid: answer.stat.czxid, changed: answer.stat.pzxid }
    }
}

/// Whether the node exists: its stat.
pub(super) enum OfExistence {}

impl Kind for OfExistence {
    type Answer = Stat;

    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Stat, OneshotWatch)> {
        let read = raw.exists_watched(path);
        Box::pin(async move {
            let (stat, watch) = read.await?;
            stat.map(|stat| (stat, watch)).ok_or(RawError::Refused(ErrorCode::NoNode))
        })
    }

    fn place(answer: &Stat) -> Place {
        Place { czxid: answer.czxid, changed: answer.mzxid }
    }

    fn of_stat(stat: Stat) -> Option<Stat> {
        Some(stat)
    }
}

/// Reads one node again and again.
pub(super) struct Follower<K> {
    pub(super) target: Target,
    /// Fires when the state that was seen last is no longer true; nothing if it is time to look.
    watch: Option<Watch>,
    /// Whether the node is more likely absent than not.
    is_absent: bool,
    order: Order,
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Follower<K> {
    /// `is_absent` is whether the node is more likely absent than not.
    pub(super) fn new(zk: &CuratorFramework, operation: &'static str, path: String, is_absent: bool) -> Self {
        let target = Target::new(zk.clone(), operation, path);
        Self { target, watch: None, is_absent, order: Order::default(), kind: PhantomData }
    }

    pub(super) fn zk(&self) -> &CuratorFramework {
        &self.target.zk
    }

    /// Whether the state that was seen last is the present one, as far as the server has told.
    pub(super) const fn is_current(&self) -> bool {
        self.watch.is_some()
    }

    /// Waits until there is reason to look; whether that is the deletion of the node. Sends nothing.
    ///
    /// Cancel safe.
    pub(super) async fn changed(&mut self) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        // Also when its session has ended.
        let event = watch.await.map(|event| event.event_type);
        self.watch = None;
        match event {
            Ok(EventType::NodeDeleted) => self.is_absent = true,
            Ok(EventType::NodeCreated) => self.is_absent = false,
            _ => {}
        }
        event == Ok(EventType::NodeDeleted)
    }

    /// Reads the state, however long that takes, and leaves a watch for its next change; `None` if there is no node.
    ///
    /// Cancel safe: a state that was not answered is read again.
    pub(super) async fn look(&mut self) -> Result<Option<K::Answer>> {
        loop {
            match self.try_look().await {
                Err(error) => self.target.zk.ride_out(error).await?,
                seen => return seen,
            }
        }
    }

    async fn try_look(&mut self) -> Result<Option<K::Answer>> {
        let (core, operation) = (Arc::clone(self.target.zk.core()), self.target.operation);
        let path = self.target.path.clone();
        observed(core, operation, &path, self.look_once()).await
    }

    async fn look_once(&mut self) -> Result<Option<K::Answer>> {
        self.target.admit(Intent::Read { watched: true })?;
        let path = self.target.server_path()?;
        self.target.freshness = Freshness::AsIs;
        // Dropped when the next one has been left: so the server need not be asked to remove it.
        let mut doubtful: Option<OneshotWatch> = None;
        loop {
            let is_confirmed = self.target.freshness == Freshness::Confirmed;
            let (answer, watch, session) = self.read(&path).await?;
            let seen = Seen {
                place: answer.as_ref().map(K::place),
                session: session.epoch,
                as_of: Some(session.raw.last_zxid_seen()).filter(|zxid| *zxid > 0),
                is_confirmed,
            };
            drop(doubtful.take());
            if self.order.judge(seen) == Verdict::Doubtful {
                self.target.freshness = Freshness::Confirmed;
                doubtful = Some(watch);
                continue;
            }
            self.is_absent = answer.is_none();
            self.watch = Some(Watched::new((), watch, &self.target.zk).watch);
            return Ok(answer);
        }
    }

    /// Reads the state where it is likely to be: a node that is absent is looked for with `exists`, which leaves a watch
    /// for its creation.
    async fn read(&self, path: &str) -> Result<(Option<K::Answer>, OneshotWatch, Arc<Session>)> {
        let mut budget = self.target.budget();
        let mut is_absent = self.is_absent;
        let mut created: Option<OneshotWatch> = None;
        loop {
            if is_absent {
                let ((stat, watch), session) = self.exists(&mut budget, path).await?;
                let Some(stat) = stat else { return Ok((None, watch, session)) };
                if let Some(answer) = K::of_stat(stat) {
                    return Ok((Some(answer), watch, session));
                }
                // It has come meanwhile. The watch is kept until the next one is left.
                created = Some(watch);
            }
            match self.target.read_in_session(&mut budget, path, K::read).await {
                Ok(((answer, watch), session)) => {
                    drop(created);
                    return Ok((Some(answer), watch, session));
                }
                Err(error) if error.kind() == ErrorKind::NoNode => is_absent = true,
                Err(error) => return Err(error),
            }
        }
    }

    async fn exists(
        &self,
        budget: &mut Budget<'_>,
        path: &str,
    ) -> Result<((Option<Stat>, OneshotWatch), Arc<Session>), Error> {
        self.target.read_in_session(budget, path, |raw, path| raw.exists_watched(path)).await
    }
}
