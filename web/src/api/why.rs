//! Recipes and their contenders in JSON.

use axum::response::Response;
use serde_json::{Value, json};
use zk_curator_ops::holders::{PARTIAL, contender_value, next_steps, obstacle_line, persistent};
use zk_curator_recipes::inspect::Contender;

use super::node::json_response;
use crate::reads::{HolderRow, KnownSessions, RecipeRow, RecipesPart, RecipesRead, WhyRead};
use crate::show::millis;

/// The maximum number of holders, and of waiters, in a response.
const MOST: usize = 2_048;

/// Returns a recipe with its contenders, in the form of `zkc why -o json`.
pub(crate) fn why_json(why: &WhyRead, known: &KnownSessions, now: i64) -> Response {
    let (finding, facts) = (&why.finding, &known.facts);
    let contenders = |all: &[Contender]| -> Vec<Value> {
        all.iter().take(MOST).map(|one| contender_value(facts, one, now)).collect()
    };
    let mut notes: Vec<_> = facts.notes().iter().map(ToString::to_string).collect();
    if finding.is_partial {
        notes.push(PARTIAL.to_owned());
    }
    let (steps, _) = next_steps(finding, facts, false);
    let steps: Vec<_> = steps
        .iter()
        .map(|step| json!({ "command": step.command, "effect": step.effect }))
        .collect();
    let deletion: Vec<_> =
        why.deletion.iter().map(|obstacle| obstacle_line(facts, obstacle)).collect();
    let body = json!({
        "path": finding.path,
        "recipe": finding.kind.to_string(),
        "library": finding.library.to_string(),
        "guess": finding.is_guess,
        "holders": contenders(&finding.holders),
        "holders_total": finding.holders.len(),
        "waiting": contenders(&finding.waiting),
        "waiting_total": finding.waiting.len(),
        "persistent": persistent(finding).count(),
        "ignored": finding.ignored.iter().take(MOST).collect::<Vec<_>>(),
        "verdicts": facts.verdicts(finding),
        "next": steps,
        "deletion": deletion,
        "partial": finding.is_partial,
        "notes": notes,
        "sessions_age_ms": known.age.map(millis),
    });
    json_response(&body, None)
}

/// Returns a page of the recipes below a node.
pub(crate) fn recipes_json(
    root: &str,
    read: &RecipesRead,
    part: &RecipesPart<'_>,
    known: &KnownSessions,
    now: i64,
) -> Response {
    let rows: Vec<_> = part.rows.iter().map(|row| recipe(row, known, now)).collect();
    let body = json!({
        "path": root,
        "total": read.rows.len(),
        "matching": part.matching,
        "from": part.from,
        "next": part.next,
        "nodes": read.nodes,
        "complete": read.is_complete,
        "unreadable": read.unreadable,
        "recipes": rows,
        "sessions_age_ms": known.age.map(millis),
    });
    json_response(&body, None)
}

fn recipe(row: &RecipeRow, known: &KnownSessions, now: i64) -> Value {
    let longest = row.oldest.map(|oldest| now.saturating_sub(oldest).max(0));
    json!({
        "path": row.path,
        "recipe": row.kind.to_string(),
        "library": row.library.to_string(),
        "guess": row.is_guess,
        "kind": row.group.name(),
        "holders": row.named.iter().map(|one| holder(one, known)).collect::<Vec<_>>(),
        "holders_total": row.holders,
        "since_ms": row.since,
        "waiting": row.waiting,
        "longest_wait_ms": longest,
        "depth": row.depth,
        "growth_per_minute": row.growth,
        "persistent": row.persistent,
        "partial": row.is_partial,
    })
}

fn holder(holder: &HolderRow, known: &KnownSessions) -> Value {
    let session = holder.session.and_then(|id| known.facts.details(id));
    json!({
        "path": holder.path,
        "label": holder.label,
        "session": holder.session.map(|id| id.to_string()),
        "client": session.and_then(|session| session.address.clone()),
        "server": session.and_then(|session| session.server.clone()),
        "persistent": holder.is_persistent,
    })
}
