//! Handles of the same framework with other settings.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::DEFAULT_MAX_FRAME;

use crate::error::{Error, ErrorKind, Result};
use crate::framework::{CuratorFramework, HandleOptions};
use crate::namespace::Namespace;
use crate::retry::{Budget, RetryPolicy, RetryScope};

/// Handles with settings of their own. They share the session, need no task, and can be combined.
impl CuratorFramework {
    /// Returns a handle with another namespace in place of its own. The empty string means none.
    ///
    /// # Errors
    /// `InvalidPath` if the name is not the relative form of a path (`a` or `a/b`).
    pub fn using_namespace(&self, namespace: impl Into<String>) -> Result<Self> {
        let namespace = Namespace::parse("using_namespace", &namespace.into())?;
        Ok(self.with(|options| options.namespace = namespace))
    }

    /// Returns a handle with a namespace below its own: `b` below `a` is `a/b`.
    ///
    /// # Errors
    /// `InvalidPath` if the name is not the relative form of a path (`a` or `a/b`).
    pub fn nested_namespace(&self, namespace: impl Into<String>) -> Result<Self> {
        const OP: &str = "nested_namespace";
        let inner = Namespace::parse(OP, &namespace.into())?;
        match (self.namespace(), inner.name()) {
            ("", _) => Ok(self.with(|options| options.namespace = inner)),
            (_, "") => Ok(self.clone()),
            (outer, inner) => {
                let namespace = Namespace::parse(OP, &format!("{outer}/{inner}"))?;
                Ok(self.with(|options| options.namespace = namespace))
            }
        }
    }

