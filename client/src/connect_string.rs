use std::fmt;
use std::str::FromStr;

use crate::path::{self, PathError};

/// The port of a host without a port.
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
/// The port defaults to 2181. IPv6 addresses are in brackets: `[::1]:2181`. All paths of the client
/// are below the chroot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectString {
    /// The servers, at least one.
    pub hosts: Vec<HostPort>,
    /// The chroot, with its leading slash; empty if there is none.
    pub chroot: String,
}

/// The reason why a connect string is not valid.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectStringError {
    /// There is no host.
    #[error(
        "connect string names no host: write \"host:port\", several of them with commas between"
    )]
    NoHost,
    /// A host between two commas is empty.
    #[error(
        "connect string has an empty host: leave out the comma too many, or name the host before the port"
    )]
    EmptyHost,
    /// The string begins with a scheme, like a URL.
    #[error("connect string begins with {0:?}: leave that out, and write \"host:port\"")]
    Scheme(String),
    /// A port is not a number from 1 to 65535.
    #[error("connect string has the invalid port {0:?}: a port is a number from 1 to 65535")]
    InvalidPort(String),
    /// An IPv6 address has no brackets, a bracket has no partner, or the comma between two hosts is
    /// missing.
    #[error(
        "connect string has the invalid host {0:?}: put commas between hosts, and an IPv6 address into brackets"
    )]
    InvalidHost(String),
    /// The chroot differs from the client's.
    #[error("connect string has another chroot than the client, whose chroot cannot change")]
    OtherChroot,
    /// A comma follows the chroot. The chroot stands once, after the last host.
    #[error("connect string has a comma after its chroot, which stands once, after the last host")]
    CommaInChroot,
    /// The chroot ends with a slash.
    #[error("connect string has the chroot {0:?}: leave out the slash at its end")]
    ChrootEndsInSlash(String),
    /// The chroot is not a path.
    #[error("connect string has the invalid chroot {chroot:?}: {why}")]
    InvalidChroot {
        /// The chroot.
        chroot: String,
        /// The rule of paths that the chroot breaks.
        why: PathError,
    },
}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        let text = text.trim();
        if let Some(scheme) = scheme(text) {
            return Err(ConnectStringError::Scheme(scheme.to_owned()));
        }
        let (servers, chroot) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let chroot = if chroot == "/" { "" } else { chroot };
        if chroot.contains(',') {
            return Err(ConnectStringError::CommaInChroot);
        }
        if !chroot.is_empty() {
            path::validate(chroot).map_err(|why| invalid_chroot(chroot, why))?;
        }
        if servers.trim().is_empty() {
            return Err(ConnectStringError::NoHost);
        }
        let hosts =
            servers.split(',').map(|server| parse_host(server.trim())).collect::<Result<_, _>>()?;
        Ok(Self { hosts, chroot: chroot.to_owned() })
    }
}

/// Returns the scheme of a URL, such as `http://`.
fn scheme(text: &str) -> Option<&str> {
    let end = text.find("://")?;
    let is_name =
        end > 0 && text[..end].chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_name.then(|| &text[..end + "://".len()])
}

fn invalid_chroot(chroot: &str, why: PathError) -> ConnectStringError {
    let chroot = chroot.to_owned();
    match why {
        PathError::TrailingSlash => ConnectStringError::ChrootEndsInSlash(chroot),
        why => ConnectStringError::InvalidChroot { chroot, why },
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
    fn each_bad_connect_string_has_its_error() {
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
        let why = PathError::EmptyComponent;
        assert_eq!(parse("a//x"), Err(E::InvalidChroot { chroot: "//x".into(), why }));
        assert_eq!(parse("a/x/"), Err(E::ChrootEndsInSlash("/x/".into())));
        assert_eq!(parse("http://a:1"), Err(E::Scheme("http://".into())));
        assert_eq!(parse("zk://a:1,b:2/x"), Err(E::Scheme("zk://".into())));
    }

    #[test]
    fn every_message_says_what_to_change() {
        for (text, message) in [
            ("", "names no host: write \"host:port\", several of them with commas between"),
            (
                "a,,b",
                "has an empty host: leave out the comma too many, or name the host before the port",
            ),
            (
                "http://a:2181/app",
                "begins with \"http://\": leave that out, and write \"host:port\"",
            ),
            ("a:x", "has the invalid port \"x\": a port is a number from 1 to 65535"),
            (
                "a:1 b:1",
                "has the invalid host \"a:1 b:1\": put commas between hosts, and an IPv6 address into brackets",
            ),
            ("a:1/x,b:1/x", "has a comma after its chroot, which stands once, after the last host"),
            ("a:1/app/", "has the chroot \"/app/\": leave out the slash at its end"),
            ("a:1/app//x", "has the invalid chroot \"/app//x\": path has an empty component"),
        ] {
            let error = text.parse::<ConnectString>().unwrap_err();
            assert_eq!(error.to_string(), format!("connect string {message}"));
            // The message contains the cause, so a report of the sources would print it twice.
            assert!(std::error::Error::source(&error).is_none(), "{error:?}");
        }
    }
}
