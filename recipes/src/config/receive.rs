//! A configuration as a value of the service.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;
use zk_curator::internal::{OnDrop, Setbacks, Signal, unless_it_panics};
use zk_curator::value::Failure;
use zk_curator::{CuratorFramework, ErrorKind};

use super::{ConfigStore, ConfigWatch, Error, Snapshot};

const OP: &str = "follow_as";

/// The present configuration as a value of the service: see [`ConfigStore::follow_as`]. Cheap to
/// clone; every clone sees all changes.
#[must_use = "dropping the last clone stops following the configuration"]
pub struct ConfigValue<T> {
    shared: Arc<Signal<PresentConfig<T>>>,
    /// The number of the last returned change.
    told: u64,
    _stop: Arc<DropGuard>,
}

struct PresentConfig<T> {
    value: Arc<T>,
    changes: u64,
    has_ended: bool,
}

impl ConfigStore {
    /// Follows all values as one value of the service: `T` defines in its `TryFrom<Snapshot>` how
    /// it is read from a snapshot, and what happens if a value is missing. Use it for many readers
    /// that need the current value immediately.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// use zk_curator_recipes::config::{ConfigStore, Error, Snapshot};
    ///
    /// struct Limits {
    ///     requests: u32,
    /// }
    ///
    /// impl TryFrom<Snapshot> for Limits {
    ///     type Error = Error;
    ///
    ///     fn try_from(now: Snapshot) -> Result<Self, Error> {
    ///         Ok(Self { requests: now.get("requests")?.unwrap_or(100) })
    ///     }
    /// }
    ///
    /// let store = ConfigStore::new(&zk, "/config/limits");
    /// let mut limits = store.follow_as::<Limits>().await?;
    /// assert_eq!(limits.get().requests, 100);
    ///
    /// store.update().set("requests", 200).commit().await?;
    /// let now = limits.changed().await.expect("the framework is open");
    /// assert_eq!((now.requests, limits.get().requests), (200, 200));
    /// # zk.close().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// A background task reads what [`follow`](Self::follow) does, and ends with the last clone of
    /// the value, or when the framework is closed. It keeps the framework open until then. A
    /// snapshot that cannot be converted to `T`, or whose conversion panics, changes nothing: the
    /// last good value stays, and
    /// [`background_errors`](CuratorFramework::background_errors) reports `Undecodable`. It also
    /// reports every other failure, each of them once until a snapshot is converted. A read that is
    /// refused, for example with `NoAuth`, is repeated after pauses that grow from half a second to
    /// 30 seconds.
    ///
    /// # Errors
    /// For the first snapshot: those of [`ConfigWatch::next`], and [`Error::Undecodable`] if it
    /// cannot be converted to `T`.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Cancel safety
    /// Dropped, it follows nothing.
    pub async fn follow_as<T>(&self) -> Result<ConfigValue<T>, Error>
    where
        T: TryFrom<Snapshot> + Send + Sync + 'static,
        T::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.follow().receive().await
    }
}

impl ConfigWatch {
    /// [`ConfigStore::follow_as`] for what this watch follows.
    ///
    /// # Errors
    /// As [`ConfigStore::follow_as`].
    ///
    /// # Panics
    /// As [`ConfigStore::follow_as`].
    ///
    /// # Cancel safety
    /// Dropped, it follows nothing.
    pub async fn receive<T>(mut self) -> Result<ConfigValue<T>, Error>
    where
        T: TryFrom<Snapshot> + Send + Sync + 'static,
        T::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let first = decode(self.next().await?)?;
        let present = PresentConfig { value: Arc::new(first), changes: 0, has_ended: false };
        let shared = Arc::new(Signal::new(present));
        let stop = CancellationToken::new();
        let zk = self.framework().clone();
        let ending = Arc::clone(&shared);
        // Dropped with the task.
        let end = OnDrop::new(move || ending.modify(|present| present.has_ended = true));
        let task = keep_up(zk.clone(), self, Arc::clone(&shared), end, stop.clone());
        zk.spawn(task);
        Ok(ConfigValue { shared, told: 0, _stop: Arc::new(stop.drop_guard()) })
    }
}

