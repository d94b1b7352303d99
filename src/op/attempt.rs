//! One attempt at an operation.

use std::sync::Arc;
use std::time::Duration;

use zk_curator_client::Error as RawError;

use super::{Freshness, Target};
use crate::core::{Session, read_behind_quorum, read_behind_sync};
use crate::error::{Error, Result};
use crate::raw::{RawClient, RawFuture};
use crate::retry::Budget;

/// A session, and what requests of one attempt are sent through: it ends with the call's deadline.
pub(crate) struct Attempt {
    pub(crate) session: Arc<Session>,
    pub(crate) raw: Arc<dyn RawClient>,
}

impl<R> Target<R> {
    /// Returns the retries and the time of the operation. The time begins now.
    pub(crate) fn budget(&self) -> Budget<'_> {
        Budget::new(self.zk.core(), &self.call)
    }

    /// The next attempt, in the present session. Waits only while the first session is being opened.
    pub(crate) async fn attempt(&self, budget: &Budget<'_>) -> Result<Attempt> {
        let session = self.zk.core().opened_session(self.operation, &self.path, budget.time_left()).await?;
        if self.call.session_epoch.is_some_and(|bound| bound != session.epoch) || self.is_over(&session) {
            return Err(self.error(RawError::SessionExpired { sent: false }));
        }
        let raw = match budget.time_left() {
            None => Arc::clone(&session.raw),
            Some(Duration::ZERO) => return Err(self.error(RawError::DeadlineExceeded { sent: false })),
            Some(left) => session.raw.with_deadline(left),
        };
        Ok(Attempt { session, raw })
    }

    /// Whether this is the session that the call is bound to, and it is lost.
    fn is_over(&self, session: &Session) -> bool {
        self.call.session_epoch.is_some() && session.lost.is_cancelled()
    }

    /// Sends a read, and sends it again as long as the retry policy allows.
    pub(crate) async fn read<T>(&self, send: impl Fn(&dyn RawClient, &str) -> RawFuture<T>) -> Result<T> {
        let path = self.server_path()?;
        self.read_within(&mut self.budget(), &path, send).await
    }

    /// [`read`](Self::read) as part of a larger operation; `path` is the server's.
    ///
    /// A read that fails has applied nothing, whether it was sent or not.
    pub(crate) async fn read_within<T>(
        &self,
        budget: &mut Budget<'_>,
        path: &str,
        send: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
    ) -> Result<T> {
        self.read_in_session(budget, path, send).await.map(|(answer, _)| answer)
    }

    /// [`read_within`](Self::read_within) that also returns the session that has answered.
    pub(crate) async fn read_in_session<T>(
        &self,
        budget: &mut Budget<'_>,
        path: &str,
        send: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
    ) -> Result<(T, Arc<Session>)> {
        loop {
            let Attempt { session, raw } = self.attempt(budget).await?;
            // What goes ahead is sent first, so answered first. Both belong to one attempt: were they tried again one by
            // one, the read might be answered by a server that is not up to date yet.
            let answer = match self.freshness {
                Freshness::AsIs => send(&*raw, path).await,
                Freshness::Synced => read_behind_sync(&*raw, path, &send).await,
                Freshness::Confirmed => read_behind_quorum(&*raw, path, &send).await,
            };
            match answer {
                Ok(answer) => return Ok((answer, session)),
                Err(error) => {
                    budget.spend(self.error(error), session.epoch).await.map_err(Error::of_a_read)?;
                }
            }
        }
    }

    /// Sends a write. After an unknown outcome it is sent again if it is `repeatable`. When that fails, and be it
    /// because of the first attempt, the first error is the answer.
    pub(crate) async fn write<T>(
        &self,
        budget: &mut Budget<'_>,
        repeatable: bool,
        send: impl Fn(&dyn RawClient) -> RawFuture<T>,
    ) -> Result<T> {
        let mut unknown: Option<Error> = None;
        loop {
            let attempt = self.attempt(budget).await.map_err(|last| unknown.clone().unwrap_or(last))?;
            let error = match send(&*attempt.raw).await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.error(error),
            };
            if error.may_have_applied() {
                if !repeatable {
                    return Err(error);
                }
                unknown.get_or_insert_with(|| error.clone());
            }
            budget
                .spend(error, attempt.session.epoch)
                .await
                .map_err(|last| unknown.clone().unwrap_or(last))?;
        }
    }
}

/// The options that every call has, for a builder with a field `target`.
macro_rules! call_options {
    ($builder:ident $(<$parameter:ident>)?) => {
        impl$(<$parameter>)? $builder$(<$parameter>)? {
            /// The retry policy of this call. Default: that of the handle.
            pub fn retry(mut self, policy: impl $crate::retry::RetryPolicy) -> Self {
                self.target.call.retry = Some(std::sync::Arc::new(policy));
                self
            }

            /// How long this call may take, retries and pauses included. Default: that of the handle.
            ///
            /// A request that is not answered by then fails with `OperationTimeout`; a call that fails for
            /// another reason, and could only be tried again after the deadline, fails at once with that one.
            pub const fn deadline(mut self, deadline: std::time::Duration) -> Self {
                self.target.call.deadline = Some(deadline);
                self
            }
        }
    };
}
pub(crate) use call_options;

/// The options of a read that say how old the answer may be, for a builder with a field `target`.
macro_rules! freshness_options {
    ($builder:ident) => {
        impl<R> $builder<R> {
            /// Answers what the leader knows by now, and not what a server that lags behind does: sends a
            /// [`sync`](CuratorFramework::sync) before the read, in the same flight, and again with every retry. Default:
            /// without.
            ///
            /// A leader that was deposed a moment ago, and does not know it, answers a `sync` as well (ZOOKEEPER-2136). Where
            /// the answer decides something, use [`linearizable`](Self::linearizable).
            pub const fn synced(mut self) -> Self {
                self.target.freshness = $crate::op::Freshness::Synced;
                self
            }

            /// Answers what was committed before the call by any client, including requests of this session whose answers
            /// were lost. Sends a transaction of one check before the read, in the same flight, and again with every retry.
            /// It changes nothing and is answered only with a quorum, so it costs the ensemble as much as a write. With a
            /// raw client that has no transactions, as [`synced`](Self::synced). Default: without.
            pub const fn linearizable(mut self) -> Self {
                self.target.freshness = $crate::op::Freshness::Confirmed;
                self
            }
        }
    };
}
pub(crate) use freshness_options;

/// The options of a read of data that say whether they are decompressed, for a builder with the fields `target` and
/// `decompressed`.
macro_rules! decompression_options {
    ($builder:ident $(<$parameter:ident>)?) => {
        impl$(<$parameter>)? $builder$(<$parameter>)? {
            /// Decompresses the data; the read fails with `Undecodable` if they cannot be. Default: as the
            /// [framework](crate::CuratorFrameworkBuilder::enable_compression) does.
            pub const fn decompressed(mut self) -> Self {
                self.decompressed = Some(true);
                self
            }

            /// Answers the data as they are stored, also where the framework decompresses.
            pub const fn undecompressed(mut self) -> Self {
                self.decompressed = Some(false);
                self
            }
        }
    };
}
pub(crate) use decompression_options;
