//! The admin server of Apache ZooKeeper: four-letter words over HTTP, in JSON.
//!
//! It answers one short GET with a body up to the end of the connection, so the request of
//! HTTP/1.0 is enough. It is HTTP or HTTPS, without credentials in the request.
//! [`probe`](super::probe) asks it where a word is refused.
//!
//! ```
//! use zk_curator_ops::ensemble::admin::AdminServer;
//!
//! let plain: AdminServer = "8080".parse()?;
//! let secure: AdminServer = "https://zk1:8443".parse()?;
//! assert!(!plain.is_secure() && secure.is_secure());
//! # Ok::<(), zk_curator_ops::ensemble::admin::InvalidAdminServer>(())
//! ```

use std::collections::BTreeMap;
use std::str::FromStr;

use serde_json::Value;

use super::words::{
    ClientConnection, ConfResponse, DumpResponse, DumpedSession, FourLetterWord, MntrResponse,
    ServerMode, SrvrResponse, WatchLists, WatchSummary,
};
use crate::node::hex;

/// The port of admin servers by default.
const PORT: u16 = 8080;

/// Where the admin servers are: `8080`, `https://:8443` for the port of every server, or
/// `https://zk1:8443` for that of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminServer {
    is_secure: bool,
    /// `None` for the hosts of all servers.
    host: Option<String>,
    port: u16,
    /// The path of the commands, without slashes at its ends.
    commands: String,
}

/// The text is neither a port nor the URL of an admin server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a port, and not a URL such as https://:8443")]
#[non_exhaustive]
pub struct InvalidAdminServer;

impl FromStr for AdminServer {
    type Err = InvalidAdminServer;

    fn from_str(text: &str) -> Result<Self, InvalidAdminServer> {
        let commands = "commands".to_owned();
        if let Ok(port) = text.parse() {
            return Ok(Self { is_secure: false, host: None, port, commands });
        }
        let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://"))
        {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(InvalidAdminServer),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.rsplit_once(':') {
            // The colon is within an address without a port.
            Some((_, port)) if port.ends_with(']') => (authority, None),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| InvalidAdminServer))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_safe = |c: char| c.is_ascii_graphic() && !"[]@?#".contains(c);
        if !host.chars().all(is_safe) || !path.chars().all(is_safe) {
            return Err(InvalidAdminServer);
        }
        let host = Some(host.to_owned()).filter(|host| !host.is_empty());
        let path = path.trim_matches('/');
        let commands = if path.is_empty() { commands } else { path.to_owned() };
        Ok(Self { is_secure, host, port, commands })
    }
}

impl AdminServer {
    /// Returns `true` if it is asked over HTTPS.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns `true` if this is the admin server of a host.
    pub(crate) fn is_of(&self, host: &str) -> bool {
        self.host.as_ref().is_none_or(|own| own == host)
    }

    /// Returns the request for a command.
    pub(crate) fn request(&self, host: &str, command: &str) -> String {
        let commands = &self.commands;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!(
            "GET /{commands}/{command} HTTP/1.0\r\nHost: {host}\r\n\
             Accept: application/json\r\n\r\n"
        )
    }
}

/// The settings of a server that only its admin server tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdminSettings {
    /// The property `jute.maxbuffer`, if it is set.
    pub(crate) max_packet: Option<u64>,
    /// The hours between two deletions of old files; zero for none. `None` if it is not known.
    pub(crate) purge_hours: Option<u64>,
}

/// Returns the command with the response to a word; `None` if there is none.
pub(crate) const fn command(word: FourLetterWord) -> Option<&'static str> {
    Some(match word {
        FourLetterWord::Conf => "configuration",
        FourLetterWord::Cons => "connections",
        FourLetterWord::Dump => "dump",
        FourLetterWord::Isro => "is_read_only",
        FourLetterWord::Mntr => "monitor",
        FourLetterWord::Srvr => "stats",
        FourLetterWord::Wchc => "watches",
        FourLetterWord::Wchp => "watches_by_path",
        FourLetterWord::Wchs => "watch_summary",
        _ => return None,
    })
}

