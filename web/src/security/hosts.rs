//! The hosts that this server is called by. A page of another site whose name an attacker points to
//! this address (DNS rebinding) sends another `Host`.

/// The names by which a browser on the same machine calls a server.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The accepted values of the header `Host`.
#[derive(Debug, Clone)]
pub(crate) struct Hosts(Vec<String>);

impl Hosts {
    /// Returns the loopback names and these hosts. A host with a port stands for this port only,
    /// and one without a port for all of them.
    pub(crate) fn new(more: &[String]) -> Self {
        let loopback = LOOPBACK.iter().map(|host| (*host).to_owned());
        Self(loopback.chain(more.iter().map(|host| host.to_ascii_lowercase())).collect())
    }

    pub(crate) fn accept(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        self.0.iter().any(|known| *known == host || known == name)
    }
}

/// Returns the host without its port. An address of IPv6 keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // The colons of an address without brackets are no ports.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_are_accepted() {
        let hosts = Hosts::new(&["zk.example.com".to_owned(), "zk2:8443".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:9181",
            "127.0.0.1:1",
            "[::1]:9181",
            "zk.example.com:80",
            "zk2:8443",
        ] {
            assert!(hosts.accept(host), "{host}");
        }
        for host in [
            "",
            "evil.com",
            "evil.com:9181",
            "localhost.evil.com",
            "zk2",
            "zk2:80",
            "::1",
            "127.0.0.1.evil.com",
        ] {
            assert!(!hosts.accept(host), "{host}");
        }
    }
}
