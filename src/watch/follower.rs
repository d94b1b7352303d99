//! The base of followed reads: a read, a watch for the next change, and the order of the states.

use std::marker::PhantomData;
use std::sync::Arc;

use zk_curator_client::{
    Children, Data, Error as RawError, ErrorCode, EventType, OneshotWatch, Stat,
};

use super::handles::{Watch, Watched};
use super::order::{HistoryPlace, LastAccepted, SeenState, StateRelation};
use crate::core::{ReadFreshness, Session};
use crate::error::{ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::op::{OpTarget, observed};
use crate::raw::{RawClient, RawFuture};
use crate::schema::Intent;

/// The kind of a followed read.
pub(super) trait FollowedRead: Send + 'static {
    type Answer: Send + 'static;

    /// Reads the state, and leaves a watch for its next change.
    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Self::Answer, OneshotWatch)>;

    fn place(answer: &Self::Answer) -> HistoryPlace;

    /// Converts a stat into the response, if a stat is enough.
    fn of_stat(_stat: Stat) -> Option<Self::Answer> {
        None
    }
}

/// Reads data and stat.
pub(super) enum OfData {}

impl FollowedRead for OfData {
    type Answer = Data;

    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Data, OneshotWatch)> {
        raw.get_data_watched(path)
    }

    fn place(answer: &Data) -> HistoryPlace {
        HistoryPlace { czxid: answer.stat.czxid, changed: answer.stat.mzxid }
    }
}

/// Reads the names of the children, and the stat of the parent.
pub(super) enum OfChildren {}

impl FollowedRead for OfChildren {
    type Answer = Children;

    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Children, OneshotWatch)> {
        raw.get_children_watched(path)
    }

    fn place(answer: &Children) -> HistoryPlace {
        HistoryPlace { czxid: answer.stat.czxid, changed: answer.stat.pzxid }
    }
}

/// Reads the stat of a node, which shows its existence.
pub(super) enum OfExistence {}

impl FollowedRead for OfExistence {
    type Answer = Stat;

    fn read(raw: &dyn RawClient, path: &str) -> RawFuture<(Stat, OneshotWatch)> {
        let read = raw.exists_watched(path);
        Box::pin(async move {
            let (stat, watch) = read.await?;
            stat.map(|stat| (stat, watch)).ok_or(RawError::Refused(ErrorCode::NoNode))
        })
    }

    fn place(answer: &Stat) -> HistoryPlace {
        HistoryPlace { czxid: answer.czxid, changed: answer.mzxid }
    }

    fn of_stat(stat: Stat) -> Option<Stat> {
        Some(stat)
    }
}

/// Reads one node repeatedly.
pub(super) struct WatchFollower<K> {
    pub(super) target: OpTarget,
    /// Fires when the last seen state changes. `None` if it is time to read.
    watch: Option<Watch>,
    /// `true` if the node probably does not exist.
    is_absent: bool,
    order: LastAccepted,
    kind: PhantomData<fn() -> K>,
}

impl<K: FollowedRead> WatchFollower<K> {
    /// Creates a follower. `is_absent` is `true` if the node probably does not exist.
    pub(super) fn new(
        zk: &CuratorFramework,
        operation: &'static str,
        path: String,
        is_absent: bool,
    ) -> Self {
        let target = OpTarget::new(zk.clone(), operation, path);
        Self { target, watch: None, is_absent, order: LastAccepted::default(), kind: PhantomData }
    }

    pub(super) fn zk(&self) -> &CuratorFramework {
        &self.target.zk
    }

    /// Returns `true` if the last seen state is the present one, as far as the server has reported.
    pub(super) const fn is_current(&self) -> bool {
        self.watch.is_some()
    }

    /// Waits until there is a reason to read. Returns `true` if the reason is the deletion of the
    /// node. Sends nothing.
    ///
    /// Cancel safe.
    pub(super) async fn changed(&mut self) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        // The watch also resolves when its session has ended.
        let event = watch.await.map(|event| event.event_type);
        self.watch = None;
        match event {
            Ok(EventType::NodeDeleted) => self.is_absent = true,
            Ok(EventType::NodeCreated) => self.is_absent = false,
            _ => {}
        }
        event == Ok(EventType::NodeDeleted)
    }

    /// Reads the state, without a time limit, and leaves a watch for its next change. Returns
    /// `None` if the node does not exist.
    ///
    /// Cancel safe: a state whose response did not arrive is read again.
    pub(super) async fn next_value(&mut self) -> Result<Option<K::Answer>> {
        let (core, operation) = (Arc::clone(self.target.zk.core()), self.target.operation);
        let path = self.target.path.clone();
        loop {
            match observed(Arc::clone(&core), operation, &path, self.read_in_order()).await {
                Err(error) => self.target.zk.wait_for_recovery(error).await?,
                seen => return seen,
            }
        }
    }

    /// Reads until the state is certainly no older than the last one.
    async fn read_in_order(&mut self) -> Result<Option<K::Answer>> {
        self.target.admit(Intent::Read { watched: true })?;
        let path = self.target.server_path()?;
        self.target.freshness = ReadFreshness::AsIs;
        // Dropped only after the next watch is set, so that the server need not remove it.
        let mut doubtful: Option<OneshotWatch> = None;
        loop {
            let is_confirmed = self.target.freshness == ReadFreshness::Linearizable;
            let (answer, watch, session) = self.read_and_rearm(&path).await?;
            let seen = SeenState {
                place: answer.as_ref().map(K::place),
                session: session.epoch,
                as_of: Some(session.raw.last_zxid_seen()).filter(|zxid| *zxid > 0),
                is_confirmed,
            };
            drop(doubtful.take());
            if self.order.judge(seen) == StateRelation::Doubtful {
                self.target.freshness = ReadFreshness::Linearizable;
                doubtful = Some(watch);
                continue;
            }
            self.is_absent = answer.is_none();
            self.watch = Some(Watched::new((), watch, &self.target.zk).watch);
            return Ok(answer);
        }
    }

    /// Reads the state and leaves a watch. If the node probably does not exist, it is read with
    /// `exists`, which leaves a watch for its creation.
    async fn read_and_rearm(
        &self,
        path: &str,
    ) -> Result<(Option<K::Answer>, OneshotWatch, Arc<Session>)> {
        let mut budget = self.target.budget();
        let mut is_absent = self.is_absent;
        let mut created: Option<OneshotWatch> = None;
        loop {
            if is_absent {
                let exists = self
                    .target
                    .read_in_session(&mut budget, path, |raw, path| raw.exists_watched(path));
                let ((stat, watch), session) = exists.await?;
                let Some(stat) = stat else { return Ok((None, watch, session)) };
                if let Some(answer) = K::of_stat(stat) {
                    return Ok((Some(answer), watch, session));
                }
                // The node was created since. The watch is kept until the next one is set.
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
}
