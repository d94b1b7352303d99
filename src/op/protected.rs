//! Protection of creates: a name that only we can have chosen, to find the node after a lost answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Created, Error as RawError, ErrorCode, Stat};

use super::read_behind_quorum;
use crate::framework::{Core, Session};
use crate::janitor::{Chore, Protection};
use crate::path::join;
use crate::raw::{RawClient, RevocableFuture};

/// A new prefix, in Curator's form: `_c_`, a UUID in lower case, and a hyphen.
pub(crate) fn new_prefix(core: &Core) -> String {
    format!("_c_{}-", core.random.guid())
}

/// The node of a protected create.
pub(crate) struct Found {
    pub(crate) path: String,
    /// If it was read with the data that say whose it is.
    pub(crate) stat: Option<Stat>,
}

/// Looks for the node of a protected create.
///
/// The answer to the create was never seen, so the server we are connected to now may lag behind it (CURATOR-264).
pub(crate) async fn find(raw: &dyn RawClient, protection: &Protection) -> Result<Option<Found>, RawError> {
    if let Some(ours) = &protection.data {
        let path = join(&protection.parent, &protection.prefix);
        return match read_behind_quorum(raw, &path, |raw, path| raw.get_data(path)).await {
            Ok(node) => Ok((node.data == *ours).then_some(Found { path, stat: Some(node.stat) })),
            Err(RawError::Refused(ErrorCode::NoNode)) => Ok(None),
            Err(error) => Err(error),
        };
    }
    let children = read_behind_quorum(raw, &protection.parent, |raw, path| raw.get_children(path)).await;
    let names = match children {
        Ok(children) => children.names,
        Err(RawError::Refused(ErrorCode::NoNode)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = names.iter().find(|name| name.starts_with(&protection.prefix));
    Ok(found.map(|name| Found { path: join(&protection.parent, name), stat: None }))
}

/// What a create may have left behind. Dropped before it is settled, it owes the deletion.
pub(crate) struct Claim<'a> {
    core: &'a Core,
    protection: Option<Protection>,
    /// Whether the node ends with the session.
    bound: bool,
    /// Whether anything is owed at all: not for a plain create without protection.
    owes: bool,
    /// Whether others create nodes of the same name.
    shared: bool,
    state: State,
}

enum State {
    /// Nothing, or a guard has taken over.
    Settled,
    /// The create waits for its answer.
    Creating(Arc<Session>, RevocableFuture<Created>),
    /// The answer is lost.
    Unknown(Arc<Session>),
}

impl<'a> Claim<'a> {
    pub(crate) const fn new(
        core: &'a Core,
        protection: Option<Protection>,
        bound: bool,
        owes: bool,
        shared: bool,
    ) -> Self {
        Self { core, protection, bound, owes, shared, state: State::Settled }
    }

    /// The prefix and the parent, for a protected create.
    pub(crate) const fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
    }

    /// Chooses a new prefix.
    pub(crate) fn renew(&mut self) {
        self.state = State::Settled;
        if let Some(protection) = &mut self.protection
            && protection.data.is_none()
        {
            protection.prefix = new_prefix(self.core);
        }
    }

    /// A create has been queued.
    pub(crate) fn creating(&mut self, session: &Arc<Session>, answer: RevocableFuture<Created>) {
        self.state = State::Creating(Arc::clone(session), answer);
    }

    /// Waits for its answer, for as long as there is time. Settles the claim, unless the outcome is unknown.
    pub(crate) async fn answer(&mut self, left: Option<Duration>) -> Result<Created, RawError> {
        let State::Creating(session, answer) = &mut self.state else {
            return Err(RawError::UnexpectedAnswer);
        };
        let result = match left {
            None => answer.as_mut().await,
            Some(left) => match timeout(left, answer.as_mut()).await {
                Ok(result) => result,
                Err(_) if answer.as_mut().withdraw() => Err(RawError::DeadlineExceeded { sent: false }),
                // The answer that comes later says what has to be deleted.
                Err(_) => return Err(RawError::DeadlineExceeded { sent: true }),
            },
        };
        self.state = match &result {
            Err(error) if error.may_have_applied() => State::Unknown(Arc::clone(session)),
            _ => State::Settled,
        };
        result
    }

    /// The outcome has become known: there is no node, or a guard has it.
    pub(crate) fn settle(&mut self) {
        self.state = State::Settled;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.owes {
            return;
        }
        let chore = match (std::mem::replace(&mut self.state, State::Settled), self.protection.take()) {
            (State::Creating(session, mut answer), protection) => {
                if answer.as_mut().withdraw() {
                    // What was never sent leaves nothing.
                    return;
                }
                Chore::AbandonedCreate { session, answer, protection, bound: self.bound, shared: self.shared }
            }
            (State::Unknown(session), Some(protection)) => {
                Chore::FindAndDelete { session, protection, bound: self.bound }
            }
            // An unprotected node cannot be told from somebody else's.
            (State::Unknown(_), None) | (State::Settled, _) => return,
        };
        self.core.owe(chore);
    }
}
