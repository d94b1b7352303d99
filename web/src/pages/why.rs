//! A recipe: who holds it, who waits, and why nothing moves.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use zk_curator_ops::holders::{NextStep, PARTIAL, next_steps, obstacle_line};
use zk_curator_recipes::inspect::{Contender, RecipeKind};

use super::frame::{Frame, render};
use super::head::{Head, View, address};
use crate::api::why_json;
use crate::live::Scope;
use crate::paths::url_of;
use crate::problem::RequestResult;
use crate::reads::{KnownSessions, WhyRead};
use crate::show::{
    ContenderView, contender_views, grouped, now_ms, place_sentence, sentence, summary,
    unless_zero, visible,
};
use crate::state::Web;
use crate::visit::{Format, Visit};

/// The maximum number of holders, and of waiters, on the page.
const SHOWN: usize = 200;
/// The maximum number of sentences.
const SENTENCES: usize = 50;
/// The maximum number of named nodes that do not belong to the recipe.
const IGNORED: usize = 5;
/// The time to wait for the sessions. Without them in that time, the page says that they are not
/// known.
const SESSIONS_WITHIN: Duration = Duration::from_millis(1_500);

#[derive(Template)]
#[template(path = "why.html", whitespace = "minimize")]
struct WhyPage {
    frame: Frame,
    head: Head,
    summary: String,
    /// The place of the node in the recipe, if the recipe is at another node.
    place: String,
    recipe: String,
    recipe_url: String,
    is_unknown: bool,
    verdicts: Vec<String>,
    tables: Vec<ContenderTable>,
    steps: Vec<StepView>,
    more_readers: String,
    deletion: Vec<String>,
    notes: Vec<String>,
    ignored: String,
    age: String,
}

struct ContenderTable {
    id: &'static str,
    title: &'static str,
    empty: &'static str,
    rows: Vec<ContenderRow>,
    more: String,
    /// `true` if a contender of the table waits for another node.
    has_waiters: bool,
}

struct ContenderRow {
    view: ContenderView,
    node_url: String,
    waits_on_url: String,
    /// The form that deletes the node; empty if nodes cannot be deleted.
    delete_url: String,
    /// A text that differs if something other than a time does.
    state: String,
}

struct StepView {
    command: String,
    effect: &'static str,
    /// `false` if a name has invisible characters, which are shown in another form.
    can_copy: bool,
}

/// `GET /why/…` and `GET /api/v1/why/…`
pub(crate) async fn why(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/why", "/api/v1/why"])?;
    let (why, known) = tokio::join!(web.why(&path), web.known_sessions.recent(SESSIONS_WITHIN));
    let why = why?;
    if visit.format == Format::Json {
        return Ok(why_json(&why, &known, now_ms()));
    }
    let frame = Frame::new(&web, Some(&visit.viewer), "").await;
    let frame = if why.finding.kind == RecipeKind::Unknown {
        frame.of_node(&web, &path, &url_of(&path))
    } else {
        frame.following(&web, &path, &why.finding.path, Scope::Recipe)
    };
    Ok(render(&page(&web, frame, &path, &why, &known)))
}

fn page(web: &Web, frame: Frame, path: &str, why: &WhyRead, known: &KnownSessions) -> WhyPage {
    let finding = &why.finding;
    let now = now_ms();
    let all = known.facts.verdicts(finding);
    let mut verdicts: Vec<_> =
        all.iter().take(SENTENCES).map(|verdict| sentence(verdict)).collect();
    if all.len() > SENTENCES {
        verdicts.push(format!("and {} more", grouped(all.len() - SENTENCES)));
    }
    let (steps, more_readers) = next_steps(finding, &known.facts, false);
    let deletion = why.deletion.iter().map(|obstacle| obstacle_line(&known.facts, obstacle));
    let mut notes: Vec<_> =
        known.facts.notes().iter().map(|note| sentence(&note.to_string())).collect();
    if finding.is_partial {
        notes.push(PARTIAL.to_owned());
    }
    let is_elsewhere = finding.path != path;
    WhyPage {
        summary: summary(finding),
        place: if is_elsewhere { place_sentence(finding, path) } else { String::new() },
        recipe: visible(&finding.path).into_owned(),
        recipe_url: address(web, View::Why, &finding.path),
        is_unknown: finding.kind == RecipeKind::Unknown,
        verdicts,
        tables: vec![
            table(web, "holders", &finding.holders, known, now),
            table(web, "waiting", &finding.waiting, known, now),
        ],
        steps: steps.iter().map(step).collect(),
        more_readers: unless_zero(more_readers),
        deletion: deletion.map(|line| sentence(&line)).collect(),
        notes,
        ignored: ignored(&finding.ignored),
        age: known.words(),
        head: Head::of_view(web, path, View::Why),
        frame,
    }
}

fn table(
    web: &Web,
    id: &'static str,
    contenders: &[Contender],
    known: &KnownSessions,
    now: i64,
) -> ContenderTable {
    let (title, empty) = match id {
        "holders" => ("Holders", "No contender holds it."),
        _ => ("Waiting", "No client waits."),
    };
    let views = contender_views(contenders.iter().take(SHOWN), &known.facts, now);
    let rows: Vec<_> = views.into_iter().map(|view| row(web, view)).collect();
    ContenderTable {
        id,
        title,
        empty,
        has_waiters: rows.iter().any(|row| !row.view.waits_on.is_empty()),
        rows,
        more: unless_zero(contenders.len().saturating_sub(SHOWN)),
    }
}

fn row(web: &Web, view: ContenderView) -> ContenderRow {
    let node_url = address(web, View::Node, &view.path);
    let waits_on_url = match view.waits_on.as_str() {
        "" => String::new(),
        path => address(web, View::Node, path),
    };
    let delete_url = if web.write { format!("{node_url}#delete-heading") } else { String::new() };
    let state = format!("{} {} {}", view.place, view.label, view.client);
    ContenderRow { view, node_url, waits_on_url, delete_url, state }
}

fn step(step: &NextStep) -> StepView {
    let shown = visible(&step.command);
    let can_copy = shown == step.command;
    StepView { command: shown.into_owned(), effect: step.effect, can_copy }
}

fn ignored(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(IGNORED).map(|name| sentence(name)).collect();
    let more = names.len().saturating_sub(IGNORED);
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
