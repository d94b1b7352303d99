//! The servers of an ensemble: those of the connect string, and those of the configuration.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use zk_curator::ensemble::{EnsembleConfig, EnsembleServer};
use zk_curator_client::{ConnectString, HostPort};

use super::flw::{Conf, Word};
use super::probe::{self, ProbeAnswer, ProbeOptions, ProbeReport, Server};
use crate::app::App;
use crate::exit::CommandFailure;

/// The time limit of a session that only reads the configuration.
const SESSION_WITHIN: Duration = Duration::from_secs(2);

/// The servers of an ensemble.
#[derive(Debug, Clone, Default)]
pub(crate) struct EnsembleMembers {
    pub(crate) servers: Vec<Server>,
    /// The configuration; `None` if no server told it, and that of a standalone server is empty.
    pub(crate) config: Option<EnsembleConfig>,
    /// The members whose client addresses are not known.
    pub(crate) unknown: Vec<u64>,
}

impl EnsembleMembers {
    /// Returns the number of servers with a vote.
    pub(crate) fn voters(&self) -> Option<usize> {
        let config = self.config.as_ref()?;
        let voters = config.servers.iter().filter(|server| !server.observer).count();
        (voters > 0).then_some(voters)
    }

    /// Returns a line about the members that were not asked.
    pub(crate) fn note(&self) -> Option<String> {
        let unknown: Vec<_> = self.unknown.iter().map(|id| format!("server.{id}")).collect();
        let note = "without a client port in the configuration: name it in the connect string";
        (!unknown.is_empty()).then(|| format!("{} {note}", unknown.join(", ")))
    }
}

/// Returns the servers of the connect string.
pub(crate) fn connect_string(app: &App) -> Result<Vec<HostPort>, CommandFailure> {
    let parsed: Result<ConnectString, _> = app.servers().parse();
    Ok(parsed.map_err(|error| CommandFailure::usage(error.to_string()))?.hosts)
}

/// Parses a server: `host:port`.
pub(crate) fn one(text: &str) -> Result<Server, CommandFailure> {
    let parsed: Result<ConnectString, _> = text.parse();
    let mut hosts = parsed.map_err(|error| CommandFailure::usage(error.to_string()))?.hosts;
    match (hosts.pop(), hosts.is_empty()) {
        (Some(host), true) => Ok(plain(&host)),
        _ => Err(CommandFailure::usage(format!("not one server: {text}"))),
    }
}

/// Returns a server that is not in a configuration.
pub(crate) fn plain(host: &HostPort) -> Server {
    Server { host: host.host.clone(), port: host.port, id: None, observer: false }
}

/// Finds the servers. `conf` tells the configuration without a session. If it is refused, a session
/// reads `/zookeeper/config`.
pub(crate) async fn find(
    app: &App,
    options: &ProbeOptions,
) -> Result<EnsembleMembers, CommandFailure> {
    options.secure_with(app.secure_connector()?)?;
    let named = connect_string(app)?;
    let asked: Vec<Server> = named.iter().map(plain).collect();
    let reports = probe::ask_all(&asked, &[Word::Conf], options).await;
    let configs = reports.iter().filter_map(|report| report.conf.as_ref().ok());
    let configs: Vec<_> = configs.filter_map(|conf| config(&conf.membership())).collect();
    let config =
        match configs.into_iter().max_by_key(|config| (config.servers.len(), config.version)) {
            Some(config) => Some(config),
            None if reports.iter().any(|report| could_tell(&report.conf)) => read(app).await,
            None => None,
        };
    let addresses = resolve(&reports, config.as_ref()).await;
    let (servers, unknown) = merge(&reports, config.as_ref(), &addresses);
    Ok(EnsembleMembers { servers, config, unknown })
}

/// Returns `true` if the server is there, and did not tell its configuration.
fn could_tell(conf: &ProbeAnswer<Conf>) -> bool {
    conf.as_ref().is_err_and(|trouble| !trouble.is_unreachable())
}

fn config(membership: &str) -> Option<EnsembleConfig> {
    EnsembleConfig::parse(membership.as_bytes()).ok()
}

async fn read(app: &App) -> Option<EnsembleConfig> {
    let read = async { app.zk().await.ok()?.get_config().await.ok() };
    timeout(SESSION_WITHIN, read).await.ok().flatten()
}

/// A host with a port.
type Address = (String, u16);

/// The addresses behind a name, for servers that are called by several names.
type MemberAddresses = Vec<(Address, HashSet<SocketAddr>)>;

async fn resolve(reports: &[ProbeReport], config: Option<&EnsembleConfig>) -> MemberAddresses {
    let members = config.into_iter().flat_map(|config| &config.servers);
    let members = members.filter_map(|member| address(member, reports));
    let named = reports.iter().map(|report| (report.server.host.clone(), report.server.port));
    let all = members.chain(named);
    join_all(all.map(async |(host, port)| {
        let found = tokio::net::lookup_host((host.as_str(), port));
        let found = timeout(Duration::from_secs(1), found).await;
        let found = found.ok().and_then(Result::ok).into_iter().flatten().collect();
        ((host, port), found)
    }))
    .await
}

/// Returns the client address of a member. Where each server knows only its own client port, it is
/// assumed to be that of the first named server.
fn address(member: &EnsembleServer, reports: &[ProbeReport]) -> Option<Address> {
    let guess = || Some((member.peers.first()?.host.clone(), reports.first()?.server.port));
    member.client_address().map(|address| (address.host, address.port)).or_else(guess)
}

