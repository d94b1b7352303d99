use std::sync::Arc;
use std::task::{Poll, ready};

use zk_curator_client::{Error as RawError, ErrorCode, Version};

use super::parents::Parents;
use super::settings::version_setting;
use super::transaction_op::DeleteOp;
use super::{AttemptClient, OpTarget, Transaction, awaits, call_options};
use crate::core::{
    Cleanup, FAN_OUT, OwedDeletion, PendingCleanup, RACE_ROUNDS, delete_children, delete_created_by,
};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::raw::RawFuture;
use crate::retry::{Budget, RetryLoop};
use crate::schema::Intent;

impl CuratorFramework {
    /// Deletes a node.
    ///
    /// **Awaiting returns** `()`. See [`DeleteBuilder`] for options and errors.
    pub fn delete(&self, path: impl Into<String>) -> DeleteBuilder {
        DeleteBuilder::new(self.clone(), path.into())
    }
}

/// Deletes a node. Fails with `NoNode`, `BadVersion`, `NotEmpty`.
///
/// After an unknown outcome, a delete with a version is repeated, because it cannot remove later
/// data. But the versions of a re-created node begin again: if another client may re-create the
/// node, identify the node by its [`czxid`](Self::czxid). A delete without a version succeeds if
/// the node is gone. It is repeated if it is [`quietly`](Self::quietly) or
/// [`guaranteed`](Self::guaranteed). Otherwise it fails with
/// [`may_have_applied`](crate::Error::may_have_applied), because a repetition could remove a node
/// that another client has created since. A [`certain`](Self::certain) delete finds out.
///
/// # Cancel safety
/// Once the future was polled, the node may be deleted. With [`guaranteed`](Self::guaranteed) it
/// will be.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct DeleteBuilder {
    target: OpTarget,
    version: Version,
    czxid: Option<i64>,
    quietly: bool,
    guaranteed: bool,
    with_children: bool,
    fan_out: usize,
}

impl DeleteBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self {
            target: OpTarget::new(zk, "delete", path),
            version: Version::Any,
            czxid: None,
            quietly: false,
            guaranteed: false,
            with_children: false,
            fan_out: FAN_OUT,
        }
    }

    version_setting!();

    /// Sets the transaction that created the node to delete. If another node has its path, the node
    /// is gone, and the delete succeeds.
    ///
    /// Servers do not compare the `czxid`. So the node is read before every delete, which costs two
    /// requests in one more round trip. In the remaining window, a node of the same version may
    /// replace this one between the read and the delete.
    pub const fn czxid(mut self, czxid: i64) -> Self {
        self.czxid = Some(czxid);
        self
    }

    /// Also succeeds if the node does not exist.
    pub const fn quietly(mut self) -> Self {
        self.quietly = true;
        self
    }

    /// Does the same as [`quietly`](Self::quietly), under the name of its purpose: a delete that
    /// may be called again.
    pub const fn idempotent(self) -> Self {
        self.quietly()
    }

    /// Continues in the background, until it succeeds or cannot, if the connection fails for longer
    /// than the retry policy allows, or the future is dropped. The error is returned in any case.
    pub const fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Deletes all descendants first, many at a time. Fails with `NotEmpty` if other clients keep
    /// creating new ones. A failure half-way leaves the node and some of its descendants. Also
    /// succeeds if another client deletes the node first, unless a [version](Self::version) is set.
    ///
    /// The names of all descendants are kept in memory.
    pub const fn deleting_children(mut self) -> Self {
        self.with_children = true;
        self
    }

    /// Sets the maximum number of requests in flight while descendants are deleted, from 1. Zero
    /// fails with `InvalidArgument`. Default: 64.
    pub const fn max_in_flight(mut self, requests: usize) -> Self {
        self.fan_out = requests;
        self
    }

    /// Returns a transaction of this one operation.
    pub(crate) fn into_transaction(self) -> Transaction {
        let Self { target, version, czxid, quietly, guaranteed, with_children, fan_out } = self;
        let conflict = if quietly || guaranteed || czxid.is_some() {
            Some("a certain delete cannot be quiet, guaranteed or by czxid")
        } else if with_children || fan_out != FAN_OUT {
            Some("a certain delete is of one node")
        } else {
            None
        };
        let op = DeleteOp::new(target.path.as_str()).version(version);
        Transaction::single(target, op, Parents::default(), conflict)
    }

    async fn run(self) -> Result<()> {
        let path = self.target.server_path()?;
        if self.fan_out == 0 {
            return Err(self.target.error(RawError::InvalidArgument("max_in_flight cannot be 0")));
        }
        self.target.admit(Intent::Delete)?;
        let mut budget = self.target.budget();
        let guarantee = GuaranteedDelete::new(&self, &path);
        let mut retries = RetryLoop::new(&mut budget);
        let mut sweeps = 0;
        loop {
            let attempt = self.target.next_attempt(&mut retries).await?;
            let mut error = match guarantee.delete(&attempt).await {
                Ok(()) => return Ok(()),
                Err(RawError::Refused(ErrorCode::NoNode)) if self.quietly => return Ok(()),
                // The node is gone, as requested: by an earlier request whose response was lost, or
                // by another client that deleted the same tree.
                Err(RawError::Refused(ErrorCode::NoNode))
                    if (retries.may_have_applied() || sweeps > 0) && !self.version.is_exact() =>
                {
                    return Ok(());
                }
                Err(error) => error,
            };
            if error == RawError::Refused(ErrorCode::NotEmpty)
                && self.with_children
                && sweeps < RACE_ROUNDS
            {
                sweeps += 1;
                error = match delete_children(&*attempt.raw, &path, self.fan_out).await {
                    Ok(()) => continue,
                    Err(error) => error,
                };
            } else if error.may_have_applied() {
                let error = self.target.error(error.clone());
                let repeats = self.version.is_exact()
                    || self.czxid.is_some()
                    || self.quietly
                    || self.guaranteed;
                if !repeats {
                    return self.resolve(retries.budget(), &path, error).await;
                }
                retries.remember(&error);
            }
            let error = self.target.error(error);
            if !error.is_transient() && error.kind() != ErrorKind::Closed {
                guarantee.settle();
            }
            // The second attempt may be refused because the first was applied.
            retries.pause(error, attempt.session.epoch).await?;
        }
    }

    /// Succeeds if the node is gone after an unknown outcome, and else returns `error`.
    async fn resolve(&self, budget: &mut Budget<'_>, path: &str, error: Error) -> Result<()> {
        let target = self.target.linearizable();
        match target.read_within(budget, path, |raw, path| raw.exists(path)).await {
            Ok(None) => Ok(()),
            _ => Err(error),
        }
    }
}