/// Returns the JSON of a response, if it is a successful one.
pub(crate) fn body(response: &str) -> Option<Value> {
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.lines().next()?.split(' ').nth(1)?;
    let value: Value = (status == "200").then(|| serde_json::from_str(body).ok())??;
    value.get("error").is_none_or(Value::is_null).then_some(value)
}

pub(crate) fn srvr(value: &Value) -> Option<SrvrResponse> {
    let stats = value.get("server_stats")?;
    let count = |name: &str| stats.get(name).and_then(Value::as_u64);
    let number = |name: &str| stats.get(name).and_then(Value::as_f64);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    Some(SrvrResponse {
        version: text(value.get("version")),
        read_only: value.get("read_only").and_then(Value::as_bool).unwrap_or_default(),
        latency: number("avg_latency").zip(number("max_latency")),
        received: count("packets_received"),
        sent: count("packets_sent"),
        connections: count("num_alive_client_connections"),
        outstanding: count("outstanding_requests"),
        zxid: stats.get("last_processed_zxid").and_then(Value::as_i64),
        mode: text(stats.get("server_state")).as_deref().map(ServerMode::parse),
        nodes: value.get("node_count").and_then(Value::as_u64),
    })
}

pub(crate) fn mntr(value: &Value) -> Option<MntrResponse> {
    let metrics = settings(value, |name| format!("zk_{name}"));
    (!metrics.is_empty()).then_some(MntrResponse { metrics })
}

pub(crate) fn conf(value: &Value) -> Option<ConfResponse> {
    let settings = settings(value, camel);
    (!settings.is_empty()).then_some(ConfResponse { settings })
}

/// The commands that [`own_settings`] reads.
pub(crate) const SETTINGS: [&str; 2] = ["system_properties", "initial_configuration"];

/// Returns the settings that no word tells, of the responses to [`SETTINGS`].
pub(crate) fn own_settings([properties, configuration]: [Option<&Value>; 2]) -> AdminSettings {
    let packet = properties.and_then(|properties| properties.get("jute.maxbuffer"));
    let file = configuration.and_then(|answer| answer.get("initial_configuration"));
    let file = file.and_then(Value::as_str).map(|file| {
        let lines = file.lines().filter(|line| !line.trim_start().starts_with('#'));
        let settings = lines.filter_map(|line| line.split_once('='));
        settings.map(|(name, value)| (name.trim(), value.trim())).collect::<BTreeMap<_, _>>()
    });
    AdminSettings {
        max_packet: packet.and_then(Value::as_str).and_then(number),
        // Without the setting, the server deletes nothing.
        purge_hours: file.and_then(|file| match file.get("autopurge.purgeInterval") {
            Some(hours) => hours.parse().ok(),
            None => Some(0),
        }),
    }
}

/// Parses a number as `Integer.getInteger` of Java does for plain decimal and hexadecimal ones.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the plain values of an object, without those about the command itself.
fn settings(value: &Value, rename: impl Fn(&str) -> String) -> BTreeMap<String, String> {
    let plain = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return None,
        };
        (name != "command").then(|| (rename(name), value))
    };
    value.as_object().into_iter().flatten().filter_map(plain).collect()
}

/// Returns the name of a setting in `conf`: `maxClientCnxns` of `max_client_cnxns`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

pub(crate) fn connections(value: &Value) -> Option<Vec<ClientConnection>> {
    let lists = ["connections", "secure_connections"].map(|name| value.get(name));
    let all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    value.get("connections")?;
    Some(all.map(connection).collect())
}

fn connection(value: &Value) -> ClientConnection {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let signed = |name: &str| value.get(name).and_then(Value::as_i64);
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    let address = text("remote_socket_address").unwrap_or_default();
    ClientConnection {
        // Java writes the name of the host before the slash.
        address: address.rsplit('/').next().unwrap_or_default().to_owned(),
        queued: count("outstanding_requests").unwrap_or_default(),
        received: count("packets_received").unwrap_or_default(),
        sent: count("packets_sent").unwrap_or_default(),
        session: signed("session_id").filter(|session| *session != 0),
        last_operation: text("last_operation").filter(|name| *name != "NA").map(str::to_owned),
        established: signed("established"),
        timeout: count("session_timeout"),
        last_zxid: signed("last_zxid"),
        last_response: signed("last_response_time"),
        average_latency: value.get("avg_latency").and_then(Value::as_f64),
        greatest_latency: value.get("max_latency").and_then(Value::as_f64),
    }
}

