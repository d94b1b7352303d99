//! The recipes below a node.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use zk_curator_ops::text::since;

use super::frame::{Frame, render};
use super::head::{Head, View, address};
use super::paging::{from_field, range};
use crate::api::recipes_json;
use crate::fields::query;
use crate::live::Scope;
use crate::paths::parent_of;
use crate::problem::RequestResult;
use crate::reads::{HolderRow, KnownSessions, PAGE, RecipeRow, RecipesPart, RecipesRead};
use crate::show::{
    RecipeGroup, When, duration, grouped, now_ms, sentence, unless_zero, visible, when,
};
use crate::state::Web;
use crate::visit::{Format, Visit};

#[derive(Template)]
#[template(path = "recipes.html", whitespace = "minimize")]
struct RecipesPage {
    frame: Frame,
    head: Head,
    root: String,
    groups: Vec<GroupLink>,
    summary: String,
    notices: Vec<String>,
    rows: Vec<RowView>,
    range: String,
    previous_url: String,
    next_url: String,
    has_pages: bool,
    age: String,
}

struct GroupLink {
    label: &'static str,
    url: String,
    count: String,
    is_current: bool,
}

struct RowView {
    why_url: String,
    path: String,
    kind: String,
    /// The page of the services; empty for another recipe.
    services_url: String,
    holders: Vec<HolderView>,
    /// Empty if all are named.
    more_holders: String,
    since: Option<When>,
    waiting: String,
    /// The longest wait, and its begin; empty if nothing waits.
    longest: String,
    longest_since: String,
    depth: String,
    growth: String,
    /// Empty for none.
    persistent: String,
    is_partial: bool,
    /// A text that differs if something other than a time does.
    state: String,
}

struct HolderView {
    label: String,
    url: String,
    client: String,
}

/// `GET /recipes/…` and `GET /api/v1/recipes/…`
pub(crate) async fn recipes(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let root = visit.node_below(&["/recipes", "/api/v1/recipes"])?;
    let group = visit.query.get("kind").and_then(RecipeGroup::named);
    let from = visit.query.number("from");
    let read = web.recipes(&root).await?;
    let known = web.known_sessions.present();
    let part = read.part(group, from);
    if visit.format == Format::Json {
        return Ok(recipes_json(&root, &read, &part, &known, now_ms()));
    }
    let frame = Frame::new(&web, Some(&visit.viewer), "/recipes").await;
    let frame = frame.following(&web, &root, &root, Scope::Subtree);
    Ok(render(&page(&web, frame, &root, &read, &part, &known)))
}

fn page(
    web: &Web,
    frame: Frame,
    root: &str,
    read: &RecipesRead,
    part: &RecipesPart<'_>,
    known: &KnownSessions,
) -> RecipesPage {
    let now = now_ms();
    let base = address(web, View::Recipes, root);
    let at = |from: usize| page_url(&base, part.group, from);
    RecipesPage {
        head: Head::of_view(web, root, View::Recipes),
        root: visible(root).into_owned(),
        groups: groups(&base, read, part.group),
        summary: summary(read),
        notices: notices(read),
        rows: part.rows.iter().map(|row| row_view(web, row, known, now)).collect(),
        range: range(part.from, part.rows.len(), part.matching),
        has_pages: part.from > 0 || part.next.is_some(),
        previous_url: match part.from {
            0 => String::new(),
            from => at(from.saturating_sub(PAGE)),
        },
        next_url: part.next.map(at).unwrap_or_default(),
        age: known.words(),
        frame,
    }
}

fn page_url(base: &str, group: Option<RecipeGroup>, from: usize) -> String {
    let from = from_field(from);
    format!("{base}{}", query(&[("kind", group.map_or("", RecipeGroup::name)), ("from", &from)]))
}

/// Returns the groups that have a recipe, and first all of them.
fn groups(base: &str, read: &RecipesRead, current: Option<RecipeGroup>) -> Vec<GroupLink> {
    let all = GroupLink {
        label: "all",
        url: page_url(base, None, 0),
        count: grouped(read.rows.len()),
        is_current: current.is_none(),
    };
    let of_group = |group: RecipeGroup| {
        let count = read.rows.iter().filter(|row| row.group == group).count();
        let is_current = current == Some(group);
        (count > 0 || is_current).then(|| GroupLink {
            label: group.label(),
            url: page_url(base, Some(group), 0),
            count: grouped(count),
            is_current,
        })
    };
    [all].into_iter().chain(RecipeGroup::ALL.into_iter().filter_map(of_group)).collect()
}

