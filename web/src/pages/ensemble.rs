//! The servers of the ensemble: what `zkc top`, `zkc doctor` and `zkc sessions` show.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tokio::time::timeout;
use zk_curator_ops::ensemble::doctor::{DoctorFinding, FindingSeverity};
use zk_curator_ops::ensemble::health::QuorumHealth;

use super::ensemble_charts::charts;
use super::ensemble_sessions::{SessionTable, session_table};
use super::frame::{Frame, render};
use crate::api::ensemble_json;
use crate::ensemble::{EnsembleSample, SURVEYED, ServerLine};
use crate::problem::{Problem, RequestResult};
use crate::show::{Chart, When, duration, grouped, now_ms, number, visible, when};
use crate::state::Web;
use crate::visit::{Format, Visit};

/// The time in which the first sample has to be there. A page without it shows it later.
const FIRST: Duration = Duration::from_secs(5);

#[derive(Template)]
#[template(path = "ensemble.html", whitespace = "minimize")]
struct EnsemblePage {
    frame: Frame,
    /// The time of the sample; `None` without one.
    taken: Option<When>,
    rhythm: String,
    verdict: QuorumVerdict,
    problems: Vec<String>,
    servers: Vec<ServerRow>,
    charts: Vec<Chart>,
    findings: Vec<FindingRow>,
    findings_summary: String,
    notes: Vec<String>,
    table: SessionTable,
}

/// The sentence about the quorum.
struct QuorumVerdict {
    class: &'static str,
    icon: &'static str,
    text: String,
}

struct ServerRow {
    name: String,
    member: String,
    icon: &'static str,
    role: String,
    role_class: &'static str,
    version: String,
    uptime: String,
    connections: String,
    requests: String,
    outstanding: String,
    average: String,
    greatest: String,
    zxid: String,
    lag: String,
    nodes: String,
    watches: String,
    /// The reason why the server does not respond; empty if it does.
    trouble: String,
    since: Option<When>,
}

struct FindingRow {
    class: &'static str,
    icon: &'static str,
    severity: &'static str,
    subject: String,
    text: String,
    advice: &'static str,
    line: String,
}

/// `GET /ensemble` and `GET /api/v1/ensemble`
pub(crate) async fn ensemble(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let sampler = web.ensemble()?;
    let viewing = sampler.view();
    let sample = timeout(FIRST, viewing.sample()).await.ok().flatten();
    let from = visit.query.number("from");
    if visit.format == Format::Json {
        let sample = sample.ok_or_else(no_sample)?;
        return Ok(ensemble_json(&sample, from));
    }
    let mut frame = Frame::new(&web, Some(&visit.viewer), "/ensemble").await;
    if web.live {
        frame.live = format!("{}/api/v1/ensemble/watch", web.base);
    }
    Ok(render(&page(&web, sampler.every(), frame, sample.as_deref(), from)))
}

fn no_sample() -> Problem {
    let detail = "The servers have not been sampled yet. Try again in a moment.";
    Problem::unavailable("No sample yet", detail)
}

/// Returns the page. `every` is the pause between two samples.
fn page(
    web: &Web,
    every: Duration,
    frame: Frame,
    sample: Option<&EnsembleSample>,
    from: usize,
) -> EnsemblePage {
    let now = now_ms();
    let survey = sample.and_then(|sample| sample.survey.as_deref());
    let problems = sample.map(|sample| sample.problems.as_slice()).unwrap_or_default();
    let findings = survey.map(|survey| survey.findings.as_slice()).unwrap_or_default();
    // The problems of the last survey are those above, or older ones.
    let others = || {
        let is_other = move |finding: &&DoctorFinding| !problems.contains(&finding.text);
        findings.iter().filter(is_other)
    };
    let shown = |texts: &[String]| texts.iter().map(|text| visible(text).into_owned()).collect();
    EnsemblePage {
        taken: sample.map(|sample| when(sample.taken, now)),
        rhythm: rhythm(every),
        verdict: verdict(sample),
        problems: shown(problems),
        servers: sample.map(|sample| server_rows(sample, now)).unwrap_or_default(),
        charts: sample.map(|sample| charts(sample, every)).unwrap_or_default(),
        findings_summary: findings_summary(survey.is_some(), others().count()),
        findings: others().map(finding_row).collect(),
        notes: shown(survey.map(|survey| survey.notes.as_slice()).unwrap_or_default()),
        table: session_table(web, survey.map(|survey| &survey.sessions), from),
        frame,
    }
}

