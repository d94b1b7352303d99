//! The connections of a server: `cons`, and the part of `stat` with the same lines.

use crate::node::parse_id;

/// A connection of a client.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClientConnection {
    /// Address and port of the client.
    pub address: String,
    /// Requests without a response.
    pub queued: u64,
    /// Requests received on this connection.
    pub received: u64,
    /// Responses and events sent on this connection.
    pub sent: u64,
    /// `None` for a connection that sent a four-letter word.
    pub session: Option<i64>,
    /// The last operation in four letters, such as `PING` or `GETD`.
    pub last_operation: Option<String>,
    /// The time of the connect, in milliseconds since 1970.
    pub established: Option<i64>,
    /// The session timeout, in milliseconds.
    pub timeout: Option<u64>,
    /// The last transaction that the client has seen.
    pub last_zxid: Option<i64>,
    /// The time of the last response, in milliseconds of a clock that only this server knows.
    pub last_response: Option<i64>,
    /// The average latency, in milliseconds.
    pub average_latency: Option<f64>,
    /// The greatest latency, in milliseconds.
    pub greatest_latency: Option<f64>,
}

/// Parses the response to `cons` or `stat`.
#[must_use]
pub fn connections(text: &str) -> Vec<ClientConnection> {
    text.lines().filter_map(connection).collect()
}

/// Parses ` /10.0.3.17:41234[1](queued=0,recved=3,sent=3,sid=0x…,lop=PING,…)`. ClickHouse Keeper
/// has neither the slash nor the brackets.
fn connection(line: &str) -> Option<ClientConnection> {
    let line = line.strip_prefix(' ')?;
    let (peer, rest) = line.rsplit_once('(')?;
    let fields = rest.trim_end().strip_suffix(')')?;
    let peer = peer.strip_prefix('/').unwrap_or(peer);
    // The brackets of an IPv6 address come first.
    let address = match peer.strip_suffix(']').and_then(|peer| peer.rsplit_once('[')) {
        Some((address, _)) if !address.is_empty() => address,
        _ => peer,
    };
    let mut connection =
        ClientConnection { address: address.to_owned(), ..ClientConnection::default() };
    for field in fields.split(',') {
        let Some((key, value)) = field.split_once('=') else { continue };
        let number = || value.parse().ok();
        match key.trim() {
            "queued" => connection.queued = number().unwrap_or_default(),
            "recved" => connection.received = number().unwrap_or_default(),
            "sent" => connection.sent = number().unwrap_or_default(),
            // ClickHouse Keeper writes -1 before the handshake.
            "sid" => connection.session = parse_id(value).ok().filter(|id| !matches!(id, 0 | -1)),
            "lop" if value != "NA" => connection.last_operation = Some(value.to_owned()),
            "est" => connection.established = value.parse().ok(),
            "to" => connection.timeout = number(),
            "lzxid" => connection.last_zxid = parse_id(value).ok().filter(|zxid| *zxid != -1),
            "lresp" => connection.last_response = value.parse().ok(),
            "avglat" => connection.average_latency = value.parse().ok(),
            "maxlat" => connection.greatest_latency = value.parse().ok(),
            _ => {}
        }
    }
    Some(connection)
}
