use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use zk_curator_ops::history::{
    Check, CheckReport, DigestReport, Error, LogEnd, LogReport, Moment, SnapshotReport,
};

use super::arguments::FileArguments;
use crate::exit::{CommandFailure, Exit};
use crate::node::hex;
use crate::output::{CommandOutput, TextReport};

/// The most files that `autopurge` may remove that are named.
const NAMED: usize = 10;

/// The arguments of `zkc history check`.
#[derive(Debug, Args)]
pub(crate) struct HistoryCheck {
    #[command(flatten)]
    files: FileArguments,
    /// Do not replay the logs to compare digests, which takes the memory of the whole tree
    #[arg(long)]
    no_digests: bool,
    /// Number of snapshots that `autopurge` keeps (`autopurge.snapRetainCount`)
    #[arg(long, value_name = "N", default_value_t = 3)]
    retain: usize,
}

impl HistoryCheck {
    /// Prints the state of each file, and findings. Exits with 1 if there is a finding.
    pub(super) fn run(self) -> Result<CommandOutput, CommandFailure> {
        let report = self.files.read(|files| {
            Check::new(files).digests(!self.no_digests).retained_snapshots(self.retain).run()
        })?;
        let findings = findings(&report);
        let mut lines: Vec<String> = report.logs.iter().map(log_line).collect();
        lines.extend(report.snapshots.iter().map(snapshot_line));
        lines.push(String::new());
        lines.extend(summary(&report));
        if !findings.is_empty() {
            lines.push(String::new());
            lines.extend(findings.iter().map(|finding| format!("FINDING   {finding}")));
        }
        let exit = if findings.is_empty() { Exit::DONE } else { Exit::NO };
        let report = TextReport::new(lines.join("\n"), value(&report, &findings)).names(findings);
        Ok(CommandOutput::from(report).with_exit(exit))
    }
}

/// Returns the faults of the files.
fn findings(report: &CheckReport) -> Vec<String> {
    let mut findings = Vec::new();
    for log in &report.logs {
        findings.extend(log.error.iter().map(words));
        for damage in &log.damage {
            let (length, offset, reason) = (damage.length, damage.offset, &damage.damage);
            let file = log.path.display();
            findings.push(format!("{file} is damaged at byte {offset}, {length} bytes: {reason}"));
        }
        if !log.is_well_named {
            let file = log.path.display();
            findings.push(format!("{file} does not begin with the transaction in its name"));
        }
    }
    let newest = report.snapshots.len().saturating_sub(1);
    for (place, snapshot) in report.snapshots.iter().enumerate() {
        // A server that runs may be writing the newest one.
        let is_finding = |error: &&Error| place != newest || !is_truncated(error);
        findings.extend(snapshot.error.iter().filter(is_finding).map(words));
    }
    for gap in report.gaps.iter().filter(|gap| gap.bridged_by.is_none()) {
        let after = hex(gap.gap.after);
        findings.push(format!("transactions are missing after {after}: {}", gap.gap));
    }
    if report.out_of_order > 0 {
        let count = report.out_of_order;
        findings.push(format!(
            "{count} transactions are not newer than the one before: are the logs of one server?"
        ));
    }
    if report.misfits > 0 {
        let count = report.misfits;
        findings.push(format!("{count} transactions do not fit the tree: nodes were missing"));
    }
    if let Some(digests) = report.digests.as_ref().filter(|digests| digests.mismatched > 0) {
        findings.push(mismatch(digests));
    }
    findings
}

fn mismatch(digests: &DigestReport) -> String {
    let first = digests.mismatches.first();
    let first = first.map(|first| format!(", the first after {}", hex(first.zxid)));
    let (count, first) = (digests.mismatched, first.unwrap_or_default());
    format!("{count} digests of the tree differ from the recorded ones{first}")
}

fn words(error: &Error) -> String {
    error.to_string()
}

const fn is_truncated(error: &Error) -> bool {
    use zk_curator_ops::history::Damage;
    matches!(error, Error::Damaged { damage: Damage::Truncated { .. }, .. })
}

fn log_line(log: &LogReport) -> String {
    let range = match (log.first, log.last) {
        (Some(first), Some(last)) => format!("  {first} … {last}"),
        _ => String::new(),
    };
    let (name, count) = (name(&log.path), log.transactions);
    format!("{name:<28}  {count} transactions{range}  {}", end(log))
}

