//! A value that clients share.
//!
//! # Layout
//! ```text
//! /limits/jobs                              persistent: the value, as its type encodes it
//!   └─ _r_1f0c52a0-…                        ephemeral: the receipt of a process that writes, see `zk_curator::certain`
//! ```
//! The layout of Apache Curator's `SharedValue`, and for a [`SharedCount`] of its `SharedCount`.
//! Java and Rust can use one value. Who deletes the node has to delete its children, too.
//!
//! # Protocol
//! 1. Create the node with the seed if there is none.
//! 2. Follow it with a [`CuratorCache`](crate::cache::CuratorCache).
//! 3. Write in one transaction with a receipt, at the version that was seen if there is one.
//!
//! # Guarantees
//! * A write is applied once or not at all; after a lost reply the response is still the right one
//!   (Curator's `trySetValue` returns `false` although it was applied).
//! * The latest value is always reported, even if the node was deleted and created again. A
//!   reconnect without a change reports no value.
//! * After [`set`](SharedValue::set) and [`try_set`](SharedValue::try_set),
//!   [`get`](SharedValue::get) of the same handle returns what was written, or something newer,
//!   while the value is [fresh](SharedValue::freshness). A write that was applied succeeds also
//!   when the value cannot be followed: the framework is closed, the cache is stopped, or the
//!   session ends right then.
//!
//! # Assumptions
//! A node that is deleted and created again begins with version 0.
//! [`try_set`](SharedValue::try_set) with a value of the old node may be applied to the new one if
//! their versions are equal and this client does not know of the new node yet.
//!
//! # Connection loss
//! SUSPENDED and LOST: the value in memory stays, and is [stale](SharedValue::freshness). It
//! catches up by itself.
//!
//! # Cancel safety
//! Every future may be dropped at any point; a write may then be applied.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::shared::SharedCount;
//!
//! let limit = SharedCount::open(&zk, "/limits/jobs", 8).await?;
//! let seen = limit.get()?.expect("it was created");
//! assert_eq!(seen.value, 8);
//! assert!(limit.try_set(&seen, 9).await?);
//! assert!(!limit.try_set(&seen, 10).await?);
//! assert_eq!(limit.get()?.expect("it was written").value, 9);
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod count;
mod value;

use zk_curator::value::Failure;

pub use count::{CountWatch, SharedCount};
pub use value::{SharedValue, ValueEvent, ValueWatch, Versioned};

/// Why an operation of a shared value has failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data of the node are not a value of the type.
    #[error("the {length} bytes of {path} are not a value of this type: {why}")]
    Undecodable {
        /// The path.
        path: String,
        /// The length of the data in bytes.
        length: usize,
        /// Why.
        why: Failure,
    },
    /// The value has no data. Nothing was written.
    #[error("the value for {path} cannot be encoded: {why}")]
    Unencodable {
        /// The path.
        path: String,
        /// Why.
        why: Failure,
    },
    /// The node cannot be read, or is being read.
    #[error("the value of {path} is not known")]
    Unreadable {
        /// The path.
        path: String,
    },
    /// The node exists, perhaps created by this call, but its value could not be read.
    #[error("the value of {path} could not be read: {why}")]
    Unfollowed {
        /// The path.
        path: String,
        /// Why.
        why: zk_curator::Error,
    },
    /// An operation of the framework has failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

impl Error {
    /// Returns `true` if the same call may succeed later. Check
    /// [`may_have_applied`](Self::may_have_applied) too: a write that was applied is applied twice
    /// then.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Framework(error) | Self::Unfollowed { why: error, .. } => error.is_transient(),
            Self::Unreadable { .. } => true,
            _ => false,
        }
    }

    /// Returns `true` if the value may have been written although the call failed.
    #[must_use]
    pub const fn may_have_applied(&self) -> bool {
        match self {
            Self::Framework(error) => error.may_have_applied(),
            Self::Unfollowed { .. } => true,
            _ => false,
        }
    }
}

impl zk_curator::Recoverable for Error {
    fn framework_error(&self) -> Option<&zk_curator::Error> {
        match self {
            Self::Framework(error) | Self::Unfollowed { why: error, .. } => Some(error),
            _ => None,
        }
    }
}
