//! Recipes and their clients in the words of commands and pages.

use serde_json::{Value, json};
use zk_curator_recipes::inspect::{Contender, Finding, RecipeKind};

use super::deletion::DeletionObstacle;
use super::facts::SessionFacts;
use crate::{data, node, text};

/// The note about a recipe with nodes that were not read.
pub const PARTIAL: &str = "not all nodes were read: too many, or no permission";

/// Returns the kind of a recipe with its library, such as `mutex (Curator)`.
#[must_use]
pub fn kind_words(finding: &Finding) -> String {
    if finding.kind == RecipeKind::Unknown {
        return "no recipe is recognised".to_owned();
    }
    let guess = if finding.is_guess { "perhaps " } else { "" };
    format!("{guess}{} ({})", finding.kind, finding.library)
}

/// Returns the line about an obstacle to a deletion, with the command that removes it.
#[must_use]
pub fn obstacle_line(facts: &SessionFacts, obstacle: &DeletionObstacle) -> String {
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
        DeletionObstacle::Permission { .. } => obstacle.to_string(),
    }
}

/// Returns a contender for programs. `now` is in milliseconds since 1970.
#[must_use]
pub fn contender_value(facts: &SessionFacts, contender: &Contender, now: i64) -> Value {
    let session = contender.session.and_then(|id| facts.details(id));
    let age = contender.created_ms().map(|created| text::since(created, now).as_secs_f64());
    let connected =
        contender.session.and_then(|id| facts.sessions().is_disconnected(id)).map(|not| !not);
    json!({
        "path": contender.path,
        "name": contender.name,
        "role": contender.role.to_string(),
        "label": data::value(&contender.label),
        "session": contender.session.map(|id| id.to_string()),
        "persistent": contender.is_persistent,
        "created": contender.created_ms().and_then(text::rfc3339),
        "age_seconds": age,
        "token": contender.token().map(|token| node::hex(token.get())),
        "waits_on": contender.waits_on,
        "revoked": contender.is_revoked,
        "connected": connected,
        "client": session.and_then(|session| session.address.clone()),
        "server": session.and_then(|session| session.server.clone()),
        "timeout_ms": session.and_then(|session| session.timeout).map(text::millis),
        "silent_ms": session.and_then(|session| session.silent).map(text::millis),
        "gone_within_ms": contender.session.and_then(|id| facts.gone_within(id)).map(text::millis),
        "within": contender.within.map(|id| id.to_string()),
    })
}
