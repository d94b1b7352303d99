//! The checks before every request, and the headers of every response.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use tower::Service;
use tracing::warn;
use zk_curator::internal::Locked;

use crate::fields::query;
use crate::impersonation::UserSession;
use crate::pages::problem_page;
use crate::problem::{Problem, ProblemKind};
use crate::security::{
    Access, ClientId, Means, Origin, Viewer, cookie_of, counted_network, origin_of, random_token,
};
use crate::state::Web;
use crate::visit::Format;

/// The cookie of a user who has signed in.
pub(crate) const SESSION: &str = "zk_curator_session";
/// The cookie of a browser whose user need not sign in here. It only ties forms to the browser.
const BROWSER: &str = "zk_curator_browser";

/// The policy for pages: they load only files of this server.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
    base-uri 'none'";

/// The address that tells a supervisor that this program serves. It is the same for everybody, so
/// it needs no check: a probe of Kubernetes calls an address of its own choice, without a user.
pub(crate) const HEALTH: &str = "/health";

/// The headers of every response.
const HEADERS: [(&str, &str); 5] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    // nginx would hold events and the results of searches back until its buffer is full.
    ("x-accel-buffering", "no"),
];

/// The guard of an explorer, and the explorers of the users who have sessions of their own.
#[derive(Clone)]
pub(crate) struct Gate {
    web: Arc<Web>,
    make: fn(Arc<Web>) -> Router,
    users: Arc<Locked<BTreeMap<ClientId, UserExplorer>>>,
}

/// An explorer whose requests are sent in the session of a user. No handler of it can use another
/// one.
#[derive(Clone)]
struct UserExplorer {
    session: UserSession,
    web: Arc<Web>,
    router: Router,
}

impl Gate {
    /// `make` returns the addresses of an explorer, without a guard.
    pub(crate) fn new(web: Arc<Web>, make: fn(Arc<Web>) -> Router) -> Self {
        Self { web, make, users: Arc::default() }
    }

    /// Returns the explorer for a request that was admitted; `None` for the common one.
    fn explorer_for(
        &self,
        request: &Request,
        viewer: Option<&Viewer>,
        format: Format,
    ) -> Result<Option<UserExplorer>, Refusal> {
        let path = request.uri().path();
        let Some(impersonation) = &self.web.impersonation else { return Ok(None) };
        if is_for_all(path) || path == "/logout" {
            return Ok(None);
        }
        let cookie = viewer.filter(|viewer| viewer.means == Means::Cookie);
        let Some(session) = cookie.and_then(|viewer| viewer.session.as_deref()) else {
            let detail = "This explorer acts in the name of its users, who sign in with the form. \
                          A token alone has no identity in ZooKeeper.";
            return Err(Problem::forbidden("No session with ZooKeeper", detail).into());
        };
        let id = self.web.sessions.client_of(session);
        let found = id.and_then(|id| Some((id, impersonation.session_of(id)?)));
        let Some((id, session_of_user)) = found else {
            // It was idle for too long, or others have taken its place.
            self.web.sessions.close(session);
            return Err(sign_in(&self.web, request, format));
        };
        let mut users = self.users.lock();
        users.retain(|id, _| impersonation.is_open(*id));
        if let Some(own) = users.get(&id).filter(|own| own.session.is_same(&session_of_user)) {
            return Ok(Some(own.clone()));
        }
        let web = Arc::new(self.web.for_user(&session_of_user.zk));
        let router = (self.make)(Arc::clone(&web));
        let own = UserExplorer { session: session_of_user, web, router };
        users.insert(id, own.clone());
        Ok(Some(own))
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("web", &self.web).finish_non_exhaustive()
    }
}

