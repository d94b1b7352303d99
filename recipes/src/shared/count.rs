use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::CuratorFramework;
use zk_curator::value::{Failure, FromData, ToData};

use super::{Error, SharedValue};

/// A number of 32 bits in four bytes, big-endian: the data of Curator's `SharedCount`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "made and taken apart by its users")]
pub struct Count(pub i32);

impl ToData for Count {
    fn to_data(&self) -> Result<Bytes, Failure> {
        Ok(Bytes::copy_from_slice(&self.0.to_be_bytes()))
    }
}

impl FromData for Count {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        data.as_ref()
            .try_into()
            .map(|bytes| Self(i32::from_be_bytes(bytes)))
            .map_err(|error| Arc::new(error) as Failure)
    }
}

/// A number that everybody sees (`SharedCount`): a [`SharedValue`] of a [`Count`], which it dereferences to. As the limit of a
/// semaphore, see [`InterProcessSemaphore`](crate::lock::InterProcessSemaphore).
#[derive(Clone)]
pub struct SharedCount(SharedValue<Count>);

impl SharedCount {
    /// Creates the node with a number if there is none, and follows it: as [`SharedValue::start`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// Once polled, the node may be created.
    pub async fn start(zk: &CuratorFramework, path: impl Into<String>, seed: i32) -> Result<Self, Error> {
        SharedValue::start(zk, path, &Count(seed)).await.map(Self)
    }
}

impl Deref for SharedCount {
    type Target = SharedValue<Count>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedCount").field(&self.0).finish()
    }
}
