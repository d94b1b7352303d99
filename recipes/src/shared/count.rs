use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::CuratorFramework;
use zk_curator::value::{Failure, FromData, ToData};

use super::{Error, SharedValue, ValueEvent, ValueWatch, Versioned};
use crate::cache::{CuratorCache, Freshness};

/// Four bytes, big-endian: the data of Curator's `SharedCount`.
#[derive(Debug, Clone, Copy)]
struct Bits(i32);

impl ToData for Bits {
    fn to_data(&self) -> Result<Bytes, Failure> {
        Ok(Bytes::copy_from_slice(&self.0.to_be_bytes()))
    }
}

impl FromData for Bits {
    fn from_data(data: &Bytes) -> Result<Self, Failure> {
        data.as_ref()
            .try_into()
            .map(|bytes| Self(i32::from_be_bytes(bytes)))
            .map_err(|error| Arc::new(error) as Failure)
    }
}

/// A shared number of 32 bits (`SharedCount`), in four bytes, big-endian, based on a
/// [`SharedValue`]. As the limit of a semaphore, see
/// [`InterProcessSemaphore`](crate::lock::InterProcessSemaphore).
#[doc(alias = "SharedCountReader")]
#[derive(Clone)]
pub struct SharedCount(SharedValue<Bits>);

impl SharedCount {
    /// Creates the node with a number if there is none, and follows it: as [`SharedValue::open`].
    ///
    /// # Errors
    /// As [`SharedValue::open`].
    ///
    /// # Cancel safety
    /// Once polled, the node may be created.
    pub async fn open(
        zk: &CuratorFramework,
        path: impl Into<String>,
        seed: i32,
    ) -> Result<Self, Error> {
        SharedValue::open(zk, path, &Bits(seed)).await.map(Self)
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Returns how fresh the number in memory is.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.0.freshness()
    }

    /// The cache that the number is in: as [`SharedValue::cache`].
    pub const fn cache(&self) -> &CuratorCache {
        self.0.cache()
    }

    /// Returns the number, from memory; `None` if there is no node.
    ///
    /// # Errors
    /// As [`SharedValue::get`].
    pub fn get(&self) -> Result<Option<Versioned<i32>>, Error> {
        Ok(self.0.get()?.map(number))
    }

    /// Replaces the number, whatever it is: as [`SharedValue::set`].
    ///
    /// # Errors
    /// As [`SharedValue::set`].
    ///
    /// # Cancel safety
    /// Once polled, the number may be replaced.
    #[doc(alias = "setCount")]
    pub async fn set(&self, count: i32) -> Result<(), Error> {
        self.0.set(&Bits(count)).await
    }

    /// Replaces the number if it is the expected one: as [`SharedValue::try_set`].
    ///
    /// # Errors
    /// As [`SharedValue::set`].
    ///
    /// # Cancel safety
    /// Once polled, the number may be replaced.
    #[doc(alias = "trySetCount")]
    pub async fn try_set(&self, seen: &Versioned<i32>, count: i32) -> Result<bool, Error> {
        self.0.try_set(&seen.clone().map(Bits), &Bits(count)).await
    }

    /// Follows the number: the present one first, then each newer one that differs.
    pub fn follow(&self) -> CountWatch {
        CountWatch(self.0.follow())
    }
}

fn number(versioned: Versioned<Bits>) -> Versioned<i32> {
    versioned.map(|Bits(number)| number)
}

impl fmt::Debug for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedCount").field(&self.0).finish()
    }
}

/// Follows a [`SharedCount`]: as a [`ValueWatch`].
///
/// # Cancel safety
/// Nothing is lost.
#[derive(Debug)]
pub struct CountWatch(ValueWatch<Bits>);

impl CountWatch {
    /// Waits for the next event; `None` when the number is no longer followed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ValueEvent<i32>> {
        Some(match self.0.next().await? {
            ValueEvent::Value(value) => ValueEvent::Value(number(value)),
            ValueEvent::Absent => ValueEvent::Absent,
            ValueEvent::Undecodable(error) => ValueEvent::Undecodable(error),
            ValueEvent::Unreadable(error) => ValueEvent::Unreadable(error),
            ValueEvent::Stale => ValueEvent::Stale,
            ValueEvent::Fresh => ValueEvent::Fresh,
        })
    }
}
