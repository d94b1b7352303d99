use std::sync::Arc;

use zk_curator_client::{Error as RawError, ErrorCode};

use super::{Target, awaits};
use crate::error::{Error, Result};
use crate::framework::{CuratorFramework, Session};
use crate::janitor::Chore;
use crate::path::join;
use crate::retry::Budget;

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

    /// Deletes all descendants first.
    pub const fn deleting_children(mut self) -> Self {
        self.with_children = true;
        self
    }

    async fn run(self) -> Result<()> {
        let path = self.target.server_path()?;
        let mut budget = Budget::new(self.target.zk.core());
        let mut unknown: Option<Error> = None;
        let mut guarantee = Guarantee { builder: &self, path: &path, session: None };
        loop {
            let session = self.target.session()?;
            if self.guaranteed {
                guarantee.session = Some(Arc::clone(&session));
            }
            let answer = match session.raw.delete(&path, self.version).await {
                Err(RawError::Refused(ErrorCode::NotEmpty)) if self.with_children => {
                    delete_children(&session, &path).await
                }
                Ok(()) => {
                    guarantee.session = None;
                    return Ok(());
                }
                refused => refused,
            };
            let error = match answer {
                // The children are gone: once more.
                Ok(()) => continue,
                Err(error) => error,
            };
            match error {
                RawError::Refused(ErrorCode::NoNode) if self.quietly => {
                    guarantee.session = None;
                    return Ok(());
                }
                RawError::Refused(code @ (ErrorCode::NoNode | ErrorCode::BadVersion))
                    if unknown.is_some() =>
                {
                    guarantee.session = None;
                    return match (code, self.version, unknown) {
                        // Gone, which is all that was asked for.
                        (ErrorCode::NoNode, None, _) => Ok(()),
                        // Refused the second time: the first may be why.
                        (_, _, Some(unknown)) => Err(unknown),
                        (code, _, None) => Err(self.target.error(RawError::Refused(code))),
                    };
                }
                error => {
                    let error = self.target.error(error);
                    if !error.is_retryable() && !error.is_session_lost() {
                        guarantee.session = None;
                    }
                    if error.may_have_applied() {
                        if self.version.is_none() && !self.quietly && !self.guaranteed {
                            return self.resolve(error).await;
                        }
                        unknown.get_or_insert_with(|| error.clone());
                    }
                    budget
                        .spend(error, session.epoch)
                        .await
                        .map_err(|last| unknown.take().unwrap_or(last))?;
                }
            }
        }
    }

    /// After an unknown outcome: the node is gone, or `error` stands.
    async fn resolve(&self, error: Error) -> Result<()> {
        match self.target.read(|session, path| session.raw.exists(path)).await {
            Ok(None) => Ok(()),
            _ => Err(error),
        }
    }
}

awaits!(DeleteBuilder => (), |this| this.run().await);

/// Owes the delete as long as it is armed with a session.
struct Guarantee<'a> {
    builder: &'a DeleteBuilder,
    path: &'a str,
    session: Option<Arc<Session>>,
}

impl Drop for Guarantee<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.builder.target.zk.core().owe(Chore::Delete {
                session,
                path: self.path.to_owned(),
                version: self.builder.version,
                first: None,
                bound: false,
            });
        }
    }
}

/// Deletes everything below `root`, deepest first, without recursion. Children that come or go meanwhile are
/// no error; the caller looks again.
async fn delete_children(session: &Session, root: &str) -> Result<(), RawError> {
    let mut stack = vec![(root.to_owned(), false)];
    while let Some((path, emptied)) = stack.pop() {
        if emptied {
            match session.raw.delete(&path, None).await {
                Ok(()) | Err(RawError::Refused(ErrorCode::NoNode | ErrorCode::NotEmpty)) => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        let names = match session.raw.get_children(&path).await {
            Ok(children) => children.names,
            Err(RawError::Refused(ErrorCode::NoNode)) => continue,
            Err(error) => return Err(error),
        };
        if path != root {
            stack.push((path.clone(), true));
        }
        stack.extend(names.iter().map(|name| (join(&path, name), false)));
    }
    Ok(())
}