impl<T> ConfigValue<T> {
    /// Returns the present value.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        self.shared.look(|present| Arc::clone(&present.value))
    }

    /// Waits until the value differs from the last one that this clone has returned, or had when it
    /// was created. `None` when the framework is closed, or when the task has ended because the
    /// drop of a value has panicked or its runtime has ended, which
    /// [`background_errors`](CuratorFramework::background_errors) reports. Values that were
    /// replaced between two calls are skipped; the latest never is.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn changed(&mut self) -> Option<Arc<T>> {
        let told = self.told;
        let news = self.shared.find(|present| {
            if present.changes != told {
                return Some(Some((present.changes, Arc::clone(&present.value))));
            }
            present.has_ended.then_some(None)
        });
        let (changes, value) = news.await?;
        self.told = changes;
        Some(value)
    }

    /// The changes as a stream, which ends when the framework is closed.
    pub fn into_stream(self) -> impl Stream<Item = Arc<T>> + Send + 'static
    where
        T: Send + Sync + 'static,
    {
        unfold(self, async |mut value| value.changed().await.map(|now| (now, value)))
    }
}

impl<T> Clone for ConfigValue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), told: self.told, _stop: Arc::clone(&self._stop) }
    }
}

impl<T: fmt::Debug> fmt::Debug for ConfigValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigValue").field(&self.get()).finish()
    }
}

/// Publishes every snapshot, until the framework is closed. A refused read is reported once for
/// each reason, and another failure if it differs from the last one.
async fn keep_up<T>(
    zk: CuratorFramework,
    mut watch: ConfigWatch,
    to: Arc<Signal<PresentConfig<T>>>,
    _end: OnDrop<impl FnOnce()>,
    stop: CancellationToken,
) where
    T: TryFrom<Snapshot>,
    T::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let (mut told, mut setbacks) = (None, Setbacks::default());
    loop {
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = watch.next() => next,
        };
        let error = match next.and_then(decode) {
            Ok(value) => {
                (told, setbacks) = (None, Setbacks::default());
                let value = Arc::new(value);
                // The old value is dropped outside: its type is the service's.
                drop(to.modify(|present| {
                    present.changes += 1;
                    std::mem::replace(&mut present.value, value)
                }));
                continue;
            }
            Err(Error::Framework(error)) if error.kind() == ErrorKind::Closed => return,
            Err(Error::Framework(error)) => {
                if setbacks.report(&zk, &error) {
                    warn!(path = watch.path(), %error, "the configuration stays as it was");
                }
                // Cut short by the end of the task, which the next round sees.
                drop(timeout(setbacks.pause(&zk), stop.cancelled()).await);
                continue;
            }
            Err(error) => error,
        };
        // The next call waits for another snapshot, or reads again after a pause.
        let text = Some(error.to_string());
        if told != text {
            warn!(path = watch.path(), %error, "the configuration stays as it was");
            told = text;
            zk.report_background_error(match error {
                Error::Undecodable { path, source } => {
                    zk_curator::Error::undecodable(OP, path, source)
                }
                error => zk_curator::Error::undecodable(OP, watch.path(), Arc::new(error)),
            });
        }
    }
}

fn decode<T>(now: Snapshot) -> Result<T, Error>
where
    T: TryFrom<Snapshot>,
    T::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let path = now.path.clone();
    // A follower must not end with one snapshot.
    let Some(decoded) = unless_it_panics(|| T::try_from(now)) else {
        let why: Box<dyn StdError + Send + Sync> = "its `TryFrom` panicked".into();
        return Err(Error::Undecodable { path, source: Failure::from(why) });
    };
    decoded.map_err(|why| match why.into().downcast::<Error>() {
        // It names the key.
        Ok(error) if matches!(*error, Error::Undecodable { .. }) => *error,
        Ok(error) => {
            Error::Undecodable { path, source: Arc::from(error as Box<dyn StdError + Send + Sync>) }
        }
        Err(other) => Error::Undecodable { path, source: Failure::from(other) },
    })
}
