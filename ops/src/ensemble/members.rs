//! The servers of an ensemble: those of the connect string, and those of the configuration.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use zk_curator::ensemble::{EnsembleConfig, EnsembleServer};

use super::notes::ProbeNote;
use super::probe::{self, ProbeReport, ProbeResult, ProbedServer};
use super::target::{EnsembleProbe, FrameworkSource};
use super::words::{ConfResponse, FourLetterWord, ServerMode};
use crate::error::Error;

/// The time limit of a session that only reads the configuration.
const SESSION_WITHIN: Duration = Duration::from_secs(2);

/// The servers of an ensemble.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EnsembleMembers {
    /// The servers to probe: the members, and then further servers of the connect string.
    pub servers: Vec<ProbedServer>,
    /// The configuration; `None` if no server told it, and that of a standalone server is empty.
    pub config: Option<EnsembleConfig>,
    /// The ids of the members whose client addresses are not known.
    pub unknown: Vec<u64>,
    /// Those of the unknown members whose client addresses other servers have: two servers report
    /// the same id, or the configuration has an address twice.
    pub displaced: Vec<u64>,
}

impl EnsembleMembers {
    /// Returns the number of servers with a vote. `None` if there is no configuration.
    #[must_use]
    pub fn voters(&self) -> Option<usize> {
        let config = self.config.as_ref()?;
        let voters = config.servers.iter().filter(|server| !server.observer).count();
        (voters > 0).then_some(voters)
    }

    /// Returns `true` if these reports are of all servers: every member has an address, and the
    /// members are known, or there is only a standalone server.
    pub(crate) fn are_all(&self, reports: &[ProbeReport]) -> bool {
        let is_alone = |report: &ProbeReport| report.mode() == Some(ServerMode::Standalone);
        let are_alone = !reports.is_empty() && reports.iter().all(is_alone);
        self.unknown.is_empty() && (self.config.is_some() || are_alone)
    }

    /// Returns a note about the members that were not asked.
    #[must_use]
    pub fn note(&self) -> Option<ProbeNote> {
        let displaced = self.displaced.clone();
        let note = ProbeNote::NoAddress { members: self.without_address(), displaced };
        (!self.unknown.is_empty()).then_some(note)
    }

    /// Returns the ids of the members whose client addresses the configuration does not tell.
    pub(crate) fn without_address(&self) -> Vec<u64> {
        self.unknown.iter().copied().filter(|id| !self.displaced.contains(id)).collect()
    }

    /// Returns a note about servers that may exist in addition to those of these reports: about the
    /// members that were not asked, or that the members are not known.
    #[must_use]
    pub fn note_beside(&self, reports: &[ProbeReport]) -> Option<ProbeNote> {
        let is_unknown = self.config.is_none() && !self.are_all(reports);
        self.note().or_else(|| is_unknown.then_some(ProbeNote::MembersUnknown))
    }
}

impl EnsembleProbe<'_> {
    /// Finds the servers, and asks each of them these words, in parallel.
    ///
    /// # Errors
    /// As of [`members`](Self::members). A server that does not respond is not an error.
    pub async fn survey(
        &self,
        words: &[FourLetterWord],
    ) -> Result<(EnsembleMembers, Vec<ProbeReport>), Error> {
        let members = self.members().await?;
        let reports = probe::ask_all(&members.servers, words, self.options()).await;
        Ok((members, reports))
    }

    /// Finds the servers. `conf` tells the configuration without a session. If no server tells it,
    /// although one is there, the framework reads `/zookeeper/config`, if the probe has one.
    ///
    /// # Errors
    /// [`InvalidConnectString`](Error::InvalidConnectString) and
    /// [`UncheckedAdminServer`](Error::UncheckedAdminServer).
    pub async fn members(&self) -> Result<EnsembleMembers, Error> {
        self.options().check()?;
        let asked = self.named()?;
        let reports = probe::ask_all(&asked, &[FourLetterWord::Conf], self.options()).await;
        let config = match newest(&reports) {
            Some(config) => Some(config),
            None if reports.iter().any(|report| could_tell(&report.conf)) => {
                read(self.source()).await
            }
            None => {
                let is_alone = reports.iter().any(|report| report.conf.is_ok());
                is_alone.then(EnsembleConfig::default)
            }
        };
        let addresses = resolve(&reports, config.as_ref()).await;
        let merged = merge(&reports, config.as_ref(), &addresses);
        Ok(EnsembleMembers { config, ..merged })
    }
}

