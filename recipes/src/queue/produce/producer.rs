use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex as AsyncMutex;
use zk_curator::internal::{Ids, OnDrop, Signal};
use zk_curator::op::{CreateOp, Transaction};
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OpResult};

use crate::contender::Contender;
use crate::order::OrderRule;
use crate::queue::error::Error;
use crate::queue::produce::buckets::{Buckets, PutTarget, is_conflict};
use crate::queue::wire::layout::QueueLayout;

/// A put with fewer bytes, including paths, is far below the limit of servers, and is sent without
/// a check.
pub(in crate::queue) const SMALL: usize = 64 * 1024;

/// The prefix of the names of producers that wait in line for room in a bounded queue.
const ROOM: &str = "room-";

/// The producer's side of a queue; clones share it.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Producer {
    pub(in crate::queue) layout: QueueLayout,
    /// The buckets of the items, in a queue with buckets.
    buckets: Option<Arc<Buckets>>,
    bound: Option<Arc<PutBound>>,
    pub(in crate::queue) on_full: OnFull,
    /// The path of the line of clients that wait for items, or for room.
    pub(in crate::queue) line: Option<ZPath>,
    ids: Option<Arc<Ids>>,
    /// The number of puts that are not complete yet.
    in_flight: Arc<Signal<usize>>,
}

/// A queue with a bound.
#[derive(Debug)]
struct PutBound {
    limit: u32,
    /// One put at a time waits for room.
    turn: AsyncMutex<()>,
    /// Only one attempt at a time, because two could not succeed at the same time. Never held while
    /// a put waits for room.
    last: AsyncMutex<Option<KnownParent>>,
}

/// The behaviour of a put while a queue is [full](crate::queue::CuratorQueue::max_items).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFull {
    /// It waits for room.
    #[default]
    Wait,
    /// It fails with [`Error::Full`].
    Refuse,
}

/// The nodes that are put in one transaction.
#[derive(Debug, Clone, Copy)]
struct PendingPut<'a> {
    /// The prefixes of the names, and the data.
    items: &'a [(String, Bytes)],
    /// The version that the parent of a bounded queue must have.
    parent: Option<&'a KnownParent>,
    /// The parent of the items, in a queue with buckets.
    target: Option<&'a PutTarget>,
    /// Another node, elsewhere.
    also: Option<&'a CreateOp>,
}

/// The known state of the parent of the items.
#[derive(Debug, Clone)]
struct KnownParent {
    data: Bytes,
    version: i32,
    /// The maximum number of items.
    items: u32,
}

impl Producer {
    pub(in crate::queue) fn new(layout: QueueLayout) -> Self {
        Self::with(layout, None)
    }

    /// The producer's side of a queue with buckets.
    pub(in crate::queue) fn in_buckets(buckets: &Arc<Buckets>) -> Self {
        Self::with(buckets.layout.clone(), Some(Arc::clone(buckets)))
    }

    /// Returns the settings for other buckets.
    pub(in crate::queue) fn of_buckets(self, buckets: &Arc<Buckets>) -> Self {
        Self { layout: buckets.layout.clone(), buckets: Some(Arc::clone(buckets)), ..self }
    }

    fn with(layout: QueueLayout, buckets: Option<Arc<Buckets>>) -> Self {
        Self {
            layout,
            buckets,
            bound: None,
            on_full: OnFull::default(),
            line: None,
            ids: None,
            in_flight: Arc::default(),
        }
    }

    pub(in crate::queue) fn bounded(&mut self, limit: u32) {
        self.layout.note_at_least_one("max_items", limit);
        self.bound = Some(Arc::new(PutBound {
            limit,
            turn: AsyncMutex::default(),
            last: AsyncMutex::default(),
        }));
    }

    pub(in crate::queue) fn with_ids(&mut self, path: impl Into<String>) {
        let path = self.layout.other_path("idempotent puts", path);
        self.ids = Some(Arc::new(Ids::below(&self.layout.zk, path)));
    }

    /// Puts nodes into the queue, all or none, in this order. Each is given by the prefix of its
    /// name, and its data.
    pub(in crate::queue) async fn put(&self, items: &[(String, Bytes)]) -> Result<(), Error> {
        self.layout.check()?;
        let _counted = self.counted();
        let items = &self.packed(items)?;
        let put = PendingPut { items, parent: None, target: None, also: None };
        self.check_size(put)?;
        match &self.bound {
            Some(bound) => {
                match self.put_bounded(bound, items, self.on_full == OnFull::Wait).await? {
                    true => Ok(()),
                    false => {
                        Err(Error::Full { path: self.layout.path.clone(), limit: bound.limit })
                    }
                }
            }
            None => self.send(put).await,
        }
    }