/// Joins the servers of the connect string with the members of the configuration, and returns the
/// ids of the members without an address. A server that is both has the address of the connect
/// string, which reaches it from here.
fn merge(
    reports: &[ProbeReport],
    config: Option<&EnsembleConfig>,
    addresses: &MemberAddresses,
) -> (Vec<Server>, Vec<u64>) {
    let mut left: Vec<&ProbeReport> = reports.iter().collect();
    let (mut servers, mut unknown): (Vec<Server>, _) = (Vec::new(), Vec::new());
    for member in config.into_iter().flat_map(|config| &config.servers) {
        let address = address(member, reports);
        let is_member =
            |report: &ProbeReport| match report.conf.as_ref().ok().and_then(Conf::server_id) {
                Some(id) => id == member.id,
                None => address.as_ref().is_some_and(|address| is_at(report, address, addresses)),
            };
        let place = left.iter().position(|report| is_member(report));
        let named = place.map(|place| left.remove(place).server.clone());
        // The same server may be named twice.
        left.retain(|report| !is_member(report));
        let taken = |(host, port): &Address| {
            let named = reports.iter().map(|report| &report.server);
            named.chain(&servers).any(|server| (&server.host, &server.port) == (host, port))
        };
        let found = match named {
            Some(server) => Some((server.host, server.port)),
            None => address.filter(|address| !taken(address)),
        };
        match found {
            None => unknown.push(member.id),
            Some((host, port)) => {
                let (id, observer) = (Some(member.id), member.observer);
                servers.push(Server { host, port, id, observer });
            }
        }
    }
    servers.extend(left.into_iter().map(|report| report.server.clone()));
    (servers, unknown)
}

/// Returns `true` if a server of the connect string has this address, perhaps by another name.
fn is_at(report: &ProbeReport, (host, port): &Address, addresses: &MemberAddresses) -> bool {
    let of = |host: &str, port: u16| {
        let known = addresses.iter().find(|(name, _)| (name.0.as_str(), name.1) == (host, port));
        known.map(|(_, addresses)| addresses)
    };
    let server = &report.server;
    let both = of(host, *port).zip(of(&server.host, server.port));
    (host, port) == (&server.host, &server.port) || both.is_some_and(|(a, b)| !a.is_disjoint(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str, port: u16, id: Option<u64>) -> ProbeReport {
        let mut report =
            ProbeReport::empty(Server { host: host.to_owned(), port, id: None, observer: false });
        let line = id.map(|id| format!("serverId={id}"));
        report.conf = Ok(line.and_then(|line| Conf::parse(&line)).unwrap_or_default());
        report
    }

    fn merged(reports: &[ProbeReport], config: &str, addresses: &MemberAddresses) -> Vec<String> {
        let config = EnsembleConfig::parse(config.as_bytes()).expect("a configuration");
        let (servers, _) = merge(reports, Some(&config), addresses);
        servers.iter().map(|server| format!("{:?} {server}", server.id.unwrap_or(0))).collect()
    }

    const CONFIG: &str = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
        server.2=zk2:2888:3888:observer;0.0.0.0:2181\nversion=0\n";

    #[test]
    fn members_are_named_as_in_the_connect_string() {
        let reports = [named("localhost", 32_181, Some(2))];
        assert_eq!(merged(&reports, CONFIG, &vec![]), ["1 zk1:2181", "2 localhost:32181"]);
    }

    #[test]
    fn servers_outside_the_configuration_stay() {
        let reports = [named("zk1", 2181, None), named("zk9", 2181, None)];
        assert_eq!(merged(&reports, CONFIG, &vec![]), ["1 zk1:2181", "2 zk2:2181", "0 zk9:2181"]);
    }

    #[test]
    fn two_names_of_an_address_are_one_server() {
        let address = HashSet::from([SocketAddr::from(([10, 0, 0, 1], 2181))]);
        let addresses = vec![
            (("zk1".to_owned(), 2181), address.clone()),
            (("alias".to_owned(), 2181), address),
        ];
        let reports = [named("alias", 2181, None), named("zk1", 2181, None)];
        assert_eq!(merged(&reports, CONFIG, &addresses), ["1 alias:2181", "2 zk2:2181"]);
    }

    #[test]
    fn members_without_a_client_port_are_assumed_at_the_same_port() {
        let apart = "server.1=zk1:2888:3888\nserver.2=zk2:2888:3888\n";
        let reports = [named("zk1", 2182, Some(1))];
        assert_eq!(merged(&reports, apart, &vec![]), ["1 zk1:2182", "2 zk2:2182"]);
        let together = "server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\n";
        let reports = [named("127.0.0.1", 2182, Some(1))];
        assert_eq!(merged(&reports, together, &vec![]), ["1 127.0.0.1:2182"]);
        let members = EnsembleMembers { unknown: vec![2, 3], ..EnsembleMembers::default() };
        assert!(members.note().unwrap().starts_with("server.2, server.3 without a client port"));
    }

    #[test]
    fn without_a_configuration_the_named_servers_remain() {
        let reports = [named("a", 1, None), named("b", 2, None)];
        assert_eq!(merge(&reports, None, &vec![]).0.len(), 2);
        assert_eq!(EnsembleMembers::default().voters(), None);
    }
}
