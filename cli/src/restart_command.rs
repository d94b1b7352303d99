//! The command of a shell that restarts a server: a text with placeholders.
//!
//! Host names come from the configuration of the ensemble, which is data. So they are put into the
//! text only if they consist of letters, digits, dots, colons, hyphens and underscores, and do not
//! begin with a hyphen: a shell and `ssh` then read them as one plain word.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;

use zk_curator_ops::ensemble::probe::ProbedServer;

/// The placeholders, and the variables with the same values.
const PLACES: [(&str, &str); 4] =
    [("{host}", "ZK_HOST"), ("{port}", "ZK_PORT"), ("{id}", "ZK_ID"), ("{server}", "ZK_SERVER")];

/// The command of a shell that restarts a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestartCommand(String);

/// The error of a text that names no server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPlaceholder;

impl fmt::Display for NoPlaceholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = PLACES.map(|(place, _)| place).join(", ");
        write!(f, "the command names no server: it has none of {places}")
    }
}

impl Error for NoPlaceholder {}

/// The error of a value that a shell could take for more than a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnsafeValue {
    server: ProbedServer,
    place: &'static str,
}

impl fmt::Display for UnsafeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is not a plain word", self.server, self.place)
    }
}

impl Error for UnsafeValue {}

impl FromStr for RestartCommand {
    type Err = NoPlaceholder;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Without a placeholder, every run would restart the same server.
        let mut names = PLACES.iter().flat_map(|(place, variable)| [place, variable]);
        let has_place = names.any(|name| text.contains(name));
        has_place.then(|| Self(text.to_owned())).ok_or(NoPlaceholder)
    }
}

impl RestartCommand {
    /// Returns the command of a server.
    ///
    /// # Errors
    /// [`UnsafeValue`] if the host, or a value that the command uses, is not a plain word.
    pub(crate) fn of(&self, server: &ProbedServer) -> Result<String, UnsafeValue> {
        let mut line = self.0.clone();
        for ((place, _), value) in PLACES.into_iter().zip(values(server)) {
            let is_used = place == "{host}" || line.contains(place);
            if is_used && !is_plain(&value) {
                return Err(UnsafeValue { server: server.clone(), place });
            }
            line = line.replace(place, &value);
        }
        Ok(line)
    }

    /// Returns `true` if all values that the command uses are the same for both servers.
    pub(crate) fn is_same_for(&self, first: &ProbedServer, second: &ProbedServer) -> bool {
        let both = values(first).into_iter().zip(values(second));
        let mut used = PLACES
            .into_iter()
            .zip(both)
            .filter(|((place, variable), _)| self.0.contains(place) || self.0.contains(variable));
        used.all(|(_, (first, second))| first == second)
    }
}

/// Returns the variables of the command of a server.
pub(crate) fn environment(server: &ProbedServer) -> Vec<(&'static str, OsString)> {
    let variables = PLACES.into_iter().map(|(_, variable)| variable);
    variables.zip(values(server).map(OsString::from)).collect()
}

/// Returns the values of the placeholders. No value has a brace, so none has a placeholder.
fn values(server: &ProbedServer) -> [String; 4] {
    let id = server.id.map(|id| id.to_string()).unwrap_or_default();
    [server.host.clone(), server.port.to_string(), id, server.to_string()]
}

fn is_plain(value: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_');
    !value.is_empty() && !value.starts_with('-') && value.chars().all(is_safe)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn server(host: &str) -> ProbedServer {
        let mut server = ProbedServer::new(host, 2181);
        server.id = Some(3);
        server
    }

    fn command(text: &str) -> RestartCommand {
        text.parse().expect(text)
    }

    #[test]
    fn placeholders_have_the_values_of_the_server() {
        for (text, expected) in [
            ("ssh {host} restart", "ssh zk1.example restart"),
            ("{id} {port} {server}", "3 2181 zk1.example:2181"),
            ("{host}{host}", "zk1.examplezk1.example"),
            ("awk '{print $1}' {id}", "awk '{print $1}' 3"),
            ("restart \"$ZK_HOST\"", "restart \"$ZK_HOST\""),
        ] {
            assert_eq!(command(text).of(&server("zk1.example")).as_deref(), Ok(expected));
        }
        let variables = environment(&server("::1"));
        let expected =
            [("ZK_HOST", "::1"), ("ZK_PORT", "2181"), ("ZK_ID", "3"), ("ZK_SERVER", "[::1]:2181")];
        let expected = expected.map(|(name, value)| (name, OsString::from(value)));
        assert_eq!(variables, expected);
    }

    #[test]
    fn a_command_names_the_server() {
        assert_eq!("ssh zk1 restart".parse::<RestartCommand>(), Err(NoPlaceholder));
        assert_eq!("ssh {hots} restart".parse::<RestartCommand>(), Err(NoPlaceholder));
    }

    #[test]
    fn servers_of_one_host_need_another_placeholder() {
        let (first, mut second) = (server("localhost"), server("localhost"));
        second.port = 2182;
        for (text, is_same) in [
            ("ssh {host} restart", true),
            ("ssh $ZK_HOST restart", true),
            ("ssh {host} restart {port}", false),
            ("ssh {host} restart $ZK_PORT", false),
            ("restart {server}", false),
        ] {
            assert_eq!(command(text).is_same_for(&first, &second), is_same, "{text}");
        }
        assert!(!command("ssh {host}").is_same_for(&first, &server("zk1")));
    }

    #[test]
    fn values_are_plain_words() {
        let places = command("ssh {host} restart");
        for host in ["zk1", "10.0.0.1", "::1", "zk_1-a.example"] {
            assert!(places.of(&server(host)).is_ok(), "{host}");
        }
        for host in ["", "-oProxyCommand=x", "-a", "a;b", "a b", "$(x)", "`x`", "a\n", "fe80::1%e"]
        {
            assert!(places.of(&server(host)).is_err(), "{host}");
            // A script may pass the variable on to `ssh`.
            assert!(command("ssh $ZK_HOST").of(&server(host)).is_err(), "{host}");
        }
        // The brackets are a pattern of the shell.
        assert!(command("restart {server}").of(&server("::1")).is_err());
        assert!(command("restart {server}").of(&server("zk1")).is_ok());
    }

    proptest! {
        #[test]
        fn a_host_never_changes_the_words_of_a_command(
            host in prop_oneof![any::<String>(), "[-a-z0-9.:_;$ ]{1,8}"],
        ) {
            if let Ok(line) = command("a {host} b").of(&server(&host)) {
                let words: Vec<_> = line.split_whitespace().collect();
                prop_assert_eq!(words, ["a", host.as_str(), "b"]);
                let is_harmless = |c: char| c.is_ascii_alphanumeric() || " .:-_".contains(c);
                prop_assert!(line.chars().all(is_harmless), "{}", line);
            }
        }
    }
}