pub(crate) fn watch_summary(value: &Value) -> Option<WatchSummary> {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    Some(WatchSummary {
        connections: count("num_connections")?,
        paths: count("num_paths")?,
        watches: count("num_total_watches")?,
    })
}

pub(crate) fn watches_by_path(value: &Value) -> Option<WatchLists> {
    let lists = value.get("path_to_session_ids")?.as_object()?.iter();
    let text = |id: &Value| id.as_i64().map(hex);
    let list = |(path, sessions): (&String, &Value)| {
        let sessions = sessions.as_array().into_iter().flatten().filter_map(text).collect();
        (path.clone(), sessions)
    };
    Some(lists.map(list).collect())
}

pub(crate) fn watches_by_session(value: &Value) -> Option<WatchLists> {
    let lists = paths_by_session(value.get("session_id_to_watched_paths")?);
    Some(lists.map(|(session, paths)| (hex(session), paths)).collect())
}

/// The times at which sessions expire are left out: they are of the clock of the server.
pub(crate) fn dump(value: &Value) -> Option<DumpResponse> {
    let times = value.get("expiry_time_to_session_ids").and_then(Value::as_object);
    let sessions = times.into_iter().flat_map(|times| times.values());
    let sessions = sessions.filter_map(Value::as_array).flatten().filter_map(Value::as_i64);
    let ephemerals = paths_by_session(value.get("session_id_to_ephemeral_paths")?).collect();
    Some(DumpResponse {
        sessions: sessions.map(|session| (session, DumpedSession::default())).collect(),
        ephemerals,
    })
}

