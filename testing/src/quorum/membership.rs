//! The list of members, for clients.

/// The election port in the list.
pub(crate) const ELECTION_PORT: u16 = 3888;
/// The quorum port in the list.
pub(crate) const QUORUM_PORT: u16 = 2888;

/// Returns the list of members in `/zookeeper/config` and `conf`, from their TCP ports.
pub(crate) fn membership(ports: impl IntoIterator<Item = Option<u16>>) -> String {
    let line = |(at, port): (usize, Option<u16>)| {
        let id = at + 1;
        let host = if port.is_some() { "127.0.0.1".to_owned() } else { format!("zk{id}") };
        let port = port.unwrap_or(2181);
        format!("server.{id}={host}:{QUORUM_PORT}:{ELECTION_PORT}:participant;{host}:{port}\n")
    };
    let lines: String = ports.into_iter().enumerate().map(line).collect();
    format!("{lines}version=0")
}
