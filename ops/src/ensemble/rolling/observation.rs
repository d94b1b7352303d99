//! The state of all servers at one time, joined from their responses.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator::ensemble::EnsembleConfig;

use super::super::doctor::{self, Severity};
use super::super::flw::{Conf, ServerMode, Srvr};
use super::super::probe::{ProbeAnswer, ProbeReport, Server, Trouble};
use super::doubt::Doubt;

/// The members of an ensemble by id: `true` for those with a vote.
pub(crate) type Members = BTreeMap<u64, bool>;

/// The state of all servers at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    /// The time since the start of the run at which all responses were there.
    pub(crate) at: Duration,
    pub(crate) servers: Vec<ObservedServer>,
    /// The members, as reported by each server that does.
    pub(crate) members: Vec<Members>,
    /// `true` if a server reports groups or weights.
    pub(crate) is_weighted: bool,
    /// The errors that the doctor has found.
    pub(crate) findings: Vec<Doubt>,
    /// `true` if the doctor had all responses, and the members were read again.
    pub(crate) is_thorough: bool,
}

/// The state of a server, or the reason why it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedServer {
    pub(crate) server: Server,
    pub(crate) state: ProbeAnswer<ServerState>,
}

/// The state of a server that serves. A missing value was not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerState {
    /// Its own id.
    pub(crate) id: Option<u64>,
    pub(crate) mode: Option<ServerMode>,
    /// The last transaction.
    pub(crate) zxid: Option<i64>,
    /// The time for which it has had its role: since its start or the last election.
    pub(crate) uptime: Option<Duration>,
    /// The packets received in this role.
    pub(crate) received: Option<u64>,
}

impl Observation {
    /// Joins the responses. `config` is the configuration that a session has read.
    pub(crate) fn of(
        at: Duration,
        reports: &[ProbeReport],
        config: Option<&EnsembleConfig>,
        findings: Vec<Doubt>,
        is_thorough: bool,
    ) -> Self {
        let confs = || reports.iter().filter_map(|report| report.conf.as_ref().ok());
        let of_session = config.map(members);
        let of_servers = confs().map(|conf| {
            let config = EnsembleConfig::parse(conf.membership().as_bytes());
            config.map(|config| members(&config)).unwrap_or_default()
        });
        Self {
            at,
            servers: reports.iter().map(ObservedServer::of).collect(),
            members: of_session
                .into_iter()
                .chain(of_servers)
                .filter(|members| !members.is_empty())
                .collect(),
            is_weighted: confs().any(is_weighted),
            findings,
            is_thorough,
        }
    }

    /// Returns the state of the server with this id in the configuration.
    pub(crate) fn state(&self, id: u64) -> Result<&ServerState, &Trouble> {
        let found = self.servers.iter().find(|observed| observed.server.id == Some(id));
        found.map_or(Err(&Trouble::NotAsked), |observed| observed.state.as_ref())
    }

    /// Returns the role of the server with this id.
    pub(crate) fn mode(&self, id: u64) -> Option<&ServerMode> {
        self.state(id).ok()?.mode.as_ref()
    }

    /// Returns the servers that do not serve, as doubts.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = Doubt> {
        self.servers.iter().filter_map(|observed| {
            let (server, trouble) =
                (observed.server.clone(), observed.state.as_ref().err()?.clone());
            Some(Doubt::NotServing { server, trouble })
        })
    }

    /// Returns the servers that lead.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = &ServerState> {
        let states = self.servers.iter().filter_map(|observed| observed.state.as_ref().ok());
        states.filter(|state| state.mode == Some(ServerMode::Leader))
    }
}

impl ObservedServer {
    fn of(report: &ProbeReport) -> Self {
        let state = |srvr: &Srvr| ServerState {
            id: report.conf.as_ref().ok().and_then(Conf::server_id),
            mode: report.mode(),
            zxid: srvr.zxid,
            uptime: report.count("uptime").map(Duration::from_millis),
            received: srvr.received,
        };
        let state = report.srvr.as_ref().map(state).map_err(Clone::clone);
        Self { server: report.server.clone(), state }
    }
}

/// Returns the members of a configuration.
pub(crate) fn members(config: &EnsembleConfig) -> Members {
    config.servers.iter().map(|member| (member.id, !member.observer)).collect()
}

fn is_weighted(conf: &Conf) -> bool {
    let mut names = conf.settings.keys();
    names.any(|name| name.starts_with("group.") || name.starts_with("weight."))
}

/// Returns the errors that the doctor finds. Different versions are left out: a rolling upgrade
/// mixes them.
pub(crate) fn findings(
    reports: &[ProbeReport],
    voters: Option<usize>,
    max_packet: u64,
) -> Vec<Doubt> {
    let mut reports = reports.to_vec();
    for report in &mut reports {
        if let Ok(srvr) = &mut report.srvr {
            srvr.version = None;
        }
        if let Ok(mntr) = &mut report.mntr {
            mntr.metrics.remove("zk_version");
        }
    }
    let found = doctor::servers(&reports, voters, reports.len(), max_packet);
    let errors = found.into_iter().filter(|finding| finding.severity == Severity::Error);
    errors.map(|error| Doubt::Doctor { subject: error.subject, text: error.text }).collect()
}
