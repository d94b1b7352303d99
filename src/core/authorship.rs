//! The possible creates of a node: tells a node whose create got no response from a node that
//! another caller of this framework created in the same session.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use zk_curator_client::internal::Locked;

use super::session::Session;

/// Recognises the node of a create whose response was lost. Cheap to clone; all clones are one
/// author.
///
/// The session and the data of an ephemeral node do not identify its creator, because several
/// callers of one framework share the session. An author remembers, for one path, when it sent a
/// create with an unknown outcome. A node belongs to the author if it belongs to that session, was
/// created after that, and is not the node of another create that has a response.
///
/// If the last clone is dropped while an outcome is still unknown, the janitor searches for the
/// node and deletes it. Otherwise the node would stay as long as the session.
///
/// See [`CreateBuilder::authored_by`](crate::op::CreateBuilder::authored_by). It is for code that
/// creates the same node repeatedly, such as
/// [`PersistentNode`](https://docs.rs/zk-curator-recipes): a later call may determine the outcome
/// of an earlier one.
#[derive(Debug, Clone, Default)]
pub struct Authorship(Arc<Author>);

#[derive(Debug, Default)]
struct Author {
    state: Arc<AuthorshipState>,
}

type AuthorshipState = Locked<Option<UnknownCreates>>;

/// Creates that were sent, of which one may have been applied.
struct UnknownCreates {
    /// Makes the janitor delete the node of an author that is gone.
    cleanup: Arc<dyn Fn(Orphan) + Send + Sync>,
    /// The path on the server.
    path: String,
    session: Arc<Session>,
    /// The newest transaction that is certainly none of these creates.
    after: i64,
    /// The number of creates without a known outcome.
    open: usize,
}

/// The authors of a framework with creates of unknown outcome, by path.
#[derive(Debug, Default)]
pub(crate) struct Authors(Locked<ByPath>);

#[derive(Debug, Default)]
struct ByPath {
    authors: BTreeMap<String, Vec<Weak<AuthorshipState>>>,
    /// The number of creates whose response has not arrived, or is not processed yet.
    in_flight: BTreeMap<String, usize>,
    /// The number of paths at which the paths of dropped authors are removed.
    most: usize,
}

impl ByPath {
    fn add(&mut self, path: &str, author: &Arc<AuthorshipState>) {
        if self.authors.len() > self.most {
            self.authors
                .retain(|_, of_path| of_path.iter().any(|author| author.strong_count() > 0));
            self.most = self.authors.len() * 2 + 64;
        }
        let of_path = self.authors.entry(path.to_owned()).or_default();
        of_path.retain(|other| other.strong_count() > 0 && other.as_ptr() != Arc::as_ptr(author));
        of_path.push(Arc::downgrade(author));
    }

    fn created(&self, path: &str, czxid: i64) {
        for author in self.authors.get(path).into_iter().flatten().filter_map(Weak::upgrade) {
            if let Some(sent) = &mut *author.lock() {
                sent.after = sent.after.max(czxid);
            }
        }
    }
}

impl Authors {
    /// Records that a caller knows the node that this transaction created, so it belongs to no
    /// other create.
    pub(crate) fn created(&self, path: &str, czxid: i64) {
        self.0.lock().created(path, czxid);
    }
}

/// A create of a shared ephemeral node until its response is processed. Until then its node could
/// be mistaken for that of an author.
#[derive(Debug)]
#[must_use = "the create counts as in flight until this is dropped"]
pub(crate) struct PendingCreate<'a> {
    authors: &'a Authors,
    path: &'a str,
}

impl Authors {
    pub(crate) fn begin<'a>(&'a self, path: &'a str) -> PendingCreate<'a> {
        *self.0.lock().in_flight.entry(path.to_owned()).or_default() += 1;
        PendingCreate { authors: self, path }
    }

    /// Returns `true` if the response to another create is pending.
    pub(crate) fn is_in_flight(&self, path: &str) -> bool {
        self.0.lock().in_flight.contains_key(path)
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        let in_flight = &mut self.authors.0.lock().in_flight;
        if let Some(creates) = in_flight.get_mut(self.path) {
            *creates -= 1;
            if *creates == 0 {
                in_flight.remove(self.path);
            }
        }
    }
}

/// A node that may exist without an owner: the author of its create is gone, and the outcome is
/// unknown.
#[derive(Debug)]
pub(crate) struct Orphan {
    pub(crate) session: Arc<Session>,
    pub(crate) path: String,
    state: Arc<AuthorshipState>,
}

