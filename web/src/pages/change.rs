//! Changes of a node by forms. If one fails, the page keeps everything that was typed.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use zk_curator::{Stat, Version};

use super::done::DoneChange;
use super::edit::data_of;
use super::frame::{Frame, render_as};
use super::head::{Head, View, address};
use super::node::shown_data;
use crate::api::creatable;
use crate::body::read_form;
use crate::fields::Fields;
use crate::paths::{child_of, name_of, parent_of};
use crate::problem::{Problem, ProblemKind, RequestResult};
use crate::security::ChangePermit;
use crate::show::{DataView, now_ms, visible, when};
use crate::state::{Web, read_only};
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "not_saved.html", whitespace = "minimize")]
struct NotSavedPage {
    frame: Frame,
    head: Head,
    title: String,
    detail: String,
    full_path: String,
    expected: String,
    sentence: String,
    /// The version that a further attempt replaces.
    version: i32,
    encoding: String,
    newlines: String,
    text: String,
    /// The button of a further attempt; empty if there is none.
    save: String,
    shown: Option<DataView>,
    hidden: &'static str,
}

#[derive(Template)]
#[template(path = "not_created.html", whitespace = "minimize")]
struct NotCreatedPage {
    frame: Frame,
    title: String,
    detail: String,
    parent: String,
    node_url: String,
    name: String,
    mode: String,
    text: String,
}

/// `POST /node/…`: a form of the page.
pub(crate) async fn change(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    if !web.write {
        return Err(read_only());
    }
    let path = visit.node_below(&["/node"])?;
    let form = read_form(body, &headers, web.max_body).await?;
    let permit = match ChangePermit::of_form(&web.keys, &visit.viewer, &form) {
        // The explorer has been started again since the page was loaded. The browser has said that
        // the form is one of its own pages, so what was typed comes back, with another token.
        Err(refused) if headers.contains_key(header::ORIGIN) => Err(refused),
        permit => Ok(permit?),
    };
    match form.get("action") {
        Some("set") => Ok(save(&web, &visit, permit, &path, &form).await),
        Some("create") => Ok(create(&web, &visit, permit, &path, &form).await),
        Some("delete") => delete(&web, &visit, &permit?, &path, &form).await,
        _ => permit.and_then(|_| Err(Problem::usage("The form does not say what to do."))),
    }
}

async fn save(
    web: &Web,
    visit: &Visit,
    permit: RequestResult<ChangePermit>,
    path: &str,
    form: &Fields,
) -> Response {
    match try_save(web, permit, path, form).await {
        Ok(stat) => to_node(web, visit, path, &DoneChange::Saved(stat.mzxid)),
        Err(problem) => not_saved(web, visit, path, form, problem).await,
    }
}

async fn try_save(
    web: &Web,
    permit: RequestResult<ChangePermit>,
    path: &str,
    form: &Fields,
) -> RequestResult<Stat> {
    let permit = permit?;
    let version = version_of(form)?;
    let data = data_of(path, form)?;
    Ok(web.changes(&permit)?.set(path, data, version).await?)
}

