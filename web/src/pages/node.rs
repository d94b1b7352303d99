//! One node.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use zk_curator::{SessionId, Stat};

use super::card::{RecipeCard, card_of, followed};
use super::done::done_sentence;
use super::edit::EditForm;
use super::frame::{Frame, render};
use super::head::{Head, View};
use crate::api::{node_json, raw_response, wants_raw};
use crate::live::Scope;
use crate::paths::url_of;
use crate::problem::RequestResult;
use crate::reads::{CardRead, DataRead, Kinds, KnownSessions, NodeRead};
use crate::show::{
    AclLine, DataView, NodeKind, QuotaLine, acl_lines, data_view, grouped, now_ms, quota_lines,
    size, visible, when,
};
use crate::state::Web;
use crate::visit::{Format, Visit};

#[derive(Template)]
#[template(path = "node.html", whitespace = "minimize")]
struct NodePage {
    frame: Frame,
    head: Head,
    full_path: String,
    /// The place of the node in a recipe.
    card: Option<RecipeCard>,
    /// The reason why a recipe cannot be recognised; empty for most nodes.
    no_card: String,
    /// The data, unless they are hidden.
    shown: Option<DataView>,
    /// The reason why the data are hidden.
    hidden: &'static str,
    is_dump: bool,
    dump_url: String,
    raw_url: String,
    edit: Option<EditForm>,
    /// The reason why there is no form; empty in a read-only explorer.
    no_edit: &'static str,
    can_create: bool,
    can_delete: bool,
    has_children: bool,
    version: i32,
    sentence: String,
    facts: Vec<Fact>,
    kinds_sentence: String,
    kinds: Vec<KindCount>,
    acl: Vec<AclLine>,
    quota: Vec<QuotaLine>,
}

struct Fact {
    name: &'static str,
    value: String,
    /// The time in RFC 3339, if it is one.
    datetime: String,
    title: String,
}

struct KindCount {
    icon: &'static str,
    name: &'static str,
    count: String,
}

const REDACTED: &str = "The data are hidden: the settings of this explorer treat them as a secret.";
const NO_PERMISSION: &str = "ZooKeeper does not permit this explorer to read the data.";
const TOO_LARGE: &str = "The data are larger than this explorer accepts.";

/// `GET /node/…` and `GET /api/v1/node/…`
pub(crate) async fn node(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/node", "/api/v1/node"])?;
    let is_page = visit.format == Format::Html && !wants_raw(&visit.headers);
    let card = async { if is_page { web.card(&path).await.map(Some) } else { Ok(None) } };
    let (node, card) = tokio::try_join!(web.node(&path), card)?;
    let is_redacted = web.redaction.hides(&path);
    if wants_raw(&visit.headers) {
        return raw_response(&node, is_redacted);
    }
    let Some(card) = card else { return Ok(node_json(&path, &node, is_redacted)) };
    let frame = Frame::new(&web, Some(&visit.viewer), "").await;
    let mut frame = match followed(&path, &card) {
        Some(recipe) => frame.following(&web, &path, recipe, Scope::Recipe),
        None => frame.of_node(&web, &path, &url_of(&path)),
    };
    frame.done = done_sentence(&web, &visit, View::Node, &path, &node.stat);
    let as_dump = visit.query.get("as") == Some("hex");
    Ok(render(&page(&web, frame, &path, &node, &card, as_dump)))
}

/// `GET /raw/…`: the data as a download.
pub(crate) async fn raw(State(web): State<Arc<Web>>, visit: Visit) -> RequestResult<Response> {
    let path = visit.node_below(&["/raw"])?;
    let node = web.node(&path).await?;
    raw_response(&node, web.redaction.hides(&path))
}

/// Returns the view of the data, or the reason why they are hidden.
pub(super) fn shown_data(
    web: &Web,
    path: &str,
    data: &DataRead,
    as_dump: bool,
) -> (Option<DataView>, &'static str) {
    match data {
        _ if web.redaction.hides(path) => (None, REDACTED),
        DataRead::Read { data, is_null } => (Some(data_view(data, *is_null, as_dump)), ""),
        DataRead::NoPermission => (None, NO_PERMISSION),
        DataRead::TooLarge => (None, TOO_LARGE),
    }
}

fn page(
    web: &Web,
    frame: Frame,
    path: &str,
    node: &NodeRead,
    card: &CardRead,
    as_dump: bool,
) -> NodePage {
    let stat = &node.stat;
    // The servers are not asked for a node that has nothing to do with a session.
    let has_session = stat.is_ephemeral() || matches!(card, CardRead::Found(_));
    let known = has_session.then(|| web.known_sessions.present());
    let (card, no_card) = card_of(web, path, card, known.as_ref());
    let now = now_ms();
    let (shown, hidden) = shown_data(web, path, &node.data, as_dump);
    let head = Head::new(web, path, i64::from(stat.num_children), false);
    let is_system = path == "/" && web.zk.server_path("/") == "/";
    let (edit, no_edit) = edit_of(web, &node.data, stat.version, shown.is_some());
    let raw_url =
        if shown.is_some() { format!("{}/raw{}", web.base, url_of(path)) } else { String::new() };
    NodePage {
        full_path: visible(path).into_owned(),
        card,
        no_card,
        is_dump: as_dump,
        dump_url: format!("{}?as=hex", head.node_url),
        raw_url,
        edit,
        no_edit,
        can_create: web.write && !stat.is_ephemeral(),
        can_delete: web.write && !is_system,
        has_children: stat.num_children > 0,
        version: stat.version,
        sentence: sentence(stat, now),
        facts: facts(web, stat, known.as_ref(), now),
        kinds_sentence: kinds_sentence(&node.kinds, stat.num_children),
        kinds: kinds(&node.kinds),
        acl: node.acl.as_deref().map(acl_lines).unwrap_or_default(),
        quota: node.quota.as_ref().map(|(of, used)| quota_lines(of, used)).unwrap_or_default(),
        shown,
        hidden,
        head,
        frame,
    }
}

