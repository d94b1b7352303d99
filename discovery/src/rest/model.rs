//! The bodies of responses.

use std::sync::Arc;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::problem::Problem;
use crate::instance::ServiceInstance;

/// A body in JSON.
pub(super) struct JsonBody<T>(pub(super) T);

impl<T: Serialize> IntoResponse for JsonBody<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => Problem::payload(&error).into_response(),
        }
    }
}

/// The name of a service.
#[derive(Serialize)]
pub(super) struct Name {
    pub(super) name: String,
}

/// An instance, with all of its fields.
pub(super) struct InstanceView<P>(pub(super) Arc<ServiceInstance<P>>);

impl<P: Serialize> Serialize for InstanceView<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let instance = &*self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &instance.name)?;
        map.serialize_entry("id", &instance.id)?;
        map.serialize_entry("address", &instance.address)?;
        for (name, port) in [("port", instance.port), ("sslPort", instance.ssl_port)] {
            if let Some(port) = port {
                map.serialize_entry(name, &port)?;
            }
        }
        map.serialize_entry("registrationTimeUTC", &instance.registration_time_utc)?;
        map.serialize_entry("serviceType", instance.service_type.as_str())?;
        map.serialize_entry("payload", &instance.payload)?;
        map.serialize_entry("uriSpec", &instance.uri_spec)?;
        map.serialize_entry("enabled", &instance.enabled)?;
        for (name, value) in &instance.extra.rest {
            let value: &RawValue = serde_json::from_str(value).map_err(S::Error::custom)?;
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
