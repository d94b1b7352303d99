//! The page of a failed request.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Frame, render_as};
use crate::problem::Problem;
use crate::security::Viewer;
use crate::show::visible;
use crate::state::Web;

#[derive(Template)]
#[template(path = "problem.html", whitespace = "minimize")]
struct ProblemPage {
    frame: Frame,
    title: &'static str,
    detail: String,
    status: String,
    /// `true` if the same request may succeed later.
    is_passing: bool,
}

/// Returns the page of a problem. `viewer` is the client, if the request was admitted.
pub(crate) async fn problem_page(
    web: &Web,
    viewer: Option<&Viewer>,
    problem: &Problem,
) -> Response {
    let page = ProblemPage {
        frame: Frame::new(web, viewer, "").await,
        title: problem.title,
        detail: visible(&problem.detail).into_owned(),
        status: problem.status.as_u16().to_string(),
        is_passing: matches!(
            problem.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ),
    };
    let mut response = render_as(problem.status, &page);
    problem.add_header(&mut response);
    response
}