/// Checks a request, passes it on, and completes the response, also that of a refused request.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if request.uri().path() == HEALTH {
        let mut response = next.run(request).await;
        complete(response.headers_mut(), None);
        return response;
    }
    let mut web = Arc::clone(&gate.web);
    let url = request.uri().clone();
    let format = Format::of(url.path(), request.headers());
    let admitted = admit(&web, &mut request, format);
    let viewer = request.extensions().get::<Viewer>().cloned();
    let admitted = admitted.and_then(|cookie| {
        gate.explorer_for(&request, viewer.as_ref(), format).map(|own| (cookie, own))
    });
    let (response, cookie) = match admitted {
        Ok((cookie, None)) => (next.run(request).await, cookie),
        Ok((cookie, Some(mut own))) => {
            // The page of a problem names the identity of the user.
            web = own.web;
            let Ok(response) = own.router.call(request).await;
            (response, cookie)
        }
        Err(Refusal::Problem(problem)) => (problem.into_response(), None),
        Err(Refusal::SignIn(response)) => (*response, None),
    };
    let mut response = match problem_of(&response) {
        // axum adds the header `Allow` later.
        Some(problem) if format == Format::Html => {
            problem_page(&web, viewer.as_ref(), &problem, &url).await
        }
        Some(problem) => problem.into_response(),
        None => response,
    };
    complete(response.headers_mut(), cookie);
    response
}

