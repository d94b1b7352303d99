//! The state of a transaction, for people and for clean-up.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind};

use super::machine::DECIDED;
use super::record::Record;
use super::settle::{identity, parse};
use super::{DONE, Error, Form, Outcome, Vote};
use crate::path::child;
use crate::removal::{self, Which};

/// How a transaction stands.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionInspection {
    /// Its path.
    pub path: String,
    /// The form of the protocol.
    pub form: Form,
    /// How long votes are waited for.
    pub deadline: Duration,
    /// The payload.
    pub payload: Bytes,
    /// The decision; `None` while there is none.
    pub outcome: Option<Outcome>,
    /// How the sites stand, in the order of the coordinator.
    pub sites: Vec<(String, SiteState)>,
}

/// How a site stands.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SiteState {
    /// It has not voted.
    Pending,
    /// It has voted.
    Voted(Vote),
    /// It has acknowledged the decision.
    Done,
}

impl TransactionInspection {
    /// Whether all sites have acknowledged the decision.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.outcome.is_some() && self.sites.iter().all(|(_, state)| *state == SiteState::Done)
    }
}

impl fmt::Display for TransactionInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.outcome {
            None => "preparing",
            Some(Outcome::Committed) => "committed",
            Some(Outcome::Aborted) => "aborted",
        };
        writeln!(f, "{}: {state} ({}, {:?})", self.path, self.form.name(), self.deadline)?;
        for (site, state) in &self.sites {
            let state = match state {
                SiteState::Pending => "has not voted",
                SiteState::Voted(Vote::Commit) => "votes to commit",
                SiteState::Voted(Vote::Abort) => "votes to abort",
                SiteState::Done => "is done",
            };
            writeln!(f, "  {site} {state}")?;
        }
        Ok(())
    }
}

/// How a transaction stands, as far as the server knows that we are connected to; `None` when there is none.
///
/// # Errors
/// [`Error::NotATransaction`]; [`Error::Framework`] as a read.
///
/// # Cancel safety
/// Nothing is changed.
pub async fn inspect(
    zk: &CuratorFramework,
    path: impl Into<String>,
) -> Result<Option<TransactionInspection>, Error> {
    let path = ZPath::for_operation("inspect", path)?;
    Ok(look(zk, &path).await?.map(|(_, inspection)| inspection))
}

/// A transaction, and how it stands.
async fn look(zk: &CuratorFramework, path: &ZPath) -> Result<Option<(Record, TransactionInspection)>, Error> {
    let zk = &zk.uncompressed();
    let read = |path: String| async move {
        match zk.get_data(path).await {
            Ok(data) => Ok(Some(data)),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    };
    let Some(data) = read(path.as_str().to_owned()).await? else { return Ok(None) };
    let mut record = parse(path, &data)?.0;
    let (sites, outcome) = loop {
        let states = try_join_all(record.sites.iter().map(|site| read(child(path, site)))).await?;
        let states = states.into_iter().map(|data| match data {
            Some(data) if data == DONE => SiteState::Done,
            Some(data) => Vote::parse(&data).map_or(SiteState::Pending, SiteState::Voted),
            None => SiteState::Pending,
        });
        let sites: Vec<_> = record.sites.iter().cloned().zip(states).collect();
        // After the votes: whoever is done is so with a decision.
        let Some(data) = read(path.as_str().to_owned()).await? else { return Ok(None) };
        match parse(path, &data)? {
            (found, outcome) if found.id == record.id => break (sites, outcome),
            // Another transaction has begun meanwhile.
            (found, _) => record = found,
        }
    };
    let commits = |(_, state): &(String, SiteState)| *state == SiteState::Voted(Vote::Commit);
    let votes_decide = record.form == Form::Symmetric && sites.iter().all(commits);
    let inspection = TransactionInspection {
        path: path.as_str().to_owned(),
        form: record.form,
        deadline: record.deadline,
        payload: record.payload.clone(),
        outcome: outcome.or_else(|| votes_decide.then_some(Outcome::Committed)),
        sites,
    };
    Ok(Some((record, inspection)))
}

/// Removes a transaction that is decided; not one that has begun at its path since.
pub(super) async fn remove(zk: &CuratorFramework, path: &ZPath, record: &Record) -> Result<(), Error> {
    let identity = record.id.as_deref().map(identity);
    let which = identity.as_deref().map_or(Which::Version(DECIDED), Which::Having);
    Ok(removal::remove(zk, path, which).await?)
}

/// Removes the finished transactions among the children of a node: those that are decided, and acknowledged by all of
/// their sites. For transactions whose coordinators are gone. Awaiting returns the paths of those that were removed;
/// what is no transaction stays.
///
/// There is no sweep in the background: call it now and then where coordinators may crash. A transaction that is not decided stays,
/// and so does one with a site that does not come back to acknowledge: [`inspect`] tells them. For these,
/// [`Coordinator::resume`](super::Coordinator::resume), [`outcome`](super::Coordinator::outcome), which decides at the
/// deadline at the latest, and [`discard`](super::Coordinator::discard).
///
/// # Errors
/// [`Error::Framework`] as a read or a delete; then some of them may be removed.
///
/// # Cancel safety
/// Each is removed or not.
pub async fn sweep(zk: &CuratorFramework, parent: impl Into<String>) -> Result<Vec<String>, Error> {
    let parent = ZPath::for_operation("sweep", parent)?;
    let names = match zk.children(parent.as_str()).await {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut removed = Vec::new();
    for name in names {
        let path = ZPath::for_operation("sweep", child(&parent, &name))?;
        match look(zk, &path).await {
            Ok(Some((record, inspection))) if inspection.is_finished() => {
                remove(zk, &path, &record).await?;
                removed.push(path.into());
            }
            Ok(_) | Err(Error::NotATransaction { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
