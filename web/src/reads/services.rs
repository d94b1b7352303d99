//! The services of Curator's discovery below a base path.

use serde_json::Value;
use tokio::time::timeout;
use zk_curator::certain::is_receipt;
use zk_curator::op::ReadResult;
use zk_curator::{CuratorFramework, Error, ErrorKind, SessionId, Stat};
use zk_curator_discovery::json::read;

use super::limits::{LONGEST_PAYLOAD, MOST_INSTANCES, MOST_RECORDS, MOST_SERVICES, WITHIN};
use crate::paths::{child_of, name_of};
use crate::problem::{Problem, RequestResult};
use crate::security::Redaction;

/// The number of services that are listed, and of records that are read, at a time.
const BATCH: usize = 256;
/// The number of records in a request: a record may have 100 kB.
const PER_REQUEST: usize = 32;

/// The services below a base path.
#[derive(Debug, Default)]
pub(crate) struct ServicesRead {
    /// The services, sorted by name.
    pub(crate) services: Vec<ServiceRead>,
    /// The number of services and instances that were not read, because there are too many.
    pub(crate) left_out: usize,
}

/// A service.
#[derive(Debug, Default)]
pub(crate) struct ServiceRead {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) instances: Vec<InstanceRead>,
    pub(crate) undecodable: Vec<UndecodableRead>,
}

/// An instance.
#[derive(Debug)]
pub(crate) struct InstanceRead {
    pub(crate) path: String,
    pub(crate) id: String,
    pub(crate) address: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) ssl_port: Option<u16>,
    /// In milliseconds since 1970, by the clock of its machine.
    pub(crate) registered: i64,
    /// The kind of the registration, such as `DYNAMIC`.
    pub(crate) kind: String,
    /// `false` while it is drained.
    pub(crate) is_enabled: bool,
    pub(crate) uri: Option<String>,
    pub(crate) payload: Payload,
    pub(crate) session: Option<SessionId>,
}

/// The data that a service adds to an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Payload {
    /// JSON without spaces.
    Json(String),
    /// It is too long.
    TooLong(usize),
}

