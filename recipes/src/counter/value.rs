use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use tokio_util::sync::CancellationToken;
use zk_curator::CuratorFramework;
use zk_curator::value::{FromData, ToData};
use zk_curator::watch::DataWatch;

use super::error::Error;
use super::handle::Change;
use super::site::{
    CounterNode, CounterSite, SiteOptions, WriteConflicts, WriteFailure, site_settings,
};
use crate::observe::COUNTER_UNKNOWN;

/// A value in a node that many processes change (`DistributedAtomicValue`): bytes, text, or a type
/// of its users. Cheap to clone.
///
/// Its layout, protocol, guarantees and assumptions are those of a [counter](super), except that
/// operations of one process do not share writes. A node without data is a value, if the type can
/// be read of no bytes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::counter::DistributedAtomicValue;
///
/// let owner = DistributedAtomicValue::<String>::new(&zk, "/shards/7");
/// assert!(owner.initialize(&"a".to_owned()).await?);
/// assert!(owner.compare_and_set(&"a".to_owned(), &"b".to_owned()).await?.is_ok());
/// let change = owner.modify(|owner| owner.map(|owner| owner + "!")).await?;
/// assert_eq!(change.post.as_deref(), Some("b!"));
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub struct DistributedAtomicValue<T> {
    site: Arc<CounterSite>,
    value: PhantomData<fn(T) -> T>,
}

/// Builds a [`DistributedAtomicValue`].
#[must_use = "nothing is done until it is built"]
pub struct AtomicValueBuilder<T> {
    site: SiteOptions,
    value: PhantomData<fn(T) -> T>,
}

impl<T> AtomicValueBuilder<T> {
    site_settings!();

    /// Builds the value. Nothing is sent; a path that is not valid is refused by the first
    /// operation.
    pub fn build(self) -> DistributedAtomicValue<T> {
        let Self { site, value } = self;
        DistributedAtomicValue { site: Arc::new(site.build()), value }
    }
}

impl<T> fmt::Debug for AtomicValueBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicValueBuilder").field("site", &self.site).finish_non_exhaustive()
    }
}

