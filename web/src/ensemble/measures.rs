//! The measures of the last 15 minutes. Pure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator_ops::ensemble::health;
use zk_curator_ops::ensemble::probe::ProbeReport;
use zk_curator_ops::ensemble::rates::RateBaseline;

/// The time for which measures are kept.
pub(crate) const SPAN: Duration = Duration::from_secs(15 * 60);
/// The maximum number of kept moments.
const MOST: usize = 900;

/// The measures of a server. One is `None` if it is not known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ServerMeasures {
    /// The requests a second since the previous moment.
    pub(crate) requests: Option<f64>,
    /// The average latency in milliseconds: of the requests since the previous moment if the server
    /// reports that, and otherwise of those since its start.
    pub(crate) latency: Option<f64>,
    /// The transactions behind the leader.
    pub(crate) lag: Option<f64>,
    /// The number of connections.
    pub(crate) connections: Option<f64>,
}

/// The measures of all servers at one time.
#[derive(Debug, Clone)]
pub(crate) struct EnsembleMoment {
    pub(crate) at: Instant,
    /// The same time in milliseconds since 1970.
    pub(crate) taken: i64,
    pub(crate) servers: Arc<[(Arc<str>, ServerMeasures)]>,
}

impl EnsembleMoment {
    /// Returns the measures of a server.
    pub(crate) fn of(&self, server: &str) -> Option<&ServerMeasures> {
        self.servers.iter().find(|(name, _)| **name == *server).map(|(_, measures)| measures)
    }
}

/// The moments of the last 15 minutes, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct MeasureRing(VecDeque<EnsembleMoment>);

impl MeasureRing {
    /// Adds a moment, and drops old ones: after 15 minutes, or if there are too many.
    pub(crate) fn push(&mut self, moment: EnsembleMoment) {
        let now = moment.at;
        self.0.push_back(moment);
        let is_old = |moment: &EnsembleMoment| now.saturating_duration_since(moment.at) > SPAN;
        while self.0.len() > MOST || self.0.front().is_some_and(is_old) {
            self.0.pop_front();
        }
    }

    /// Returns the moments, the oldest first.
    pub(crate) fn moments(&self) -> Vec<EnsembleMoment> {
        self.0.iter().cloned().collect()
    }
}

/// The responses of the previous moment.
#[derive(Debug)]
pub(crate) struct PreviousReports {
    at: Instant,
    reports: Vec<ProbeReport>,
}

impl PreviousReports {
    pub(crate) const fn new(at: Instant, reports: Vec<ProbeReport>) -> Self {
        Self { at, reports }
    }
}

/// Returns the measures of the servers, in the order of their reports.
pub(crate) fn measures(
    reports: &[ProbeReport],
    at: Instant,
    previous: Option<&PreviousReports>,
) -> Vec<ServerMeasures> {
    let baseline = previous.map(|previous| {
        RateBaseline::new(&previous.reports, at.saturating_duration_since(previous.at))
    });
    let before = |report: &ProbeReport| {
        previous?.reports.iter().find(|before| before.server == report.server)
    };
    let of = |report: &ProbeReport| {
        let srvr = report.srvr.as_ref().ok();
        let lag = health::lag(reports, report).filter(|_| !report.leads());
        ServerMeasures {
            requests: baseline.as_ref().and_then(|before| before.requests(report)).and_then(known),
            latency: latency(before(report), report).and_then(known),
            lag: lag.map(float).and_then(known),
            connections: srvr.and_then(|srvr| srvr.connections).map(float).and_then(known),
        }
    };
    reports.iter().map(of).collect()
}

/// Returns the average latency of the requests since the previous report. Servers since ZooKeeper
/// 3.6 report the sums for it. `None` if there was no request.
fn latency(before: Option<&ProbeReport>, report: &ProbeReport) -> Option<f64> {
    match (before.and_then(latencies), latencies(report)) {
        (_, None) => report.srvr.as_ref().ok()?.latency.map(|(average, _)| average),
        (None, Some(_)) => None,
        (Some((sum_before, count_before)), Some((sum, count))) => {
            // The counters of a server that was restarted begin again.
            let (sum, count) = (sum.checked_sub(sum_before)?, count.checked_sub(count_before)?);
            (count > 0).then(|| float(sum) / float(count))
        }
    }
}

/// Returns the sum of the latencies of all reads and writes, and their number.
fn latencies(report: &ProbeReport) -> Option<(u64, u64)> {
    let of = |name: &str| {
        let count = |what: &str| report.count(&format!("{what}_{name}latency"));
        count("sum").zip(count("cnt"))
    };
    let (reads, writes) = (of("read"), of("update"));
    if reads.is_none() && writes.is_none() {
        return None;
    }
    let both = reads.into_iter().chain(writes);
    Some(both.fold((0, 0), |(sum, count), (more_sum, more)| {
        (sum.saturating_add(more_sum), count.saturating_add(more))
    }))
}

/// Returns a measure that can be shown.
fn known(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

#[expect(clippy::cast_precision_loss, reason = "a measure is not exact")]
const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use zk_curator_ops::ensemble::probe::ProbedServer;
    use zk_curator_ops::ensemble::words::{MntrResponse, SrvrResponse};

    use super::*;

    fn report(mode: &str, zxid: u32, received: u32, mntr: &str) -> ProbeReport {
        let srvr = format!(
            "Zookeeper version: 3.9.3-abc, built\nLatency min/avg/max: 0/NaN/7\n\
             Received: {received}\nConnections: 3\nZxid: 0x{zxid:x}\nMode: {mode}\n"
        );
        let mut report = ProbeReport::empty(ProbedServer::new(mode, 2181));
        report.srvr = Ok(SrvrResponse::parse(&srvr).unwrap());
        report.mntr = Ok(MntrResponse::parse(&format!("zk_version\t3\n{mntr}")).unwrap());
        report
    }

    fn moment(at: Instant) -> EnsembleMoment {
        EnsembleMoment { at, taken: 0, servers: Arc::new([]) }
    }

    #[test]
    fn measures_are_of_the_time_since_the_previous_moment() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let sums = |sum, count| format!("zk_sum_readlatency\t{sum}\nzk_cnt_readlatency\t{count}");
        let first = vec![report("leader", 9, 10, &sums(100, 10)), report("follower", 7, 0, "")];
        let only = measures(&first, start, None);
        assert_eq!((only[0].requests, only[0].latency), (None, None));
        assert_eq!((only[0].lag, only[1].lag), (None, Some(2.0)));
        assert_eq!(only[0].connections, Some(3.0));
        let previous = PreviousReports::new(start, first);
        let next = [report("leader", 9, 30, &sums(130, 20)), report("follower", 9, 0, "")];
        let next = measures(&next, start + second * 2, Some(&previous));
        assert_eq!((next[0].requests, next[0].latency), (Some(10.0), Some(3.0)));
        // The average since the start is not a number.
        assert_eq!((next[1].requests, next[1].latency), (Some(0.0), None));
        let restarted = [report("leader", 9, 3, &sums(1, 1))];
        let restarted = measures(&restarted, start + second, Some(&previous));
        assert_eq!((restarted[0].requests, restarted[0].latency), (None, None));
    }

    #[test]
    fn the_ring_is_bounded_in_time_and_number() {
        let start = Instant::now();
        let mut ring = MeasureRing::default();
        for second in 0..2_000 {
            ring.push(moment(start + Duration::from_secs(second)));
        }
        assert_eq!(ring.moments().len(), MOST);
        ring.push(moment(start + Duration::from_secs(10_000)));
        assert_eq!(ring.moments().len(), 1);
    }
}
