//! The health of an ensemble, from one answer of each server.

use std::collections::BTreeSet;

use super::flw::Mode;
use super::probe::Report;

/// The greatest lag of a healthy follower, in transactions.
pub(crate) const GREATEST_LAG: u64 = 1_000;

/// Returns the server that orders the writes.
pub(crate) fn leader(reports: &[Report]) -> Option<&Report> {
    reports.iter().find(|report| report.leads())
}

/// Returns the number of transactions by which a server is behind the leader; `None` if it is in
/// another epoch, or if one of them is not known. The two were not asked in the same instant.
pub(crate) fn lag(reports: &[Report], server: &Report) -> Option<u64> {
    let (first, second) = (leader(reports)?.zxid()?, server.zxid()?);
    (first >> 32 == second >> 32).then(|| u64::try_from(first - second).unwrap_or_default())
}

/// Returns everything that makes the ensemble degraded, a line each.
pub(crate) fn problems(reports: &[Report], voters: Option<usize>) -> Vec<String> {
    let mut problems = Vec::new();
    let leaders = reports.iter().filter(|report| report.leads()).count();
    // A follower follows a leader, perhaps one that was not asked.
    let follows = |report: &Report| matches!(report.mode(), Some(Mode::Follower | Mode::Observer));
    match leaders {
        0 if !reports.iter().any(follows) => {
            problems.push("no quorum: no server leads".to_owned());
        }
        0 | 1 => {}
        // Two answers are from two instants: an election in between looks the same.
        _ => problems.push(format!("{leaders} servers lead; ask again")),
    }
    let voting = reports.iter().filter(|report| !report.server.observer);
    if let Some(voters) = voters.filter(|voters| voting.clone().count() >= *voters) {
        let serving = voting.filter(|report| report.mode().is_some()).count();
        if serving <= voters / 2 {
            problems.push(format!("{serving} of {voters} voting servers are serving"));
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
    let releases: BTreeSet<_> = reports.iter().filter_map(Report::release).collect();
    if releases.len() > 1 {
        let releases: Vec<_> = releases.into_iter().collect();
        problems.push(format!("mixed versions: {}", releases.join(", ")));
    }
    problems
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ensemble::flw::Srvr;
    use crate::ensemble::probe::{Server, Trouble};

    /// Returns the report of a server that serves.
    pub(crate) fn serving(port: u16, mode: Mode, zxid: i64) -> Report {
        let server =
            Server { host: "zk".to_owned(), port, id: None, observer: mode == Mode::Observer };
        let version = Some("3.9.3-abc, built".to_owned());
        let read_only = mode == Mode::ReadOnly;
        let srvr =
            Srvr { version, mode: Some(mode), zxid: Some(zxid), read_only, ..Srvr::default() };
        Report { srvr: Ok(srvr), ..Report::empty(server) }
    }

    fn without(port: u16, trouble: Trouble) -> Report {
        Report { srvr: Err(trouble), ..serving(port, Mode::Follower, 0) }
    }

    #[test]
    fn each_problem_is_told() {
        let leader = serving(1, Mode::Leader, 0x1_0000_2000);
        let follower = serving(2, Mode::Follower, 0x1_0000_2000);
        let mut older = serving(3, Mode::Follower, 0x1_0000_2000);
        older.srvr.as_mut().unwrap().version = Some("3.8.0-x".to_owned());
        let cases: [(Vec<Report>, &[&str]); 7] = [
            (vec![leader.clone(), follower.clone(), follower.clone()], &[]),
            (
                vec![
                    leader.clone(),
                    serving(2, Mode::Follower, 0x1_0000_2000 - 1_001),
                    follower.clone(),
                ],
                &["zk:2: 1001 transactions behind the leader"],
            ),
            (vec![leader.clone(), follower.clone(), older], &["mixed versions: 3.8.0, 3.9.3"]),
            (
                vec![leader.clone(), follower.clone(), without(3, Trouble::Late)],
                &["zk:3: no response in time"],
            ),
            (
                vec![leader.clone(), leader.clone(), follower.clone()],
                &["2 servers lead; ask again"],
            ),
            (
                vec![
                    without(1, Trouble::NotServing),
                    without(2, Trouble::Late),
                    without(3, Trouble::Late),
                ],
                &[
                    "no quorum: no server leads",
                    "0 of 3 voting servers are serving",
                    "zk:1: not serving",
                    "zk:2: no response in time",
                    "zk:3: no response in time",
                ],
            ),
            (
                vec![leader, serving(2, Mode::ReadOnly, 0), follower],
                &["zk:2: read-only, without a quorum"],
            ),
        ];
        for (reports, expected) in cases {
            assert_eq!(problems(&reports, Some(3)), expected);
        }
    }

    #[test]
    fn a_follower_proves_a_quorum() {
        assert!(problems(&[serving(1, Mode::Follower, 7)], Some(3)).is_empty());
    }

    #[test]
    fn a_standalone_server_is_healthy() {
        assert!(problems(&[serving(1, Mode::Standalone, 7)], None).is_empty());
    }

    #[test]
    fn lag_is_counted_within_an_epoch() {
        let reports = [
            serving(1, Mode::Leader, 0x2_0000_0005),
            serving(2, Mode::Follower, 0x2_0000_0003),
            serving(3, Mode::Follower, 0x1_0000_0001),
            serving(4, Mode::Follower, 0x2_0000_0006),
        ];
        let lags: Vec<_> = reports.iter().map(|report| lag(&reports, report)).collect();
        assert_eq!(lags, [Some(0), Some(2), None, Some(0)]);
    }
}
