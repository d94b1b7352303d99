use std::sync::Arc;
use std::task::{Poll, ready};

use zk_curator_client::{Error as RawError, ErrorCode, Version};

use super::parents::Parents;
use super::transaction_op::DeleteOp;
use super::{Attempt, Target, Transaction, awaits, call_options};
use crate::core::{Chore, Debt, Deletion, FAN_OUT, RACE_ROUNDS, delete_children, delete_created_by};
use crate::error::{Error, Result};
use crate::framework::CuratorFramework;
use crate::raw::RawFuture;
use crate::retry::Budget;
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
/// After an unknown outcome a delete with a version is repeated, for it cannot remove another generation of
/// the data; but if somebody else creates a node there meanwhile, its versions begin anew: where that may be, say
/// which node is meant, [`czxid`](Self::czxid). One without a version succeeds if the node is gone, and is repeated if it
/// is [`quietly`](Self::quietly) or [`guaranteed`](Self::guaranteed); otherwise it fails with
/// [`may_have_applied`](crate::Error::may_have_applied), because a repetition could remove a node that
/// somebody else has created since. A [`certain`](Self::certain) one finds out.
///
/// # Cancel safety
/// Once polled, the node may be deleted; with [`guaranteed`](Self::guaranteed) it will be.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct DeleteBuilder {
    target: Target,
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
            target: Target::new(zk, "delete", path),
            version: Version::Any,
            czxid: None,
            quietly: false,
            guaranteed: false,
            with_children: false,
            fan_out: FAN_OUT,
        }
    }

    /// The version that the data must have, also when the children are deleted first; -1 for any, as in Java. Default: any.
    pub fn version(mut self, version: impl Into<Version>) -> Self {
        self.version = version.into();
        self
    }

    /// The transaction that created the node which is meant. If another node is there, this one is gone, which is success.
    ///
    /// Servers do not look at the `czxid`: the node is looked at before every delete, which costs two requests in one more
    /// flight. What remains is a node of the same version that takes the place of this one between the look and the delete.
    pub const fn czxid(mut self, czxid: i64) -> Self {
        self.czxid = Some(czxid);
        self
    }

    /// Succeeds, too, when the node does not exist.
    pub const fn quietly(mut self) -> Self {
        self.quietly = true;
        self
    }

    /// [`quietly`](Self::quietly), by the name that says what it is for: a delete that may be called again.
    pub const fn idempotent(self) -> Self {
        self.quietly()
    }

    /// Goes on in the background, until it succeeds or cannot, when the connection fails for longer than the
    /// retry policy allows or the future is dropped. The error is returned all the same.
    pub const fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Deletes all descendants first, many at a time. Fails with `NotEmpty` when somebody creates new ones for
    /// ever. What fails half-way leaves the node and some of its descendants. Succeeds, too, when somebody else deletes the
    /// node meanwhile, unless a [version](Self::version) is asked for.
    ///
    /// The names of all descendants are in memory meanwhile.
    pub const fn deleting_children(mut self) -> Self {
        self.with_children = true;
        self
    }

    /// The largest number of requests in flight while descendants are deleted, from 1: zero fails with `InvalidArgument`.
    /// Default 64.
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
        let guarantee = Guarantee::new(&self, &path);
        let mut unknown: Option<Error> = None;
        let mut sweeps = 0;
        loop {
            let attempt =
                self.target.attempt(&budget).await.map_err(|last| unknown.clone().unwrap_or(last))?;
            let mut error = match guarantee.delete(&attempt).await {
                Ok(()) => return Ok(()),
                Err(RawError::Refused(ErrorCode::NoNode)) if self.quietly => return Ok(()),
                // Gone, which is all that was asked for: by a request of ours whose answer was lost, or by somebody else who
                // has deleted the same tree.
                Err(RawError::Refused(ErrorCode::NoNode))
                    if (unknown.is_some() || sweeps > 0) && !self.version.is_exact() =>
                {
                    return Ok(());
                }
                Err(error) => error,
            };
            if error == RawError::Refused(ErrorCode::NotEmpty) && self.with_children && sweeps < RACE_ROUNDS {
                sweeps += 1;
                error = match delete_children(&*attempt.raw, &path, self.fan_out).await {
                    Ok(()) => continue,
                    Err(error) => error,
                };
            } else if error.may_have_applied() {
                let error = self.target.error(error.clone());
                let repeats =
                    self.version.is_exact() || self.czxid.is_some() || self.quietly || self.guaranteed;
                if !repeats {
                    return self.resolve(&mut budget, &path, error).await;
                }
                unknown.get_or_insert(error);
            }
            let error = self.target.error(error);
            if !error.is_retryable() && !error.is_session_lost() {
                guarantee.settle();
            }
            // What is refused the second time may be so because of the first.
            budget
                .spend(error, attempt.session.epoch)
                .await
                .map_err(|last| unknown.take().unwrap_or(last))?;
        }
    }

    /// After an unknown outcome: the node is gone, or `error` stands.
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

/// Owes the delete, if it is guaranteed, from the first attempt on.
struct Guarantee<'a> {
    builder: &'a DeleteBuilder,
    path: &'a str,
    debt: Option<Debt<'a>>,
}

impl<'a> Guarantee<'a> {
    fn new(builder: &'a DeleteBuilder, path: &'a str) -> Self {
        let debt = builder.guaranteed.then(|| Debt::new(builder.target.zk.core(), path, true));
        Self { builder, path, debt }
    }

    async fn delete(&self, attempt: &Attempt) -> Result<(), RawError> {
        let (raw, version) = (&*attempt.raw, self.builder.version);
        let by_identity = self.builder.czxid.map(|czxid| {
            delete_created_by(&self.builder.target.zk.core().deletes, raw, self.path, czxid, version)
        });
        let Some(debt) = &self.debt else {
            return match by_identity {
                Some(delete) => delete.await.map(drop),
                None => raw.delete(self.path, version).await,
            };
        };
        if let Some(delete) = by_identity {
            debt.change(|owed| *owed = Some(self.chore(attempt, None)))?;
            let answer = delete.await.map(drop);
            if matches!(answer, Ok(()) | Err(RawError::Refused(ErrorCode::NoNode))) {
                self.settle();
            }
            return answer;
        }
        debt.change(|owed| *owed = Some(self.chore(attempt, Some(raw.delete(self.path, version)))))?;
        debt.wait(|owed, cx| {
            let Some(Chore::Delete(Deletion { first, .. })) = owed else {
                return Poll::Ready(Err(RawError::UnexpectedAnswer));
            };
            let Some(request) = first else { return Poll::Ready(Err(RawError::UnexpectedAnswer)) };
            let answer = ready!(request.as_mut().poll(cx));
            *first = None;
            if matches!(answer, Ok(()) | Err(RawError::Refused(ErrorCode::NoNode))) {
                *owed = None;
            }
            Poll::Ready(answer)
        })
        .await
    }

    fn chore(&self, attempt: &Attempt, first: Option<RawFuture<()>>) -> Chore {
        Chore::Delete(Deletion {
            session: Arc::clone(&attempt.session),
            path: self.path.to_owned(),
            version: self.builder.version,
            first,
            bound: false,
            with_children: self.builder.with_children,
            czxid: self.builder.czxid,
        })
    }

    /// No repetition will help.
    fn settle(&self) {
        if let Some(debt) = &self.debt {
            // The client that took over finds the same.
            drop(debt.settle());
        }
    }
}
