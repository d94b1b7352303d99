//! Judges the servers and the nodes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use zk_curator::Stat;

use super::disks;
use super::finding::{DoctorFinding, FindingSeverity, finding};
use crate::ensemble::health::{self, leader};
use crate::ensemble::notes::whitelist_line;
use crate::ensemble::probe::{ProbeReport, ProbedServer};
use crate::ensemble::words::ServerMode;
use crate::path::is_built_in;
use crate::{node, text};

/// The part of a limit from which it is near.
const NEAR: f64 = 0.8;
/// More ephemeral nodes of a session than this are a finding.
const MANY_EPHEMERALS: usize = 10_000;
/// More watches on a server than this are a finding.
const MANY_WATCHES: u64 = 500_000;
/// More requests in flight on a server than this are a finding.
const MANY_OUTSTANDING: u64 = 100;
/// Slower responses than this are a finding, in milliseconds.
const SLOW_MS: f64 = 100.0;
/// A greater difference of two clocks is a finding, in milliseconds.
const CLOCK_MS: u64 = 1_000;
/// The bytes of a name in a list of children, without the name itself.
const PER_NAME: u64 = 4;
/// Nodes with more children than this are a finding.
const MANY_CHILDREN: i32 = 50_000;
/// A higher sequence number is a finding. Names count to 2^31 - 1.
const LATE_SEQUENCE: i64 = 2_000_000_000;

/// Returns the findings about the servers, the most severe first. `named` is the number of servers
/// in the connect string, and `max_packet` the greatest packet that they accept, in bytes.
pub(crate) fn servers(
    reports: &[ProbeReport],
    voters: Option<usize>,
    named: usize,
    max_packet: u64,
) -> Vec<DoctorFinding> {
    let mut findings: Vec<_> = health::problems(reports, voters)
        .into_iter()
        .map(|problem| finding(FindingSeverity::Error, "ensemble", problem, "see zkc status"))
        .collect();
    findings.extend(members(reports, voters, named));
    findings.extend(refusals(reports));
    findings.extend(differences(reports));
    findings.extend(followers(reports, voters));
    for report in reports {
        findings.extend(limits(report));
        findings.extend(disks::of(report));
        findings.extend(clients(report));
    }
    findings.extend(ephemerals(reports, max_packet));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn members(reports: &[ProbeReport], voters: Option<usize>, named: usize) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    match voters {
        None if reports.len() == 1 && reports[0].mode() == Some(ServerMode::Standalone) => {
            findings.push(finding(
                FindingSeverity::Note,
                "ensemble",
                "one server: no failure is tolerated",
                "three servers tolerate the failure of one",
            ));
        }
        Some(voters) if voters % 2 == 0 => findings.push(finding(
            FindingSeverity::Warning,
            "ensemble",
            format!("{voters} voting servers tolerate as few failures as {} do", voters - 1),
            "add or remove a server, or make one an observer",
        )),
        _ => {}
    }
    if named < reports.len() {
        findings.push(finding(
            FindingSeverity::Note,
            "ensemble",
            format!("the connect string names {named} of {} servers", reports.len()),
            "name all of them, so that clients find a server whichever fails",
        ));
    }
    findings
}

fn refusals(reports: &[ProbeReport]) -> Vec<DoctorFinding> {
    let refusing = reports.iter().filter_map(|report| {
        let words = report.unlisted();
        let names: Vec<_> = words.iter().map(|word| word.text()).collect();
        let text = format!("refuses {}", names.join(", "));
        let advice = "its state is known in part";
        let found = finding(FindingSeverity::Warning, &report.server, text, advice);
        (!words.is_empty()).then(|| DoctorFinding { line: Some(whitelist_line(&words)), ..found })
    });
    refusing.collect()
}

/// Finds settings that should be the same on all servers.
fn differences(reports: &[ProbeReport]) -> Vec<DoctorFinding> {
    const SAME: [&str; 7] = [
        "tickTime",
        "minSessionTimeout",
        "maxSessionTimeout",
        "maxClientCnxns",
        "initLimit",
        "syncLimit",
        "version",
    ];
    let different = SAME.into_iter().filter_map(|name| {
        let confs = reports.iter().filter_map(|report| report.conf.as_ref().ok());
        let values: BTreeSet<_> = confs.filter_map(|conf| conf.settings.get(name)).collect();
        let values: Vec<_> = values.into_iter().map(String::as_str).collect();
        (values.len() > 1).then(|| {
            let text = format!("servers differ in {name}: {}", values.join(", "));
            let advice = "clients then behave differently from server to server";
            finding(FindingSeverity::Warning, "ensemble", text, advice)
        })
    });
    different.collect()
}

fn followers(reports: &[ProbeReport], voters: Option<usize>) -> Option<DoctorFinding> {
    let synced = leader(reports)?.metric("synced_followers")?;
    #[expect(clippy::cast_precision_loss, reason = "a number of servers")]
    let expected = voters?.saturating_sub(1) as f64;
    (synced < expected).then(|| {
        let text = format!("{synced} of {expected} followers are in sync with the leader");
        finding(FindingSeverity::Error, "ensemble", text, "look at the logs of the others")
    })
}

