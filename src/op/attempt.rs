//! One attempt at an operation.

use std::sync::Arc;
use std::time::Duration;

use zk_curator_client::Error as RawError;

use super::OpTarget;
use crate::core::{ReadFreshness, Session, read_behind_quorum, read_behind_sync};
use crate::error::{Error, Result};
use crate::raw::{RawClient, RawFuture};
use crate::retry::{Budget, RetryLoop};

/// A session, and the client through which the requests of one attempt are sent.
///
/// Only the [`Budget`] keeps the deadline of a call. `raw` has the time that was left when the
/// attempt began, and abandons a request after it. A create whose node has to be deleted if the
/// caller gives up is sent through `session.raw`, which has no deadline. Only its caller stops
/// waiting ([`ProtectedCreate::response`](super::protected::TrackedCreate::response)). The
/// response must still arrive after the deadline, so that the janitor learns which node to delete.
pub(crate) struct AttemptClient {
    pub(crate) session: Arc<Session>,
    pub(crate) raw: Arc<dyn RawClient>,
}

impl<R> OpTarget<R> {
    /// Returns the retries and the time of the operation. The time begins now.
    pub(crate) fn budget(&self) -> Budget<'_> {
        Budget::new(self.zk.core(), &self.call)
    }

    /// Begins the next attempt, in the present session. Waits only while the first session is being
    /// opened.
    pub(crate) async fn attempt(&self, budget: &Budget<'_>) -> Result<AttemptClient> {
        let session =
            self.zk.core().opened_session(self.operation, &self.path, budget.time_left()).await?;
        if self.call.session_epoch.is_some_and(|bound| bound != session.epoch)
            || self.is_over(&session)
        {
            return Err(self.error(RawError::SessionExpired { sent: false }));
        }
        let raw = match budget.time_left() {
            None => Arc::clone(&session.raw),
            Some(Duration::ZERO) => {
                return Err(self.error(RawError::DeadlineExceeded { sent: false }));
            }
            Some(left) => session.raw.with_deadline(left),
        };
        Ok(AttemptClient { session, raw })
    }

    /// Begins the next attempt of a request that may have been sent before.
    pub(crate) async fn next_attempt(
        &self,
        retries: &mut RetryLoop<'_, '_>,
    ) -> Result<AttemptClient> {
        self.attempt(retries.budget()).await.map_err(|last| retries.failure(last))
    }

    /// Returns `true` if this is the session that the call is bound to, and it is lost.
    fn is_over(&self, session: &Session) -> bool {
        self.call.session_epoch.is_some() && session.lost.is_cancelled()
    }

    /// Sends a read, and sends it again as long as the retry policy allows.
    pub(crate) async fn read<T>(
        &self,
        send: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
    ) -> Result<T> {
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

    /// Does the same as [`read_within`](Self::read_within), and also returns the session of
    /// the response.
    pub(crate) async fn read_in_session<T>(
        &self,
        budget: &mut Budget<'_>,
        path: &str,
        send: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
    ) -> Result<(T, Arc<Session>)> {
        loop {
            let AttemptClient { session, raw } = self.attempt(budget).await?;
            // The first request is sent first, so its response comes first. Both belong to one
            // attempt: if they were retried separately, a server that is not up to date yet might
            // respond to the read.
            let answer = match self.freshness {
                ReadFreshness::AsIs => send(&*raw, path).await,
                ReadFreshness::Synced => read_behind_sync(&*raw, path, &send).await,
                ReadFreshness::Linearizable => read_behind_quorum(&*raw, path, &send).await,
            };
            match answer {
                Ok(answer) => return Ok((answer, session)),
                Err(error) => {
                    budget
                        .spend(self.error(error), session.epoch)
                        .await
                        .map_err(Error::of_a_read)?;
                }
            }
        }
    }

    /// Sends a write. After an unknown outcome it is sent again if it is `repeatable`. If the
    /// repetition fails, even because of the first attempt, the first error is returned.
    pub(crate) async fn write<T>(
        &self,
        budget: &mut Budget<'_>,
        repeatable: bool,
        send: impl Fn(&dyn RawClient) -> RawFuture<T>,
    ) -> Result<T> {
        let mut retries = RetryLoop::new(budget);
        loop {
            let attempt = self.next_attempt(&mut retries).await?;
            let error = match send(&*attempt.raw).await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.error(error),
            };
            if error.may_have_applied() && !repeatable {
                return Err(error);
            }
            retries.again(error, attempt.session.epoch).await?;
        }
    }
}

/// Defines the options that every call has, for a builder with a field `target`.
macro_rules! call_options {
    ($builder:ident $(<$parameter:ident>)?) => {
        impl$(<$parameter>)? $builder$(<$parameter>)? {
            /// Sets the retry policy of this call. Default: that of the handle.
            pub fn retry(mut self, policy: impl $crate::retry::RetryPolicy) -> Self {
                self.target.call.retry = Some(std::sync::Arc::new(policy));
                self
            }

            /// Sets the time that this call may take, with retries and pauses. Default: that of the
            /// handle.
            ///
            /// A request without a response at the deadline fails with `OperationTimeout`. If a
            /// call fails for another reason, and a retry would begin after the deadline, the call
            /// returns that error immediately.
            pub const fn deadline(mut self, deadline: std::time::Duration) -> Self {
                self.target.call.deadline = Some(deadline);
                self
            }
        }
    };
}
pub(crate) use call_options;

/// Defines the options of a read that say how old the response may be, for a builder with a field
/// `target`.
macro_rules! freshness_options {
    ($builder:ident $(<$parameter:ident>)?) => {
        impl$(<$parameter>)? $builder$(<$parameter>)? {
            /// Returns at least the present state of the leader, even if the server lags. Sends a
            /// [`sync`](CuratorFramework::sync) before the read, in the same round trip, and again
            /// with every retry. Default: without.
            ///
            /// A leader that was deposed a moment ago, and does not know it, still responds to a
            /// `sync` (ZOOKEEPER-2136). If a decision depends on the response, use
            /// [`linearizable`](Self::linearizable).
            pub const fn synced(mut self) -> Self {
                self.target.freshness = $crate::core::ReadFreshness::Synced;
                self
            }

            /// Returns the state that was committed before the call by any client, including
            /// requests of this session whose responses were lost. Sends a transaction of one check
            /// before the read, in the same round trip, and again with every retry. It changes
            /// nothing and has a response only with a quorum, so it costs the ensemble as much as a
            /// write. With a raw client that has no transactions, as [`synced`](Self::synced).
            /// Default: without.
            pub const fn linearizable(mut self) -> Self {
                self.target.freshness = $crate::core::ReadFreshness::Linearizable;
                self
            }
        }
    };
}
pub(crate) use freshness_options;

/// Defines the options of a read of data that control decompression, for a builder with the fields
/// `target` and `decompressed`.
macro_rules! decompression_options {
    ($builder:ident $(<$parameter:ident>)?) => {
        impl$(<$parameter>)? $builder$(<$parameter>)? {
            /// Decompresses the data. The read fails with `Undecodable` if that is impossible.
            /// Default: as the [framework](crate::CuratorFrameworkBuilder::enable_compression)
            /// does.
            pub const fn decompressed(mut self) -> Self {
                self.decompressed = Some(true);
                self
            }

            /// Returns the stored data, without decompression.
            pub const fn undecompressed(mut self) -> Self {
                self.decompressed = Some(false);
                self
            }
        }
    };
}
pub(crate) use decompression_options;
