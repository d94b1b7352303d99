//! Services in JSON.

use std::collections::BTreeMap;

use axum::response::Response;
use serde_json::{Value, json};

use super::node::json_response;
use crate::reads::{InstanceRead, KnownSessions, Payload, ServiceRead, ServicesRead};
use crate::show::millis;

/// Returns the services below a base path. `bases` are those of the whole tree, if it was searched.
pub(crate) fn services_json(
    base: &str,
    bases: &BTreeMap<String, usize>,
    services: &[&ServiceRead],
    read: &ServicesRead,
    known: &KnownSessions,
) -> Response {
    let bases: Vec<_> = bases
        .iter()
        .map(|(path, services)| json!({ "path": path, "services": services }))
        .collect();
    let services: Vec<_> = services.iter().map(|one| service(one, known)).collect();
    let body = json!({
        "base": base,
        "bases": bases,
        "services": services,
        "left_out": read.left_out,
        "sessions_age_ms": known.age.map(millis),
    });
    json_response(&body, None)
}

fn service(service: &ServiceRead, known: &KnownSessions) -> Value {
    let instances: Vec<_> = service.instances.iter().map(|one| instance(one, known)).collect();
    let undecodable: Vec<_> = service
        .undecodable
        .iter()
        .map(|one| json!({ "path": one.path, "reason": one.reason }))
        .collect();
    json!({
        "name": service.name,
        "path": service.path,
        "instances": instances,
        "undecodable": undecodable,
    })
}

fn instance(instance: &InstanceRead, known: &KnownSessions) -> Value {
    let connected =
        instance.session.and_then(|id| known.facts.sessions().is_disconnected(id)).map(|not| !not);
    let session = instance.session.and_then(|id| known.facts.details(id));
    let (payload, is_cut) = match &instance.payload {
        Payload::Json(text) => (serde_json::from_str(text).unwrap_or(Value::Null), false),
        Payload::TooLong(_) => (Value::Null, true),
    };
    json!({
        "path": instance.path,
        "id": instance.id,
        "address": instance.address,
        "port": instance.port,
        "ssl_port": instance.ssl_port,
        "registered_ms": instance.registered,
        "type": instance.kind,
        "enabled": instance.is_enabled,
        "uri": instance.uri,
        "payload": payload,
        "payload_too_long": is_cut,
        "session": instance.session.map(|id| id.to_string()),
        "connected": connected,
        "client": session.and_then(|session| session.address.clone()),
        "server": session.and_then(|session| session.server.clone()),
    })
}
