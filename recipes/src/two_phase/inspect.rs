//! The state of a transaction, for people and for clean-up.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind};

use super::record::{TransactionRecord, identity};
use super::settle::parse;
use super::{DONE, Error, Form, Outcome, Vote};
use crate::path::child;
use crate::removal;

/// How a transaction stands.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionInspection {
    /// Its path.
    pub path: String,
    /// The form of the protocol.
    pub form: Form,
    /// The time for which votes are awaited.
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
    /// Returns `true` if all sites have acknowledged the decision.
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

/// How a transaction stands, as far as the server knows that we are connected to; `None` when there
/// is none.
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

/// Returns the state of a site with these data in its node, if there is one.
pub(crate) fn state_of(data: Option<&[u8]>) -> SiteState {
    match data {
        Some(data) if data == DONE => SiteState::Done,
        Some(data) => Vote::parse(data).map_or(SiteState::Pending, SiteState::Voted),
        None => SiteState::Pending,
    }
}

/// A transaction, and how it stands.
pub(super) async fn look(
    zk: &CuratorFramework,
    path: &ZPath,
) -> Result<Option<(TransactionRecord, TransactionInspection)>, Error> {
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
        let states = states.into_iter().map(|data| state_of(data.as_deref()));
        let sites: Vec<_> = record.sites.iter().cloned().zip(states).collect();
        // Read after the votes: a site that is done has a decision.
        let Some(data) = read(path.as_str().to_owned()).await? else { return Ok(None) };
        match parse(path, &data)? {
            (found, outcome) if found.id == record.id => break (sites, outcome),
            // Another transaction has begun in between.
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

/// Removes a decided transaction, but no later one at its path.
pub(super) async fn remove(
    zk: &CuratorFramework,
    path: &ZPath,
    record: &TransactionRecord,
) -> Result<(), Error> {
    Ok(removal::remove(zk, path, Some(&identity(&record.id))).await?)
}
