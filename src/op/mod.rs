//! The builders of all operations, one file for each verb.
//!
//! A builder owns a handle of the framework and everything it needs, so its future is `Send +
//! 'static` and can be spawned. **Nothing is sent until it is awaited**, or
//! [started](OpFuture::start). Invalid arguments are errors of the `await` that name the operation
//! and the path.
//!
//! Every builder has the options `retry` and `deadline`. A handle can have both for all its
//! operations ([`with_retry`](CuratorFramework::with_retry),
//! [`with_deadline`](CuratorFramework::with_deadline)).
//!
//! Retries after a failure, within the retry policy and the deadline:
//!
//! * reads and `sync`: always, in the next session too, unless the handle is
//!   [bound to one](CuratorFramework::bound_to_session);
//! * a request that was certainly not applied: always;
//! * a write whose outcome is unknown: a protected create finds out; an `idempotent` write and a
//!   `guaranteed` or `quietly` delete is repeated; a write with a version is repeated, because it
//!   cannot be applied twice, and fails with the first error if the repetition is refused; a
//!   [certain](Transaction::certain) transaction finds out; any other write fails, with
//!   [`may_have_applied`](crate::Error::may_have_applied).
//!
//! # In the background
//!
//! There is no `inBackground`: the caller decides where a future runs.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use std::time::Duration;
//! use zk_curator::op::fan_out;
//!
//! // In the background. The result may be awaited later, or never.
//! let created = tokio::spawn(zk.create("/a").into_future());
//! created.await??;
//! // Two at the same time.
//! let (data, children) = tokio::try_join!(zk.get_data("/a").into_future(), zk.children("/").into_future())?;
//! // With a time limit. Dropping the future would work too, but without `may_have_applied`.
//! zk.set_data("/a", "x").deadline(Duration::from_secs(3)).await?;
//! // Many, but at most 64 at a time.
//! let writes = (0..200).map(|n| zk.create(format!("/n{n}")));
//! assert!(fan_out(64, writes).await.iter().all(Result::is_ok));
//! # zk.close().await?;
//! # Ok(()) }
//! ```
//!
//! The section "Cancel safety" of each builder says what a dropped future may leave behind. The
//! framework itself performs the cleanup after dropped guards, and guaranteed deletes. Their
//! failures are in [`background_errors`](CuratorFramework::background_errors).

mod acl;
mod attempt;
mod changes_since;
mod children;
mod children_with_data;
mod containers;
mod create;
mod delete;
mod ensemble;
mod exists;
mod fan_out;
mod get_data;
mod multi_read;
mod overviews;
mod parents;
pub(crate) mod protected;
mod set_data;
mod settings;
mod started;
mod sync;
mod transaction;
mod transaction_op;
mod tree;
mod watches;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tracing::Instrument;

pub use acl::{GetAclBuilder, SetAclBuilder};
pub(crate) use attempt::{AttemptClient, call_options, decompression_options, freshness_options};
pub use changes_since::ChangesSinceBuilder;
pub use children::ChildrenBuilder;
pub use children_with_data::{ChildData, ChildrenWithDataBuilder};
pub use containers::CreateContainersBuilder;
pub use create::CreateBuilder;
pub use delete::DeleteBuilder;
pub use ensemble::{ConfigBuilder, ReconfigBuilder};
pub use exists::ExistsBuilder;
pub use fan_out::{FanOut, fan_out};
pub use get_data::GetDataBuilder;
pub use multi_read::{ChildrenOfEachBuilder, MultiReadBuilder, ReadResult};
pub(crate) use multi_read::{found, read_many};
pub use overviews::{AllChildrenNumberBuilder, EphemeralsBuilder, WhoAmIBuilder};
pub use set_data::SetDataBuilder;
pub(crate) use settings::{compression_settings, node_settings};
pub use started::Started;
pub use sync::SyncBuilder;
pub use transaction::Transaction;
pub use transaction_op::{CheckOp, CreateOp, DeleteOp, SetDataOp, TransactionOp};
pub use tree::{TreeBuilder, TreeNode};
pub use watches::{AddWatchBuilder, RemoveWatchesBuilder};

pub use crate::core::Authorship;
use crate::core::metrics::MeasuredOperation;
use crate::core::{Call, Core, ReadFreshness, tell};
use crate::error::{Error, Result};
use crate::framework::CuratorFramework;
use crate::schema::Intent;

/// Markers in the type of a builder for the output of its future.
pub mod output {
    /// The plain value.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct Plain;
    /// The value and its stat.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct WithStat;
    /// The value, its stat and a watch.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct Watched;
    /// A guard that deletes the node.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct Owned;
    /// A guard that deletes the node, and the children of the parent.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct OwnedWithSiblings;
    /// A guard that deletes the node, and the data of another node.
    #[derive(Debug)]
    #[non_exhaustive]
    pub struct OwnedWithData;
}

/// The future of an operation. Nothing is sent before it is [started](Self::start) or first polled.
#[must_use = "futures do nothing unless polled"]
pub struct OpFuture<T>(Pin<Box<dyn Future<Output = Result<T>> + Send>>);