/// A node that is not a readable instance.
#[derive(Debug)]
pub(crate) struct UndecodableRead {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// Reads the services in three round trips, and more if they have many instances.
pub(crate) async fn read_services(
    zk: &CuratorFramework,
    base: &str,
    redaction: &Redaction,
) -> RequestResult<ServicesRead> {
    match timeout(WITHIN, read_all(zk, base, redaction)).await {
        Ok(read) => Ok(read?),
        Err(_) => Err(Problem::too_slow(base)),
    }
}

async fn read_all(
    zk: &CuratorFramework,
    base: &str,
    redaction: &Redaction,
) -> Result<ServicesRead, Error> {
    let mut names = zk.children(base).await?;
    names.retain(|name| !is_receipt(name));
    names.sort_unstable();
    let mut left_out = names.len().saturating_sub(MOST_SERVICES);
    names.truncate(MOST_SERVICES);
    let mut services: Vec<_> = names.into_iter().map(|name| service(base, name)).collect();
    let mut nodes = Vec::new();
    for (place, batch) in services.chunks_mut(BATCH).enumerate() {
        if nodes.len() < MOST_INSTANCES {
            list(zk, batch, place * BATCH, &mut nodes).await?;
        } else {
            left_out += batch.len();
        }
    }
    left_out += nodes.len().saturating_sub(MOST_INSTANCES);
    nodes.truncate(MOST_INSTANCES);
    let mut bytes = 0;
    for batch in nodes.chunks(BATCH) {
        if bytes >= MOST_RECORDS {
            left_out += batch.len();
            continue;
        }
        let reads = zk.multi_read().per_request(PER_REQUEST);
        let reads = batch.iter().fold(reads, |reads, (_, path)| reads.get_data(path.as_str()));
        for ((place, path), record) in batch.iter().zip(reads.await?) {
            let Some(service) = services.get_mut(*place) else { continue };
            match record.map(ReadResult::into_data) {
                Ok(Some((data, stat))) => {
                    bytes += data.len();
                    add(service, path, &data, &stat, redaction);
                }
                Ok(None) => {}
                // Deleted since the listing.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => service.undecodable.push(unreadable(path, error.kind())),
            }
        }
    }
    Ok(ServicesRead { services, left_out })
}

fn service(base: &str, name: String) -> ServiceRead {
    let path = child_of(base, &name);
    ServiceRead { name, path, ..ServiceRead::default() }
}

/// Lists the nodes of services, the first of which is at this place. Adds their paths, each with
/// the place of its service.
async fn list(
    zk: &CuratorFramework,
    services: &mut [ServiceRead],
    first: usize,
    nodes: &mut Vec<(usize, String)>,
) -> Result<(), Error> {
    let lists =
        services.iter().fold(zk.multi_read(), |reads, one| reads.children(one.path.as_str()));
    let lists = lists.await?;
    for ((place, service), listed) in services.iter_mut().enumerate().zip(lists) {
        match listed.map(ReadResult::into_children) {
            Ok(ids) => {
                let mut ids = ids.unwrap_or_default();
                ids.retain(|id| !is_receipt(id));
                ids.sort_unstable();
                let path = |id: &String| (first + place, child_of(&service.path, id));
                nodes.extend(ids.iter().map(path));
            }
            // Deleted since the listing.
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => {
                let why = unreadable(&service.path, error.kind());
                service.undecodable.push(why);
            }
        }
    }
    Ok(())
}

fn unreadable(path: &str, kind: ErrorKind) -> UndecodableRead {
    UndecodableRead { path: path.to_owned(), reason: format!("cannot be read: {kind}") }
}

/// Adds a node to its service.
fn add(service: &mut ServiceRead, path: &str, data: &[u8], stat: &Stat, redaction: &Redaction) {
    if redaction.hides(path) {
        let reason = "hidden: the settings of this explorer treat the data as a secret".to_owned();
        service.undecodable.push(UndecodableRead { path: path.to_owned(), reason });
        return;
    }
    let id = name_of(path);
    match read::<Value>(data, &service.name, id) {
        Ok(instance) => service.instances.push(InstanceRead {
            path: path.to_owned(),
            uri: instance.uri(),
            id: instance.id,
            address: instance.address,
            port: instance.port,
            ssl_port: instance.ssl_port,
            registered: instance.registration_time_utc,
            kind: instance.service_type.as_str().to_owned(),
            is_enabled: instance.enabled,
            payload: payload(&instance.payload),
            session: stat.is_ephemeral().then(|| SessionId::new(stat.ephemeral_owner)),
        }),
        Err(fault) => {
            let reason = fault.to_string();
            service.undecodable.push(UndecodableRead { path: path.to_owned(), reason });
        }
    }
}

fn payload(payload: &Value) -> Payload {
    let text = payload.to_string();
    if text.len() > LONGEST_PAYLOAD { Payload::TooLong(text.len()) } else { Payload::Json(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(path: &str, data: &str) -> ServiceRead {
        let mut service = service("/services", "orders".to_owned());
        let redaction = Redaction::default();
        add(&mut service, path, data.as_bytes(), &Stat::default(), &redaction);
        service
    }

    #[test]
    fn records_are_instances_or_reasons() {
        let record = r#"{"name":"orders","id":"7","address":"10.0.0.1","port":80,"sslPort":null,
            "payload":{"zone":"a"},"registrationTimeUTC":5,"serviceType":"STATIC","uriSpec":null,
            "enabled":false}"#;
        let read = added("/services/orders/7", record);
        let [one] = &read.instances[..] else { panic!("{read:?}") };
        assert_eq!((&*one.id, one.port, one.is_enabled), ("7", Some(80), false));
        assert_eq!(one.payload, Payload::Json(r#"{"zone":"a"}"#.to_owned()));
        let read = added("/services/orders/8", "not JSON");
        assert!(read.instances.is_empty() && read.undecodable[0].reason.contains("at byte"));
        let read = added("/services/secrets/8", record);
        assert!(read.undecodable[0].reason.starts_with("hidden"), "{read:?}");
        let long = Value::String("x".repeat(LONGEST_PAYLOAD));
        assert_eq!(payload(&long), Payload::TooLong(LONGEST_PAYLOAD + 2));
    }
}
