//! The model: an instance of a service.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::uri_spec::{UriSpec, UriSpecError};

/// An instance of a service (`org.apache.curator.x.discovery.ServiceInstance`).
///
/// `P` is the type of the payload: any type with an implementation of serde's traits. Use
/// `Option<T>` where other programs may write `null`, and `serde_json::Value` for payloads of any
/// shape.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServiceInstance<P> {
    /// The name of the service.
    pub name: String,
    /// The id, unique among the instances of the service. If it is empty,
    /// [`register`](crate::ServiceDiscovery::register) sets a random UUID.
    pub id: String,
    /// The host name or IP address.
    pub address: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// The port for TLS.
    pub ssl_port: Option<u16>,
    /// Data that the service adds, such as its zone.
    pub payload: P,
    /// The time of the registration, in milliseconds since 1970, by the clock of its machine.
    pub registration_time_utc: i64,
    /// The kind of the registration.
    pub service_type: ServiceType,
    /// The template of the URI.
    pub uri_spec: Option<UriSpec>,
    /// `true` if the instance accepts new work; `false` while it is drained.
    pub enabled: bool,
    pub(crate) extra: Extra,
}

/// The parts of a record that are not fields of a [`ServiceInstance`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    /// The tag of the payload, as Java wrote it.
    pub(crate) tag: Option<Tag>,
    /// Unknown fields, as text.
    pub(crate) rest: Vec<(String, Box<str>)>,
    /// `true` if the record lacked its name or its id.
    pub(crate) incomplete: bool,
}

/// The Java class of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) class: String,
    /// `true` for a property of an object, `false` for the first element of an array of two.
    pub(crate) is_property: bool,
    pub(crate) shape: Shape,
}

/// The kind of a JSON value. A payload keeps its Java class only while its shape stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Array,
    Text,
    Number,
    Boolean,
    Null,
}

impl Shape {
    pub(crate) fn of(json: &str) -> Self {
        match json.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::Text,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }
}

/// The kind of a registration (`org.apache.curator.x.discovery.ServiceType`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ServiceType {
    /// An ephemeral node, which ends with the session.
    #[default]
    Dynamic,
    /// A persistent node that may be purged when it is old.
    Static,
    /// A persistent node.
    Permanent,
    /// An ephemeral node whose name is the id and a sequence number.
    DynamicSequential,
    /// A kind that Curator does not define. It is read, but never written.
    Other(String),
}

impl ServiceType {
    /// The name in the JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Dynamic => "DYNAMIC",
            Self::Static => "STATIC",
            Self::Permanent => "PERMANENT",
            Self::DynamicSequential => "DYNAMIC_SEQUENTIAL",
            Self::Other(other) => other,
        }
    }

    /// Returns `true` if the node ends with the session.
    #[must_use]
    pub const fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dynamic | Self::DynamicSequential)
    }
}

impl From<String> for ServiceType {
    fn from(name: String) -> Self {
        match &*name {
            "DYNAMIC" => Self::Dynamic,
            "STATIC" => Self::Static,
            "PERMANENT" => Self::Permanent,
            "DYNAMIC_SEQUENTIAL" => Self::DynamicSequential,
            _ => Self::Other(name),
        }
    }
}

impl fmt::Display for ServiceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ServiceInstance<()> {
    /// Builds an instance of the service with this name.
    pub fn builder(name: impl Into<String>) -> ServiceInstanceBuilder<()> {
        let instance = Self {
            name: name.into(),
            id: String::new(),
            address: None,
            port: None,
            ssl_port: None,
            payload: (),
            registration_time_utc: now(),
            service_type: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
            extra: Extra::default(),
        };
        ServiceInstanceBuilder { instance, uri_spec: Ok(None) }
    }
}

impl<P> ServiceInstance<P> {
    /// Returns the URI, built from the template of the instance; `None` without a template.
    ///
    /// With a TLS port the variable `scheme` is `https`, but `port` is still the plain port. A
    /// service with TLS therefore needs `{ssl-port}` in its template.
    #[doc(alias = "buildUriSpec")]
    #[must_use]
    pub fn uri(&self) -> Option<String> {
        self.uri_with(&[])
    }

