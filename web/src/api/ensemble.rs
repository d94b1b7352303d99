//! The servers of the ensemble in JSON, and their news.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};
use zk_curator_ops::ensemble::doctor::DoctorFinding;

use super::node::json_response;
use super::watch::{event_stream, full};
use crate::ensemble::{
    EnsembleMoment, EnsembleSample, EnsembleSurvey, ListedSession, ServerLine, ServerMeasures,
};
use crate::live::ensemble_events;
use crate::problem::RequestResult;
use crate::show::millis;
use crate::state::Web;
use crate::visit::Visit;

/// The number of sessions on a page.
pub(crate) const SESSIONS: usize = 100;

/// `GET /api/v1/ensemble/watch`
pub(crate) async fn watch_ensemble(
    State(web): State<Arc<Web>>,
    visit: Visit,
) -> RequestResult<Response> {
    let sampler = web.ensemble()?;
    let seat = web.streams.take(&visit.viewer.counted_as).ok_or_else(full)?;
    Ok(event_stream(ensemble_events(sampler.view(), seat)))
}

/// Returns a sample, with a page of the sessions.
pub(crate) fn ensemble_json(sample: &EnsembleSample, from: usize) -> Response {
    let survey = sample.survey.as_deref();
    let body = json!({
        "taken": sample.taken,
        "quorum": sample.quorum.name(),
        "problems": sample.problems,
        "servers": sample.servers.iter().map(server_json).collect::<Vec<_>>(),
        "history": sample.moments.iter().map(moment_json).collect::<Vec<_>>(),
        "survey": survey.map(|survey| survey_json(survey, from)),
    });
    json_response(&body, None)
}

fn server_json(line: &ServerLine) -> Value {
    let trouble = line.trouble.as_ref().map(
        |trouble| json!({ "kind": trouble.name, "text": trouble.text, "since": trouble.since }),
    );
    json!({
        "server": &*line.name,
        "id": line.id,
        "observer": line.is_observer,
        "role": line.role,
        "read_only": line.is_read_only,
        "version": line.release,
        "uptime_ms": line.uptime.map(millis),
        "connections": line.connections,
        "requests_per_second": line.requests,
        "outstanding": line.outstanding,
        "latency_average_ms": line.latency.map(|(average, _)| average),
        "latency_greatest_ms": line.latency.map(|(_, greatest)| greatest),
        "zxid": line.zxid.map(|zxid| format!("{zxid:#x}")),
        "lag": line.lag,
        "nodes": line.nodes,
        "watches": line.watches,
        "trouble": trouble,
    })
}

fn moment_json(moment: &EnsembleMoment) -> Value {
    let server = |(name, measures): &(Arc<str>, ServerMeasures)| {
        json!({
            "server": &**name,
            "requests_per_second": measures.requests,
            "latency_ms": measures.latency,
            "lag": measures.lag,
            "connections": measures.connections,
        })
    };
    let servers: Vec<_> = moment.servers.iter().map(server).collect();
    json!({ "taken": moment.taken, "servers": servers })
}

fn survey_json(survey: &EnsembleSurvey, from: usize) -> Value {
    let sessions = &survey.sessions;
    let shown = sessions.sessions.iter().skip(from).take(SESSIONS);
    let next = from.saturating_add(SESSIONS);
    json!({
        "taken": survey.taken,
        "findings": survey.findings.iter().map(finding_json).collect::<Vec<_>>(),
        "notes": survey.notes,
        "sessions": {
            "total": sessions.total,
            "all_connections": sessions.has_all_connections,
            "all_sessions": sessions.has_all_sessions,
            "from": from,
            "next": (next < sessions.sessions.len()).then_some(next),
            "sessions": shown.map(session_json).collect::<Vec<_>>(),
        },
    })
}

fn finding_json(finding: &DoctorFinding) -> Value {
    json!({
        "severity": finding.severity.name(),
        "subject": finding.subject,
        "text": finding.text,
        "advice": finding.advice,
        "line": finding.line,
    })
}

fn session_json(session: &ListedSession) -> Value {
    json!({
        "session": session.id,
        "address": session.address,
        "server": session.server,
        "timeout_ms": session.timeout.map(millis),
        "silent_ms": session.silent.map(millis),
        "last_operation": session.last_operation,
        "requests": session.requests,
        "ephemerals": session.ephemerals,
        "paths": session.paths,
    })
}
