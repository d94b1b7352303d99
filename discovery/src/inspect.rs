//! The services and their instances, for people: whatever their payloads are.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::try_join_all;
use serde::de::IgnoredAny;
use zk_curator::{Error, ErrorKind, SessionId, Stat};

use crate::discovery::ServiceDiscovery;
use crate::instance::ServiceInstance;
use crate::query::{Reason, Undecodable};

/// A service, as the ensemble has it. Printable.
///
/// ```text
/// orders: 1 up, 1 drained, 1 undecodable
///   /services/orders/06c0af4c-…  10.0.0.1:8040  up, DYNAMIC, session 0x1000a3f210000, changed 3m ago
///   /services/orders/7b1fe2c0-…  10.0.0.2:8040  drained, STATIC, changed 2d ago
///   /services/orders/foreign  expected an object at byte 0
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceInspection {
    /// The name.
    pub name: String,
    /// The instances, in the order of their nodes.
    pub instances: Vec<InstanceInspection>,
    /// The nodes that are no instances. The service itself if its instances cannot be listed.
    pub undecodable: Vec<Undecodable>,
}

/// An instance, as the ensemble has it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InstanceInspection {
    /// The path of its node.
    pub path: String,
    /// The record, without its payload.
    pub instance: ServiceInstance<IgnoredAny>,
    /// The stat of its node.
    pub stat: Stat,
}

impl InstanceInspection {
    /// The session that the instance ends with; `None` for a static or permanent one.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        Some(self.stat.ephemeral_owner).filter(|owner| *owner != 0).map(SessionId::new)
    }

    /// The time since the last change of the record: from the clock of the server that wrote it to
    /// the clock of this machine. Zero if it lies in the future.
    #[must_use]
    pub fn age(&self) -> Duration {
        let changed = Duration::from_millis(self.stat.mtime.try_into().unwrap_or(0));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(changed)
    }
}

impl<P> ServiceDiscovery<P> {
    /// Returns all services and their instances, in three round trips: for an operator, an admin
    /// page, or the failure of a test. Services are read one after the other in different requests,
    /// so together they are no snapshot. A service that cannot be listed, because of its ACL for
    /// example, is in its own [`undecodable`](ServiceInspection::undecodable).
    ///
    /// # Errors
    /// As a read: not while there is no connection. `InvalidPath` for the base.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Result<Vec<ServiceInspection>, Error> {
        Ok(self.inspect_each().await?.into_iter().map(|(service, _)| service).collect())
    }

    /// Returns all services, with the error of each one that cannot be listed.
    pub(crate) async fn inspect_each(
        &self,
    ) -> Result<Vec<(ServiceInspection, Option<Error>)>, Error> {
        let services = self.names().await?.into_iter().map(async |name| {
            let mut service =
                ServiceInspection { name, instances: Vec::new(), undecodable: Vec::new() };
            let all = match self.each(&service.name).await {
                Ok(all) => all,
                Err(error) if is_of_one_node(error.kind()) => {
                    let path = self.paths.service("inspect", &service.name);
                    let path = path.map_or_else(|_| error.path().to_owned(), Into::into);
                    let reason = Reason::Unreadable(error.kind());
                    service.undecodable.push(Undecodable { path, reason });
                    return Ok((service, Some(error)));
                }
                Err(error) => return Err(error),
            };
            for found in all {
                match found {
                    Ok((path, instance, stat)) => {
                        service.instances.push(InstanceInspection { path, instance, stat });
                    }
                    Err(why) => service.undecodable.push(why),
                }
            }
            Ok((service, None))
        });
        try_join_all(services).await
    }
}

/// Returns `true` if the same operation may succeed for other nodes.
pub(crate) const fn is_of_one_node(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NoAuth
            | ErrorKind::NotEmpty
            | ErrorKind::SchemaViolation
            | ErrorKind::ResponseTooLarge
            | ErrorKind::InvalidPath
            | ErrorKind::InvalidArgument
    )
}

impl fmt::Display for ServiceInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up = self.instances.iter().filter(|at| at.instance.enabled).count();
        let (drained, bad) = (self.instances.len() - up, self.undecodable.len());
        writeln!(f, "{}: {up} up, {drained} drained, {bad} undecodable", self.name)?;
        self.instances.iter().try_for_each(|at| writeln!(f, "  {at}"))?;
        for Undecodable { path, reason } in &self.undecodable {
            match reason {
                Reason::Record(fault) => writeln!(f, "  {path}  {fault}")?,
                Reason::Unreadable(kind) => writeln!(f, "  {path}  cannot be read: {kind}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for InstanceInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServiceInstance { address, port, ssl_port, service_type, enabled, .. } = &self.instance;
        write!(f, "{}  {}", self.path, address.as_deref().unwrap_or("-"))?;
        if let Some(port) = port.or(*ssl_port) {
            write!(f, ":{port}")?;
        }
        let state = if *enabled { "up" } else { "drained" };
        write!(f, "  {state}, {}", service_type.as_str())?;
        if let Some(session) = self.session() {
            write!(f, ", session {session}")?;
        }
        let (seconds, unit) = match self.age().as_secs() {
            seconds @ 0..60 => (seconds, "s"),
            seconds @ 60..3600 => (seconds / 60, "m"),
            seconds @ 3600..86400 => (seconds / 3600, "h"),
            seconds => (seconds / 86400, "d"),
        };
        write!(f, ", changed {seconds}{unit} ago")
    }
}
