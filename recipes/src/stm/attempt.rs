//! One attempt of a transaction: the handle of the body.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::Error as ZkError;
use zk_curator::internal::{Locked, LockedGuard, ReadFreshness};
use zk_curator::value::{FromData, ToData};

use super::error::Error;
use super::read_set::{Query, ReadAnswer, ReadSet};
use super::site::StmSite;
use super::space::{SpaceScope, split};
use super::write_set::WriteSet;

/// The transaction, as its body sees it. Cheap to clone.
///
/// * Reads within one attempt show one state of the nodes, and the writes of the attempt. If that
///   state is over, a read fails with [`Error::Interrupted`], and the transaction runs the body
///   again.
/// * Writes are kept in memory, and applied together after the body has returned `Ok`. They send
///   nothing.
/// * After the body has returned, every method fails with [`Error::Interrupted`].
/// * Reads may run at the same time. They do not wait for each other, and the body may stop polling
///   or drop any of them.
///
/// Reads fail with [`Error::OutsideSpaces`] for a path in none of the spaces, and with
/// [`Error::Framework`] as a read of the framework. In ZooKeeper, a read needs the permission to
/// read the node and, in a space, its root.
#[derive(Clone)]
pub struct Tx {
    site: Arc<StmSite>,
    state: Arc<Locked<AttemptState>>,
}

/// The reads and writes of an attempt.
#[derive(Debug, Default)]
pub(super) struct AttemptState {
    pub(super) reads: ReadSet,
    pub(super) writes: WriteSet,
    pub(super) stage: AttemptStage,
    /// The number of times that the reads were replaced. A response to an earlier request may show
    /// an older state than they do.
    generation: u64,
    /// `true` if the roots of spaces prove that nodes are missing.
    is_protected: bool,
    /// The freshness of the first read. Later ones show no earlier state.
    freshness: ReadFreshness,
}

/// The stage of an attempt.
#[derive(Debug, Default)]
pub(super) enum AttemptStage {
    /// The body reads and writes.
    #[default]
    Body,
    /// The body has returned: only the commit reads.
    Returned,
    /// A node that the body had read has changed: nothing is read any more.
    Changed {
        path: String,
        /// The present state of everything that the attempt has read.
        reads: ReadSet,
    },
    Over,
}

/// The result of a read that is added to the others.
#[derive(Debug, PartialEq, Eq)]
enum Fit {
    Fits,
    /// It may show a later state.
    Differs,
    /// A concurrent read was added first, and this one may show an earlier state, or lacks it.
    Outdated,
}

impl AttemptState {
    /// Adds the response to a request that was sent in a generation.
    fn add(&mut self, later: ReadSet, generation: u64) -> Fit {
        if self.reads.is_empty() {
            self.generation += 1;
            self.reads = later;
            return Fit::Fits;
        }
        if !self.is_in_order(&later, generation) {
            return Fit::Outdated;
        }
        let fits = self.reads.extend(later.answers(), self.is_protected);
        if fits { Fit::Fits } else { Fit::Differs }
    }

    /// Replaces all reads by those of one request that was sent in a generation. It ends the
    /// attempt if the body depends on a read that has changed.
    fn replace(&mut self, later: ReadSet, generation: u64) -> Fit {
        let lacks_some = self.reads.queries().any(|query| later.get(query).is_none());
        if lacks_some || !self.is_in_order(&later, generation) {
            return Fit::Outdated;
        }
        match self.reads.replace(later) {
            Ok(()) => {
                self.generation += 1;
                Fit::Fits
            }
            Err((path, reads)) => {
                self.stage = AttemptStage::Changed { path, reads };
                Fit::Differs
            }
        }
    }

    /// Returns `true` if the response to a request that was sent in a generation shows no earlier
    /// state than the reads: the request was sent after the response that they come from, or the
    /// response itself proves it.
    fn is_in_order(&self, later: &ReadSet, generation: u64) -> bool {
        self.generation == generation || later.is_not_before(&self.reads, self.is_protected)
    }
}