/// Finds metrics that are near or beyond their limits.
fn limits(report: &ProbeReport) -> Vec<DoctorFinding> {
    let server = &report.server;
    let mut findings = Vec::new();
    let mut warn = |text: String, advice| {
        findings.push(finding(FindingSeverity::Warning, server, text, advice));
    };
    let files = report.metric("open_file_descriptor_count");
    if let Some((open, most)) = files.zip(report.metric("max_file_descriptor_count"))
        && open >= most * NEAR
    {
        warn(format!("{open} of {most} file descriptors are open"), "raise the limit (ulimit -n)");
    }
    let outstanding = report.srvr.as_ref().ok().and_then(|srvr| srvr.outstanding);
    if let Some(outstanding) = outstanding.filter(|count| *count > MANY_OUTSTANDING) {
        let advice = "the server is behind its clients: look at the disk and the garbage collector";
        warn(format!("{outstanding} requests are waiting"), advice);
    }
    if let Some((average, _)) = report.srvr.as_ref().ok().and_then(|srvr| srvr.latency)
        && average > SLOW_MS
    {
        warn(
            format!("the average latency is {average} ms"),
            "look at the disk and the garbage collector",
        );
    }
    let watches = report.wchs.as_ref().ok().map(|summary| summary.watches);
    if let Some(watches) = watches.or_else(|| report.count("watch_count"))
        && watches > MANY_WATCHES
    {
        warn(format!("{watches} watches"), "see zkc watches --by-path");
    }
    findings
}

/// Finds addresses whose connections are near the limit of a server.
fn clients(report: &ProbeReport) -> Vec<DoctorFinding> {
    let most = report.conf.as_ref().ok().and_then(|conf| conf.number("maxClientCnxns"));
    let Some(most) = most.filter(|most| *most > 0) else { return Vec::new() };
    let mut by_host: BTreeMap<&str, u64> = BTreeMap::new();
    for connection in report.cons.iter().flatten() {
        let host = connection.address.rsplit_once(':').map_or("", |(host, _)| host);
        *by_host.entry(host).or_default() += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "numbers of connections")]
    let near = by_host.into_iter().filter(|(_, count)| *count as f64 >= most as f64 * NEAR);
    near.map(|(host, count)| {
        let text = format!("{host} has {count} connections of {most} (maxClientCnxns)");
        let advice = "further ones are refused: share sessions, or raise maxClientCnxns";
        finding(FindingSeverity::Warning, &report.server, text, advice)
    })
    .collect()
}

/// Finds sessions whose end is a large transaction: it names all their nodes.
fn ephemerals(reports: &[ProbeReport], max_packet: u64) -> Vec<DoctorFinding> {
    let Some(dump) = reports.iter().find_map(|report| report.dump.as_ref().ok()) else {
        return Vec::new();
    };
    let judged = dump.ephemerals.iter().filter_map(|(session, paths)| {
        let (nodes, bytes) = (paths.len(), list_bytes(paths));
        let text = format!("has {nodes} ephemeral nodes, whose paths have {bytes} bytes");
        let (severity, advice) = match bytes {
            _ if bytes > max_packet => (
                FindingSeverity::Error,
                "its end is one transaction with all paths, beyond jute.maxbuffer: followers may \
                 refuse it, and servers may not start again; raise the limit, or delete nodes",
            ),
            _ if bytes > max_packet / 2 => (
                FindingSeverity::Warning,
                "its end is one transaction with all paths, which must stay below jute.maxbuffer",
            ),
            _ if nodes > MANY_EPHEMERALS => (
                FindingSeverity::Warning,
                "its end deletes them in one transaction, which takes long",
            ),
            _ => return None,
        };
        Some(finding(severity, node::hex(*session), text, advice))
    });
    judged.collect()
}

/// Returns the finding about the clock of a server, which accepted a connection at `established` by
/// its own clock, and between two times by the clock here. All are in milliseconds since 1970.
pub(crate) fn clock(
    server: &ProbedServer,
    established: i64,
    between: (i64, i64),
) -> Option<DoctorFinding> {
    let ahead = established.saturating_sub(between.1);
    let behind = between.0.saturating_sub(established);
    let (off, direction) = if ahead > 0 { (ahead, "ahead of") } else { (behind, "behind") };
    let off = u64::try_from(off).ok().filter(|off| *off > CLOCK_MS)?;
    let off = text::duration(Duration::from_millis(off));
    let text = format!("its clock is {off} {direction} the clock here");
    let advice = "the ages of nodes and the times in logs mislead: synchronise the clocks";
    Some(finding(FindingSeverity::Warning, server, text, advice))
}

/// Returns the bytes of the names in a list of children.
pub(crate) fn list_bytes(names: &[String]) -> u64 {
    names.iter().map(|name| name.len() as u64 + PER_NAME).sum()
}

/// Returns the findings about a node. `on_server` is its path on the servers, `list` the number of
/// bytes of the list of its children, and `max_packet` that of the greatest packet that servers and
/// clients accept.
pub(crate) fn of_node(
    path: &str,
    on_server: &str,
    stat: &Stat,
    list: u64,
    max_packet: u64,
) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let mut warn =
        |text, advice| findings.push(finding(FindingSeverity::Warning, path, text, advice));
    let is_large = |bytes: u64| bytes > max_packet / 2;
    if is_large(u64::try_from(stat.data_length).unwrap_or_default()) {
        let text = format!("has {} bytes", stat.data_length);
        warn(text, "servers refuse more than jute.maxbuffer, and hold all data in memory");
    }
    if is_large(list) {
        let text = format!("has {} children, whose names have {list} bytes", stat.num_children);
        warn(text, "a list beyond jute.maxbuffer cannot be read, nor deleted by its clients");
    } else if stat.num_children > MANY_CHILDREN {
        let text = format!("has {} children", stat.num_children);
        warn(text, "every list of them is read as a whole");
    }
    let sequence = node::next_sequence(stat);
    // The versions of built-in nodes begin below zero.
    if sequence > LATE_SEQUENCE && !is_built_in(on_server) {
        let text = format!("the next sequential child has the number {sequence}");
        warn(text, "the numbers end at 2147483647: use a new parent");
    }
    findings
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
