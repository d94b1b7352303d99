//! The client behind a session, as far as the data of its ephemeral nodes tell it.

use serde_json::{Map, Value};

use crate::data;

/// The maximum number of characters of a label.
const LABEL: usize = 80;
/// Larger data are not parsed.
const MAX_DATA: usize = 64 << 10;
/// The fields of JSON objects that contain an address, in the order of preference.
const ADDRESSES: [&str; 4] = ["address", "host", "hostname", "ip"];
/// The fields that contain a port.
const PORTS: [&str; 3] = ["port", "sslPort", "securePort"];
/// The fields that contain a name.
const NAMES: [&str; 4] = ["name", "serviceName", "service", "id"];

/// The label and the address that a client has written into an ephemeral node.
///
/// Contenders of locks write a label or an address as text; service discovery of Curator, and
/// brokers of Kafka, write JSON. Nothing proves that the text is true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClientIdentity {
    /// The name of a service, or the text of the node in one line; at most 80 characters.
    pub label: Option<String>,
    /// The address, with the port if it is known.
    pub address: Option<String>,
}

impl ClientIdentity {
    /// Reads the data of an ephemeral node.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else { return Self::default() };
        let text = text.trim();
        if text.is_empty() || bytes.len() > MAX_DATA {
            return Self::default();
        }
        if let Ok(Value::Object(fields)) = serde_json::from_str(text) {
            return Self { label: name(&fields), address: address(&fields) };
        }
        let address = is_address(text).then(|| text.to_owned());
        Self { label: Some(data::line(text.as_bytes(), LABEL)), address }
    }
}

fn name(fields: &Map<String, Value>) -> Option<String> {
    let found = NAMES.iter().find_map(|key| fields.get(*key).and_then(text_of));
    found.map(|name| data::line(name.as_bytes(), LABEL))
}

fn address(fields: &Map<String, Value>) -> Option<String> {
    let address = ADDRESSES.iter().find_map(|key| fields.get(*key).and_then(text_of))?;
    let address = data::line(address.as_bytes(), LABEL);
    let port = PORTS.iter().find_map(|key| fields.get(*key)?.as_u64());
    Some(match port {
        Some(port) if address.contains(':') && !address.starts_with('[') => {
            format!("[{address}]:{port}")
        }
        Some(port) => format!("{address}:{port}"),
        None => address,
    })
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

/// Returns `true` for an IP address, and for a host with a port.
fn is_address(text: &str) -> bool {
    use std::net::{IpAddr, SocketAddr};
    let is_name = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
    };
    text.parse::<IpAddr>().is_ok()
        || text.parse::<SocketAddr>().is_ok()
        || text
            .rsplit_once(':')
            .is_some_and(|(host, port)| is_name(host) && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_addresses_are_found() {
        let curator = r#"{"name":"orders","id":"x","address":"10.0.0.7","port":8080}"#;
        let kafka = r#"{"host":"broker-1","port":9092,"version":5}"#;
        let six = r#"{"address":"fe80::1","port":80}"#;
        for (text, label, address) in [
            (curator, Some("orders"), Some("10.0.0.7:8080")),
            (kafka, None, Some("broker-1:9092")),
            (six, None, Some("[fe80::1]:80")),
            ("10.0.0.7", Some("10.0.0.7"), Some("10.0.0.7")),
            ("web-3:8080", Some("web-3:8080"), Some("web-3:8080")),
            ("nightly job", Some("nightly job"), None),
            // Control characters are not shown.
            ("a\u{1b}[2J", Some("5 bytes"), None),
            ("", None, None),
        ] {
            let found = ClientIdentity::of(text.as_bytes());
            assert_eq!((found.label.as_deref(), found.address.as_deref()), (label, address));
        }
        assert_eq!(ClientIdentity::of(&[0xff, 0]), ClientIdentity::default());
    }
}
