use std::borrow::Cow;
use std::fmt;

/// The configuration of an ensemble in `/zookeeper/config`. That of a standalone server is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EnsembleConfig {
    /// The members, in the order of the configuration.
    pub servers: Vec<EnsembleServer>,
    /// The version, which grows with every change; `None` without a version.
    pub version: Option<i64>,
}

/// A member of an ensemble: `server.ID=HOST:QUORUM:ELECTION[|…][:ROLE][;[HOST:]PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnsembleServer {
    /// The id of the server.
    pub id: u64,
    /// The addresses for the other servers: one, or several (ZooKeeper 3.6).
    pub peers: Vec<PeerAddress>,
    /// `true` if the server is an observer, without a vote.
    pub observer: bool,
    /// The client address, as configured; `None` if it is not configured.
    pub client: Option<ServerAddress>,
}

/// The address of a member for the other servers of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerAddress {
    /// A name or an address. An IPv6 address has no brackets.
    pub host: String,
    /// The port on which a leader listens to followers.
    pub quorum_port: u16,
    /// The port of elections.
    pub election_port: u16,
}

/// Host and port. The host of an IPv6 address has no brackets. If only a port is configured, the
/// host is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerAddress {
    /// A name or an address.
    pub host: String,
    /// The port, not zero.
    pub port: u16,
}

/// The error of an invalid line of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    line: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no configuration of an ensemble: {:?}", self.line)
    }
}

impl std::error::Error for ConfigError {}

impl EnsembleConfig {
    /// Parses the data of `/zookeeper/config`. Lines that are neither a server nor the version are
    /// skipped.
    ///
    /// # Errors
    /// The first line of a server or of the version that cannot be parsed.
    pub fn parse(data: &[u8]) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let text = String::from_utf8_lossy(data);
        for line in text.lines().map(str::trim) {
            let error = || ConfigError { line: line.chars().take(200).collect() };
            let Some((key, value)) = line.split_once('=') else { continue };
            let (key, value) = (key.trim(), value.trim());
            if let Some(id) = key.strip_prefix("server.") {
                let server = id.parse().ok().and_then(|id| EnsembleServer::parse(id, value));
                config.servers.push(server.ok_or_else(error)?);
            } else if key == "version" {
                config.version = Some(i64::from_str_radix(value, 16).map_err(|_| error())?);
            }
        }
        Ok(config)
    }

    /// Returns the client addresses of the members as a connect string without a chroot, sorted as
    /// in Curator; `None` if no member has one.
    #[must_use]
    pub fn connect_string(&self) -> Option<String> {
        self.connect_string_by(|server| server.client_address().map(|at| at.to_string()))
    }

    /// Does the same as [`connect_string`](Self::connect_string), with `address` returning the
    /// address of a member. Members for which it returns `None` are left out.
    pub fn connect_string_by(
        &self,
        address: impl Fn(&EnsembleServer) -> Option<String>,
    ) -> Option<String> {
        let mut servers: Vec<_> = self.servers.iter().filter_map(address).collect();
        servers.sort();
        servers.dedup();
        (!servers.is_empty()).then(|| servers.join(","))
    }
}

impl EnsembleServer {
    fn parse(id: u64, value: &str) -> Option<Self> {
        let (servers, client) = match value.split_once(';') {
            Some((servers, client)) => (servers, Some(ServerAddress::parse_client(client)?)),
            None => (value, None),
        };
        let mut peers = Vec::new();
        let mut observer = false;
        for address in servers.split('|') {
            let (host, rest) = split_host(address)?;
            let mut rest = rest.split(':');
            let mut port = || rest.next()?.parse().ok();
            let (quorum_port, election_port) = (port()?, port()?);
            observer |= match rest.next() {
                None => false,
                Some(role) => role.eq_ignore_ascii_case("observer"),
            };
            peers.push(PeerAddress { host: host.to_owned(), quorum_port, election_port });
        }
        Some(Self { id, peers, observer, client })
    }

    /// Returns the address for clients: the client address, or, if that is a wildcard, the host
    /// that the other servers use.
    #[must_use]
    pub fn client_address(&self) -> Option<ServerAddress> {
        let client = self.client.as_ref()?;
        let wildcard = matches!(client.host.as_str(), "" | "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0");
        let host = if wildcard { &self.peers.first()?.host } else { &client.host };
        Some(ServerAddress { host: host.clone(), port: client.port })
    }
}

