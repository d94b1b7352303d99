use std::fmt;
use std::str::FromStr;

use crate::path::{self, PathError};

/// The port of a host that names none.
const DEFAULT_PORT: u16 = 2181;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HostPort {
    /// A name or a literal address, without brackets.
    pub host: String,
    /// The client port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// A parsed connect string: `host[:port][,host[:port]…][/chroot]`.
///
/// The port defaults to 2181. IPv6 addresses stand in brackets: `[::1]:2181`. All paths of the client are
/// below the chroot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectString {
    /// The servers; at least one.
    pub hosts: Vec<HostPort>,
    /// The chroot, with its leading slash; empty for none.
    pub chroot: String,
}

/// Why a connect string is not valid.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectStringError {
    /// There is no host at all.
    #[error("connect string names no host")]
    NoHost,
    /// A host between two commas is empty.
    #[error("connect string has an empty host")]
    EmptyHost,
    /// A port is not a number from 1 to 65535.
    #[error("connect string has the invalid port {0:?}")]
    InvalidPort(String),
    /// An IPv6 address lacks its brackets, or a bracket its partner.
    #[error("connect string has the invalid host {0:?}; IPv6 addresses stand in brackets")]
    InvalidHost(String),
    /// The chroot is another one than that of the client.
    #[error("connect string has another chroot")]
    OtherChroot,
    /// A comma follows the chroot, which stands once, after the last host.
    #[error("connect string has a comma after its chroot, which stands once, after the last host")]
    CommaInChroot,
    /// The chroot is not a path.
    #[error("connect string has an invalid chroot")]
    InvalidChroot(#[source] PathError),
}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        let text = text.trim();
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if chroot.contains(',') {
            return Err(ConnectStringError::CommaInChroot);
        }
        if !chroot.is_empty() {
            path::validate(chroot).map_err(ConnectStringError::InvalidChroot)?;
        }
        if servers.trim().is_empty() {
            return Err(ConnectStringError::NoHost);
        }
        let hosts = servers.split(',').map(|server| parse_host(server.trim())).collect::<Result<_, _>>()?;
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }
}

fn parse_host(server: &str) -> Result<HostPort, ConnectStringError> {
    if server.is_empty() {
        return Err(ConnectStringError::EmptyHost);
    }
    let invalid = || ConnectStringError::InvalidHost(server.to_owned());
    let (host, port) = if let Some(rest) = server.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(invalid)?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(invalid()),
        }
    } else {
        match server.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(invalid()),
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        }
    };
    if host.is_empty() {
        return Err(ConnectStringError::EmptyHost);
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '[' || c == ']') {
        return Err(invalid());
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(text) => match text.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(ConnectStringError::InvalidPort(text.to_owned())),
        },
    };
    Ok(HostPort { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Vec<String>, String), ConnectStringError> {
        let parsed: ConnectString = text.parse()?;
        Ok((parsed.hosts.iter().map(ToString::to_string).collect(), parsed.chroot))
    }

    #[test]
    fn hosts_ports_and_chroot() {
        assert_eq!(parse("a"), Ok((vec!["a:2181".into()], String::new())));
        assert_eq!(
            parse(" a:1 , [::1]:2,[fe80::2],10.0.0.1:3/app/x"),
            Ok((
                vec!["a:1".into(), "[::1]:2".into(), "[fe80::2]:2181".into(), "10.0.0.1:3".into()],
                "/app/x".into()
            ))
        );
        assert_eq!(parse("a:1/"), Ok((vec!["a:1".into()], String::new())));
    }

    #[test]
    fn bad_connect_strings_are_named_for_what_is_wrong() {
        use ConnectStringError as E;
        assert_eq!(parse(""), Err(E::NoHost));
        assert_eq!(parse("/app"), Err(E::NoHost));
        assert_eq!(parse("a,,b"), Err(E::EmptyHost));
        assert_eq!(parse(":2181"), Err(E::EmptyHost));
        assert_eq!(parse("a:0"), Err(E::InvalidPort("0".into())));
        assert_eq!(parse("a:65536"), Err(E::InvalidPort("65536".into())));
        assert_eq!(parse("a:x"), Err(E::InvalidPort("x".into())));
        assert_eq!(parse("::1"), Err(E::InvalidHost("::1".into())));
        assert_eq!(parse("[::1"), Err(E::InvalidHost("[::1".into())));
        assert_eq!(parse("[::1]x"), Err(E::InvalidHost("[::1]x".into())));
        assert_eq!(parse("a b"), Err(E::InvalidHost("a b".into())));
        assert_eq!(parse("a:1/x,b:1/x"), Err(E::CommaInChroot));
        assert_eq!(parse("a/,b"), Err(E::CommaInChroot));
        assert_eq!(parse("a//x"), Err(E::InvalidChroot(PathError::EmptyComponent)));
        assert_eq!(parse("a/x/"), Err(E::InvalidChroot(PathError::TrailingSlash)));
    }
}
