//! Queries of the registered instances.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use zk_curator::certain::is_receipt;
use zk_curator::op::ReadResult;
use zk_curator::{CuratorFramework, Error, ErrorKind, Stat};

use crate::discovery::ServiceDiscovery;
use crate::instance::ServiceInstance;
use crate::json::{Fault, read};

/// The maximum number of records in one request: with records of 100 kB each, the response has
/// 3.2 MB.
const PER_REQUEST: usize = 32;

/// The instances of a service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Instances<P> {
    /// The instances, sorted by id, including drained ones.
    pub instances: Vec<Arc<ServiceInstance<P>>>,
    /// The nodes that are not readable instances.
    pub undecodable: Vec<Undecodable>,
}

/// A node below a service that is not a readable instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undecodable {
    /// Its path.
    pub path: String,
    /// The reason.
    pub reason: Reason,
}

/// The reason why a node is not a readable instance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Its data are not a valid record.
    Record(Fault),
    /// It cannot be read, for example because of its ACL.
    Unreadable(ErrorKind),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(fault) => fault.fmt(f),
            Self::Unreadable(kind) => write!(f, "unreadable: {kind:?}"),
        }
    }
}

/// Reads the records below a node, with their paths.
async fn records(
    zk: CuratorFramework,
    parent: String,
) -> Result<Vec<(String, Result<ReadResult, Error>)>, Error> {
    let mut ids = match zk.children(parent.as_str()).await {
        Ok(ids) => ids,
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    ids.retain(|id| !is_receipt(id));
    ids.sort_unstable();
    let paths: Vec<_> = ids.iter().map(|id| format!("{parent}/{id}")).collect();
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let reads = zk.multi_read().per_request(PER_REQUEST);
    let reads = paths.iter().fold(reads, |reads, path| reads.get_data(path.as_str()));
    let records = reads.await?;
    Ok(paths.into_iter().zip(records).collect())
}

/// Decodes the record of a node.
pub(crate) fn decode<P: DeserializeOwned>(
    service: &str,
    path: &str,
    data: &Bytes,
) -> Result<ServiceInstance<P>, Undecodable> {
    let id = path.rsplit('/').next().unwrap_or_default();
    read(data, service, id)
        .map_err(|fault| Undecodable { path: path.to_owned(), reason: Reason::Record(fault) })
}

type FoundInstance<P> = Result<(String, ServiceInstance<P>, Stat), Undecodable>;

impl<P> ServiceDiscovery<P> {
    /// Reads the nodes of a service, and decodes their records.
    pub(crate) async fn each<Q: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Vec<FoundInstance<Q>>, Error> {
        let parent = self.paths.service("instances", name)?;
        // In a new session the server might lag behind the listing.
        let read = self.zk.in_one_session(|zk| records(zk, parent.as_str().to_owned()));
        let mut all = Vec::new();
        for (path, record) in read.await? {
            match record.map(ReadResult::into_data) {
                Ok(Some((data, stat))) => {
                    let decoded = decode(name, &path, &data);
                    all.push(decoded.map(|instance| (path, instance, stat)));
                }
                Ok(None) => {}
                // Deleted since the listing.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => {
                    let reason = Reason::Unreadable(error.kind());
                    all.push(Err(Undecodable { path, reason }));
                }
            }
        }
        Ok(all)
    }

    /// Returns the names of all services, sorted. These include services without instances, until
    /// the server removes their containers.
    ///
    /// # Errors
    /// Those of a read, such as `ConnectionLoss` in an outage. `InvalidPath` for the base path.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "queryForNames")]
    pub async fn names(&self) -> Result<Vec<String>, Error> {
        let base = self.paths.base("names")?;
        let mut names = match self.zk.children(base.as_str()).await {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
            Err(error) => return Err(error),
        };
        names.retain(|name| !is_receipt(name));
        names.sort_unstable();
        Ok(names)
    }
}

impl<P: DeserializeOwned> ServiceDiscovery<P> {
    /// Returns the instances of a service. An unknown service has none. Takes two round trips: the
    /// ids, and then the records, at most 32 per request.
    ///
    /// # Errors
    /// Those of a read, such as `ConnectionLoss` in an outage. `InvalidArgument` if the name cannot
    /// be the name of a node.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "queryForInstances")]
    pub async fn instances(&self, name: &str) -> Result<Instances<P>, Error> {
        let mut found = Instances { instances: Vec::new(), undecodable: Vec::new() };
        for record in self.each(name).await? {
            match record {
                Ok((_, instance, _)) => found.instances.push(Arc::new(instance)),
                Err(why) => found.undecodable.push(why),
            }
        }
        Ok(found)
    }

    /// Returns an instance with the stat of its node; `None` if it is not registered. For a
    /// sequential instance, `id` is the full name of its node.
    ///
    /// # Errors
    /// Those of a read. `Undecodable` if the node is not a readable instance; `InvalidArgument` if
    /// the name or the id cannot be the name of a node.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "queryForInstance")]
    pub async fn instance(
        &self,
        name: &str,
        id: &str,
    ) -> Result<Option<(ServiceInstance<P>, Stat)>, Error> {
        let path = self.paths.instance("instance", name, id)?;
        let (data, stat) = match self.zk.get_data(path.as_str()).with_stat().await {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
            Err(error) => return Err(error),
        };
        let instance = read(&data, name, id)
            .map_err(|fault| Error::undecodable("instance", path.as_str(), Arc::new(fault)))?;
        Ok(Some((instance, stat)))
    }
}
