//! Findings about the disks of a server, and about the sizes of its packets.
//!
//! ZooKeeper reports the times of writes, the sizes of its directories and, by the admin server,
//! its configuration. It reports neither the free space nor the device of a disk.

use super::finding::{DoctorFinding, FindingSeverity, finding};
use crate::ensemble::admin::AdminSettings;
use crate::ensemble::probe::{ProbeReport, ProbeResult, ProbedServer};
use crate::text;

/// A greater share of slow writes is a finding: the slowest of a hundred, in milliseconds.
const SLOW_P99_MS: f64 = 100.0;
/// A greater average of the writes is a finding, in milliseconds.
const SLOW_AVERAGE_MS: f64 = 20.0;
/// A slower write since the start of the server is a finding, in milliseconds.
const SLOW_ONCE_MS: f64 = 1_000.0;
/// Larger logs and snapshots are a finding, in bytes.
const LARGE_DIRECTORY: u64 = 10 << 30;
/// The greatest packet of servers that do not tell it: the default of `jute.maxbuffer`.
pub(crate) const MAX_PACKET: u64 = 0xf_ffff;

/// Returns the greatest packet that all servers accept. A server without the setting, or that does
/// not tell it, is assumed to have the default.
pub(crate) fn max_packet<'a>(
    settings: impl Iterator<Item = &'a ProbeResult<AdminSettings>>,
) -> u64 {
    let own = |settings: &ProbeResult<AdminSettings>| settings.as_ref().ok()?.max_packet;
    settings.map(|settings| own(settings).unwrap_or(MAX_PACKET)).min().unwrap_or(MAX_PACKET)
}

/// Returns the findings of the metrics and of `conf`.
pub(super) fn of(report: &ProbeReport) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = writes(report).into_iter().chain(sizes(report)).collect();
    let server = &report.server;
    let count = |name: &str| report.count(name).filter(|count| *count > 0);
    if let Some(errors) = count("unrecoverable_error_count") {
        let text = format!("{errors} unrecoverable errors since its start");
        findings.push(finding(
            FindingSeverity::Error,
            server,
            text,
            "look at its log, and restart it",
        ));
    }
    if let Some(rejected) = count("large_requests_rejected") {
        let text = format!("has rejected {rejected} large requests since its start");
        let advice = "see zookeeper.request_throttle and largeRequestMaxBytes";
        findings.push(finding(FindingSeverity::Warning, server, text, advice));
    }
    findings
}

/// Finds slow writes of the log. Each of them delays all clients.
fn writes(report: &ProbeReport) -> Option<DoctorFinding> {
    let slow = |name: &str, limit: f64| report.metric(name).filter(|ms| *ms > limit);
    let text = if let Some(ms) = slow("p99_fsynctime", SLOW_P99_MS) {
        format!("1 in 100 writes to the disk takes {ms} ms or more")
    } else if let Some(ms) = slow("avg_fsynctime", SLOW_AVERAGE_MS) {
        format!("a write to the disk takes {ms} ms on average")
    } else {
        let ms = slow("max_fsynctime", SLOW_ONCE_MS)?;
        format!("a write to the disk has taken {ms} ms since its start")
    };
    let advice = "give the transaction log a disk of its own (dataLogDir)";
    Some(finding(FindingSeverity::Warning, &report.server, text, advice))
}

/// Finds large directories.
fn sizes(report: &ProbeReport) -> Vec<DoctorFinding> {
    let Ok(conf) = &report.conf else { return Vec::new() };
    let size = |name: &str| conf.number(name).filter(|bytes| *bytes > LARGE_DIRECTORY);
    let folders = [("dataLogDir", "dataLogSize"), ("dataDir", "dataDirSize")];
    let large = folders.map(|(folder, bytes)| conf.settings.get(folder).zip(size(bytes)));
    let mut large: Vec<_> = large.into_iter().flatten().collect();
    large.dedup_by_key(|(folder, _)| *folder);
    let found = large.into_iter().map(|(folder, bytes)| {
        let text = format!("has {} of logs and snapshots in {folder}", text::size(bytes));
        let advice = "let the server delete old ones (autopurge.purgeInterval)";
        finding(FindingSeverity::Warning, &report.server, text, advice)
    });
    found.collect()
}

/// Returns the finding about settings that only the admin server tells.
pub(crate) fn settings(server: &ProbedServer, settings: &AdminSettings) -> Option<DoctorFinding> {
    (settings.purge_hours == Some(0)).then(|| {
        let text = "never deletes old logs and snapshots";
        let advice = "its disk fills up, unless another program deletes them";
        let line = Some("autopurge.purgeInterval=24".to_owned());
        DoctorFinding { line, ..finding(FindingSeverity::Warning, server, text, advice) }
    })
}