/// Shows the value of the form and that of the node, so that nothing is lost after a conflict or
/// another failure.
async fn not_saved(
    web: &Web,
    visit: &Visit,
    path: &str,
    form: &Fields,
    problem: Problem,
) -> Response {
    let title = match problem.kind {
        ProblemKind::Unknown => {
            "Perhaps not saved: the response of ZooKeeper is missing".to_owned()
        }
        ProblemKind::Conflict => "Not saved: the node has changed".to_owned(),
        _ => format!("Not saved: {}", problem.title),
    };
    let node = web.node(path).await.ok();
    let sentence = match &node {
        Some(node) => {
            let changed = when(node.stat.mtime, now_ms()).ago;
            format!("ZooKeeper has version {}, changed {changed}.", node.stat.version)
        }
        None => "The node cannot be read now.".to_owned(),
    };
    let (shown, hidden) = match &node {
        Some(node) => shown_data(web, path, &node.data, false),
        None => (None, "The node cannot be read now."),
    };
    let present = node.as_ref().map(|node| node.stat.version);
    // A node that cannot be read may still be in the version that the user has seen.
    let seen = form.get("version").and_then(|version| version.parse().ok());
    let children = node.as_ref().map_or(0, |node| i64::from(node.stat.num_children));
    let field = |name: &str| form.get(name).unwrap_or_default().to_owned();
    let page = NotSavedPage {
        frame: Frame::new(web, Some(&visit.viewer), "").await,
        head: Head::new(web, path, children, false),
        title,
        detail: visible(&problem.detail).into_owned(),
        full_path: visible(path).into_owned(),
        expected: visible(&field("version")).into_owned(),
        sentence,
        version: present.or(seen).unwrap_or_default(),
        encoding: field("encoding"),
        newlines: field("newlines"),
        text: field("data"),
        // ZooKeeper cannot compare with version -1.
        save: match (present.or(seen), present) {
            (None | Some(-1), _) => String::new(),
            (Some(version), Some(_)) => format!("Replace version {version} with your value"),
            (Some(version), None) => format!("Try again to replace version {version}"),
        },
        shown,
        hidden,
    };
    render_as(problem.status, &page)
}

async fn create(
    web: &Web,
    visit: &Visit,
    permit: RequestResult<ChangePermit>,
    parent: &str,
    form: &Fields,
) -> Response {
    match try_create(web, permit, parent, form).await {
        Ok((created, stat)) => to_node(web, visit, &created, &DoneChange::Created(stat.czxid)),
        Err(problem) => not_created(web, visit, parent, form, problem).await,
    }
}

/// Returns the path of the created node, and its stat.
async fn try_create(
    web: &Web,
    permit: RequestResult<ChangePermit>,
    parent: &str,
    form: &Fields,
) -> RequestResult<(String, Stat)> {
    let permit = permit?;
    let name = form.get("name").unwrap_or_default();
    let mode = creatable(form.get("mode").unwrap_or("persistent"))?;
    if name.contains('/') || (name.is_empty() && !mode.is_sequential()) {
        return Err(Problem::usage("A name has at least one character, and no slash."));
    }
    let data = data_of(parent, form)?;
    let path = child_of(parent, name);
    Ok(web.changes(&permit)?.create(&path, data, mode).await?)
}

/// Shows the form again, with everything that was typed.
async fn not_created(
    web: &Web,
    visit: &Visit,
    parent: &str,
    form: &Fields,
    problem: Problem,
) -> Response {
    let is_unknown = problem.kind == ProblemKind::Unknown;
    let field = |name: &str| form.get(name).unwrap_or_default().to_owned();
    let page = NotCreatedPage {
        frame: Frame::new(web, Some(&visit.viewer), "").await,
        title: if is_unknown {
            "Perhaps not created: the response of ZooKeeper is missing".to_owned()
        } else {
            format!("Not created: {}", problem.title)
        },
        detail: visible(&problem.detail).into_owned(),
        parent: visible(parent).into_owned(),
        node_url: address(web, View::Node, parent),
        name: field("name"),
        mode: field("mode"),
        text: field("data"),
    };
    render_as(problem.status, &page)
}

async fn delete(
    web: &Web,
    visit: &Visit,
    permit: &ChangePermit,
    path: &str,
    form: &Fields,
) -> RequestResult<Response> {
    if form.get("confirm") != Some("yes") {
        return Err(Problem::usage("The deletion was not confirmed."));
    }
    let version = version_of(form)?;
    web.changes(permit)?.delete(path, version).await?;
    let parent = parent_of(path).unwrap_or("/");
    let done = DoneChange::Deleted(name_of(path).to_owned());
    Ok(done.redirect(web, &visit.viewer, View::Tree, parent))
}

fn to_node(web: &Web, visit: &Visit, path: &str, done: &DoneChange) -> Response {
    done.redirect(web, &visit.viewer, View::Node, path)
}

fn version_of(form: &Fields) -> RequestResult<Version> {
    let version = form.get("version").and_then(|version| version.parse().ok());
    let version: i32 = version.ok_or_else(|| Problem::usage("The form has no version."))?;
    // A form never stands for any version.
    Ok(Version::Exactly(version))
}
