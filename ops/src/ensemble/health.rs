//! The health of an ensemble, from one response of each server. Pure.

use std::collections::BTreeSet;

use super::probe::ProbeReport;
use super::trouble::ProbeTrouble;
use super::words::ServerMode;

/// The greatest lag of a healthy follower, in transactions.
pub const GREATEST_LAG: u64 = 1_000;

/// Returns the server that orders the writes.
#[must_use]
pub fn leader(reports: &[ProbeReport]) -> Option<&ProbeReport> {
    reports.iter().find(|report| report.leads())
}

/// Returns the number of transactions by which a server is behind the leader; `None` if it is in
/// another epoch, or if one of them is not known. The two were not asked in the same instant.
#[must_use]
pub fn lag(reports: &[ProbeReport], server: &ProbeReport) -> Option<u64> {
    let (first, second) = (leader(reports)?.zxid()?, server.zxid()?);
    (first >> 32 == second >> 32).then(|| u64::try_from(first - second).unwrap_or_default())
}

/// The evidence about a quorum in the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum QuorumHealth {
    /// A server says that it leads, or that it follows a leader.
    Present,
    /// Without the voting servers that say that they have none, or do not listen, the others are
    /// no majority.
    Missing,
    /// All servers that are known are without one or down. There may be others.
    MissingHere,
    /// The responses do not decide it.
    Unknown,
}

impl QuorumHealth {
    /// Returns the evidence in one word, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Missing => "missing",
            Self::MissingHere => "missing-here",
            Self::Unknown => "unknown",
        }
    }
}

/// Judges if there is a quorum, by what the servers say of themselves. `voters` is the number of
/// servers with a vote, if it is known. A server that cannot be asked from here may lead.
#[must_use]
pub fn quorum(reports: &[ProbeReport], voters: Option<usize>) -> QuorumHealth {
    // A follower has a leader, which perhaps was not asked.
    let follows = |report: &ProbeReport| {
        matches!(report.mode(), Some(ServerMode::Follower | ServerMode::Observer))
    };
    if reports.iter().any(|report| report.leads() || follows(report)) {
        return QuorumHealth::Present;
    }
    let has_none = |report: &ProbeReport| {
        report.srvr == Err(ProbeTrouble::NotServing) || report.mode() == Some(ServerMode::ReadOnly)
    };
    let voting = || reports.iter().filter(|report| !report.server.observer);
    let without = voting().filter(|report| has_none(report)).count();
    let down = voting().filter(|report| is_down(report)).count();
    // With more servers than voters, it is not known which of them vote.
    let left = match voters.filter(|voters| voting().count() <= *voters) {
        Some(voters) if voters.saturating_sub(without + down) <= voters / 2 => {
            QuorumHealth::Missing
        }
        Some(_) => QuorumHealth::Unknown,
        None if without + down == voting().count() => QuorumHealth::MissingHere,
        None => QuorumHealth::Unknown,
    };
    if without > 0 { left } else { QuorumHealth::Unknown }
}

/// Returns `true` if no process listens at the address of the server.
fn is_down(report: &ProbeReport) -> bool {
    report.srvr.as_ref().is_err_and(ProbeTrouble::is_refused)
}

