//! Handles of the same framework that treat operations in another way.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{ErrorKind, Result};
use crate::framework::{CuratorFramework, HandleOptions};
use crate::namespace::Namespace;
use crate::retry::{Budget, RetryPolicy, RetryScope};

/// Handles with settings of their own. They share the session, cost no task, and combine.
impl CuratorFramework {
    /// Returns a handle with another namespace in place of its own; the empty string for none.
    ///
    /// # Errors
    /// `InvalidPath` when the name is not the relative form of a path (`a` or `a/b`).
    pub fn using_namespace(&self, namespace: &str) -> Result<Self> {
        let namespace = Namespace::parse("using_namespace", namespace)?;
        Ok(self.with(|options| options.namespace = namespace))
    }

    /// Returns a handle with a namespace below its own: `b` below `a` is `a/b`.
    ///
    /// # Errors
    /// `InvalidPath` when the name is not the relative form of a path (`a` or `a/b`).
    pub fn nested_namespace(&self, namespace: &str) -> Result<Self> {
        const OP: &str = "nested_namespace";
        let inner = Namespace::parse(OP, namespace)?;
        match (self.namespace(), inner.name()) {
            ("", _) => Ok(self.with(|options| options.namespace = inner)),
            (_, "") => Ok(self.clone()),
            (outer, inner) => {
                let namespace = Namespace::parse(OP, &format!("{outer}/{inner}"))?;
                Ok(self.with(|options| options.namespace = namespace))
            }
        }
    }

    /// The namespace, without a leading slash; empty for none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.ns().name()
    }

    /// Returns a handle with another retry policy, also in recipes that are given this handle.
    #[must_use]
    pub fn with_retry(&self, policy: impl RetryPolicy) -> Self {
        self.with(|options| options.call.retry = Some(Arc::new(policy)))
    }

    /// Returns a handle with a deadline for every operation, retries and pauses included, also in recipes that are
    /// given this handle.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        self.with(|options| options.call.deadline = Some(deadline))
    }

    /// Returns a handle whose operations share the budget of a scope, with its policy; a builder's own
    /// policy is asked within the same budget.
    #[must_use]
    pub fn with_retry_scope(&self, scope: &RetryScope) -> Self {
        self.with(|options| {
            options.call.retry = None;
            options.call.scope = Some(scope.clone());
        })
    }

    /// Returns a handle whose operations leave data as they are, also where the framework
    /// [compresses](crate::CuratorFrameworkBuilder::enable_compression), unless an operation asks for compression.
    ///
    /// For the bytes of a protocol, which others compare: recipes write and read their own through such a handle.
    /// [Fenced](crate::Ownership::fenced) transactions of a node that was created through it compress as the framework
    /// does, because they write the data of the holder.
    #[must_use]
    pub fn uncompressed(&self) -> Self {
        self.with(|options| options.uncompressed = true)
    }

    /// The data as a `compressed` create would store them, without an operation.
    ///
    /// # Errors
    /// `InvalidArgument` when they cannot be compressed, or there is no provider.
    pub fn compress(&self, path: &str, data: impl Into<Bytes>) -> Result<Bytes> {
        self.core().compression().compress("compress", path, Some(true), data.into())
    }

    /// The data as a `decompressed` read would return them, without an operation.
    ///
    /// # Errors
    /// `Undecodable` when they are not compressed data, `InvalidArgument` when there is no provider.
    pub fn decompress(&self, path: &str, data: impl Into<Bytes>) -> Result<Bytes> {
        self.core().compression().decompress("decompress", path, Some(true), data.into())
    }

    /// Whether operations of this handle compress unless they say otherwise.
    #[doc(alias = "compressionEnabled")]
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        self.compresses(None).unwrap_or_else(|| self.core().compression().enabled)
    }

    /// Returns a handle whose operations compress as the framework does.
    pub(crate) fn with_default_compression(&self) -> Self {
        if self.options.uncompressed {
            self.with(|options| options.uncompressed = false)
        } else {
            self.clone()
        }
    }

    /// Returns a handle whose operations are made in the present session or not at all: they fail with
    /// `SessionExpired` when it is over. Curator's `SessionFailRetryLoop` in mode FAIL.
    ///
    /// # Errors
    /// `NotStarted` before the start, `Closed` after the close.
    pub fn bound_to_session(&self) -> Result<Self> {
        let session = self.core().session("bound_to_session", "")?;
        Ok(self.with(|options| options.call.session_epoch = Some(session.epoch)))
    }

    /// Runs a body whose operations, through the handle that it is given, are made in one session. When that ends
    /// meanwhile, it is run again in the next one, as the retry policy allows; it must be fit for that. Curator's
    /// `SessionFailRetryLoop` in mode RETRY.
    ///
    /// ```
    /// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
    /// use zk_curator::CreateMode;
    ///
    /// zk.in_one_session(|zk| async move {
    ///     zk.create("/worker").mode(CreateMode::Ephemeral).idempotent().await?;
    ///     zk.set_data("/status", "up").await // never while the ephemeral node is of an earlier session
    /// })
    /// .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of the body; `SessionExpired` when the policy gives up.
    ///
    /// # Cancel safety
    /// That of the body.
    pub async fn in_one_session<T, F>(&self, body: impl Fn(Self) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut budget = Budget::new(self.core(), self.call());
        loop {
            let session = self.core().opened_session("in_one_session", "", budget.time_left()).await?;
            let epoch = session.epoch;
            let bound = self.with(|options| options.call.session_epoch = Some(epoch));
            match body(bound).await {
                Err(error) if error.kind() == ErrorKind::SessionExpired => {
                    budget.spend(error, epoch).await?;
                }
                result => return result,
            }
        }
    }

    fn with(&self, change: impl FnOnce(&mut HandleOptions)) -> Self {
        let mut options = HandleOptions::clone(&self.options);
        change(&mut options);
        Self { handle: Arc::clone(&self.handle), options: Arc::new(options) }
    }
}
