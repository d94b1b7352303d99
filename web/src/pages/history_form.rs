//! The form of the history page: nodes of the past become the plan of a restore.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};

use super::head::{View, address};
use crate::body::read_form;
use crate::fields::query;
use crate::history::{moment_of, recover, skips_damaged};
use crate::problem::{Problem, RequestResult};
use crate::security::ChangePermit;
use crate::state::{Web, read_only};
use crate::transfer::{RestoreChoice, UploadOwner, UploadSource, create, gone};
use crate::visit::Visit;

/// The size of the fields in bytes.
const FIELDS: usize = 4 << 10;

/// `POST /history/…`: keeps the nodes as an uploaded file, and shows the plan of its restore. This
/// changes nothing; the plan has a confirmation of its own.
pub(crate) async fn history_form(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    let path = visit.node_below(&["/history"])?;
    if !web.write {
        return Err(read_only());
    }
    let form = read_form(body, &headers, FIELDS).await?;
    let permit = ChangePermit::of_form(&web.keys, &visit.viewer, &form)?;
    let source = Arc::clone(web.history()?);
    let (Some("undelete"), Some(at)) = (form.get("action"), moment_of(&form)?) else {
        return Err(Problem::usage("The form does not say what to do."));
    };
    let owner = UploadOwner::of(&web.keys, &visit.viewer).ok_or_else(gone)?;
    let (view, wanted, skips_damaged) = (web.past_view(), path.clone(), skips_damaged(&form));
    let written = source.read(web.transfers_of(&visit.viewer), move |files, budget| {
        let (file, _) = create().map_err(|why| no_space(&why))?;
        recover(files, budget, (&wanted, at, skips_damaged), &view, &file)?;
        Ok(file)
    });
    let (file, who) = (written.await?, &visit.viewer.counted_as);
    let id = web.uploads.keep(owner, who, file, UploadSource::History)?;
    tracing::info!(
        who = permit.who(),
        path = path.as_str(),
        "nodes of the past were read for a restore"
    );
    // The paths of the file are those on the servers.
    let choice = RestoreChoice { is_here: true, ..RestoreChoice::of(&form) };
    let mut fields = vec![("upload", &*id), ("show", "plan")];
    fields.extend(choice.fields());
    let shown = format!("{}{}", address(&web, View::Data, &path), query(&fields));
    Ok(Redirect::to(&shown).into_response())
}

fn no_space(why: &std::io::Error) -> Problem {
    let detail = format!("The explorer cannot store the nodes: {why}.");
    Problem::internal("No space for the file", detail)
}