/// Returns everything that makes the ensemble degraded, a line each. `voters` is the number of
/// servers with a vote, if it is known.
#[must_use]
pub fn problems(reports: &[ProbeReport], voters: Option<usize>) -> Vec<String> {
    let mut problems = Vec::new();
    let leaders = reports.iter().filter(|report| report.leads()).count();
    match quorum(reports, voters) {
        // Two responses are from two instants: an election in between looks the same.
        QuorumHealth::Present if leaders > 1 => {
            problems.push(format!("{leaders} servers lead; ask again"));
        }
        QuorumHealth::Present => {}
        QuorumHealth::Missing => problems.push("no quorum: no server leads".to_owned()),
        QuorumHealth::MissingHere => problems.push("no quorum among the named servers".to_owned()),
        QuorumHealth::Unknown => {
            let text = "unknown if there is a quorum: no server has said that it leads or follows";
            problems.push(text.to_owned());
        }
    }
    let voting = reports.iter().filter(|report| !report.server.observer);
    if let Some(voters) = voters.filter(|voters| voting.clone().count() >= *voters) {
        let is_serving =
            |report: &&ProbeReport| report.mode().is_some_and(|mode| mode != ServerMode::ReadOnly);
        let serving = voting.clone().filter(is_serving).count();
        let is_known = |report: &ProbeReport| {
            report.mode().is_some()
                || report.srvr == Err(ProbeTrouble::NotServing)
                || is_down(report)
        };
        let known = if voting.clone().all(is_known) { "" } else { "known to be " };
        if serving <= voters / 2 {
            problems.push(format!("{serving} of {voters} voting servers are {known}serving"));
        }
    }
    for report in reports {
        let server = &report.server;
        if let Err(trouble) = &report.srvr {
            problems.push(format!("{server}: {trouble}"));
        }
        if report.srvr.as_ref().is_ok_and(|srvr| srvr.read_only) {
            problems.push(format!("{server}: read-only, without a quorum"));
        }
        if let Some(lag) = lag(reports, report).filter(|lag| *lag > GREATEST_LAG) {
            problems.push(format!("{server}: {lag} transactions behind the leader"));
        }
    }
    let releases: BTreeSet<_> = reports.iter().filter_map(ProbeReport::release).collect();
    if releases.len() > 1 {
        let releases: Vec<_> = releases.into_iter().collect();
        problems.push(format!("mixed versions: {}", releases.join(", ")));
    }
    problems
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ensemble::probe::ProbedServer;
    use crate::ensemble::words::SrvrResponse;

    /// Returns the report of a server that serves.
    pub(crate) fn serving(port: u16, mode: ServerMode, zxid: i64) -> ProbeReport {
        let server = ProbedServer {
            host: "zk".to_owned(),
            port,
            id: None,
            observer: mode == ServerMode::Observer,
        };
        let version = Some("3.9.3-abc, built".to_owned());
        let read_only = mode == ServerMode::ReadOnly;
        let srvr = SrvrResponse {
            version,
            mode: Some(mode),
            zxid: Some(zxid),
            read_only,
            ..SrvrResponse::default()
        };
        ProbeReport { srvr: Ok(srvr), ..ProbeReport::empty(server) }
    }

    fn without(port: u16, trouble: ProbeTrouble) -> ProbeReport {
        ProbeReport { srvr: Err(trouble), ..serving(port, ServerMode::Follower, 0) }
    }

    const UNKNOWN: &str =
        "unknown if there is a quorum: no server has said that it leads or follows";
    const HERE: &str = "no quorum among the named servers";
    const MISSING: &str = "no quorum: no server leads";

    fn unreachable(why: &str) -> ProbeTrouble {
        ProbeTrouble::Unreachable(why.to_owned())
    }

    #[test]
    fn a_quorum_is_missing_only_if_its_servers_say_so() {
        use ProbeTrouble::{Late, NotListed, NotServing, Silent};

        let refused = || unreachable("connection refused");
        let cases: [(Vec<ProbeTrouble>, Option<usize>, &str); 12] = [
            // This address has too many connections.
            (vec![Silent], None, UNKNOWN),
            (vec![Silent, Silent, Silent], Some(3), UNKNOWN),
            // One of the servers is named, and down.
            (vec![refused()], None, UNKNOWN),
            (vec![refused()], Some(3), UNKNOWN),
            (vec![NotServing], None, HERE),
            (vec![NotServing, refused(), refused()], None, HERE),
            (vec![NotServing, Late, refused()], None, UNKNOWN),
            (vec![NotServing], Some(3), UNKNOWN),
            // The other two may be a quorum.
            (vec![NotServing, Late, unreachable("no route to host")], Some(3), UNKNOWN),
            (vec![NotServing, NotListed, refused()], Some(3), MISSING),
            (vec![NotServing, NotServing, Late], Some(3), MISSING),
            (vec![refused(), refused(), refused()], Some(3), UNKNOWN),
        ];
        for (troubles, voters, expected) in cases {
            let reports = (1..).zip(&troubles).map(|(port, why)| without(port, why.clone()));
            let reports: Vec<_> = reports.collect();
            assert_eq!(problems(&reports, voters)[0], expected, "{troubles:?} of {voters:?}");
        }
        let read_only = [serving(1, ServerMode::ReadOnly, 0), serving(2, ServerMode::ReadOnly, 0)];
        assert_eq!(problems(&read_only, Some(3))[0], MISSING);
        assert_eq!(problems(&read_only, None)[0], HERE);
    }

    #[test]
    fn each_problem_is_reported() {
        let leader = serving(1, ServerMode::Leader, 0x1_0000_2000);
        let follower = serving(2, ServerMode::Follower, 0x1_0000_2000);
        let mut older = serving(3, ServerMode::Follower, 0x1_0000_2000);
        older.srvr.as_mut().unwrap().version = Some("3.8.0-x".to_owned());
        let cases: [(Vec<ProbeReport>, &[&str]); 7] = [
            (vec![leader.clone(), follower.clone(), follower.clone()], &[]),
            (
                vec![
                    leader.clone(),
                    serving(2, ServerMode::Follower, 0x1_0000_2000 - 1_001),
                    follower.clone(),
                ],
                &["zk:2: 1001 transactions behind the leader"],
            ),
            (vec![leader.clone(), follower.clone(), older], &["mixed versions: 3.8.0, 3.9.3"]),
            (
                vec![leader.clone(), follower.clone(), without(3, ProbeTrouble::Late)],
                &["zk:3: no response in time"],
            ),
            (
                vec![leader.clone(), leader.clone(), follower.clone()],
                &["2 servers lead; ask again"],
            ),
            (
                vec![
                    without(1, ProbeTrouble::NotServing),
                    without(2, ProbeTrouble::Late),
                    without(3, ProbeTrouble::Late),
                ],
                &[
                    UNKNOWN,
                    "0 of 3 voting servers are known to be serving",
                    "zk:1: not serving",
                    "zk:2: no response in time",
                    "zk:3: no response in time",
                ],
            ),
            (
                vec![leader, serving(2, ServerMode::ReadOnly, 0), follower],
                &["zk:2: read-only, without a quorum"],
            ),
        ];
        for (reports, expected) in cases {
            assert_eq!(problems(&reports, Some(3)), expected);
        }
    }

    #[test]
    fn a_follower_proves_a_quorum() {
        assert!(problems(&[serving(1, ServerMode::Follower, 7)], Some(3)).is_empty());
    }

    #[test]
    fn a_standalone_server_is_healthy() {
        assert!(problems(&[serving(1, ServerMode::Standalone, 7)], None).is_empty());
    }

    #[test]
    fn lag_is_counted_within_an_epoch() {
        let reports = [
            serving(1, ServerMode::Leader, 0x2_0000_0005),
            serving(2, ServerMode::Follower, 0x2_0000_0003),
            serving(3, ServerMode::Follower, 0x1_0000_0001),
            serving(4, ServerMode::Follower, 0x2_0000_0006),
        ];
        let lags: Vec<_> = reports.iter().map(|report| lag(&reports, report)).collect();
        assert_eq!(lags, [Some(0), Some(2), None, Some(0)]);
    }
}