impl Tx {
    /// Begins an attempt with these reads. Without any, the first read of the body has this
    /// freshness.
    pub(super) fn begin(site: &Arc<StmSite>, reads: ReadSet, freshness: ReadFreshness) -> Self {
        let is_protected = matches!(site.scope, SpaceScope::Spaces(_));
        let state = AttemptState { reads, is_protected, freshness, ..AttemptState::default() };
        Self { site: Arc::clone(site), state: Arc::new(Locked::new(state)) }
    }

    /// Returns the data of a node; `None` if it does not exist. Without a request if the attempt
    /// has read or written it.
    ///
    /// # Errors
    /// As every read: see [`Tx`]. Without a space, [`Error::Unprotected`] if the node does not
    /// exist and its absence is not [asserted](Self::assert_absent).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get(&self, path: impl Into<String>) -> Result<Option<Bytes>, Error> {
        let mut all = self.get_all([path]).await?;
        Ok(all.pop().flatten())
    }

    /// Returns the data of several nodes, in the order of the paths. Takes one request at most, or
    /// two if one of the nodes or the structure of their spaces was written since the first read of
    /// the attempt. Reads of the same body at the same time may cost more requests. See
    /// [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get_all(
        &self,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Vec<Option<Bytes>>, Error> {
        let paths: Vec<String> = paths.into_iter().map(Into::into).collect();
        let unwritten: Vec<Query> = {
            let state = self.open()?;
            let unwritten = paths.iter().filter(|path| state.writes.data(path).is_none());
            unwritten.map(|path| Query::Data(path.clone())).collect()
        };
        self.load(unwritten).await?;
        let mut state = self.open()?;
        paths.iter().map(|path| self.seen(&mut state, path)).collect()
    }

    /// Returns a node as a value; `None` if it does not exist. See [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get), and [`Error::Framework`] with `Undecodable` if the data are not a
    /// value of this type.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get_typed<T: FromData>(
        &self,
        path: impl Into<String>,
    ) -> Result<Option<T>, Error> {
        let path = path.into();
        let data = self.get(path.as_str()).await?;
        let decode = |data| T::from_data(&data);
        data.map(decode)
            .transpose()
            .map_err(|why| ZkError::undecodable("transaction", path, why).into())
    }

    /// Returns `true` if the node exists. See [`get`](Self::get); it reads the data too.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn exists(&self, path: impl Into<String>) -> Result<bool, Error> {
        Ok(self.get(path).await?.is_some())
    }

    /// Returns the names of the children, sorted; `None` if the node does not exist. Includes the
    /// writes of the attempt, except sequential nodes, whose names are not known yet.
    ///
    /// # Errors
    /// As every read: see [`Tx`]. Without a space, [`Error::Unprotected`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn children(&self, path: impl Into<String>) -> Result<Option<Vec<String>>, Error> {
        let path = path.into();
        if matches!(self.site.scope, SpaceScope::Loose) {
            return Err(Error::Unprotected { path });
        }
        let query = Query::Children(path.clone());
        let is_emptied = self.open()?.writes.empties(&path);
        if !is_emptied {
            self.load(vec![query.clone()]).await?;
        }
        let mut state = self.open()?;
        let mut names = None;
        if !is_emptied {
            self.note_use(&mut state, query.clone())?;
            if let Some(ReadAnswer::Children(children)) = state.reads.get(&query) {
                let mut children = children.clone();
                self.site.scope.hide(&path, &mut children);
                names = Some(children.into_iter().collect::<BTreeSet<_>>());
            }
        }
        match state.writes.data(&path) {
            Some(None) => return Ok(None),
            Some(Some(_)) => drop(names.get_or_insert_default()),
            None => {}
        }
        let Some(mut names) = names else { return Ok(None) };
        state.writes.apply_to_children(&path, &mut names);
        Ok(Some(names.into_iter().collect()))
    }

    /// Replaces the data of a node, or creates it as a persistent node. The parent has to exist.
    ///
    /// # Errors
    /// [`Error::Unencodable`], [`Error::OutsideSpaces`].
    pub fn put(
        &self,
        path: impl Into<String>,
        value: &(impl ToData + ?Sized),
    ) -> Result<(), Error> {
        let (path, data) = self.encode(path, value)?;
        self.open()?.writes.put(&path, data);
        Ok(())
    }

    /// Creates a persistent node. The parent has to exist. The transaction fails with
    /// [`Error::Exists`] if the node exists.
    ///
    /// # Errors
    /// [`Error::Unencodable`], [`Error::OutsideSpaces`], and [`Error::Exists`] if the attempt has
    /// already written the node.
    pub fn create(
        &self,
        path: impl Into<String>,
        value: &(impl ToData + ?Sized),
    ) -> Result<(), Error> {
        let (path, data) = self.encode(path, value)?;
        if self.open()?.writes.create(&path, data) { Ok(()) } else { Err(Error::Exists { path }) }
    }

    /// Creates a persistent node whose name is `prefix` with a number: see
    /// [`Committed::created`](super::Committed::created). The parent has to exist.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn create_sequential(
        &self,
        prefix: impl Into<String>,
        value: &(impl ToData + ?Sized),
    ) -> Result<(), Error> {
        let (prefix, data) = self.encode(prefix, value)?;
        self.site.scope.root_of(split(&prefix).0)?;
        self.open()?.writes.create_sequential(&prefix, data);
        Ok(())
    }

    /// Deletes a node, if it exists. A node with children cannot be deleted: the transaction fails
    /// with `NotEmpty`, unless it deletes the children too.
    ///
    /// # Errors
    /// [`Error::OutsideSpaces`].
    pub fn delete(&self, path: impl Into<String>) -> Result<(), Error> {
        let path = path.into();
        self.site.scope.root_of(&path)?;
        self.open()?.writes.delete(&path);
        Ok(())
    }

    /// Asserts that a node does not exist: the transaction fails with [`Error::Exists`] if it does.
    ///
    /// Without a space, the transaction creates the node and deletes it again, which fires watches,
    /// unless it is [linearizable](super::Transaction::linearizable) and writes nothing. So its
    /// parent has to exist: otherwise the transaction fails with `NoNode`.
    ///
    /// # Errors
    /// [`Error::OutsideSpaces`].
    pub fn assert_absent(&self, path: impl Into<String>) -> Result<(), Error> {
        let path = path.into();
        self.site.scope.root_of(&path)?;
        self.open()?.writes.assert_absent(&path);
        Ok(())
    }

    fn encode(
        &self,
        path: impl Into<String>,
        value: &(impl ToData + ?Sized),
    ) -> Result<(String, Bytes), Error> {
        let path = path.into();
        self.site.scope.root_of(&path)?;
        match value.to_data() {
            Ok(data) => Ok((path, data)),
            Err(why) => Err(Error::Unencodable { path, why }),
        }
    }

    /// Returns what the body sees of a node that was read or written.
    fn seen(&self, state: &mut AttemptState, path: &str) -> Result<Option<Bytes>, Error> {
        if let Some(written) = state.writes.data(path) {
            return Ok(written.cloned());
        }
        self.note_use(state, Query::Data(path.to_owned()))?;
        match state.reads.data(path) {
            Some(ReadAnswer::Data { data, .. }) => Ok(Some(data.clone())),
            Some(ReadAnswer::Absent)
                if state.is_protected || state.writes.is_asserted_absent(path) =>
            {
                Ok(None)
            }
            Some(_) => Err(Error::Unprotected { path: path.to_owned() }),
            None => Err(Error::Interrupted),
        }
    }

    /// Records that the body depends on a read, and on the root of its space.
    fn note_use(&self, state: &mut AttemptState, query: Query) -> Result<(), Error> {
        if let Some(root) = self.site.scope.root_of(query.path())? {
            state.reads.note_use(Query::Data(root.to_owned()));
        }
        state.reads.note_use(query);
        Ok(())
    }

    /// Reads what the attempt has not read yet, so that all of its reads show one state.
    ///
    /// Reads of the body may be concurrent, and the body may stop polling any of them. So none of
    /// them waits for another one. A read that misses the results of another one is repeated.
    async fn load(&self, queries: Vec<Query>) -> Result<(), Error> {
        loop {
            let (missing, generation, freshness) = {
                let state = self.current()?;
                let missing = queries.iter().filter(|query| state.reads.get(query).is_none());
                let is_first = state.reads.is_empty();
                let freshness = if is_first { state.freshness } else { ReadFreshness::AsIs };
                (missing.cloned().collect::<BTreeSet<_>>(), state.generation, freshness)
            };
            if missing.is_empty() {
                return Ok(());
            }
            let later = self.site.read_at(freshness, missing.clone()).await?;
            let (everything, generation) = {
                let mut state = self.current()?;
                match state.add(later, generation) {
                    Fit::Fits => return Ok(()),
                    Fit::Outdated => continue,
                    Fit::Differs => {}
                }
                let read = state.reads.queries().cloned();
                (read.chain(missing).collect::<BTreeSet<_>>(), state.generation)
            };
            // Something may have changed since the first read: all reads again, in one request.
            let later = self.site.read(everything).await?;
            match self.current()?.replace(later, generation) {
                Fit::Fits => return Ok(()),
                Fit::Outdated => {}
                Fit::Differs => return Err(Error::Interrupted),
            }
        }
    }

    /// Reads the nodes that the attempt writes and has not read, and the roots of their spaces.
    pub(super) async fn load_writes(&self) -> Result<(), Error> {
        let queries: Vec<Query> = {
            let mut state = self.current()?;
            state.stage = AttemptStage::Returned;
            let written = state.writes.paths().map(|path| Query::Data(path.clone()));
            let mut queries: Vec<Query> = written.collect();
            for (prefix, _) in state.writes.sequential() {
                // The new node has no name yet: its parent stands for it.
                if let Some(root) = self.site.scope.root_of(split(prefix).0)? {
                    queries.push(Query::Data(root.to_owned()));
                }
            }
            queries
        };
        match self.load(queries.clone()).await {
            Err(error) if error.is_too_large() => self.load_stats(&queries).await,
            loaded => loaded,
        }
    }

    /// Reads the versions of the nodes that the attempt writes and has not read, without their
    /// data, which do not fit into one response. The commit checks them, so they need not show the
    /// state that the body has seen.
    async fn load_stats(&self, queries: &[Query]) -> Result<(), Error> {
        let mut unread: BTreeSet<Query> = {
            let state = self.current()?;
            queries.iter().filter(|query| state.reads.get(query).is_none()).cloned().collect()
        };
        // A root is read before the nodes that are missing in its space. Its data are written back.
        let roots = self.site.read_roots(&unread).await?;
        unread.retain(|query| roots.get(query).is_none());
        let stats = self.site.stats(unread.iter(), ReadFreshness::AsIs).await?;
        let mut state = self.current()?;
        state.reads.add_for_commit(roots);
        state.reads.add_for_commit(stats);
        Ok(())
    }

    /// Ends the attempt.
    pub(super) fn end(&self) -> AttemptState {
        let over = AttemptState { stage: AttemptStage::Over, ..AttemptState::default() };
        std::mem::replace(&mut *self.state.lock(), over)
    }

    /// Returns the state for the body.
    fn open(&self) -> Result<LockedGuard<'_, AttemptState>, Error> {
        let state = self.current()?;
        if matches!(state.stage, AttemptStage::Body) { Ok(state) } else { Err(Error::Interrupted) }
    }

    fn current(&self) -> Result<LockedGuard<'_, AttemptState>, Error> {
        let state = self.state.lock();
        match state.stage {
            AttemptStage::Body | AttemptStage::Returned => Ok(state),
            AttemptStage::Changed { .. } | AttemptStage::Over => Err(Error::Interrupted),
        }
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("scope", &self.site.scope).finish_non_exhaustive()
    }
}