    /// Puts in one transaction with the creation of another node, in a queue with ids. Fails with
    /// `NodeExists` if that node exists, and with `NoNode` if a parent is missing.
    pub(in crate::queue) async fn put_with(
        &self,
        items: &[(String, Bytes)],
        also: CreateOp,
    ) -> Result<(), Error> {
        self.layout.check()?;
        let _counted = self.counted();
        let put = PendingPut { items, parent: None, target: None, also: Some(&also) };
        self.check_size(put)?;
        self.send(put).await
    }

    /// Puts the items if there is room for them. Returns `false` if there is none. Never waits for
    /// other clients.
    pub(in crate::queue) async fn try_put(&self, items: &[(String, Bytes)]) -> Result<bool, Error> {
        self.layout.check()?;
        let _counted = self.counted();
        let items = &self.packed(items)?;
        let put = PendingPut { items, parent: None, target: None, also: None };
        self.check_size(put)?;
        match &self.bound {
            Some(bound) => self.put_bounded(bound, items, false).await,
            None => self.send(put).await.map(|()| true),
        }
    }

    /// Counts a put until the result is dropped.
    fn counted(&self) -> OnDrop<impl FnOnce()> {
        let in_flight = &self.in_flight;
        in_flight.modify(|count| *count += 1);
        OnDrop::new(move || in_flight.modify(|count| *count -= 1))
    }

    /// The stored form of the items.
    fn packed(&self, items: &[(String, Bytes)]) -> Result<Vec<(String, Bytes)>, Error> {
        let pack =
            |(base, item): &(String, Bytes)| Ok((base.clone(), self.layout.pack(item.clone())?));
        items.iter().map(pack).collect()
    }

    /// Checks the size of the transaction before any preparatory request is sent. The data of the
    /// parent of a bounded queue are not known yet, and do not count.
    fn check_size(&self, put: PendingPut<'_>) -> Result<(), Error> {
        let is_first = self.ids.is_none() && self.bound.is_none();
        let at_most = |(base, data): &(String, Bytes)| {
            self.layout.path.as_str().len() + base.len() + data.len()
        };
        let is_small = put.also.is_none() && put.items.iter().map(at_most).sum::<usize>() < SMALL;
        if is_first || is_small {
            return Ok(());
        }
        let transaction = self.layout.zk.transaction();
        let transaction = match &self.ids {
            Some(ids) => ids.as_long(transaction),
            None => transaction,
        };
        let target = self.buckets.as_ref().map(|_| PutTarget::as_long(&self.layout.path));
        Ok(creates(&self.layout, transaction, PendingPut { target: target.as_ref(), ..put })
            .check_size()?)
    }

    /// Waits until every started put is complete, and deletes the ids that are no longer needed.
    pub(in crate::queue) async fn flush(&self) -> Result<(), Error> {
        self.layout.check()?;
        self.in_flight.until(|count| *count == 0).await;
        match &self.ids {
            Some(ids) => Ok(ids.flush().await?),
            None => Ok(()),
        }
    }

    /// Puts the items if there is room for them. Otherwise waits for room if `wait`, or returns
    /// `false`.
    async fn put_bounded(
        &self,
        bound: &PutBound,
        items: &[(String, Bytes)],
        wait: bool,
    ) -> Result<bool, Error> {
        let more = u32::try_from(items.len()).unwrap_or(u32::MAX);
        if more > bound.limit {
            let (path, limit) = (self.layout.path.clone(), bound.limit);
            return Err(Error::OverLimit { path, asked: more, limit });
        }
        if !wait {
            return self.put_into_room(bound, items, more).await;
        }
        let _turn = bound.turn.lock().await;
        if self.put_into_room(bound, items, more).await? {
            return Ok(true);
        }
        // Only the first in line is woken by a removal.
        let (rule, data) = (OrderRule::exclusive(ROOM), Bytes::new());
        let _place = match &self.line {
            Some(line) => {
                Some(Contender::enter(&self.layout.zk, line, &rule, &data).await?.turn().await?)
            }
            None => None,
        };
        while !self.put_into_room(bound, items, more).await? {
            self.until_fewer(bound.limit - more).await?;
        }
        Ok(true)
    }