fn edit_of(
    web: &Web,
    data: &DataRead,
    version: i32,
    is_shown: bool,
) -> (Option<EditForm>, &'static str) {
    if !web.write {
        return (None, "");
    }
    match data {
        _ if !is_shown => (None, "Hidden data cannot be changed here."),
        _ if version == -1 => (None, "ZooKeeper cannot compare with version -1."),
        DataRead::Read { data, .. } => match EditForm::of(data, version) {
            Some(form) => (Some(form), ""),
            None => (None, "The data are too large for a form. The REST interface accepts them."),
        },
        DataRead::NoPermission | DataRead::TooLarge => {
            (None, "Hidden data cannot be changed here.")
        }
    }
}

fn sentence(stat: &Stat, now: i64) -> String {
    let (created, changed) = (when(stat.ctime, now).ago, when(stat.mtime, now).ago);
    if stat.mzxid == stat.czxid {
        return format!("Created {created}, and never changed: version {}.", stat.version);
    }
    format!("Changed {changed}, version {}. Created {created}.", stat.version)
}

fn facts(web: &Web, stat: &Stat, known: Option<&KnownSessions>, now: i64) -> Vec<Fact> {
    let plain =
        |name, value: String| Fact { name, value, datetime: String::new(), title: String::new() };
    let time = |name, ms| {
        let time = when(ms, now);
        Fact { name, value: time.ago, datetime: time.rfc3339, title: time.absolute }
    };
    let length = u64::try_from(stat.data_length).unwrap_or_default();
    let mut facts = vec![plain("Kind", NodeKind::of(stat).name().to_owned())];
    if stat.is_ephemeral() {
        let own = web.zk.session().is_some_and(|session| session.id.get() == stat.ephemeral_owner);
        let whose = if own { " (this explorer)" } else { "" };
        facts.push(plain("Owner session", format!("{:#x}{whose}", stat.ephemeral_owner)));
        facts.extend(known.into_iter().flat_map(|known| owner_facts(stat, known)));
    }
    facts.extend([
        plain("Size", format!("{} ({} bytes)", size(length), grouped(length))),
        time("Changed", stat.mtime),
        time("Created", stat.ctime),
        plain("Data version", stat.version.to_string()),
        plain("Children version", stat.cversion.to_string()),
        plain("Rights version", stat.aversion.to_string()),
        plain("Created by zxid", format!("{:#x}", stat.czxid)),
        plain("Changed by zxid", format!("{:#x}", stat.mzxid)),
        plain("Children changed by zxid", format!("{:#x}", stat.pzxid)),
    ]);
    facts
}

/// Returns the connection of the session that owns a node, as far as the servers told it.
fn owner_facts(stat: &Stat, known: &KnownSessions) -> Vec<Fact> {
    let words = known.facts.describe(Some(SessionId::new(stat.ephemeral_owner)));
    let age = known.words();
    let fact = |name, value: &str| Fact {
        name,
        value: visible(value).into_owned(),
        datetime: String::new(),
        title: String::new(),
    };
    let client = if words.client.is_empty() { "unknown" } else { &words.client };
    vec![
        fact("Owner's client", client),
        fact("Owner's connection", &words.state),
        fact("Facts about sessions", &age),
    ]
}

/// `children` is the number in the stat, which is known even if the names are not.
fn kinds_sentence(kinds: &Kinds, children: i32) -> String {
    match kinds.total {
        0 if children > 0 => "The names of the children cannot be read.".to_owned(),
        0 => "The node has no children.".to_owned(),
        1 => "The only child:".to_owned(),
        total if total == kinds.counted => format!("Of all {} children:", grouped(total)),
        total => {
            format!("Of the first {} of {} children:", grouped(kinds.counted), grouped(total))
        }
    }
}

fn kinds(kinds: &Kinds) -> Vec<KindCount> {
    let kind = |kind: NodeKind, count| (kind.icon(), kind.name(), count);
    let all = [
        kind(NodeKind::Persistent, kinds.persistent),
        kind(NodeKind::Ephemeral, kinds.ephemeral),
        kind(NodeKind::Hidden, kinds.hidden),
        ("#", "sequential", kinds.sequential),
    ];
    let present = all.into_iter().filter(|(_, _, count)| *count > 0);
    present.map(|(icon, name, count)| KindCount { icon, name, count: grouped(count) }).collect()
}
