//! The services of Curator's discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::frame::{Frame, render};
use super::head::{Head, View, address};
use crate::api::services_json;
use crate::fields::query;
use crate::live::Scope;
use crate::paths::{name_of, parent_of};
use crate::problem::RequestResult;
use crate::reads::{
    InstanceRead, KnownSessions, Payload, ServiceRead, ServicesRead, UndecodableRead,
};
use crate::show::{
    RecipeGroup, When, grouped, now_ms, sentence, size_of, unless_zero, visible, when,
};
use crate::state::Web;
use crate::visit::{Format, Visit};

/// The maximum number of instances on a page.
const SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "services.html", whitespace = "minimize")]
struct ServicesPage {
    frame: Frame,
    head: Head,
    base: String,
    bases: Vec<BaseView>,
    summary: String,
    notices: Vec<String>,
    services: Vec<ServiceView>,
    /// The services whose instances are shown.
    opened: Vec<OpenedService>,
    age: String,
}

struct BaseView {
    path: String,
    url: String,
    services: String,
}

struct ServiceView {
    name: String,
    url: String,
    up: String,
    drained: String,
    undecodable: String,
    is_current: bool,
}

struct OpenedService {
    /// The number of the section, for its ids.
    place: usize,
    name: String,
    instances: Vec<InstanceView>,
    undecodable: Vec<UndecodableView>,
    /// Empty if all are shown.
    more: String,
}

struct InstanceView {
    id: String,
    node_url: String,
    address: String,
    port: String,
    ssl_port: String,
    /// `up` or `drained`.
    state: &'static str,
    icon: &'static str,
    /// The known facts about its session.
    health: String,
    client: String,
    registered: When,
    kind: String,
    uri: String,
    payload: String,
}

struct UndecodableView {
    name: String,
    node_url: String,
    reason: String,
}

/// `GET /services/…` and `GET /api/v1/services/…`
pub(crate) async fn services(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let base = visit.node_below(&["/services", "/api/v1/services"])?;
    let read = web.services(&base).await?;
    let bases = if base == "/" { bases(&web).await? } else { BTreeMap::new() };
    // The children of the root are services only if one of their nodes is an instance.
    let is_service = |one: &&ServiceRead| base != "/" || !one.instances.is_empty();
    let services: Vec<_> = read.services.iter().filter(is_service).collect();
    let known = web.known_sessions.present();
    if visit.format == Format::Json {
        return Ok(services_json(&base, &bases, &services, &read, &known));
    }
    let frame = Frame::new(&web, Some(&visit.viewer), "/services").await;
    let frame = frame.following(&web, &base, &base, Scope::Subtree);
    let wanted = visit.query.get("service");
    let mut page = page(&web, frame, &base, &services, &read, &known, wanted);
    page.bases =
        bases.into_iter().map(|(path, services)| base_view(&web, &path, services)).collect();
    Ok(render(&page))
}

/// Returns the base paths of discovery in the whole tree, with the numbers of their services.
async fn bases(web: &Web) -> RequestResult<BTreeMap<String, usize>> {
    let recipes = web.recipes("/").await?;
    let mut bases = BTreeMap::new();
    for row in recipes.rows.iter().filter(|row| row.group == RecipeGroup::Service) {
        if let Some(base) = parent_of(&row.path) {
            *bases.entry(base.to_owned()).or_default() += 1;
        }
    }
    Ok(bases)
}

fn base_view(web: &Web, path: &str, services: usize) -> BaseView {
    let url = address(web, View::Services, path);
    BaseView { path: visible(path).into_owned(), url, services: grouped(services) }
}

fn page(
    web: &Web,
    frame: Frame,
    base: &str,
    services: &[&ServiceRead],
    read: &ServicesRead,
    known: &KnownSessions,
    wanted: Option<&str>,
) -> ServicesPage {
    let now = now_ms();
    let page_url = address(web, View::Services, base);
    let total: usize = services.iter().map(|one| one.instances.len() + one.undecodable.len()).sum();
    // All instances are shown if they are few.
    let is_opened = |one: &ServiceRead| match wanted {
        Some(wanted) => one.name == wanted,
        None => total <= SHOWN,
    };
    let opened = services.iter().filter(|one| is_opened(one)).enumerate();
    let mut notices = Vec::new();
    if read.left_out > 0 {
        let left_out = grouped(read.left_out);
        notices.push(format!("{left_out} services or instances were not read: too many."));
    }
    if wanted.is_none() && total > SHOWN {
        notices.push("Choose a service to see its instances.".to_owned());
    }
    let view = |one: &&ServiceRead| service_view(&page_url, one, wanted);
    ServicesPage {
        head: Head::of_view(web, base, View::Services),
        base: visible(base).into_owned(),
        bases: Vec::new(),
        summary: summary(services),
        notices,
        services: services.iter().map(view).collect(),
        opened: opened.map(|(place, one)| opened_service(web, place, one, known, now)).collect(),
        age: known.words(),
        frame,
    }
}