impl<T: ToData + FromData> DistributedAtomicValue<T> {
    /// A value with Curator's defaults. Nothing is sent; a path that is not valid is refused by the
    /// first operation.
    #[must_use = "nothing is sent until it is used"]
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self::builder(zk, path).build()
    }

    /// Builds a value.
    pub fn builder(zk: &CuratorFramework, path: impl Into<String>) -> AtomicValueBuilder<T> {
        AtomicValueBuilder { site: SiteOptions::new(zk, path.into()), value: PhantomData }
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.site.path
    }

    /// Returns the value, `None` without a node: every operation that has returned before, to any
    /// client, is in it.
    ///
    /// # Errors
    /// [`Error::Undecodable`], [`Error::Framework`] as a read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn get(&self) -> Result<Option<T>, Error> {
        self.decode(&self.site.look().await?)
    }

    /// Replaces the value, whatever it is; returns the value before and after. Earlier data that
    /// are not a value of the type are returned as `None`.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    ///
    /// # Cancel safety
    /// Once polled, the value may be replaced.
    #[doc(alias = "forceSet")]
    #[doc(alias = "trySet")]
    pub async fn set(&self, value: &T) -> Result<Change<Option<T>>, Error> {
        let data = self.encode(value)?;
        self.replace(|_| Ok(Some(data.clone()))).await
    }

    /// Replaces the value if its bytes equal those of the expected value, as in Curator. Without a
    /// node it is not.
    ///
    /// **The inner result** is the change, or the value that differs from the expected one.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    ///
    /// # Cancel safety
    /// Once polled, the value may be replaced.
    pub async fn compare_and_set(
        &self,
        expected: &T,
        new: &T,
    ) -> Result<Result<Change<Option<T>>, Option<T>>, Error> {
        let (expected, new) = (self.encode(expected)?, self.encode(new)?);
        let mut is_expected = false;
        let change = self.replace(|data| {
            is_expected = data == Some(&expected);
            Ok(is_expected.then(|| new.clone()))
        });
        let change = change.await?;
        Ok(if is_expected { Ok(change) } else { Err(change.pre) })
    }

    /// Creates the node with this value. Returns `false` if it exists already.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    ///
    /// # Cancel safety
    /// Once polled, the node may be created.
    pub async fn initialize(&self, value: &T) -> Result<bool, Error> {
        let data = self.encode(value)?;
        let mut is_new = false;
        let replaced = self.replace(|present| {
            is_new = present.is_none();
            Ok(is_new.then(|| data.clone()))
        });
        replaced.await?;
        Ok(is_new)
    }

    /// Replaces the value by one that is made of it; `None` leaves it unchanged. The function may
    /// be called several times, with newer values each time. Returns the value before and after, of
    /// the call whose result was applied.
    ///
    /// # Errors
    /// * [`Error::Unknown`] only if the session ended before the outcome could be determined, or
    ///   another client has deleted the receipt.
    /// * [`Error::Contended`], [`Error::LockTimeout`], [`Error::Undecodable`],
    ///   [`Error::Unencodable`], [`Error::ReceiptDenied`].
    /// * [`Error::Framework`]: not applied.
    ///
    /// # Cancel safety
    /// Once polled, the value may be replaced.
    pub async fn modify(
        &self,
        mut function: impl FnMut(Option<T>) -> Option<T>,
    ) -> Result<Change<Option<T>>, Error> {
        self.replace(|data| {
            let value = data.map(|data| self.decode_data(data)).transpose()?;
            function(value).map(|value| self.encode(&value)).transpose()
        })
        .await
    }

    /// Follows the value: the present one first, then each newer one that differs. `None` without a
    /// node.
    pub fn follow(&self) -> AtomicValueWatch<T> {
        AtomicValueWatch { watch: self.site.zk.watch_data(self.path()), value: self.clone() }
    }

    /// Replaces the data by the result of `change`, if there is one.
    async fn replace(
        &self,
        mut function: impl FnMut(Option<&Bytes>) -> Result<Option<Bytes>, Error>,
    ) -> Result<Change<Option<T>>, Error> {
        let mut conflicts = WriteConflicts::new();
        let mut node = self.site.read(false).await?;
        loop {
            let replaced = match function(node.data()) {
                Ok(Some(data)) => Ok(data),
                Ok(None) => Err(None),
                Err(error) => Err(Some(error)),
            };
            let data = match replaced {
                Ok(data) => data,
                Err(refused) => {
                    // Nothing proves the value but a read.
                    let now = self.site.read(true).await?;
                    if node.is_still(&now) {
                        return match refused {
                            None => {
                                Ok(Change { pre: self.decode(&now)?, post: self.decode(&now)? })
                            }
                            Some(error) => Err(error),
                        };
                    }
                    node = now;
                    continue;
                }
            };
            // Before the write: nothing may fail after it. Data that are no value can be replaced.
            let pre = self.decode(&node).unwrap_or_default();
            let change = Change { pre, post: Some(self.decode_data(&data)?) };
            let never = CancellationToken::new();
            let written =
                self.site.write(node.clone(), data, Vec::new(), conflicts.guard(), never).await;
            let is_lock_lost = match written {
                Ok(_) => return Ok(change),
                Err(WriteFailure::Unknown(why)) => {
                    COUNTER_UNKNOWN.of(&self.site.zk, []).add(1);
                    return Err(Error::Unknown { path: self.path().to_owned(), why });
                }
                Err(WriteFailure::Other(error)) => return Err(error),
                Err(WriteFailure::LockLost) => true,
                Err(
                    WriteFailure::Conflict | WriteFailure::Companion(..) | WriteFailure::Withdrawn,
                ) => false,
            };
            conflicts.met(&self.site, is_lock_lost).await?;
            node = self.site.read(false).await?;
        }
    }

    fn encode(&self, value: &T) -> Result<Bytes, Error> {
        value.to_data().map_err(|why| Error::Unencodable { path: self.path().to_owned(), why })
    }

    fn decode(&self, node: &CounterNode) -> Result<Option<T>, Error> {
        node.data().map(|data| self.decode_data(data)).transpose()
    }

    fn decode_data(&self, data: &Bytes) -> Result<T, Error> {
        T::from_data(data).map_err(|_| Error::undecodable(self.path(), data))
    }
}

impl<T> Clone for DistributedAtomicValue<T> {
    fn clone(&self) -> Self {
        Self { site: Arc::clone(&self.site), value: PhantomData }
    }
}

impl<T> fmt::Debug for DistributedAtomicValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedAtomicValue")
            .field("path", &self.site.path)
            .finish_non_exhaustive()
    }
}

/// Follows a [`DistributedAtomicValue`]. It costs no task: nothing is read unless
/// [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless it is asked for the next value"]
pub struct AtomicValueWatch<T> {
    watch: DataWatch,
    value: DistributedAtomicValue<T>,
}

impl<T: ToData + FromData> AtomicValueWatch<T> {
    /// Waits for the next value, forever and across sessions; `None` without a node.
    ///
    /// # Errors
    /// [`Error::Undecodable`]; [`Error::Framework`] for permanent errors.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        self.watch.next().await?.map(|(data, _)| self.value.decode_data(&data)).transpose()
    }

    /// The values as a stream. After an error, the next value is waited for.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<T>, Error>> + Send + 'static
    where
        T: 'static,
    {
        unfold(self, async |mut watch| Some((watch.next().await, watch)))
    }
}

impl<T> fmt::Debug for AtomicValueWatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtomicValueWatch").field(&self.value).finish()
    }
}