fn rhythm(every: Duration) -> String {
    let survey = every.saturating_mul(SURVEYED);
    format!(
        "The servers are asked every {}, and for findings and sessions every {}, while this \
         page is viewed.",
        duration(every),
        duration(survey)
    )
}

fn verdict(sample: Option<&EnsembleSample>) -> QuorumVerdict {
    let Some(sample) = sample else {
        let text = "Unknown: no server has responded yet.".to_owned();
        return QuorumVerdict { class: "warn", icon: "⚠", text };
    };
    let leader = sample.servers.iter().find(|line| matches!(&*line.role, "leader" | "standalone"));
    let (class, icon, text) = match (sample.quorum, leader) {
        (QuorumHealth::Present, Some(line)) if line.role == "standalone" => {
            ("ok", "●", format!("{} serves alone, without an ensemble.", visible(&line.name)))
        }
        (QuorumHealth::Present, Some(line)) => {
            ("ok", "●", format!("There is a quorum, and {} leads.", visible(&line.name)))
        }
        (QuorumHealth::Present, None) => {
            ("ok", "●", "There is a quorum. Its leader has not responded.".to_owned())
        }
        (QuorumHealth::Missing, _) => ("bad", "✖", "There is no quorum.".to_owned()),
        (QuorumHealth::MissingHere, _) => {
            ("bad", "✖", "There is no quorum among the known servers.".to_owned())
        }
        _ => ("warn", "⚠", "It is unknown if there is a quorum.".to_owned()),
    };
    QuorumVerdict { class, icon, text }
}

fn server_rows(sample: &EnsembleSample, now: i64) -> Vec<ServerRow> {
    sample.servers.iter().map(|line| server_row(line, now)).collect()
}

fn server_row(line: &ServerLine, now: i64) -> ServerRow {
    let (icon, role_class) = match &*line.role {
        "leader" => ("★", "ok"),
        "follower" | "standalone" => ("●", ""),
        "observer" => ("○", ""),
        _ => ("⚠", "warn"),
    };
    let is_marked = line.is_read_only && line.role != "read-only";
    let read_only = if is_marked { ", read-only" } else { "" };
    let observer = if line.is_observer { ", without a vote" } else { "" };
    let trouble = line.trouble.as_ref();
    ServerRow {
        name: visible(&line.name).into_owned(),
        member: line.id.map(|id| format!("server.{id}{observer}")).unwrap_or_default(),
        icon,
        role: format!("{}{read_only}", visible(&line.role)),
        role_class,
        version: text(line.release.as_deref().map(visible)),
        uptime: text(line.uptime.map(duration)),
        connections: text(line.connections.map(grouped)),
        requests: text(line.requests.map(number)),
        outstanding: text(line.outstanding.map(grouped)),
        average: text(line.latency.map(|(average, _)| number(average))),
        greatest: text(line.latency.map(|(_, greatest)| number(greatest))),
        zxid: text(line.zxid.map(|zxid| format!("{zxid:#x}"))),
        lag: text(line.lag.map(grouped)),
        nodes: text(line.nodes.map(grouped)),
        watches: text(line.watches.map(grouped)),
        trouble: trouble.map(|trouble| visible(&trouble.text).into_owned()).unwrap_or_default(),
        since: trouble.map(|trouble| when(trouble.since, now)),
    }
}

fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn findings_summary(is_known: bool, count: usize) -> String {
    match count {
        _ if !is_known => "The servers have not been examined yet.".to_owned(),
        0 => "Nothing was found.".to_owned(),
        1 => "1 finding.".to_owned(),
        count => format!("{count} findings, the most severe first."),
    }
}

fn finding_row(finding: &DoctorFinding) -> FindingRow {
    let (class, icon) = match finding.severity {
        FindingSeverity::Error => ("bad", "✖"),
        FindingSeverity::Warning => ("warn", "⚠"),
        _ => ("", "ℹ︎"),
    };
    FindingRow {
        class,
        icon,
        severity: finding.severity.name(),
        subject: visible(&finding.subject).into_owned(),
        text: visible(&finding.text).into_owned(),
        advice: finding.advice,
        line: finding.line.as_deref().map(|line| visible(line).into_owned()).unwrap_or_default(),
    }
}
