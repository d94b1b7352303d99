//! Signing in and out.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use tracing::{info, warn};

use super::frame::{Frame, render_as};
use crate::body::read_form;
use crate::guard::{SESSION, cookie};
use crate::problem::{Problem, RequestResult};
use crate::security::ChangePermit;
use crate::show::duration;
use crate::state::Web;
use crate::visit::Visit;

/// The maximum size of a token in bytes.
const LONGEST_TOKEN: usize = 1_024;

#[derive(Template)]
#[template(path = "login.html", whitespace = "minimize")]
struct LoginPage {
    frame: Frame,
    message: String,
    next: String,
    lasting: String,
    /// `true` if users also enter their identity in ZooKeeper.
    asks_identity: bool,
}

/// `GET /login`
pub(crate) async fn sign_in_page(
    State(web): State<Arc<Web>>,
    visit: Visit,
) -> RequestResult<Response> {
    if web.authentication.users.is_none() {
        return Err(Problem::no_page());
    }
    let next = visit.query.get("next").unwrap_or_default();
    Ok(page(&web, &visit, next, String::new(), StatusCode::OK).await)
}

/// `POST /login`
pub(crate) async fn sign_in(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    let Some(users) = &web.authentication.users else { return Err(Problem::no_page()) };
    let form = read_form(body, &headers, LONGEST_TOKEN).await?;
    ChangePermit::of_form(&web.keys, &visit.viewer, &form)?;
    let next = form.get("next").unwrap_or_default();
    let peer = visit.viewer.peer;
    if let Some(pause) = web.back_off.pause(peer) {
        let seconds = u64::try_from(pause.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX);
        let detail = format!("Too many failed attempts. Try again in {seconds} s.");
        let status = StatusCode::TOO_MANY_REQUESTS;
        let mut response = page(&web, &visit, next, detail, status).await;
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        return Ok(response);
    }
    let Some(user) = users.with_token(form.get("token").unwrap_or_default().trim()) else {
        web.back_off.failed(peer);
        warn!(target: "zk_curator_web::audit", peer = ?peer, "a sign-in has failed");
        let detail = "No user has this token.".to_owned();
        return Ok(page(&web, &visit, next, detail, StatusCode::FORBIDDEN).await);
    };
    web.back_off.succeeded(peer);
    let client = match &web.impersonation {
        None => None,
        Some(impersonation) => {
            let digest = form.get("digest").unwrap_or_default();
            match impersonation.open(&web.keys, &user, digest) {
                Ok(client) => Some(client),
                Err(problem) => {
                    return Ok(page(&web, &visit, next, problem.detail, problem.status).await);
                }
            }
        }
    };
    info!(target: "zk_curator_web::audit", who = &*user, peer = ?peer, "signed in");
    let id = web.sessions.open(user, client);
    // The browser forgets its previous session now.
    end_session(&web, &visit);
    let address = format!("{}{}", web.base, web.destinations.of(next));
    let mut response = Redirect::to(&address).into_response();
    if let Some(cookie) = cookie(&web, SESSION, &id, Some(web.session_time.as_secs())) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// `POST /logout`
pub(crate) async fn sign_out(
    State(web): State<Arc<Web>>,
    visit: Visit,
    headers: HeaderMap,
    body: Body,
) -> RequestResult<Response> {
    let form = read_form(body, &headers, 0).await?;
    let permit = ChangePermit::of_form(&web.keys, &visit.viewer, &form)?;
    end_session(&web, &visit);
    info!(target: "zk_curator_web::audit", who = permit.who(), "signed out");
    let mut response = Redirect::to(&format!("{}/tree", web.base)).into_response();
    if let Some(cookie) = cookie(&web, SESSION, "", Some(0)) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Ends the session of a browser, if it has one, and its session with ZooKeeper, if no other
/// browser has it.
fn end_session(web: &Web, visit: &Visit) {
    let client = visit.viewer.session.as_deref().and_then(|session| web.sessions.close(session));
    if let (Some(client), Some(impersonation)) = (client, &web.impersonation) {
        impersonation.close_one(client);
    }
}

async fn page(
    web: &Web,
    visit: &Visit,
    next: &str,
    message: String,
    status: StatusCode,
) -> Response {
    let frame = Frame::new(web, Some(&visit.viewer), "").await;
    let lasting = duration(web.session_time);
    let next = web.destinations.of(next).to_owned();
    let asks_identity = web.impersonation.is_some();
    let page = LoginPage { frame, message, next, lasting, asks_identity };
    render_as(status, &page)
}