/// The summary of a subtree without a recipe.
const NONE: &str = "No recipe is recognised. A lock that no client uses leaves no trace.";

fn summary(read: &RecipesRead) -> String {
    let waiting = read.rows.iter().filter(|row| row.waiting > 0).count();
    let recipes = match read.rows.len() {
        0 => return NONE.to_owned(),
        1 => "1 recipe".to_owned(),
        many => format!("{} recipes", grouped(many)),
    };
    let waiting = grouped(waiting);
    format!("{recipes}. Clients wait at {waiting} of them. The longest wait comes first.")
}

/// Returns what the search has not read.
fn notices(read: &RecipesRead) -> Vec<String> {
    let mut notices = Vec::new();
    if !read.is_complete {
        notices.push(format!(
            "Only {} nodes were read, so recipes are missing. Choose a node further down to see \
             all of those below it.",
            grouped(read.nodes)
        ));
    }
    if read.unreadable > 0 {
        notices.push(format!("{} nodes could not be read.", grouped(read.unreadable)));
    }
    let partial = read.rows.iter().filter(|row| row.is_partial).count();
    if partial > 0 {
        notices.push(format!("{} recipes were read in part.", grouped(partial)));
    }
    notices
}

fn row_view(web: &Web, row: &RecipeRow, known: &KnownSessions, now: i64) -> RowView {
    let services_url = match row.group {
        RecipeGroup::Service => address(web, View::Services, parent_of(&row.path).unwrap_or("/")),
        _ => String::new(),
    };
    let holders: Vec<_> = row.named.iter().map(|holder| holder_view(web, holder, known)).collect();
    let first = holders.first().map_or("", |holder| holder.label.as_str());
    RowView {
        why_url: address(web, View::Why, &row.path),
        path: visible(&row.path).into_owned(),
        kind: sentence(&row.words),
        services_url,
        more_holders: unless_zero(row.holders.saturating_sub(holders.len())),
        since: row.since.map(|since| when(since, now)),
        waiting: grouped(row.waiting),
        longest: row.oldest.map(|oldest| duration(since(oldest, now))).unwrap_or_default(),
        longest_since: row.oldest.map(|oldest| when(oldest, now).absolute).unwrap_or_default(),
        depth: row.depth.map_or_else(|| "–".to_owned(), grouped),
        growth: growth_words(row.growth),
        persistent: unless_zero(row.persistent),
        is_partial: row.is_partial,
        state: format!("{first} {} {} {:?}", row.holders, row.waiting, row.depth),
        holders,
    }
}

fn holder_view(web: &Web, holder: &HolderRow, known: &KnownSessions) -> HolderView {
    let client = known.facts.describe(holder.session).client;
    let client = match holder.session {
        _ if !client.is_empty() => visible(&client).into_owned(),
        Some(session) => format!("session {session}"),
        None if holder.is_persistent => "persistent: no session will ever remove it".to_owned(),
        None => String::new(),
    };
    HolderView {
        label: visible(&holder.label).into_owned(),
        url: address(web, View::Node, &holder.path),
        client,
    }
}

/// Returns the growth per minute, with one digit and its sign.
fn growth_words(growth: Option<f64>) -> String {
    match growth {
        None => "unknown".to_owned(),
        Some(growth) if growth.abs() < 0.05 => "0".to_owned(),
        Some(growth) => format!("{growth:+.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_has_a_sign() {
        assert_eq!(growth_words(None), "unknown");
        assert_eq!(growth_words(Some(0.01)), "0");
        assert_eq!(growth_words(Some(12.0)), "+12.0");
        assert_eq!(growth_words(Some(-0.5)), "-0.5");
    }

    #[test]
    fn a_page_says_what_is_missing() {
        let read =
            RecipesRead { rows: Vec::new(), nodes: 30_000, is_complete: false, unreadable: 2 };
        let notices = notices(&read);
        assert!(notices[0].starts_with("Only 30,000 nodes were read"), "{notices:?}");
        assert_eq!(notices[1], "2 nodes could not be read.");
        assert!(summary(&read).starts_with("No recipe is recognised."));
    }

    #[test]
    fn a_page_keeps_its_filter() {
        let url = page_url("/recipes/a", Some(RecipeGroup::Lock), 200);
        assert_eq!(url, "/recipes/a?kind=lock&from=200");
        assert_eq!(page_url("/recipes", None, 0), "/recipes");
    }
}