impl Orphan {
    /// Returns `true` if this node, of the orphan's session, is the orphan; it then belongs to no
    /// other author. Returns `None` while another create is in flight, which may have made it.
    pub(crate) fn take(&self, authors: &Authors, czxid: i64) -> Option<bool> {
        take_alone(&self.state, authors, &self.path, czxid, &self.session)
    }
}

impl Drop for Author {
    fn drop(&mut self) {
        let orphan = self.state.lock().as_ref().and_then(|sent| {
            if sent.session.lost.is_cancelled() {
                return None;
            }
            let (session, path, state) =
                (Arc::clone(&sent.session), sent.path.clone(), Arc::clone(&self.state));
            Some((Arc::clone(&sent.cleanup), Orphan { session, path, state }))
        });
        if let Some((cleanup, orphan)) = orphan {
            cleanup(orphan);
        }
    }
}

impl Authorship {
    /// Records that a create is about to be sent. Its outcome is unknown until
    /// [`refused`](Self::refused) or [`known`](Self::known). If all clones are dropped before that,
    /// `cleanup` deletes the node.
    pub(crate) fn sending(
        &self,
        authors: &Authors,
        path: &str,
        session: &Arc<Session>,
        cleanup: impl Fn(Orphan) + Send + Sync + 'static,
    ) {
        // Registered first, so that no response to another create is missed.
        authors.0.lock().add(path, &self.0.state);
        let mut state = self.0.state.lock();
        match &mut *state {
            Some(sent) if sent.is_of(path, session) => sent.open += 1,
            state => {
                let (path, after) = (path.to_owned(), session.raw.last_zxid_seen());
                let cleanup = Arc::new(cleanup);
                *state = Some(UnknownCreates {
                    cleanup,
                    path,
                    session: Arc::clone(session),
                    after,
                    open: 1,
                });
            }
        }
    }

    /// Records that a create was not applied.
    pub(crate) fn refused(&self) {
        let mut state = self.0.state.lock();
        if let Some(sent) = &mut *state {
            sent.open = sent.open.saturating_sub(1);
        }
        state.take_if(|sent| sent.open == 0);
    }

    /// Records that the outcome of all creates is known: this author has no node, or a guard has
    /// it.
    pub(crate) fn known(&self) {
        self.0.state.lock().take();
    }

    /// Returns `true` if there are creates with an unknown outcome at this path, in this session.
    pub(crate) fn is_open(&self, path: &str, session: &Session) -> bool {
        self.0.state.lock().as_ref().is_some_and(|sent| sent.is_of(path, session))
    }

    /// Returns `true` if no later create has found this node, which one of the author's creates
    /// certainly made. It then belongs to no other create.
    pub(crate) fn take_created(
        &self,
        authors: &Authors,
        path: &str,
        czxid: i64,
        session: &Session,
    ) -> bool {
        take(&self.0.state, &authors.0.lock(), path, czxid, session)
    }

    /// Returns `true` if this author created a node of this session; the node then belongs to no
    /// other author. Returns `None` while another create is in flight, which may have made it.
    pub(crate) fn take(
        &self,
        authors: &Authors,
        path: &str,
        czxid: i64,
        session: &Session,
    ) -> Option<bool> {
        take_alone(&self.0.state, authors, path, czxid, session)
    }
}

impl UnknownCreates {
    fn is_of(&self, path: &str, session: &Session) -> bool {
        self.session.epoch == session.epoch && self.path == path
    }
}

fn take_alone(
    state: &AuthorshipState,
    authors: &Authors,
    path: &str,
    czxid: i64,
    session: &Session,
) -> Option<bool> {
    // Only one author may take the node.
    let authors = authors.0.lock();
    let is_alone = !authors.in_flight.contains_key(path);
    is_alone.then(|| take(state, &authors, path, czxid, session))
}

fn take(
    state: &AuthorshipState,
    authors: &ByPath,
    path: &str,
    czxid: i64,
    session: &Session,
) -> bool {
    let is_own =
        state.lock().as_ref().is_some_and(|sent| sent.is_of(path, session) && czxid > sent.after);
    if is_own {
        authors.created(path, czxid);
    }
    is_own
}

impl fmt::Debug for UnknownCreates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentCreate")
            .field("path", &self.path)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