call_options!(DeleteBuilder);

awaits!(DeleteBuilder => (), |this| this.run().await);

/// Leaves the delete to the janitor, if it is guaranteed, from the first attempt on.
struct GuaranteedDelete<'a> {
    builder: &'a DeleteBuilder,
    path: &'a str,
    pending: Option<PendingCleanup<'a>>,
}

impl<'a> GuaranteedDelete<'a> {
    fn new(builder: &'a DeleteBuilder, path: &'a str) -> Self {
        let pending =
            builder.guaranteed.then(|| PendingCleanup::new(builder.target.zk.core(), path, true));
        Self { builder, path, pending }
    }

    async fn delete(&self, attempt: &AttemptClient) -> Result<(), RawError> {
        let (raw, version) = (&*attempt.raw, self.builder.version);
        let by_identity = self.builder.czxid.map(|czxid| {
            delete_created_by(
                &self.builder.target.zk.core().deletes,
                raw,
                self.path,
                czxid,
                version,
            )
        });
        let Some(pending) = &self.pending else {
            return match by_identity {
                Some(delete) => delete.await.map(drop),
                None => raw.delete(self.path, version).await,
            };
        };
        if let Some(delete) = by_identity {
            pending.change(|owed| *owed = Some(self.cleanup(attempt, None)))?;
            let answer = delete.await.map(drop);
            if matches!(answer, Ok(()) | Err(RawError::Refused(ErrorCode::NoNode))) {
                self.settle();
            }
            return answer;
        }
        pending.change(|owed| {
            *owed = Some(self.cleanup(attempt, Some(raw.delete(self.path, version))));
        })?;
        pending
            .wait(|owed, cx| {
                let Some(Cleanup::Delete(OwedDeletion { first, .. })) = owed else {
                    return Poll::Ready(Err(RawError::UnexpectedResponse));
                };
                let Some(request) = first else {
                    return Poll::Ready(Err(RawError::UnexpectedResponse));
                };
                let answer = ready!(request.as_mut().poll(cx));
                *first = None;
                if matches!(answer, Ok(()) | Err(RawError::Refused(ErrorCode::NoNode))) {
                    *owed = None;
                }
                Poll::Ready(answer)
            })
            .await
    }

    fn cleanup(&self, attempt: &AttemptClient, first: Option<RawFuture<()>>) -> Cleanup {
        Cleanup::Delete(OwedDeletion {
            session: Arc::clone(&attempt.session),
            path: self.path.to_owned(),
            version: self.builder.version,
            first,
            bound: false,
            with_children: self.builder.with_children,
            czxid: self.builder.czxid,
        })
    }

    /// Ends the cleanup, because retries cannot help.
    fn settle(&self) {
        if let Some(pending) = &self.pending {
            // If the janitor has taken over, it finds the same.
            drop(pending.settle());
        }
    }
}