impl<T> OpFuture<T> {
    pub(crate) fn new(
        zk: &CuratorFramework,
        operation: &'static str,
        path: &str,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self
    where
        T: 'static,
    {
        Self(Box::pin(observed(Arc::clone(zk.core()), operation, path, future)))
    }

    /// Wraps an operation that consists of others, which are observed themselves.
    pub(crate) fn composed(future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }
}

/// Runs an operation in its span, measures it, and logs its failure.
pub(crate) fn observed<T, F: Future<Output = Result<T>>>(
    core: Arc<Core>,
    operation: &'static str,
    path: &str,
    future: F,
) -> impl Future<Output = Result<T>> + use<T, F> {
    let span = tracing::debug_span!("zookeeper", operation, path);
    let observed = async move {
        let measured = MeasuredOperation::new(&core.operations, operation);
        let result = future.await;
        measured.over(&result);
        if let Err(error) = &result {
            tell!(debug, core, core.status(), %error, "operation failed");
        }
        result
    };
    observed.instrument(span)
}

impl<T> Future for OpFuture<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<T> fmt::Debug for OpFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpFuture").finish_non_exhaustive()
    }
}

/// The parts of every builder: a handle, a path, and the type of its output.
pub(crate) struct OpTarget<R = output::Plain> {
    pub(crate) zk: CuratorFramework,
    pub(crate) operation: &'static str,
    pub(crate) path: String,
    pub(crate) call: Call,
    pub(crate) freshness: ReadFreshness,
    output: PhantomData<fn() -> R>,
}

impl<R> OpTarget<R> {
    pub(crate) fn new(zk: CuratorFramework, operation: &'static str, path: String) -> Self {
        let call = zk.call().clone();
        Self { zk, operation, path, call, freshness: ReadFreshness::AsIs, output: PhantomData }
    }

    /// Changes the type of the output.
    pub(crate) fn with_output<S>(self) -> OpTarget<S> {
        OpTarget {
            zk: self.zk,
            operation: self.operation,
            path: self.path,
            call: self.call,
            freshness: self.freshness,
            output: PhantomData,
        }
    }

    /// Returns the target of a read that sees all earlier commits.
    pub(crate) fn linearizable(&self) -> Self {
        let (zk, path, call) = (self.zk.clone(), self.path.clone(), self.call.clone());
        Self { zk, path, call, freshness: ReadFreshness::Linearizable, ..*self }
    }

    /// Returns the path on the server.
    pub(crate) fn server_path(&self) -> Result<String> {
        self.server_path_of(&self.path)
    }

    /// Returns the path of another node on the server.
    pub(crate) fn server_path_of(&self, path: &str) -> Result<String> {
        match zk_curator_client::path::validate(path) {
            Ok(()) => Ok(self.zk.ns().apply(path)),
            Err(why) => Err(Error::invalid_path(self.operation, path, why)),
        }
    }

    pub(crate) fn error(&self, error: zk_curator_client::Error) -> Error {
        self.zk.core().error(self.operation, &self.path, error)
    }

    /// Asks the schemas if the operation may be sent.
    pub(crate) fn admit(&self, intent: Intent<'_>) -> Result<()> {
        self.admit_at(&self.path, intent)
    }

    /// Asks the same for another node.
    pub(crate) fn admit_at(&self, path: &str, intent: Intent<'_>) -> Result<()> {
        self.zk.core().schemas().admit(self.operation, path, intent)
    }

    /// Returns the data to store. `wanted` is the compression that the operation asks for.
    pub(crate) fn compress(&self, wanted: Option<bool>, data: Bytes) -> Result<Bytes> {
        let wanted = self.zk.compresses(wanted);
        self.zk.core().compression().compress(self.operation, &self.path, wanted, data)
    }

    /// Returns the data as they were before they were stored.
    pub(crate) fn decompress(&self, wanted: Option<bool>, data: Bytes) -> Result<Bytes> {
        self.decompress_at(&self.path, wanted, data)
    }

    /// Returns the data of another node as they were before they were stored.
    pub(crate) fn decompress_at(
        &self,
        path: &str,
        wanted: Option<bool>,
        data: Bytes,
    ) -> Result<Bytes> {
        let wanted = self.zk.compresses(wanted);
        self.zk.core().compression().decompress(self.operation, path, wanted, data)
    }
}

impl<R> fmt::Debug for OpTarget<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.operation, self.path)
    }
}

/// Implements `IntoFuture` for a builder whose `run` does the work.
macro_rules! awaits {
    ($builder:ty => $output:ty, |$this:ident| $future:expr) => {
        impl std::future::IntoFuture for $builder {
            type Output = $crate::error::Result<$output>;
            type IntoFuture = $crate::op::OpFuture<$output>;

            fn into_future(self) -> Self::IntoFuture {
                let (zk, path) = (self.target.zk.clone(), self.target.path.clone());
                let (operation, $this) = (self.target.operation, self);
                $crate::op::OpFuture::new(&zk, operation, &path, async move { $future })
            }
        }
    };
}
pub(crate) use awaits;
