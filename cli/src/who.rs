//! Who holds what, as commands show it.

use std::time::Duration;

use serde_json::{Value, json};
use zk_curator_ops::holders::{DeletionObstacle, SessionFacts};
use zk_curator_recipes::inspect::{Contender, Finding, RecipeKind};

use crate::node;
use crate::output::{data, printable, time};

/// The note about a recipe with nodes that were not read.
pub(crate) const PARTIAL: &str = "not all nodes were read: too many, or no permission";

/// Returns the lines about a contender, indented below a title of eight characters.
pub(crate) fn contender_lines(
    facts: &SessionFacts,
    contender: &Contender,
    title: &str,
    now: i64,
) -> Vec<String> {
    let label = match contender.label.as_ref() {
        [] => "(no label)".to_owned(),
        b"__REVOKE__" | b"unlock" => "(the request has replaced its label)".to_owned(),
        label => data::line(label, 60),
    };
    let since = contender.created_ms().map(|created| {
        let clock = time::rfc3339(created).unwrap_or_default().replace('T', " ");
        format!(
            "since {}, {}",
            clock.trim_end_matches('Z'),
            time::duration(time::since(created, now))
        )
    });
    let token = contender.token().map(|token| format!("token {}", node::hex(token.get())));
    let mut first = vec![format!("{title:<8} {label}")];
    first.extend(since);
    first.extend(token);
    if contender.is_revoked {
        first.push("asked to release it".to_owned());
    }
    let words = facts.describe(contender.session);
    let (mut state, client) = (words.state, words.client);
    if contender.is_persistent {
        state.push_str(": no session will ever remove it");
    }
    let session = contender.session.map(|id| format!("session {id}"));
    let mut second = vec![format!("{:<8} {}", "", printable(&contender.name))];
    second.extend(session);
    second.push(state);
    let mut lines = vec![first.join("  "), second.join("  ")];
    if !client.is_empty() {
        lines.push(format!("{:<8} {client}", ""));
    }
    lines
}

/// Returns a contender for programs.
pub(crate) fn contender_value(facts: &SessionFacts, contender: &Contender, now: i64) -> Value {
    let session = contender.session.and_then(|id| facts.details(id));
    let age = contender.created_ms().map(|created| time::since(created, now).as_secs_f64());
    let connected =
        contender.session.and_then(|id| facts.sessions().is_disconnected(id)).map(|not| !not);
    json!({
        "path": contender.path,
        "name": contender.name,
        "role": contender.role.to_string(),
        "label": data::value(&contender.label),
        "session": contender.session.map(|id| id.to_string()),
        "persistent": contender.is_persistent,
        "created": contender.created_ms().and_then(time::rfc3339),
        "age_seconds": age,
        "token": contender.token().map(|token| node::hex(token.get())),
        "waits_on": contender.waits_on,
        "revoked": contender.is_revoked,
        "connected": connected,
        "client": session.and_then(|session| session.address.clone()),
        "server": session.and_then(|session| session.server.clone()),
        "timeout_ms": session.and_then(|session| session.timeout).map(millis),
        "silent_ms": session.and_then(|session| session.silent).map(millis),
        "gone_within_ms": contender.session.and_then(|id| facts.gone_within(id)).map(millis),
        "within": contender.within.map(|id| id.to_string()),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the kind of a recipe with its library, such as `mutex (Curator)`.
pub(crate) fn kind(finding: &Finding) -> String {
    if finding.kind == RecipeKind::Unknown {
        return "no recipe is recognised".to_owned();
    }
    let guess = if finding.is_guess { "perhaps " } else { "" };
    format!("{guess}{} ({})", finding.kind, finding.library)
}

/// Returns the line about an obstacle to a deletion, with the command that removes it.
pub(crate) fn obstacle_line(facts: &SessionFacts, obstacle: &DeletionObstacle) -> String {
    match obstacle {
        DeletionObstacle::Children { number: 1 } => format!("{obstacle}: zkc rm -r deletes both"),
        DeletionObstacle::Children { .. } => format!("{obstacle}: zkc rm -r deletes all"),
        DeletionObstacle::Ephemeral { session } => {
            let words = facts.describe(Some(*session));
            let client = match words.client.as_str() {
                "" => String::new(),
                client => format!(", {client}"),
            };
            format!("ephemeral: session {session} ({}{client}) may create it again", words.state)
        }
        _ => obstacle.to_string(),
    }
}
