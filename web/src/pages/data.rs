//! Backups, comparisons and restores of a subtree.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use zk_curator::path::ZPath;

use super::frame::{Frame, render};
use super::head::{Head, View, address};
use super::paging::{from_field, range};
use super::restore::{ChoiceView, PlanView, choice_views, plan_of, plan_view};
use crate::fields::query;
use crate::paths::{UrlError, url_of};
use crate::problem::{Problem, RequestResult};
use crate::reads::{PAGE, next_of};
use crate::show::{grouped, size, visible};
use crate::state::{Web, read_only};
use crate::transfer::{
    CompareWith, Comparison, DifferenceRow, MOST_COMPARED, RestoreChoice, Upload, UploadOwner, gone,
};
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "data.html", whitespace = "minimize")]
pub(super) struct DataPage {
    frame: Frame,
    head: Head,
    full_path: String,
    backup_url: String,
    data_url: String,
    other: String,
    upload_limit: String,
    most_compared: String,
    can_restore: bool,
    can_upload: bool,
    choices: Vec<ChoiceView>,
    found_diff: Option<DiffView>,
    found_plan: Option<PlanView>,
    /// A sentence about a restore that was not applied.
    notice: String,
}

struct DiffView {
    summary: String,
    rows: Vec<DiffRow>,
    previous_url: String,
    next_url: String,
    range: String,
}

struct DiffRow {
    sign: char,
    meaning: &'static str,
    path: String,
    url: String,
    what: String,
}

/// `GET /data/…`. The query may ask for a comparison (`with` or `upload` and `show=diff`) or for
/// the plan of a restore (`upload` and `show=plan`).
pub(crate) async fn data(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/data"])?;
    let with = visit.query.get("with").filter(|with| !with.is_empty());
    let upload = visit.query.get("upload").filter(|id| !id.is_empty());
    let mut page = DataPage::new(&web, &visit, &path).await?;
    match (visit.query.get("show"), with, upload) {
        (Some("plan"), _, Some(id)) if web.write => {
            let choice = RestoreChoice::of(&visit.query);
            let (upload, owner) = uploaded(&web, &visit, id)?;
            let planned = plan_of(&web, &visit.viewer, upload.file, choice, &path).await?;
            page.found_plan = Some(plan_view(&web, id, owner, choice, planned));
        }
        (Some("plan"), _, Some(_)) => return Err(read_only()),
        (_, _, Some(id)) => {
            let (upload, _) = uploaded(&web, &visit, id)?;
            let with = CompareWith::File(upload.file);
            let compared = web.compared(&visit.viewer, &path, with, true).await?;
            page.found_diff = Some(diff_view(&web, &visit, &path, id, true, &compared));
        }
        (_, Some(with), None) => {
            let other: String = ZPath::parse(with).map_err(UrlError::from)?.into();
            page.other = with.to_owned();
            let with = CompareWith::Path(other.clone());
            let compared = web.compared(&visit.viewer, &path, with, true).await?;
            page.found_diff = Some(diff_view(&web, &visit, &path, &other, false, &compared));
        }
        _ => {}
    }
    Ok(render(&page))
}

impl DataPage {
    pub(super) async fn new(web: &Web, visit: &Visit, path: &str) -> RequestResult<Self> {
        // The node of a restore need not exist.
        let stat = web.zk.exists(path).await?;
        let children = stat.map(|stat| grouped(stat.num_children)).unwrap_or_default();
        let mut frame = Frame::new(web, Some(&visit.viewer), "").await;
        path.clone_into(&mut frame.path);
        let limit = web.uploads.most_bytes();
        Ok(Self {
            frame,
            head: Head { children, ..Head::of_view(web, path, View::Data) },
            full_path: visible(path).into_owned(),
            backup_url: format!("{}/api/v1/backup{}", web.base, url_of(path)),
            data_url: address(web, View::Data, path),
            other: String::new(),
            upload_limit: size(limit),
            most_compared: grouped(MOST_COMPARED),
            can_restore: web.write,
            can_upload: limit > 0,
            choices: choice_views(RestoreChoice::of(&visit.query)),
            found_diff: None,
            found_plan: None,
            notice: String::new(),
        })
    }

    /// Shows the present plan, after another one was not applied.
    pub(super) fn with_new_plan(mut self, plan: PlanView, notice: &str) -> Response {
        self.found_plan = Some(plan);
        notice.clone_into(&mut self.notice);
        render(&self)
    }
}

/// Returns a file of the user that is kept, and its owner.
pub(super) fn uploaded(web: &Web, visit: &Visit, id: &str) -> RequestResult<(Upload, UploadOwner)> {
    let owner = UploadOwner::of(&web.keys, &visit.viewer).ok_or_else(gone)?;
    Ok((web.uploads.get(owner, id)?, owner))
}

/// `other` is the second path, or the id of the second file.
fn diff_view(
    web: &Web,
    visit: &Visit,
    path: &str,
    other: &str,
    is_file: bool,
    compared: &Comparison,
) -> DiffView {
    let total = compared.rows.len();
    let from: usize = visit.query.number("from");
    let shown = compared.rows.iter().skip(from).take(PAGE);
    let rows: Vec<_> = shown.map(|row| diff_row(web, row, is_file)).collect();
    let at = |from: usize| {
        let from = from_field(from);
        let field = if is_file { "upload" } else { "with" };
        let fields = [(field, other), ("show", "diff"), ("from", &*from)];
        format!("{}{}", address(web, View::Data, path), query(&fields))
    };
    let second = if is_file {
        format!("the file (root {})", visible(&compared.other))
    } else {
        visible(&compared.other).into_owned()
    };
    let summary = match total {
        0 => format!("{} and {second} do not differ.", visible(path)),
        1 => format!("1 difference between {} and {second}.", visible(path)),
        _ => format!("{} differences between {} and {second}.", grouped(total), visible(path)),
    };
    DiffView {
        summary,
        range: if rows.is_empty() { String::new() } else { range(from, rows.len(), total) },
        previous_url: if from == 0 { String::new() } else { at(from.saturating_sub(PAGE)) },
        next_url: next_of(from, rows.len(), total).map(at).unwrap_or_default(),
        rows,
    }
}

fn diff_row(web: &Web, row: &DifferenceRow, is_file: bool) -> DiffRow {
    let meaning = match row.sign {
        '-' => "only in the first tree",
        '+' => "only in the second tree",
        '~' => "differs",
        _ => "unknown",
    };
    // A node that only a file has is not in ZooKeeper.
    let is_there = !(is_file && row.sign == '+');
    let url = if is_there { address(web, View::Node, &row.path) } else { String::new() };
    let path = visible(&row.path).into_owned();
    DiffRow { sign: row.sign, meaning, path, url, what: row.what.clone() }
}

/// Returns the problem of an explorer without uploads.
pub(super) fn no_uploads() -> Problem {
    Problem::usage("The settings of this explorer allow no uploads.")
}
