//! The forms of the data page: an uploaded file, and the application of a plan.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};

use super::data::{DataPage, no_uploads, uploaded};
use super::done::DoneChange;
use super::head::{View, address};
use super::restore::{plan_of, plan_view, problem_of_refusal, token_of};
use crate::body::read_form;
use crate::fields::{Fields, query};
use crate::problem::{Problem, RequestResult};
use crate::security::{ChangePermit, NodeChange, PendingRecord};
use crate::state::{Web, read_only};
use crate::transfer::{
    RestoreChoice, RestoreRefusal, RestoreTask, Upload, UploadOwner, UploadSource, complete, gone,
    is_multipart, receive,
};
use crate::visit::Visit;

/// The size of the fields of an application in bytes.
const FIELDS: usize = 4 << 10;

/// `POST /data/…`: a file to compare or to plan with, or the application of a plan.
pub(crate) async fn data_form(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    let path = visit.node_below(&["/data"])?;
    if is_multipart(&headers) {
        return upload(&web, &visit, &path, &headers, body).await;
    }
    if !web.write {
        return Err(read_only());
    }
    let form = read_form(body, &headers, FIELDS).await?;
    let permit = ChangePermit::of_form(&web.keys, &visit.viewer, &form)?;
    match form.get("action") {
        Some("apply") => apply(&web, &visit, &path, &form, permit).await,
        _ => Err(Problem::usage("The form does not say what to do.")),
    }
}

/// Keeps the file, and shows the comparison or the plan. So the page can be loaded again.
async fn upload(
    web: &Web,
    visit: &Visit,
    path: &str,
    headers: &HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    if web.uploads.most_bytes() == 0 {
        return Err(no_uploads());
    }
    let check = |fields: &Fields| {
        let permit = ChangePermit::of_form(&web.keys, &visit.viewer, fields)?;
        if fields.get("action") == Some("plan") && !web.write {
            return Err(read_only());
        }
        Ok(permit)
    };
    let places = web.transfers_of(&visit.viewer);
    let form = receive(&web.uploads, places, headers, body, check).await?;
    let owner = UploadOwner::of(&web.keys, &visit.viewer).ok_or_else(gone)?;
    let id = web.uploads.keep(owner, places.who, form.file, UploadSource::Browser)?;
    let is_plan = form.fields.get("action") == Some("plan");
    let choice = RestoreChoice::of(&form.fields);
    let mut fields = vec![("upload", &*id), ("show", if is_plan { "plan" } else { "diff" })];
    if is_plan {
        fields.extend(choice.fields());
    }
    tracing::debug!(who = form.permit.who(), "a file was uploaded to the web explorer");
    let shown = format!("{}{}", address(web, View::Data, path), query(&fields));
    Ok(Redirect::to(&shown).into_response())
}

/// Applies the plan on the page of the user, unless it has changed.
async fn apply(
    web: &Web,
    visit: &Visit,
    path: &str,
    form: &Fields,
    permit: ChangePermit,
) -> RequestResult<Response> {
    let id = form.get("upload").unwrap_or_default();
    let (Upload { file, source }, owner) = uploaded(web, visit, id)?;
    if form.get("confirm") != Some("yes") {
        return Err(Problem::usage("The restore was not confirmed."));
    }
    let choice = RestoreChoice::of(form);
    let token = form.get("token").unwrap_or_default().to_owned();
    let (keys, upload) = (web.keys.clone(), id.to_owned());
    let (zk, redaction, here) = (web.zk.clone(), web.redaction.clone(), path.to_owned());
    let (restored, hub) = (Arc::clone(&file), Arc::clone(&web.hub));
    let bytes = std::fs::metadata(file.path()).map_or(0, |file| file.len());
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    // It goes on if the browser goes away, to its record: a restore that ends in the middle helps
    // nobody.
    let applied = complete(web.transfers_of(&visit.viewer), move || async move {
        let is_same = |digest: &[u8; 32]| {
            keys.are_equal(&token, &token_of(&keys, &upload, owner, choice, digest))
        };
        let task =
            RestoreTask { zk: &zk, redaction: &redaction, file: &restored, choice, here: &here };
        let operation = source.operation();
        let change = NodeChange { operation, path: &here, version: None, bytes };
        let record = PendingRecord::new(&permit, change);
        let applied = task.apply(is_same).await;
        hub.forget_all();
        let applied = match applied {
            Err(RestoreRefusal::OtherPlan) => {
                record.withdraw();
                return Ok(None);
            }
            applied => applied.map_err(problem_of_refusal),
        };
        record.end(applied.as_ref().map_or(here.as_str(), |(root, _)| root.as_str()), &applied);
        applied.map(Some)
    });
    let Some((root, nodes)) = applied.await?? else {
        let planned = plan_of(web, &visit.viewer, file, choice, path).await?;
        let plan = plan_view(web, id, owner, choice, planned);
        let notice = "Nothing was changed: the nodes, or your choices, are not those of the plan \
                      that you have seen. This is the present plan.";
        let page = DataPage::new(web, visit, path).await?;
        let mut response = page.with_new_plan(plan, notice);
        *response.status_mut() = StatusCode::CONFLICT;
        return Ok(response);
    };
    web.uploads.remove(owner, id);
    Ok(DoneChange::Restored(nodes).redirect(web, &visit.viewer, View::Tree, &root))
}