fn summary(services: &[&ServiceRead]) -> String {
    let instances: usize = services.iter().map(|one| one.instances.len()).sum();
    let drained: usize = services.iter().map(|one| drained(one)).sum();
    let undecodable: usize = services.iter().map(|one| one.undecodable.len()).sum();
    format!(
        "{} with {}: {} up, {} drained, {} undecodable.",
        counted(services.len(), "service"),
        counted(instances, "instance"),
        grouped(instances - drained),
        grouped(drained),
        grouped(undecodable)
    )
}

fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

fn drained(service: &ServiceRead) -> usize {
    service.instances.iter().filter(|one| !one.is_enabled).count()
}

fn service_view(page_url: &str, service: &ServiceRead, wanted: Option<&str>) -> ServiceView {
    let drained = drained(service);
    ServiceView {
        name: visible(&service.name).into_owned(),
        url: format!("{page_url}{}", query(&[("service", &service.name)])),
        up: grouped(service.instances.len() - drained),
        drained: grouped(drained),
        undecodable: grouped(service.undecodable.len()),
        is_current: wanted == Some(service.name.as_str()),
    }
}

fn opened_service(
    web: &Web,
    place: usize,
    service: &ServiceRead,
    known: &KnownSessions,
    now: i64,
) -> OpenedService {
    let instances = service.instances.iter().take(SHOWN);
    let undecodable = service.undecodable.iter().take(SHOWN);
    let shown = instances.len() + undecodable.len();
    let all = service.instances.len() + service.undecodable.len();
    OpenedService {
        place,
        name: visible(&service.name).into_owned(),
        more: unless_zero(all.saturating_sub(shown)),
        instances: instances.map(|one| instance_view(web, one, known, now)).collect(),
        undecodable: undecodable.map(|one| undecodable_view(web, one)).collect(),
    }
}

fn instance_view(
    web: &Web,
    instance: &InstanceRead,
    known: &KnownSessions,
    now: i64,
) -> InstanceView {
    let dash = || "–".to_owned();
    let port = |port: Option<u16>| port.map_or_else(dash, |port| port.to_string());
    let words = known.facts.describe(instance.session);
    let (state, icon) = if instance.is_enabled { ("up", "●") } else { ("drained", "○") };
    InstanceView {
        id: visible(&instance.id).into_owned(),
        node_url: address(web, View::Node, &instance.path),
        address: instance
            .address
            .as_deref()
            .map_or_else(dash, |address| visible(address).into_owned()),
        port: port(instance.port),
        ssl_port: port(instance.ssl_port),
        state,
        icon,
        health: match instance.session {
            Some(_) => visible(&words.state).into_owned(),
            None => "no session: it stays until it is deleted".to_owned(),
        },
        client: visible(&words.client).into_owned(),
        registered: when(instance.registered, now),
        kind: sentence(&instance.kind),
        uri: sentence(instance.uri.as_deref().unwrap_or_default()),
        payload: payload(&instance.payload),
    }
}

/// Returns the payload; empty without one.
fn payload(payload: &Payload) -> String {
    match payload {
        Payload::Json(text) if text == "null" => String::new(),
        Payload::Json(text) => visible(text).into_owned(),
        Payload::TooLong(bytes) => format!("{}: too long for this page", size_of(*bytes)),
    }
}

fn undecodable_view(web: &Web, undecodable: &UndecodableRead) -> UndecodableView {
    UndecodableView {
        name: visible(name_of(&undecodable.path)).into_owned(),
        node_url: address(web, View::Node, &undecodable.path),
        reason: sentence(&undecodable.reason),
    }
}
