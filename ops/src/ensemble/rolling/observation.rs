//! The state of all servers at one time, joined from their responses.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator::ensemble::EnsembleConfig;

use super::doubt::RollingDoubt;
use crate::ensemble::doctor::{self, FindingSeverity};
use crate::ensemble::probe::{ProbeReport, ProbeResult, ProbedServer};
use crate::ensemble::trouble::ProbeTrouble;
use crate::ensemble::words::{ConfResponse, ServerMode, SrvrResponse};

/// The members of an ensemble by id: `true` for those with a vote.
pub(super) type Members = BTreeMap<u64, bool>;

/// Counters of `mntr` that begin with the process, and not with a role, since 3.6. The first one
/// counts how often the process has looked for a leader (`QuorumPeer.run`).
const OF_PROCESS: [&str; 3] = ["looking_count", "connection_request_count", "bytes_received_count"];

/// The state of all servers at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observation {
    /// The time since the start of the run at which the servers were asked.
    pub(super) asked: Duration,
    /// The time since the start of the run at which all responses were there.
    pub(super) at: Duration,
    pub(super) servers: Vec<ObservedServer>,
    /// The members, as reported by each server that does.
    pub(super) members: Vec<Members>,
    /// `true` if a server reports groups or weights.
    pub(super) is_weighted: bool,
    /// The errors that the doctor has found.
    pub(super) findings: Vec<RollingDoubt>,
    /// `true` if the doctor had all responses, and the members were read again.
    pub(super) is_thorough: bool,
}

/// The state of a server, or the reason why it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedServer {
    pub(super) server: ProbedServer,
    pub(super) state: ProbeResult<ServerState>,
}

/// The state of a server that serves. A missing value was not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerState {
    /// Its own id.
    pub(super) id: Option<u64>,
    pub(super) mode: Option<ServerMode>,
    /// The last transaction.
    pub(super) zxid: Option<i64>,
    /// The time for which it has had its role: since its start or the last election.
    pub(super) uptime: Option<Duration>,
    /// The packets received in this role.
    pub(super) received: Option<u64>,
    /// The counters of its process: first that of its searches for a leader.
    pub(super) of_process: [Option<u64>; OF_PROCESS.len()],
}

impl ServerState {
    /// Returns `true` if the server has begun its role since an earlier state of it. The time
    /// between the two responses is at least `least`, and at most `most`.
    pub(super) fn is_new_role(&self, before: &Self, least: Duration, most: Duration) -> bool {
        match (before.uptime, self.uptime) {
            (Some(before), Some(uptime)) => {
                uptime.saturating_add(tolerance(least)) < before.saturating_add(least)
            }
            // It was upgraded from a version before 3.6.
            (None, Some(uptime)) => uptime <= most,
            // Versions before 3.6 count packets, by role.
            (None, None) => is_less(self.received, before.received),
            (Some(_), None) => false,
        }
    }
}

/// Returns the time that the clock of a server may lose in a time: 1 in 500, as a clock that is
/// slewed loses at most, and the fraction of a millisecond that servers do not report.
fn tolerance(time: Duration) -> Duration {
    Duration::from_millis(1).saturating_add(time / 500)
}

/// Returns `true` if both values are known, and the first one is less.
pub(super) fn is_less(now: Option<u64>, before: Option<u64>) -> bool {
    now.zip(before).is_some_and(|(now, before)| now < before)
}