/// Returns the newest configuration with members that a server tells. A server that is cut off may
/// still tell an older one.
fn newest(reports: &[ProbeReport]) -> Option<EnsembleConfig> {
    let configs = reports.iter().filter_map(|report| config(report.conf.as_ref().ok()?));
    let configs = configs.filter(|config| !config.servers.is_empty());
    configs.max_by_key(|config| (config.version, config.servers.len()))
}

/// Returns `true` if the server is there, may be a member, and did not tell the members: admin
/// servers, ZooKeeper 3.4 and ClickHouse Keeper never do. The id of a standalone server is 0.
fn could_tell(conf: &ProbeResult<ConfResponse>) -> bool {
    match conf {
        Ok(conf) => conf.server_id().is_some_and(|id| id > 0),
        Err(trouble) => !trouble.is_unreachable(),
    }
}

/// Returns the members that a server tells, with the version of their configuration.
fn config(conf: &ConfResponse) -> Option<EnsembleConfig> {
    let mut config = EnsembleConfig::parse(conf.membership().as_bytes()).ok()?;
    let version = conf.settings.get("version");
    config.version = version.and_then(|version| i64::from_str_radix(version, 16).ok());
    Some(config)
}

async fn read(source: Option<&dyn FrameworkSource>) -> Option<EnsembleConfig> {
    let read = async { source?.framework().await?.get_config().await.ok() };
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
    join_all(all.map(|(host, port)| async move {
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

/// Joins the servers of the connect string with the members of the configuration, and finds the ids
/// of the members without an address. A server that is both has the address of the connect string,
/// which reaches it from here. The result has no configuration.
fn merge(
    reports: &[ProbeReport],
    config: Option<&EnsembleConfig>,
    addresses: &MemberAddresses,
) -> EnsembleMembers {
    let mut left: Vec<&ProbeReport> = reports.iter().collect();
    let mut found = EnsembleMembers::default();
    // The servers at other addresses that report the id of another server.
    let mut doubles: Vec<&ProbeReport> = Vec::new();
    for member in config.into_iter().flat_map(|config| &config.servers) {
        let address = address(member, reports);
        let is_member = |report: &ProbeReport| match report
            .conf
            .as_ref()
            .ok()
            .and_then(ConfResponse::server_id)
        {
            Some(id) => id == member.id,
            None => address.as_ref().is_some_and(|address| is_at(report, address, addresses)),
        };
        let place = left.iter().position(|report| is_member(report));
        let named = place.map(|place| left.remove(place).server.clone());
        let named = named.map(|server| (server.host, server.port));
        // The same server may be named twice, and two servers may report the same id.
        let (same, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| is_member(one));
        left = rest;
        let is_double = |report: &&ProbeReport| {
            named.as_ref().is_some_and(|named| !is_at(report, named, addresses))
        };
        doubles.extend(same.into_iter().filter(is_double));
        let is_taken = |(host, port): &Address| {
            let named = reports.iter().map(|report| &report.server);
            named.chain(&found.servers).any(|server| (&server.host, &server.port) == (host, port))
        };
        let is_displaced = |address: &Address| {
            let is_known = member.client_address().is_some();
            is_known || doubles.iter().any(|report| is_at(report, address, addresses))
        };
        match (named, address) {
            (None, Some(address)) if is_taken(&address) => {
                found.unknown.push(member.id);
                if is_displaced(&address) {
                    found.displaced.push(member.id);
                }
            }
            (None, None) => found.unknown.push(member.id),
            (Some((host, port)), _) | (None, Some((host, port))) => {
                let (id, observer) = (Some(member.id), member.observer);
                found.servers.push(ProbedServer { host, port, id, observer });
            }
        }
    }
    found.servers.extend(left.into_iter().map(|report| report.server.clone()));
    found
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
    use crate::ensemble::trouble::ProbeTrouble;
    use crate::ensemble::words::SrvrResponse;

    fn named(host: &str, port: u16, id: Option<u64>) -> ProbeReport {
        let mut report = ProbeReport::empty(ProbedServer::new(host, port));
        let line = id.map(|id| format!("serverId={id}"));
        report.conf = Ok(line.and_then(|line| ConfResponse::parse(&line)).unwrap_or_default());
        report
    }

    fn merged(reports: &[ProbeReport], config: &str, addresses: &MemberAddresses) -> Vec<String> {
        let config = EnsembleConfig::parse(config.as_bytes()).expect("a configuration");
        let servers = merge(reports, Some(&config), addresses).servers;
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
        let note = members.note().expect("a note").to_string();
        assert!(note.starts_with("server.2, server.3 without a client port"), "{note}");
    }

    #[test]
    fn members_whose_servers_report_other_ids_are_told_apart() {
        let reports = [named("zk1", 2181, Some(1)), named("zk2", 2181, Some(1))];
        let without_ports = "server.1=zk1:2888:3888\nserver.2=zk2:2888:3888\n";
        for text in [CONFIG, without_ports] {
            let config = EnsembleConfig::parse(text.as_bytes()).expect("a configuration");
            let found = merge(&reports, Some(&config), &vec![]);
            assert_eq!(found.unknown, [2], "{text}");
            assert_eq!(found.displaced, [2], "{text}");
            let note = found.note().expect("a note").to_string();
            assert!(note.starts_with("server.2: another server has its client address"), "{note}");
            assert!(!note.contains("client port"), "{note}");
        }
        // The same server is named twice, and the other one has no port in the configuration.
        let address = HashSet::from([SocketAddr::from(([127, 0, 0, 1], 2182))]);
        let name = |host: &str| ((host.to_owned(), 2182), address.clone());
        let addresses = vec![name("127.0.0.1"), name("localhost")];
        let reports = [named("127.0.0.1", 2182, Some(1)), named("localhost", 2182, Some(1))];
        let config = EnsembleConfig::parse(b"server.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\n");
        let found = merge(&reports, Some(&config.expect("a configuration")), &addresses);
        assert_eq!(found.unknown, [2]);
        assert!(found.displaced.is_empty(), "{:?}", found.displaced);
    }

    fn told(conf: &str) -> ProbeReport {
        let mut report = ProbeReport::empty(ProbedServer::new("zk1", 2181));
        report.conf = Ok(ConfResponse::parse(conf).expect("settings"));
        report
    }

    #[test]
    fn the_newest_configuration_is_known() {
        let old = "server.1=a:1:2;5\nserver.2=b:1:2;5\nserver.3=c:1:2;5\nversion=1ff\n";
        let new = "server.1=a:1:2;5\nversion=200\n";
        let found = newest(&[told(old), told(new), told("tickTime=2000")]);
        let found = found.expect("a configuration");
        assert_eq!((found.version, found.servers.len()), (Some(0x200), 1));
        assert_eq!(newest(&[told("tickTime=2000")]), None);
    }

    #[test]
    fn members_without_a_list_are_not_standalone() {
        // ClickHouse Keeper, ZooKeeper 3.4 and the admin server have a setting for the id only.
        for (conf, may_be_member) in
            [("server_id=3", true), ("serverId=1\ninitLimit=10", true), ("serverId=0", false)]
        {
            assert_eq!(could_tell(&told(conf).conf), may_be_member, "{conf}");
        }
        let refused = could_tell(&Err(ProbeTrouble::NotListed));
        assert!(refused && !could_tell(&Err(ProbeTrouble::Late)));
    }

    #[test]
    fn servers_beside_those_that_were_asked_are_noted() {
        let report = |mode| {
            let mut report = ProbeReport::empty(ProbedServer::new("zk1", 2181));
            report.srvr = Ok(SrvrResponse { mode: Some(mode), ..SrvrResponse::default() });
            [report]
        };
        let (alone, follower) = (report(ServerMode::Standalone), report(ServerMode::Follower));
        let mut members = EnsembleMembers::default();
        assert!(members.note_beside(&alone).is_none());
        for reports in [&follower[..], &[]] {
            let note = members.note_beside(reports);
            assert!(matches!(note, Some(ProbeNote::MembersUnknown)), "{note:?}");
        }
        members.config = Some(EnsembleConfig::default());
        assert!(members.note_beside(&follower).is_none());
        members.unknown = vec![2];
        let note = members.note_beside(&follower);
        assert!(matches!(note, Some(ProbeNote::NoAddress { .. })), "{note:?}");
    }

    #[test]
    fn without_a_configuration_the_named_servers_remain() {
        let reports = [named("a", 1, None), named("b", 2, None)];
        assert_eq!(merge(&reports, None, &vec![]).servers.len(), 2);
        assert_eq!(EnsembleMembers::default().voters(), None);
    }
}