/// The response to a request that is not admitted.
enum Refusal {
    Problem(Problem),
    /// The way to the login page.
    SignIn(Box<Response>),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Checks the host, the user, the number of requests, and the origin of the request.
/// Adds the [`Viewer`] and the [`Origin`] to the request. Returns a cookie for the response.
fn admit(web: &Web, request: &mut Request, format: Format) -> Result<Option<HeaderValue>, Refusal> {
    let host = host_of(request).ok_or_else(|| Problem::usage("The request has no host."))?;
    if !web.hosts.accept(&host) {
        return Err(foreign_host(&host).into());
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let (viewer, cookie) = viewer_of(web, request, peer, format)?;
    if !web.rates.accept(&viewer.counted_as) {
        return Err(too_many_requests().into());
    }
    let origin = origin_of(request.headers(), &host);
    if origin == Origin::Foreign && !is_visit(request, format) {
        let detail = "Another site has sent this request. It may only have links to this explorer.";
        return Err(Problem::forbidden("Request of another site", detail).into());
    }
    request.extensions_mut().insert(viewer);
    request.extensions_mut().insert(origin);
    Ok(cookie)
}

/// Returns `true` if the request only opens a page. Another site may have a link to it, but may not
/// load data, or keep a stream open.
fn is_visit(request: &Request, format: Format) -> bool {
    let mode = request.headers().get("sec-fetch-mode").map(|mode| mode.as_bytes());
    let is_navigation = matches!(mode, None | Some(b"navigate"));
    request.method().is_safe() && format == Format::Html && is_navigation
}

fn foreign_host(host: &str) -> Problem {
    let detail = format!(
        "This explorer is not called {host:?}. Its operator can add the host to its settings."
    );
    let status = StatusCode::MISDIRECTED_REQUEST;
    Problem::new(status, ProblemKind::NoPermission, "Unknown host", detail)
}

/// Returns the host that the client has asked for.
fn host_of(request: &Request) -> Option<String> {
    let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(|authority| authority.as_str()).or(header)?;
    (!host.is_empty()).then(|| host.to_owned())
}

/// Returns the client of a request, and a cookie for its browser if it needs one.
fn viewer_of(
    web: &Web,
    request: &Request,
    peer: Option<IpAddr>,
    format: Format,
) -> Result<(Viewer, Option<HeaderValue>), Refusal> {
    let headers = request.headers();
    let session = cookie_of(headers, SESSION);
    let client = web.authentication.client(headers, peer);
    let (user, means) = match web.authentication.access(headers, peer, &web.sessions, session) {
        Access::Granted { user, means } => (user, means),
        Access::Missing if is_for_all(request.uri().path()) => ("".into(), Means::Open),
        Access::Missing => return Err(sign_in(web, request, format)),
        Access::Refused => return Err(unknown_token(web, client).into()),
    };
    let (session, cookie) = match means {
        Means::Cookie => (session.map(ToOwned::to_owned), None),
        Means::Bearer => (None, None),
        Means::Open | Means::Proxy => browser_of(web, request, format),
    };
    let csrf = web.keys.csrf(session.as_deref().unwrap_or_default(), &user);
    // The prefix keeps a user apart from an address.
    let counted_as = if user.is_empty() { counted(client) } else { format!("user {user}") };
    Ok((Viewer { user, means, peer: client, session, csrf, counted_as }, cookie))
}

/// Returns the name by which the requests of an address are counted.
fn counted(client: Option<IpAddr>) -> String {
    client.map_or_else(|| "unknown".to_owned(), |client| counted_network(client).to_string())
}

/// Refuses a token that no user has. Attempts are counted as requests of the address. They do not
/// delay the login form: a program with an old token would close it for its whole network.
fn unknown_token(web: &Web, client: Option<IpAddr>) -> Problem {
    if !web.rates.accept(&counted(client)) {
        return too_many_requests();
    }
    warn!(target: "zk_curator_web::audit", peer = ?client, "a token was refused");
    Problem::unknown_token()
}

fn too_many_requests() -> Problem {
    let detail = "You send more requests than this explorer accepts. Try again in a second.";
    Problem::too_many(detail, 1)
}

/// Returns the identity of a browser whose user need not sign in here. A page with forms sets it.
fn browser_of(
    web: &Web,
    request: &Request,
    format: Format,
) -> (Option<String>, Option<HeaderValue>) {
    let is_token =
        |token: &&str| token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let known = cookie_of(request.headers(), BROWSER).filter(is_token);
    if let Some(known) = known {
        return (Some(known.to_owned()), None);
    }
    // A comparison with an uploaded file is a form of a read-only explorer too.
    let path = request.uri().path();
    let has_forms = web.write || path == "/login" || path.starts_with("/data");
    let is_page = format == Format::Html && matches!(*request.method(), Method::GET | Method::HEAD);
    if !has_forms || !is_page || is_static(request.uri().path()) {
        return (None, None);
    }
    let token = random_token();
    let cookie = cookie(web, BROWSER, &token, None);
    (Some(token), cookie)
}

/// Returns `true` for the addresses that everybody may see.
fn is_for_all(path: &str) -> bool {
    path == "/login" || is_static(path)
}

fn is_static(path: &str) -> bool {
    path.starts_with("/static/")
}

/// Sends a browser to the login page, and programs a problem.
fn sign_in(web: &Web, request: &Request, format: Format) -> Refusal {
    let is_page = format == Format::Html && *request.method() == Method::GET;
    if !is_page || web.authentication.users.is_none() {
        return Problem::not_signed_in().into();
    }
    let next = request.uri().path_and_query().map_or("", |next| next.as_str());
    let address = format!("{}/login{}", web.base, query(&[("next", next)]));
    Refusal::SignIn(Box::new(Redirect::to(&address).into_response()))
}

/// Returns the header that sets a cookie, or removes it if the value is empty.
pub(crate) fn cookie(
    web: &Web,
    name: &str,
    value: &str,
    seconds: Option<u64>,
) -> Option<HeaderValue> {
    let path = if web.base.is_empty() { "/" } else { &web.base };
    let secure = if web.tls { "; Secure" } else { "" };
    let age = seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
    let cookie = format!("{name}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}{age}");
    HeaderValue::from_str(&cookie).ok()
}

/// Returns the problem that a response describes. The responses of the router to unknown addresses
/// and methods describe none.
fn problem_of(response: &Response) -> Option<Problem> {
    if let Some(problem) = response.extensions().get::<Problem>() {
        return Some(problem.clone());
    }
    if response.headers().contains_key(header::CONTENT_TYPE) {
        return None;
    }
    match response.status() {
        StatusCode::NOT_FOUND => Some(Problem::no_page()),
        StatusCode::METHOD_NOT_ALLOWED => Some(Problem::method()),
        _ => None,
    }
}

fn complete(headers: &mut HeaderMap, cookie: Option<HeaderValue>) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::VARY, HeaderValue::from_static("accept, cookie"));
    }
    if let Some(cookie) = cookie {
        headers.append(header::SET_COOKIE, cookie);
    }
}
