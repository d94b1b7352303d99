use std::sync::Arc;

use zk_curator_client::{Error as RawError, ErrorCode};

use super::{RACE_ROUNDS, Target, awaits};
use crate::error::{Error, Result};
use crate::framework::{CuratorFramework, Session};
use crate::janitor::{Chore, Deletion};
use crate::path::join;
use crate::raw::{RawClient, RawFuture};
use crate::retry::Budget;
use crate::schema::Intent;

/// Deletes a node. Fails with `NoNode`, `BadVersion`, `NotEmpty`.
///
/// After an unknown outcome a delete with a version is repeated, for it cannot remove another generation of
/// the data. One without a version succeeds if the node is gone, and is repeated if it is
/// [`quietly`](Self::quietly) or [`guaranteed`](Self::guaranteed); otherwise it fails with
/// [`may_have_applied`](crate::Error::may_have_applied), because a repetition could remove a node that
/// somebody else has created since.
///
/// # Cancel safety
/// Once polled, the node may be deleted; with [`guaranteed`](Self::guaranteed) it will be.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct DeleteBuilder {
    target: Target,
    version: Option<i32>,
    quietly: bool,
    guaranteed: bool,
    with_children: bool,
}

impl DeleteBuilder {
    pub(crate) const fn new(zk: CuratorFramework, path: String) -> Self {
        Self {
            target: Target::new(zk, "delete", path),
            version: None,
            quietly: false,
            guaranteed: false,
            with_children: false,
        }
    }

    /// The version that the data must have, also when the children are deleted first. Default: any.
    pub const fn version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Succeeds, too, when the node does not exist.
    pub const fn quietly(mut self) -> Self {
        self.quietly = true;
        self
    }

    /// Goes on in the background, until it succeeds or cannot, when the connection fails for longer than the
    /// retry policy allows or the future is dropped. The error is returned all the same.
    pub const fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Deletes all descendants first. Fails with `NotEmpty` when somebody creates new ones for ever.
    pub const fn deleting_children(mut self) -> Self {
        self.with_children = true;
        self
    }

    async fn run(self) -> Result<()> {
        let path = self.target.server_path()?;
        self.target.admit(Intent::Delete)?;
        let mut budget = Budget::new(self.target.zk.core());
        let mut guarantee = Guarantee { builder: &self, path: &path, session: None, request: None };
        let mut unknown: Option<Error> = None;
        let mut sweeps = 0;
        loop {
            let session = self.target.session().map_err(|closed| unknown.clone().unwrap_or(closed))?;
            let mut error = match guarantee.delete(&session).await {
                Ok(()) => return Ok(()),
                Err(RawError::Refused(ErrorCode::NoNode)) if self.quietly => return Ok(()),
                // Gone, which is all that was asked for.
                Err(RawError::Refused(ErrorCode::NoNode)) if unknown.is_some() && self.version.is_none() => {
                    return Ok(());
                }
                Err(error) => error,
            };
            if error == RawError::Refused(ErrorCode::NotEmpty) && self.with_children && sweeps < RACE_ROUNDS {
                sweeps += 1;
                error = match delete_children(&*session.raw, &path).await {
                    Ok(()) => continue,
                    Err(error) => error,
                };
            } else if error.may_have_applied() {
                let error = self.target.error(error.clone());
                if self.version.is_none() && !self.quietly && !self.guaranteed {
                    return self.resolve(error).await;
                }
                unknown.get_or_insert(error);
            }
            let error = self.target.error(error);
            if !error.is_retryable() && !error.is_session_lost() {
                guarantee.session = None;
            }
            // What is refused the second time may be so because of the first.
            budget.spend(error, session.epoch).await.map_err(|last| unknown.take().unwrap_or(last))?;
        }
    }

    /// After an unknown outcome: the node is gone, or `error` stands.
    async fn resolve(&self, error: Error) -> Result<()> {
        // The server that answers now may lag behind the one that did not.
        let look = |session: &Session, path: &str| -> RawFuture<_> {
            let (synced, stat) = (session.raw.sync(path), session.raw.exists(path));
            Box::pin(async move {
                synced.await?;
                stat.await
            })
        };
        match self.target.read(look).await {
            Ok(None) => Ok(()),
            _ => Err(error),
        }
    }
}

awaits!(DeleteBuilder => (), |this| this.run().await);

/// Owes the delete, if it is guaranteed, as long as it has a session.
struct Guarantee<'a> {
    builder: &'a DeleteBuilder,
    path: &'a str,
    session: Option<Arc<Session>>,
    request: Option<RawFuture<()>>,
}

impl Guarantee<'_> {
    async fn delete(&mut self, session: &Arc<Session>) -> Result<(), RawError> {
        self.session = Some(Arc::clone(session));
        let answer = self.request.insert(session.raw.delete(self.path, self.builder.version)).await;
        self.request = None;
        if matches!(answer, Ok(()) | Err(RawError::Refused(ErrorCode::NoNode))) {
            self.session = None;
        }
        answer
    }
}

impl Drop for Guarantee<'_> {
    fn drop(&mut self) {
        let Some(session) = self.session.take().filter(|_| self.builder.guaranteed) else {
            return;
        };
        self.builder.target.zk.core().owe(Chore::Delete(Deletion {
            session,
            path: self.path.to_owned(),
            version: self.builder.version,
            first: self.request.take(),
            bound: false,
            with_children: self.builder.with_children,
        }));
    }
}

/// Deletes everything below `root`, deepest first, without recursion. Children that come or go meanwhile are
/// no error; the caller looks again.
pub(crate) async fn delete_children(raw: &dyn RawClient, root: &str) -> Result<(), RawError> {
    let mut stack = vec![(root.to_owned(), false)];
    while let Some((path, emptied)) = stack.pop() {
        if emptied {
            match raw.delete(&path, None).await {
                Ok(()) | Err(RawError::Refused(ErrorCode::NoNode | ErrorCode::NotEmpty)) => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        let names = match raw.get_children(&path).await {
            Ok(children) => children.names,
            Err(RawError::Refused(ErrorCode::NoNode)) => continue,
            Err(error) => return Err(error),
        };
        let children: Vec<_> = names.iter().map(|name| (join(&path, name), false)).collect();
        if path != root {
            stack.push((path, true));
        }
        stack.extend(children);
    }
    Ok(())
}