    /// Returns the URI with additional variables, which take precedence over those of the instance.
    #[must_use]
    pub fn uri_with(&self, variables: &[(&str, &str)]) -> Option<String> {
        let of_caller = |name: &str| {
            let found = variables.iter().rev().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let value = |name: &str| of_caller(name).or_else(|| self.variable(name));
        self.uri_spec.as_ref().map(|spec| spec.build(value))
    }

    /// Returns the value of a variable of a template.
    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "port" => self.port.map(|port| port.to_string()),
            "ssl-port" => self.ssl_port.map(|port| port.to_string()),
            "registration-time-utc" => Some(self.registration_time_utc.to_string()),
            "scheme" => Some(if self.ssl_port.is_some() { "https" } else { "http" }.to_owned()),
            "name" => Some(self.name.clone()),
            "id" => Some(self.id.clone()),
            "address" => self.address.clone(),
            "service-type" => Some(self.service_type.as_str().to_lowercase()),
            _ => None,
        }
    }

    /// Returns `true` if the record lacked its name or its id. These were then taken from its path.
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        self.extra.incomplete
    }

    /// Returns the names of fields in the record that this version does not know. An update writes
    /// them back unchanged.
    pub fn unknown_fields(&self) -> impl Iterator<Item = &str> {
        self.extra.rest.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn with_payload<Q>(self, payload: Q) -> ServiceInstance<Q> {
        ServiceInstance {
            name: self.name,
            id: self.id,
            address: self.address,
            port: self.port,
            ssl_port: self.ssl_port,
            payload,
            registration_time_utc: self.registration_time_utc,
            service_type: self.service_type,
            uri_spec: self.uri_spec,
            enabled: self.enabled,
            extra: self.extra,
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Builds a [`ServiceInstance`].
#[derive(Debug, Clone)]
#[must_use = "it is only a builder"]
pub struct ServiceInstanceBuilder<P> {
    instance: ServiceInstance<P>,
    uri_spec: Result<Option<UriSpec>, UriSpecError>,
}

impl<P> ServiceInstanceBuilder<P> {
    /// The id. Default: a random UUID, set when the instance is registered.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.instance.id = id.into();
        self
    }

    /// The host name or IP address. Default: none.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.instance.address = Some(address.into());
        self
    }

    /// The port. Default: none.
    pub fn port(mut self, port: u16) -> Self {
        self.instance.port = Some(port);
        self
    }

    /// The port for TLS. Default: none.
    pub fn ssl_port(mut self, port: u16) -> Self {
        self.instance.ssl_port = Some(port);
        self
    }

    /// The payload. Default: none, which is `null` in the JSON.
    pub fn payload<Q>(self, payload: Q) -> ServiceInstanceBuilder<Q> {
        let Self { instance, uri_spec } = self;
        ServiceInstanceBuilder { instance: instance.with_payload(payload), uri_spec }
    }

    /// The time of the registration, in milliseconds since 1970. Default: now.
    pub fn registration_time_utc(mut self, millis: i64) -> Self {
        self.instance.registration_time_utc = millis;
        self
    }

    /// The kind of the registration. Default: [`ServiceType::Dynamic`].
    pub fn service_type(mut self, service_type: ServiceType) -> Self {
        self.instance.service_type = service_type;
        self
    }

    /// The template of the URI, such as `{scheme}://{address}:{port}`. Default: none.
    pub fn uri_spec(mut self, template: &str) -> Self {
        self.uri_spec = UriSpec::parse(template).map(Some);
        self
    }

    /// Registers the instance as drained: consumers see it, but give it no work. Default: enabled.
    pub fn drained(mut self) -> Self {
        self.instance.enabled = false;
        self
    }

    /// Returns the instance. Its name and id are checked when it is registered.
    ///
    /// # Errors
    /// Fails if the template of the URI is malformed.
    pub fn build(self) -> Result<ServiceInstance<P>, UriSpecError> {
        Ok(ServiceInstance { uri_spec: self.uri_spec?, ..self.instance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(template: &str) -> ServiceInstance<()> {
        let builder = ServiceInstance::builder("orders").id("7").address("10.0.0.1");
        let builder = builder.port(80).registration_time_utc(5);
        builder.service_type(ServiceType::DynamicSequential).uri_spec(template).build().unwrap()
    }

    /// As Curator 5.4 prints it.
    #[test]
    fn uri_is_that_of_curator() {
        let template = "{scheme}://{ address }:{port}/{[}x{]}/{service-type}/{none}";
        let mut orders = instance(template);
        orders.ssl_port = Some(443);
        assert_eq!(orders.uri().unwrap(), "https://10.0.0.1:80/{x}/dynamic_sequential/");
    }

    #[test]
    fn callers_variables_take_precedence() {
        let orders = instance("{name}-{id}-{registration-time-utc}-{ssl-port}-{zone}-{port}");
        let uri = orders.uri_with(&[("zone", "a"), ("port", "81")]).unwrap();
        assert_eq!(uri, "orders-7-5--a-81");
    }
}