    /// Puts the items if there is room for them.
    ///
    /// Every bounded put writes the parent at the version that belongs to the counted items, so no
    /// two puts use the same room (CURATOR-254).
    async fn put_into_room(
        &self,
        bound: &PutBound,
        items: &[(String, Bytes)],
        more: u32,
    ) -> Result<bool, Error> {
        let (zk, path) = (&self.layout.zk, self.layout.path.as_str());
        let fits = |parent: &KnownParent| parent.items.saturating_add(more) <= bound.limit;
        let mut last = bound.last.lock().await;
        loop {
            let parent = match last.take().filter(fits) {
                Some(parent) => parent,
                None => match zk.get_data(path).with_stat().await {
                    Ok((data, stat)) => {
                        let items = u32::try_from(stat.num_children).unwrap_or(0);
                        KnownParent { data, version: stat.version, items }
                    }
                    Err(error) if error.kind() == ErrorKind::NoNode => {
                        self.layout.create_parent().await?;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                },
            };
            if !fits(&parent) {
                return Ok(false);
            }
            match self
                .send(PendingPut { items, parent: Some(&parent), target: None, also: None })
                .await
            {
                Ok(()) => {
                    let (version, items) = (parent.version.wrapping_add(1), parent.items + more);
                    *last = Some(KnownParent { version, items, ..parent });
                    return Ok(true);
                }
                // Another producer was faster.
                Err(Error::Framework(error)) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until there are at most this number of items.
    async fn until_fewer(&self, items: u32) -> Result<(), Error> {
        let watched = match self.layout.zk.children(self.layout.path.as_str()).watched().await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
            watched => watched?,
        };
        if watched.value.0.len() > items as usize {
            // The watch has fired or ended: read again.
            drop(watched.watch.await);
        }
        Ok(())
    }

    async fn send(&self, put: PendingPut<'_>) -> Result<(), Error> {
        match (&self.ids, put) {
            (Some(ids), put) => self.put_once(ids, put).await,
            (None, PendingPut { items: [(base, data)], parent: None, also: None, .. }) => {
                self.create(base, data).await
            }
            (None, put) => self.transact(put).await,
        }
    }

    /// Creates one node. After a lost response its creator is unknown.
    async fn create(&self, base: &str, data: &Bytes) -> Result<(), Error> {
        loop {
            let create = self
                .layout
                .zk
                .create(self.layout.item(base))
                .mode(CreateMode::PersistentSequential);
            match create.data(data.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    self.layout.create_parent().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Creates all nodes or none.
    async fn transact(&self, put: PendingPut<'_>) -> Result<(), Error> {
        loop {
            let transaction = creates(&self.layout, self.layout.zk.transaction(), put);
            let Err(error) = transaction.await else { return Ok(()) };
            self.made_room_for(error, put).await?;
        }
    }

    /// Creates all nodes or none, exactly once: in a transaction that also creates an id.
    async fn put_once(&self, ids: &Ids, put: PendingPut<'_>) -> Result<(), Error> {
        let mut id = ids.next().await?;
        loop {
            let target = self.target(put).await?;
            let put = PendingPut { target: target.as_ref().map(|(_, _, target)| target), ..put };
            match (id.commit(|once| creates(&self.layout, once, put)).await, &target) {
                (Ok(results), Some((buckets, rank, target))) => {
                    let paths = results.iter().filter_map(OpResult::created_path);
                    buckets.put(*rank, target, paths).await;
                    return Ok(());
                }
                (Ok(_), None) => return Ok(()),
                (Err(error), Some((buckets, rank, target))) if target.is_stale(&error) => {
                    buckets.gone(*rank, target).await;
                }
                (Err(error), _) => self.made_room_for(error, put).await?,
            }
        }
    }

    /// Returns the parent for the items of a put, in a queue with buckets, with the buckets and the
    /// priority.
    async fn target(
        &self,
        put: PendingPut<'_>,
    ) -> Result<Option<(&Buckets, i32, PutTarget)>, Error> {
        let Some(buckets) = &self.buckets else { return Ok(None) };
        let rank = put.items.first().map_or(0, |(base, _)| self.layout.kind.rank(base));
        let items = u32::try_from(put.items.len()).unwrap_or(u32::MAX);
        Ok(Some((&**buckets, rank, buckets.target(rank, items).await?)))
    }

    /// Creates the parent of the items, if a transaction has failed because it is missing.
    async fn made_room_for(
        &self,
        error: zk_curator::Error,
        put: PendingPut<'_>,
    ) -> Result<(), Error> {
        match (error.kind(), put) {
            (
                ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. },
                PendingPut { parent: None, also: None, .. },
            ) => Ok(self.layout.create_parent().await?),
            _ => Err(error.into()),
        }
    }
}

/// Adds the nodes to a transaction.
fn creates(layout: &QueueLayout, mut transaction: Transaction, put: PendingPut<'_>) -> Transaction {
    if let Some(parent) = put.parent {
        transaction =
            transaction.set_data_if(layout.path.as_str(), parent.data.clone(), parent.version);
    }
    if let Some(target) = put.target {
        transaction = target.check(transaction);
    }
    for (base, data) in put.items {
        let path = put.target.map_or_else(|| layout.item(base), |target| target.item(base));
        let create = CreateOp::new(path).mode(CreateMode::PersistentSequential);
        transaction = transaction.with(create.data(data.clone()));
    }
    match put.also {
        Some(also) => transaction.with(also.clone()),
        None => transaction,
    }
}