impl Observation {
    /// Joins the responses. `config` is the configuration that was read again.
    pub(super) fn of(
        (asked, at): (Duration, Duration),
        reports: &[ProbeReport],
        config: Option<&EnsembleConfig>,
        findings: Vec<RollingDoubt>,
        is_thorough: bool,
    ) -> Self {
        let confs = || reports.iter().filter_map(|report| report.conf.as_ref().ok());
        let read_again = config.map(members);
        let of_servers = confs().map(|conf| {
            let config = EnsembleConfig::parse(conf.membership().as_bytes());
            config.map(|config| members(&config)).unwrap_or_default()
        });
        Self {
            asked,
            at,
            servers: reports.iter().map(ObservedServer::of).collect(),
            members: read_again
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
    pub(super) fn state(&self, id: u64) -> Result<&ServerState, &ProbeTrouble> {
        let found = self.servers.iter().find(|observed| observed.server.id == Some(id));
        found.map_or(Err(&ProbeTrouble::NotAsked), |observed| observed.state.as_ref())
    }

    /// Returns the role of the server with this id.
    pub(super) fn mode(&self, id: u64) -> Option<&ServerMode> {
        self.state(id).ok()?.mode.as_ref()
    }

    /// Returns `true` if a server has begun a role since an earlier observation.
    pub(super) fn has_new_role(&self, before: &Self) -> bool {
        let least = self.asked.saturating_sub(before.at);
        let most = self.at.saturating_sub(before.asked);
        self.servers.iter().any(|observed| {
            let earlier = observed.server.id.and_then(|id| before.state(id).ok());
            let both = observed.state.as_ref().ok().zip(earlier);
            both.is_some_and(|(now, earlier)| now.is_new_role(earlier, least, most))
        })
    }

    /// Returns the servers that do not serve, as doubts.
    pub(super) fn troubles(&self) -> impl Iterator<Item = RollingDoubt> {
        self.servers.iter().filter_map(|observed| {
            let (server, trouble) =
                (observed.server.clone(), observed.state.as_ref().err()?.clone());
            Some(RollingDoubt::NotServing { server, trouble })
        })
    }

    /// Returns the servers that lead.
    pub(super) fn leaders(&self) -> impl Iterator<Item = &ServerState> {
        let states = self.servers.iter().filter_map(|observed| observed.state.as_ref().ok());
        states.filter(|state| state.mode == Some(ServerMode::Leader))
    }

    /// Returns the epoch of the leader.
    pub(super) fn epoch(&self) -> Option<i64> {
        self.leaders().filter_map(|leader| leader.zxid).max().map(|zxid| zxid >> 32)
    }

    /// Returns the last transactions of the members. A member that leads, follows or observes has
    /// applied only committed ones, so all others must get them.
    pub(super) fn transactions(&self) -> impl Iterator<Item = i64> {
        self.servers.iter().filter_map(|observed| {
            let state = observed.state.as_ref().ok()?;
            let is_member = state.id.is_some() && state.id == observed.server.id;
            let serves = matches!(
                state.mode,
                Some(ServerMode::Leader | ServerMode::Follower | ServerMode::Observer)
            );
            state.zxid.filter(|zxid| is_member && serves && is_transaction(*zxid))
        })
    }
}

impl ObservedServer {
    fn of(report: &ProbeReport) -> Self {
        let state = |srvr: &SrvrResponse| ServerState {
            id: report.conf.as_ref().ok().and_then(ConfResponse::server_id),
            mode: report.mode(),
            zxid: srvr.zxid,
            uptime: report.count("uptime").map(Duration::from_millis),
            received: srvr.received,
            of_process: OF_PROCESS.map(|name| report.count(name)),
        };
        let state = report.srvr.as_ref().map(state).map_err(Clone::clone);
        Self { server: report.server.clone(), state }
    }
}

/// Returns `false` for the number with which an epoch begins. It is the number of no transaction.
///
/// Servers report the number of the last transaction that they have processed (`srvr`; no metric of
/// `mntr` has it). In 3.5 to 3.9, a new leader sets it to the begin of its epoch
/// (`Leader.startZkServer`). A follower or an observer sets it to the number in the packet `SNAP`
/// or `TRUNC`, and not to that in the packet `DIFF` (`Learner.syncWithLeader`). So in an epoch
/// without transactions, the followers of the election report the last transaction of an earlier
/// epoch, or the begin of that epoch. A follower that has since received a snapshot reports the
/// begin of this epoch. All of them are in order.
pub(super) const fn is_transaction(zxid: i64) -> bool {
    zxid & 0xffff_ffff != 0
}

/// Returns the members of a configuration.
pub(super) fn members(config: &EnsembleConfig) -> Members {
    config.servers.iter().map(|member| (member.id, !member.observer)).collect()
}

fn is_weighted(conf: &ConfResponse) -> bool {
    let mut names = conf.settings.keys();
    names.any(|name| name.starts_with("group.") || name.starts_with("weight."))
}

/// The metrics about which the doctor is not asked. A rolling upgrade mixes versions. A server whose
/// thread has failed takes a new role, which is judged; the count of such failures stays until the
/// restart, which is the advice of the doctor.
const NOT_JUDGED: [&str; 2] = ["zk_version", "zk_unrecoverable_error_count"];

/// Returns the errors that the doctor finds.
pub(super) fn findings(
    reports: &[ProbeReport],
    voters: Option<usize>,
    max_packet: u64,
) -> Vec<RollingDoubt> {
    let mut reports = reports.to_vec();
    for report in &mut reports {
        if let Ok(srvr) = &mut report.srvr {
            srvr.version = None;
        }
        if let Ok(mntr) = &mut report.mntr {
            mntr.metrics.retain(|name, _| !NOT_JUDGED.contains(&name.as_str()));
        }
    }
    let found = doctor::servers(&reports, voters, reports.len(), max_packet);
    let errors = found.into_iter().filter(|finding| finding.severity == FindingSeverity::Error);
    errors.map(|error| RollingDoubt::Doctor { subject: error.subject, text: error.text }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::health::tests::serving;
    use crate::ensemble::words::MntrResponse;

    const TIMES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));

    #[test]
    fn responses_are_joined() {
        let conf = "serverId=2\nmembership: \nserver.1=a:1:2:participant;2181\n\
                    server.2=b:1:2:observer;2181\nversion=0\n";
        let mut report = serving(1, ServerMode::Observer, 7);
        report.conf = Ok(ConfResponse::parse(conf).expect("settings"));
        report.mntr = Ok(MntrResponse::parse("zk_uptime\t1500\n").expect("metrics"));
        report.srvr.as_mut().expect("a response").received = Some(9);
        let gone =
            ProbeReport { srvr: Err(ProbeTrouble::Late), ..serving(2, ServerMode::Follower, 5) };
        let seen = Observation::of(TIMES, &[report.clone(), gone], None, Vec::new(), false);
        let state = seen.servers[0].state.as_ref().expect("a response");
        assert_eq!((state.id, state.mode.as_ref()), (Some(2), Some(&ServerMode::Observer)));
        assert_eq!((state.zxid, state.received), (Some(7), Some(9)));
        assert_eq!(state.uptime, Some(Duration::from_millis(1_500)));
        assert_eq!(seen.servers[1].state, Err(ProbeTrouble::Late));
        assert_eq!(seen.members, [Members::from([(1, true), (2, false)])]);
        assert!(!seen.is_weighted);
        let weighted = format!("{conf}group.1=1:2\nweight.1=1\n");
        report.conf = Ok(ConfResponse::parse(&weighted).expect("settings"));
        assert!(Observation::of(TIMES, &[report], None, Vec::new(), false).is_weighted);
    }

    #[test]
    fn a_rolling_upgrade_mixes_versions() {
        let mut reports = [
            serving(1, ServerMode::Leader, 5),
            serving(2, ServerMode::Follower, 5),
            serving(3, ServerMode::Follower, 5),
        ];
        reports[2].srvr.as_mut().expect("a response").version = Some("3.8.4-x".to_owned());
        reports[1].mntr = Ok(MntrResponse::parse("zk_version\t3.7.0-x\n").expect("metrics"));
        let found = |reports: &[ProbeReport]| findings(reports, Some(3), 1 << 20);
        assert_eq!(found(&reports), []);
        reports[0].mntr = Ok(MntrResponse::parse("zk_synced_followers\t1\n").expect("metrics"));
        let texts: Vec<_> = found(&reports).iter().map(RollingDoubt::to_string).collect();
        assert_eq!(texts, ["ensemble: 1 of 2 followers are in sync with the leader"]);
    }

    #[test]
    fn a_failure_before_the_present_role_is_no_doubt() {
        let mut reports = [
            serving(1, ServerMode::Leader, 5),
            serving(2, ServerMode::Follower, 5),
            serving(3, ServerMode::Follower, 5),
        ];
        let mntr = MntrResponse::parse("zk_unrecoverable_error_count\t1\n").expect("metrics");
        reports[1].mntr = Ok(mntr);
        assert_eq!(findings(&reports, Some(3), 1 << 20), []);
    }
}
