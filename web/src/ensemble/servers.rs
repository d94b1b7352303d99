//! The servers of an ensemble, as the page shows them. Pure.

use std::sync::Arc;
use std::time::Duration;

use zk_curator_ops::ensemble::health;
use zk_curator_ops::ensemble::probe::ProbeReport;

use super::measures::ServerMeasures;

/// A server. A value is `None` if the server did not tell it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerLine {
    /// The host and the port.
    pub(crate) name: Arc<str>,
    /// The id in the configuration of the ensemble.
    pub(crate) id: Option<u64>,
    /// `true` for a server without a vote.
    pub(crate) is_observer: bool,
    /// The role, or the reason why it is not known, in one word.
    pub(crate) role: String,
    pub(crate) is_read_only: bool,
    pub(crate) release: Option<String>,
    /// The time since the server took on its role.
    pub(crate) uptime: Option<Duration>,
    pub(crate) connections: Option<u64>,
    pub(crate) outstanding: Option<u64>,
    /// The average and the greatest latency since the start, in milliseconds.
    pub(crate) latency: Option<(f64, f64)>,
    pub(crate) zxid: Option<i64>,
    /// The transactions behind the leader; `None` for the leader.
    pub(crate) lag: Option<u64>,
    /// The requests a second.
    pub(crate) requests: Option<f64>,
    pub(crate) nodes: Option<u64>,
    pub(crate) watches: Option<u64>,
    /// The reason why the server does not respond.
    pub(crate) trouble: Option<ServerTrouble>,
}

/// The reason why a server does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerTrouble {
    /// The reason in one word.
    pub(crate) name: &'static str,
    /// The reason in words.
    pub(crate) text: String,
    /// The time of the first sample without a response, in milliseconds since 1970.
    pub(crate) since: i64,
}

/// Returns the servers, in the order of their reports. `before` are those of the previous sample,
/// and `taken` is the time of this one.
pub(crate) fn server_lines(
    reports: &[ProbeReport],
    measures: &[ServerMeasures],
    before: &[ServerLine],
    taken: i64,
) -> Vec<ServerLine> {
    let each = reports.iter().zip(measures);
    each.map(|(report, measures)| server_line(reports, report, measures, before, taken)).collect()
}

fn server_line(
    reports: &[ProbeReport],
    report: &ProbeReport,
    measures: &ServerMeasures,
    before: &[ServerLine],
    taken: i64,
) -> ServerLine {
    let srvr = report.srvr.as_ref().ok();
    let name = report.server.to_string();
    let trouble = report.srvr.as_ref().err().map(|trouble| {
        let known = before.iter().find(|line| *line.name == *name);
        let known = known.and_then(|line| line.trouble.as_ref());
        ServerTrouble {
            name: trouble.name(),
            text: trouble.to_string(),
            since: known.map_or(taken, |known| known.since),
        }
    });
    let summary = report.wchs.as_ref().ok();
    ServerLine {
        name: name.into(),
        id: report.server.id,
        is_observer: report.server.observer,
        role: report.role(),
        is_read_only: srvr.is_some_and(|srvr| srvr.read_only),
        release: report.release().map(ToOwned::to_owned),
        uptime: report.count("uptime").map(Duration::from_millis),
        connections: srvr.and_then(|srvr| srvr.connections),
        outstanding: srvr.and_then(|srvr| srvr.outstanding),
        latency: srvr
            .and_then(|srvr| srvr.latency)
            .filter(|(average, greatest)| average.is_finite() && greatest.is_finite()),
        zxid: report.zxid(),
        lag: health::lag(reports, report).filter(|_| !report.leads()),
        requests: measures.requests,
        nodes: srvr.and_then(|srvr| srvr.nodes),
        watches: report.count("watch_count").or_else(|| summary.map(|summary| summary.watches)),
        trouble,
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_ops::ensemble::ProbeTrouble;
    use zk_curator_ops::ensemble::probe::ProbedServer;

    use super::*;

    #[test]
    fn trouble_has_a_beginning() {
        let mut report = ProbeReport::empty(ProbedServer::new("zk", 2181));
        let at = |report: &ProbeReport, before: &[ServerLine], taken| {
            let measures = [ServerMeasures::default()];
            server_lines(std::slice::from_ref(report), &measures, before, taken)
        };
        let since = |lines: &[ServerLine]| lines[0].trouble.as_ref().map(|trouble| trouble.since);
        report.srvr = Err(ProbeTrouble::Late);
        let first = at(&report, &[], 1);
        assert_eq!((since(&first), first[0].role.as_str()), (Some(1), "late"));
        report.srvr = Err(ProbeTrouble::NotServing);
        let second = at(&report, &first, 2);
        assert_eq!((since(&second), second[0].role.as_str()), (Some(1), "not-serving"));
        report.srvr = Ok(zk_curator_ops::ensemble::words::SrvrResponse::default());
        let third = at(&report, &second, 3);
        assert_eq!((since(&third), third[0].role.as_str()), (None, "unknown"));
        report.srvr = Err(ProbeTrouble::Late);
        assert_eq!(since(&at(&report, &third, 4)), Some(4));
    }
}