    /// Returns the namespace, without a leading slash; empty for none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.ns().name()
    }

    /// Returns the absolute path on the servers of a path of this handle: the chroot of the connect
    /// string, the [namespace](Self::namespace), and `path`. Sends nothing, and does not check
    /// `path`.
    ///
    /// The paths of two handles of one ensemble denote the same node if and only if these results
    /// are equal, whatever the chroots and namespaces are.
    ///
    /// ```
    /// # fn main() -> Result<(), zk_curator::Error> {
    /// let zk = zk_curator::CuratorFramework::builder().connect_string("zk1:2181/app").namespace("orders").build()?;
    /// assert_eq!(zk.server_path("/locks"), "/app/orders/locks");
    /// assert_eq!(zk.server_path("/"), "/app/orders");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn server_path(&self, path: &str) -> String {
        let below_chroot = self.ns().apply(path);
        match self.core().chroot() {
            None => below_chroot,
            Some(chroot) if below_chroot == "/" => chroot,
            Some(chroot) => chroot + &below_chroot,
        }
    }

    /// Returns the maximum size of a request in bytes, as
    /// [configured](crate::CuratorFrameworkBuilder::max_frame). Transactions that are composed of
    /// many nodes have to stay below it.
    #[must_use]
    pub fn max_frame(&self) -> usize {
        self.core().settings.session.max_frame.unwrap_or(DEFAULT_MAX_FRAME)
    }

    /// Returns a handle with another retry policy. It also applies in recipes that use this handle.
    #[must_use]
    pub fn with_retry(&self, policy: impl RetryPolicy) -> Self {
        self.with(|options| options.call.retry = Some(Arc::new(policy)))
    }

    /// Returns a handle with a deadline for every operation, with retries and pauses. It also
    /// applies in recipes that use this handle.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        self.with(|options| options.call.deadline = Some(deadline))
    }

    /// Returns a handle whose operations share the budget of a scope, with its policy. The policy
    /// of a single builder is used within the same budget.
    #[must_use]
    pub fn with_retry_scope(&self, scope: &RetryScope) -> Self {
        self.with(|options| {
            options.call.retry = None;
            options.call.scope = Some(scope.clone());
        })
    }

    /// Returns a handle whose operations store data unchanged, even if the framework
    /// [compresses](crate::CuratorFrameworkBuilder::enable_compression), unless an operation asks
    /// for compression.
    ///
    /// It is for the bytes of a protocol, which other clients compare: recipes use such a handle
    /// for their own data. [Fenced](crate::Ownership::fenced) transactions of a node that was
    /// created through it compress as the framework does, because they write the data of the
    /// holder.
    #[must_use]
    pub fn uncompressed(&self) -> Self {
        self.with(|options| options.uncompressed = true)
    }

    /// Returns a handle whose operations compress the data that they store, and decompress the data
    /// that they read, even if the framework does not, unless an operation asks for another way.
    /// Recipes that use such a handle compress the data of their users.
    #[must_use]
    pub fn compressed(&self) -> Self {
        self.with(|options| {
            options.compressed = true;
            options.uncompressed = false;
        })
    }

    /// Returns the data as a `compressed` create would store them, without an operation.
    ///
    /// # Errors
    /// `InvalidArgument` if they cannot be compressed, or there is no provider.
    pub fn compress(&self, path: impl Into<String>, data: impl Into<Bytes>) -> Result<Bytes> {
        self.core().compression().compress("compress", &path.into(), Some(true), data.into())
    }

    /// Returns the data as a `decompressed` read would return them, without an operation.
    ///
    /// # Errors
    /// `Undecodable` if they are not compressed data, `InvalidArgument` if there is no provider.
    pub fn decompress(&self, path: impl Into<String>, data: impl Into<Bytes>) -> Result<Bytes> {
        self.core().compression().decompress("decompress", &path.into(), Some(true), data.into())
    }

    /// Returns `true` if operations of this handle compress by default.
    #[doc(alias = "compressionEnabled")]
    #[must_use]
    pub fn is_compressing(&self) -> bool {
        self.compresses(None).unwrap_or_else(|| self.core().compression().enabled)
    }

    /// Returns a handle whose operations compress as the handle did before
    /// [`uncompressed`](Self::uncompressed).
    pub(crate) fn with_default_compression(&self) -> Self {
        if self.options.uncompressed {
            self.with(|options| options.uncompressed = false)
        } else {
            self.clone()
        }
    }

    /// Returns a handle whose operations are made only in the present session: after its end they
    /// fail with `SessionExpired`. A handle that is bound stays bound to its session. Corresponds
    /// to Curator's `SessionFailRetryLoop` in mode FAIL.
    ///
    /// # Errors
    /// `NotStarted` before the start, `Closed` after the close. `SessionExpired` if the handle is
    /// bound to a session that is over.
    pub fn bound_to_session(&self) -> Result<Self> {
        let session = self.core().session("bound_to_session", "")?;
        self.bound_to(session.epoch, "bound_to_session")
    }

    fn bound_to(&self, epoch: u64, operation: &'static str) -> Result<Self> {
        if self.call().session_epoch.is_some_and(|bound| bound != epoch) {
            return Err(Error::new(ErrorKind::SessionExpired, operation, ""));
        }
        Ok(self.with(|options| options.call.session_epoch = Some(epoch)))
    }

    /// Runs a body whose operations, through the given handle, are all made in one session. If the
    /// session ends in between, the body runs again in the next one, as the retry policy allows, so
    /// it must be repeatable. Through a [bound](Self::bound_to_session) handle, it runs in its
    /// session only. Corresponds to Curator's `SessionFailRetryLoop` in mode RETRY.
    ///
    /// ```
    /// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
    /// use zk_curator::CreateMode;
    ///
    /// zk.in_one_session(|zk| async move {
    ///     zk.create("/worker").mode(CreateMode::Ephemeral).idempotent().await?;
    ///     zk.set_data("/status", "up").await // never while the ephemeral node belongs to an earlier session
    /// })
    /// .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The error of the body. `SessionExpired` if the policy gives up.
    ///
    /// # Cancel safety
    /// As that of the body.
    pub async fn in_one_session<T, F>(&self, body: impl Fn(Self) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut budget = Budget::new(self.core(), self.call());
        loop {
            let session =
                self.core().opened_session("in_one_session", "", budget.time_left()).await?;
            let epoch = session.epoch;
            match body(self.bound_to(epoch, "in_one_session")?).await {
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