impl ServerAddress {
    fn parse_client(text: &str) -> Option<Self> {
        let (host, port) = if text.contains(':') { split_host(text)? } else { ("", text) };
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for EnsembleServer {
    /// Formats the server as in a configuration file, for
    /// [`ReconfigBuilder::joining`](crate::op::ReconfigBuilder::joining).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server.{}=", self.id)?;
        let role = if self.observer { "observer" } else { "participant" };
        for (index, PeerAddress { host, quorum_port, election_port }) in
            self.peers.iter().enumerate()
        {
            let separator = if index == 0 { "" } else { "|" };
            write!(f, "{separator}{}:{quorum_port}:{election_port}:{role}", bracketed(host))?;
        }
        match &self.client {
            Some(client) if client.host.is_empty() => write!(f, ";{}", client.port),
            Some(client) => write!(f, ";{client}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

/// Returns a host, with brackets if it is an IPv6 address.
fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { Cow::Owned(format!("[{host}]")) } else { Cow::Borrowed(host) }
}

/// Splits into the host, without brackets, and the text after its colon.
fn split_host(text: &str) -> Option<(&str, &str)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once("]:")?,
        None => text.split_once(':')?,
    };
    (!host.is_empty()).then_some((host, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect_string(config: &str) -> Option<String> {
        EnsembleConfig::parse(config.as_bytes()).unwrap().connect_string()
    }

    #[test]
    fn a_configuration_of_apache_zookeeper_is_read() {
        let text = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=zk2:2888:3888:observer;10.0.0.2:2182\nversion=100000003";
        let config = EnsembleConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(config.version, Some(0x1_0000_0003));
        let [one, two] = &config.servers[..] else { panic!("{config:?}") };
        assert_eq!(
            (one.id, one.peers[0].host.as_str(), one.peers[0].election_port),
            (1, "zk1", 3888)
        );
        assert!(!one.observer);
        assert_eq!((two.id, two.observer), (2, true));
        assert_eq!(config.connect_string().unwrap(), "10.0.0.2:2182,zk1:2181");
    }

    /// CURATOR-593/538/664: servers without a client address are left out, names stay names, and a
    /// wildcard is the host of the quorum.
    #[test]
    fn curator_664_the_servers_are_those_that_clients_can_reach() {
        for (config, expected) in [
            ("", None),
            ("version=0", None),
            ("server.1=a:2888:3888", None),
            ("server.1=a:2888:3888;2181\nserver.2=b:2888:3888", Some("a:2181")),
            ("server.2=b:1:2;2181\nserver.1=a:1:2;2181", Some("a:2181,b:2181")),
            ("server.1=a:1:2:participant;[::]:2181", Some("a:2181")),
            ("server.1=[2001:db8::1]:1:2;0.0.0.0:2181", Some("[2001:db8::1]:2181")),
            ("server.1=a:1:2;[::1]:2181", Some("[::1]:2181")),
            ("server.1=a:1:2|b:1:2;2181", Some("a:2181")),
            ("server.1=not.resolvable.invalid:1:2;2181", Some("not.resolvable.invalid:2181")),
            ("server.1=a:1:2;2181\ngroup.1=1\nweight.1=1\n# comment", Some("a:2181")),
            ("server.1=a:1:2;2181\nserver.2=a:3:4;2181", Some("a:2181")),
        ] {
            assert_eq!(connect_string(config).as_deref(), expected, "{config:?}");
        }
    }

    #[test]
    fn a_server_is_written_as_it_is_read() {
        for line in [
            "server.1=a:1:2:participant;2181",
            "server.2=a:1:2:participant|b:3:4:participant;0.0.0.0:2181",
            "server.3=[2001:db8::1]:1:2:observer;[::]:2181",
            "server.4=a:1:2:participant",
        ] {
            assert_eq!(
                EnsembleConfig::parse(line.as_bytes()).unwrap().servers[0].to_string(),
                line
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for line in [
            "server.x=a:1:2;2181",
            "server.1=a",
            "server.1=a:1",
            "server.1=a:1:99999;2181",
            "server.1=a:1:2;",
            "server.1=a:1:2;0",
            "server.1=:1:2;2181",
            "server.1=[::1:1:2;2181",
            "version=xyz",
        ] {
            let error = EnsembleConfig::parse(line.as_bytes()).expect_err(line);
            assert_eq!(error.to_string(), format!("no configuration of an ensemble: {line:?}"));
        }
        assert!(EnsembleConfig::parse(&[0xff, b'=', 0xfe]).is_ok(), "other lines are skipped");
    }
}
