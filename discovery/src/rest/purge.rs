//! Removes static instances that are no longer renewed.

use std::time::Duration;

use tokio::time::timeout;
use tracing::{debug, info};
use zk_curator::internal::Setbacks;
use zk_curator::{CreateMode, Error, ErrorKind, OpResult, Stat};

use crate::config::child;
use crate::discovery::ServiceDiscovery;
use crate::inspect::{InstanceInspection, is_of_one_node};
use crate::instance::ServiceType;

/// Removes static instances whose nodes have not been written for some time
/// (`org.apache.curator.x.discovery.server.rest.InstanceCleanup`).
///
/// # Protocol
/// 1. Read the instances of all services. Without static ones, stop.
/// 2. Get the time of the servers from a transaction that creates, writes and deletes a node below
///    the base. No reader ever sees this node.
/// 3. Delete each static instance whose last write was more than `refresh` before that time, if it
///    still has the version that was read.
///
/// # Guarantees
/// * Only the clock of the servers decides. Curator compares the clocks of two other machines.
/// * Instances of all processes are removed. Curator removes only those of its own process.
/// * An instance that is renewed after it was read stays. Several purges may run at the same time.
/// * A node that cannot be deleted, or a service that cannot be listed, does not keep the other
///   instances.
///
/// # Assumptions
/// * Owners renew their instances with [`touch`](crate::Registration::touch), an update, or
///   another `PUT`, more often than `refresh`.
/// * The clocks of the servers differ by much less than `refresh`. Each leader uses its own clock.
/// * Services are children of the base path. Those that [`paths`] puts elsewhere are not purged.
/// * The session has the permissions `CREATE` and `DELETE` on the base, and `DELETE` on the
///   services.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), zk_curator::Error> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// # let discovery = zk_curator_discovery::ServiceDiscovery::<()>::new(&zk, "/services");
/// use std::time::Duration;
/// use zk_curator_discovery::rest::Purge;
///
/// let purge = Purge::new(&discovery, Duration::from_secs(60));
/// let task = tokio::spawn(async move { purge.run().await });
/// # zk.close().await?;
/// assert_eq!(task.await.unwrap().kind(), zk_curator::ErrorKind::Closed);
/// # Ok(()) }
/// ```
///
/// [`paths`]: ServiceDiscovery::paths
#[doc(alias = "InstanceCleanup")]
#[derive(Debug)]
#[must_use = "nothing is removed until it runs"]
pub struct Purge<P> {
    discovery: ServiceDiscovery<P>,
    refresh: Duration,
    every: Duration,
}

impl<P> Purge<P> {
    /// Removes static instances whose last write was more than `refresh` ago.
    pub fn new(discovery: &ServiceDiscovery<P>, refresh: Duration) -> Self {
        Self { discovery: discovery.clone(), refresh, every: refresh / 2 }
    }

    /// The pause between two rounds of [`run`](Self::run). Less than a second counts as a second.
    /// Default: half of `refresh`, so an instance is removed at most 1.5 × `refresh` after it was
    /// last renewed.
    pub const fn every(mut self, pause: Duration) -> Self {
        self.every = pause;
        self
    }

    /// Removes old instances until the framework is closed, and then returns the error `Closed`,
    /// without waiting for the next round. After other errors it continues with the next round.
    /// Permanent errors, such as `NoAuth`, are reported as
    /// [background errors](zk_curator::CuratorFramework::background_errors), once for each reason
    /// until a round succeeds.
    ///
    /// # Cancel safety
    /// If the future is dropped, no further instance is removed.
    pub async fn run(&self) -> Error {
        let mut setbacks = Setbacks::default();
        loop {
            match self.once().await {
                Ok(_) => setbacks.over(),
                Err(error) if error.kind() == ErrorKind::Closed => return error,
                Err(error) => {
                    debug!(%error, "static instances were not purged");
                    if !error.is_transient() && error.kind() != ErrorKind::SessionExpired {
                        setbacks.report(&self.discovery.zk, &error);
                    }
                }
            }
            let mut states = self.discovery.zk.states();
            let closed = states.until(|_| false);
            if timeout(self.every.max(Duration::from_secs(1)), closed).await.is_ok() {
                return Error::closed("purge", "");
            }
        }
    }

    /// Removes old instances once. Returns their paths.
    ///
    /// # Errors
    /// Those of reads and deletes. Deleted instances stay deleted. An error that concerns only one
    /// node or service, such as `NoAuth` or `NotEmpty`, is returned after the others were purged;
    /// if there are several, the first one.
    ///
    /// # Cancel safety
    /// If the future is dropped, no further instance is removed.
    pub async fn once(&self) -> Result<Vec<String>, Error> {
        let (mut found, mut removed, mut failure) = (Vec::new(), Vec::new(), None);
        for (service, error) in self.discovery.inspect_each().await? {
            found.extend(service.instances);
            failure = failure.or(error);
        }
        found.retain(|found| found.instance.service_type == ServiceType::Static);
        if found.is_empty() {
            return failure.map_or(Ok(removed), Err);
        }
        let now = self.server_time().await?;
        for InstanceInspection { path, stat, .. } in found {
            let age =
                Duration::from_millis(u64::try_from(now.saturating_sub(stat.mtime)).unwrap_or(0));
            if age <= self.refresh {
                continue;
            }
            match self.remove(&path, &stat).await {
                Ok(true) => {
                    info!(path, ?age, "a static instance was purged");
                    removed.push(path);
                }
                Ok(false) => {}
                Err(error) if is_of_one_node(error.kind()) => {
                    debug!(%error, "a static instance was not purged");
                    failure = failure.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        failure.map_or(Ok(removed), Err)
    }

    /// Returns the time of the servers, in milliseconds since 1970.
    async fn server_time(&self) -> Result<i64, Error> {
        const OP: &str = "purge";
        let base = self.discovery.paths.base(OP)?;
        let path = child(OP, &base, &self.discovery.zk.new_guid(), "not the name of a node")?;
        let path = path.as_str();
        let transaction = self.discovery.zk.transaction();
        let transaction = transaction.create_with_mode(path, "", CreateMode::Ephemeral);
        // The result of a create in a transaction has no stat, that of a write has one.
        let results = transaction.set_data(path, "").delete(path).commit().await?;
        let written = results.iter().rev().find_map(OpResult::stat).map(|stat| stat.mtime);
        let why = "the response to a transaction has no time";
        written.filter(|time| *time > 0).ok_or_else(|| Error::invalid_argument(OP, path, why))
    }

    /// Returns `false` if the instance was written after it was read.
    async fn remove(&self, path: &str, stat: &Stat) -> Result<bool, Error> {
        let delete = self.discovery.zk.delete(path).version(stat.version).czxid(stat.czxid);
        match delete.quietly().await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(false),
            Err(error) => Err(error),
        }
    }
}