fn paths_by_session(value: &Value) -> impl Iterator<Item = (i64, Vec<String>)> + '_ {
    value.as_object().into_iter().flatten().filter_map(|(session, paths)| {
        let paths = paths.as_array().into_iter().flatten();
        let paths = paths.filter_map(Value::as_str).map(str::to_owned).collect();
        Some((session.parse().ok()?, paths))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_is_its_json() {
        let ok = "HTTP/1.1 200 OK\r\nServer: Jetty\r\n\r\n{\"error\": null, \"a\": 1}";
        assert_eq!(body(ok).map(|value| value["a"].clone()), Some(json!(1)));
        for response in [
            "",
            "HTTP/1.1 404 Not Found\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\n\r\n{\"error\": \"not serving\"}",
            "HTTP/1.1 200 OK\r\n\r\nimok",
        ] {
            assert_eq!(body(response), None, "{response}");
        }
    }

    #[test]
    fn admin_servers_are_ports_and_urls() {
        let parse = |text: &str| text.parse::<AdminServer>();
        let admin = |is_secure, host: Option<&str>, port, commands: &str| {
            Ok(AdminServer {
                is_secure,
                host: host.map(str::to_owned),
                port,
                commands: commands.into(),
            })
        };
        for (text, expected) in [
            ("8080", admin(false, None, 8080, "commands")),
            ("https://:8443", admin(true, None, 8443, "commands")),
            ("https://zk1:8443/", admin(true, Some("zk1"), 8443, "commands")),
            ("http://zk1/zk/commands/", admin(false, Some("zk1"), 8080, "zk/commands")),
            ("https://[::1]:8443", admin(true, Some("::1"), 8443, "commands")),
            ("https://[::1]", admin(true, Some("::1"), 8080, "commands")),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        for text in
            ["", "zk1:8080", "65536", "https://zk1:x", "https://a b", "http://u@h:1", "ftp://h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_request_names_the_host_and_the_command() {
        let admin: AdminServer = "https://:8443".parse().expect("a URL");
        assert!(admin.is_of("zk1") && admin.is_of("zk2"));
        let request = admin.request("::1", "stats");
        assert!(
            request.starts_with("GET /commands/stats HTTP/1.0\r\nHost: [::1]\r\n"),
            "{request}"
        );
        let one: AdminServer = "https://zk1:8443".parse().expect("a URL");
        assert!(one.is_of("zk1") && !one.is_of("zk2"));
    }

    // Captured from Apache ZooKeeper 3.8.
    #[test]
    fn settings_are_read_from_properties_and_the_file() {
        let properties =
            json!({ "java.version": "17", "jute.maxbuffer": "4194304", "error": null });
        let file = |text: &str| json!({ "initial_configuration": text, "error": null });
        let with = file("dataDir=/data\nautopurge.purgeInterval=24\nclientPort=2181\n");
        let expected = AdminSettings { max_packet: Some(4 << 20), purge_hours: Some(24) };
        assert_eq!(own_settings([Some(&properties), Some(&with)]), expected);
        let without = file("dataDir=/data\n#autopurge.purgeInterval=24\n");
        let expected = AdminSettings { max_packet: None, purge_hours: Some(0) };
        assert_eq!(own_settings([Some(&json!({})), Some(&without)]), expected);
        assert_eq!(own_settings([None, None]), AdminSettings::default());
        assert_eq!(number("0x400000"), Some(4 << 20));
    }

    // Captured from Apache ZooKeeper 3.8.
    #[test]
    fn stats_are_those_of_srvr() {
        let srvr = srvr(&json!({
            "version": "3.8.0-abc, built on 2024-12-29 17:54 UTC", "read_only": false,
            "server_stats": {
                "packets_sent": 13, "packets_received": 11, "server_state": "standalone",
                "last_processed_zxid": 2, "outstanding_requests": 0, "avg_latency": 11.0,
                "max_latency": 26, "num_alive_client_connections": 1,
            },
            "node_count": 6, "connections": [], "command": "stats", "error": null,
        }))
        .expect("stats");
        assert_eq!(srvr.release(), Some("3.8.0"));
        assert_eq!((srvr.mode, srvr.zxid), (Some(ServerMode::Standalone), Some(2)));
        assert_eq!((srvr.latency, srvr.nodes), (Some((11.0, 26.0)), Some(6)));
    }

    #[test]
    fn monitor_and_configuration_have_the_names_of_the_words() {
        let monitor = json!({ "server_state": "leader", "avg_latency": 0.5, "command": "monitor", "error": null });
        let monitor = mntr(&monitor).expect("metrics");
        assert_eq!(monitor.number("avg_latency"), Some(0.5));
        assert_eq!(monitor.metrics.len(), 2);
        let conf = conf(&json!({ "server_id": 2, "max_client_cnxns": 60 })).expect("settings");
        assert_eq!((conf.server_id(), conf.number("maxClientCnxns")), (Some(2), Some(60)));
    }

    #[test]
    fn connections_watches_and_sessions_are_read() {
        let all = connections(&json!({
            "connections": [{
                "remote_socket_address": "/127.0.0.1:40318", "outstanding_requests": 0,
                "packets_received": 3, "packets_sent": 3, "session_id": 72057679521251328_i64,
                "last_operation": "GETD", "established": 1795688398169_i64,
                "session_timeout": 8000, "last_response_time": 1304740,
            }],
            "secure_connections": [],
        }))
        .expect("connections");
        assert_eq!(all[0].address, "127.0.0.1:40318");
        assert_eq!(all[0].session, Some(0x0100_0013_e734_0000));
        let by_path = json!({ "path_to_session_ids": { "/e": [72057679521251328_i64] } });
        let expected = vec![("/e".to_owned(), vec!["0x1000013e7340000".to_owned()])];
        assert_eq!(watches_by_path(&by_path), Some(expected));
        let dumped = dump(&json!({
            "expiry_time_to_session_ids": { "1313000": [72057679521251328_i64] },
            "session_id_to_ephemeral_paths": { "72057679521251328": ["/e"] },
        }))
        .expect("sessions");
        assert_eq!(dumped.sessions.len(), 1);
        assert_eq!(dumped.ephemerals[&0x0100_0013_e734_0000], ["/e"]);
    }
}