fn end(log: &LogReport) -> &'static str {
    match log.end {
        _ if !log.damage.is_empty() => "damaged",
        Some(LogEnd::Empty) => "empty: its header is not complete",
        Some(LogEnd::Torn { .. }) => "the last record is not complete",
        Some(_) => "complete",
        None => "not readable to its end",
    }
}

fn snapshot_line(snapshot: &SnapshotReport) -> String {
    let (name, nodes, sessions) = (name(&snapshot.path), snapshot.nodes, snapshot.sessions);
    let state = match &snapshot.error {
        None => "complete",
        Some(error) if is_truncated(error) => "not complete",
        Some(_) => "damaged",
    };
    format!("{name:<28}  {nodes} nodes  {sessions} sessions  {state}")
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the lines about all files.
fn summary(report: &CheckReport) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (report.first_change, report.last_change) {
        lines.push(format!("CHANGES   from {first} to {last}"));
    }
    lines.push(match report.oldest_tree {
        Some(0) => "TREES     from the first transaction on".to_owned(),
        Some(zxid) => format!("TREES     from transaction {} on", hex(zxid)),
        None => "TREES     none: no snapshot can be read that the logs continue".to_owned(),
    });
    if let Some(digests) = &report.digests {
        let DigestReport { matched, mismatched, unknown_version, unsettled, .. } = digests;
        lines.push(match *matched + *mismatched {
            0 => "DIGESTS   none to compare".to_owned(),
            _ => format!("DIGESTS   {matched} equal, {mismatched} different"),
        });
        if *unknown_version + *unsettled > 0 {
            lines.push(format!(
                "          {unknown_version} of an unknown version, {unsettled} within a snapshot \
                 that was being written"
            ));
        }
    }
    for gap in &report.gaps {
        if let Some(bridge) = &gap.bridged_by {
            let after = hex(gap.gap.after);
            let bridge = name(bridge);
            lines.push(format!("GAP       after {after}; {bridge} contains its effect"));
        }
    }
    for path in report.purgeable.iter().take(NAMED) {
        lines.push(format!("PURGE     autopurge may remove {}", name(path)));
    }
    let more = report.purgeable.len().saturating_sub(NAMED);
    if more > 0 {
        lines.push(format!("          and {more} more"));
    }
    lines
}

fn value(report: &CheckReport, findings: &[String]) -> Value {
    let logs = report.logs.iter().map(|log| {
        json!({
            "path": log.path.display().to_string(),
            "transactions": log.transactions,
            "first": log.first.map(Moment::value),
            "last": log.last.map(Moment::value),
            "end": end(log),
            "damage": log.damage.iter().map(|damage| json!({
                "offset": damage.offset,
                "length": damage.length,
                "damage": damage.damage.to_string(),
            })).collect::<Vec<_>>(),
            "error": log.error.as_ref().map(words),
        })
    });
    let snapshots = report.snapshots.iter().map(|snapshot| {
        json!({
            "path": snapshot.path.display().to_string(),
            "zxid": hex(snapshot.zxid),
            "nodes": snapshot.nodes,
            "sessions": snapshot.sessions,
            "error": snapshot.error.as_ref().map(words),
        })
    });
    let gaps = report.gaps.iter().map(|gap| {
        json!({
            "after": hex(gap.gap.after),
            "next": hex(gap.gap.next),
            "bridged_by": gap.bridged_by.as_ref().map(|path| path.display().to_string()),
        })
    });
    let purgeable = report.purgeable.iter().map(|path| path.display().to_string());
    json!({
        "logs": logs.collect::<Vec<_>>(),
        "snapshots": snapshots.collect::<Vec<_>>(),
        "gaps": gaps.collect::<Vec<_>>(),
        "out_of_order": report.out_of_order,
        "misfits": report.misfits,
        "digests": report.digests.as_ref().map(|digests| json!({
            "matched": digests.matched,
            "mismatched": digests.mismatched,
            "unsettled": digests.unsettled,
            "unknown_version": digests.unknown_version,
        })),
        "purgeable": purgeable.collect::<Vec<_>>(),
        "first_change": report.first_change.map(Moment::value),
        "last_change": report.last_change.map(Moment::value),
        "oldest_tree": report.oldest_tree.map(hex),
        "findings": findings,
    })
}
