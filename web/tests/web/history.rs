//! The past, from logs that these tests write.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};
use zk_curator_real::Journal;
use zk_curator_testing::TestServer;
use zk_curator_web::paths::url_of;
use zk_curator_web::{Limits, WebOptions, router};

use crate::hostile::{NAMES, assert_harmless};
use crate::schema::check;
use crate::support::{Browser, Reply, Site, ask};

const SCRIPT: i64 = 0x1000_0000_0000_0001;
const SERVICE: i64 = 0x1000_0000_0000_0002;
const WORKER: i64 = 0x1000_0000_0000_0003;

/// A data directory, which is removed in the end.
#[derive(Debug)]
struct DataFolder(PathBuf);

impl DataFolder {
    fn with(journal: &Journal) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zk-curator-web-history-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        journal.write(folder.path());
        folder
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn log(&self) -> PathBuf {
        self.0.join("version-2/log.1")
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A script deletes `/config` while a worker expires.
fn incident() -> Journal {
    let mut journal = Journal::new(1);
    journal.open(SERVICE, 30_000);
    journal.create(SERVICE, "/config", r#"{"limit":5}"#);
    journal.create(SERVICE, "/config/db", "10.0.0.9:5432");
    journal.create(SERVICE, "/config/flags", "a=1\nb=2\n");
    journal.ttl(SERVICE, "/config/hint", 3_600_000);
    journal.create(SERVICE, "/workers", "");
    journal.open(WORKER, 6_000);
    journal.ephemeral(WORKER, "/workers/w1", "10.0.0.7:8080");
    journal.set(SERVICE, "/config/flags", "a=1\nb=3\n");
    journal.open(SCRIPT, 30_000);
    journal.ephemeral(SCRIPT, "/workers/deploy", "ci-7:22");
    journal.delete(SCRIPT, "/config/hint");
    journal.delete(SCRIPT, "/config/db");
    journal.expire(WORKER, &["/workers/w1"]);
    journal.fail(SERVICE, -101);
    journal.delete(SCRIPT, "/config/flags");
    journal.delete(SCRIPT, "/config");
    journal
}

async fn site(journal: &Journal, options: WebOptions) -> (DataFolder, Site) {
    let folder = DataFolder::with(journal);
    let site = Site::start(options.history([folder.path()])).await;
    (folder, site)
}

/// Asks for the plan of a restore of a moment.
async fn undelete(site: &Site, browser: &Browser, path: &str, fields: &[(&str, &str)]) -> Reply {
    let fields = [&[("action", "undelete")][..], fields].concat();
    site.form(browser, &format!("/history{path}"), &fields).await
}

fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

async fn apply(site: &Site, browser: &Browser, path: &str, page: &str) -> Reply {
    let (id, token) = (hidden(page, "upload"), hidden(page, "token"));
    let fields = [
        ("action", "apply"),
        ("upload", &*id),
        ("token", &*token),
        ("root", "here"),
        ("confirm", "yes"),
    ];
    site.form(browser, &format!("/data{path}"), &fields).await
}

#[tokio::test]
async fn the_author_and_the_cause_are_named() {
    let (_folder, site) = site(&incident(), WebOptions::new()).await;
    let page = site.get("/history/config").await;
    assert_eq!(page.status, 200, "{}", page.body);
    for part in [
        "session 0x1000000000000001, request 1",
        "a client deleted it",
        "it deleted 4 nodes in 0.5 s",
        "ci-7:22  (from its ephemeral nodes)",
        "/workers/deploy",
        "2026-11-30 14:02:01",
        "The logs begin",
        "<del>{</del>",
        "aria-current=\"page\">History</a>",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let body = site.json("/api/v1/history/workers/w1").await;
    let who = &body["who"];
    assert_eq!(who["change"]["cause"], "session-expired");
    assert_eq!(who["by"], "the end of session 0x1000000000000003");
    assert_eq!(who["author"]["address"], "10.0.0.7:8080");
    assert_eq!(who["author"]["ended_by"], "server");
    let none = site.json("/api/v1/history/none").await;
    assert_eq!((&none["who"], &none["changes"]), (&Value::Null, &json!([])));
    let page = site.get("/history/none").await.body;
    assert!(page.contains("The logs contain no change of this node."), "{page}");
}

#[tokio::test]
async fn changes_are_selected() {
    let (_folder, site) = site(&incident(), WebOptions::new()).await;
    let zxids = async |address: &str| -> Vec<String> {
        let body = site.json(&format!("/api/v1/history{address}")).await;
        let changes = body["changes"].as_array().unwrap().iter();
        changes.map(|change| change["zxid"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(zxids("/config/flags").await, ["0x10", "0x9", "0x4"]);
    let below = ["0x11", "0x10", "0xd", "0xc", "0x9", "0x5", "0x4", "0x3", "0x2"];
    assert_eq!(zxids("/config?below=true").await, below);
    assert_eq!(zxids("").await.len(), 13, "all changes of nodes");
    assert_eq!(zxids("?below=false").await.len(), 0);
    let since = "/config?below=true&since=2026-11-30T14:02:01Z&until=2026-11-30T14:02:01.5Z";
    assert_eq!(zxids(since).await, ["0xd", "0xc"]);
    assert_eq!(site.get("/api/v1/history/config?since=noon").await.problem()["status"], 400);
    let page = site.get("/history/config?below=true").await.body;
    assert!(page.contains("href=\"/history/config/db?change=0xd\""), "{page}");
}

#[tokio::test]
async fn only_the_newest_changes_are_listed() {
    let mut journal = Journal::new(1);
    journal.create(SERVICE, "/a", "");
    for _ in 0..300 {
        journal.set(SERVICE, "/a", "x");
    }
    let (_folder, site) = site(&journal, WebOptions::new()).await;
    let body = site.json("/api/v1/history/a").await;
    let changes = body["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[0]["zxid"]), (200, &json!("0x12d")));
    assert!(body["notes"][0].as_str().unwrap().contains("newest 200"), "{body}");
}

#[tokio::test]
async fn values_are_shown_on_demand() {
    let (_folder, site) = site(&incident(), WebOptions::new()).await;
    let body = site.json("/api/v1/history/config/flags").await;
    assert_eq!(body["changes"][1]["after"]["data_hidden"], "not requested");
    assert_eq!(body["changes"][1]["details"], json!(["v0 → v1", "8 B"]));
    let body = site.json("/api/v1/history/config/flags?change=0x9").await;
    let change = &body["changes"][0];
    assert_eq!(change["before"]["data"]["text"], "a=1\nb=2\n");
    assert_eq!(change["after"]["data"]["text"], "a=1\nb=3\n");
    assert_eq!(body["who"]["change"]["zxid"], "0x9", "the author of this change");
    let page = site.get("/history/config/flags?change=0x9").await.body;
    assert!(page.contains("<del>b=2</del>") && page.contains("<ins>b=3</ins>"), "{page}");
}

#[tokio::test]
async fn a_node_is_shown_as_it_was() {
    let (_folder, site) = site(&incident(), WebOptions::new()).await;
    let past = site.json("/api/v1/history/config?at=0xb").await;
    assert_eq!(past["children"], json!(["db", "flags", "hint"]));
    assert_eq!(past["node"]["data"]["text"], r#"{"limit":5}"#);
    assert_eq!(past["node"]["acl"][0]["identity"], "world:anyone");
    let flags = async |at: &str| {
        let past = site.json(&format!("/api/v1/history/config/flags?at={at}")).await;
        past["node"]["data"]["text"].clone()
    };
    assert_eq!(flags("0x8").await, "a=1\nb=2\n");
    assert_eq!(flags("2026-11-30T14:02:01Z").await, "a=1\nb=3\n");
    let gone = site.json("/api/v1/history/config?at=0x11").await;
    assert_eq!((&gone["node"], &gone["children_total"]), (&Value::Null, &json!(0)));
    let page = site.get("/history/config?at=0xb").await.body;
    assert!(page.contains("href=\"/history/config/db?at=0xb\""), "{page}");
    assert!(page.contains("after transaction 0xb, 2026-11-30T14:02:01.100Z"), "{page}");
    assert!(site.get("/history/config?at=0x11").await.body.contains("did not exist"));
    let root = site.json("/api/v1/history?at=0x6").await;
    assert_eq!(root["children"], json!(["config", "workers", "zookeeper"]));
    let early = site.get("/api/v1/history/config?at=2020-01-01T00:00:00Z").await;
    assert_eq!(early.problem()["status"], 404);
}

#[tokio::test]
async fn secrets_stay_hidden() {
    let mut journal = Journal::new(1);
    journal.open(SERVICE, 30_000);
    journal.create(SERVICE, "/app", "");
    journal.create(SERVICE, "/app/password", "s3cret");
    journal.set(SERVICE, "/app/password", "s3cret2");
    journal.create(SERVICE, "/app/secrets", "");
    journal.ephemeral(SERVICE, "/app/secrets/x", "s3cret:22");
    journal.delete(SERVICE, "/app/password");
    let options = WebOptions::new().write(true).history_all_data(true);
    let (_folder, site) = site(&journal, options).await;
    for address in [
        "/history/app?below=true",
        "/history/app/password",
        "/history/app/password?change=0x4",
        "/history/app/password?at=0x4",
        "/api/v1/history/app/password",
        "/api/v1/history/app/password?change=0x4",
        "/api/v1/history/app/password?at=0x4",
    ] {
        let reply = site.get(address).await;
        assert_eq!(reply.status, 200, "{address}: {}", reply.body);
        assert!(!reply.body.contains("s3cret"), "{address}: {}", reply.body);
    }
    let change = site.json("/api/v1/history/app/password?change=0x4").await;
    assert_eq!(change["changes"][0]["after"]["data_hidden"], "redacted");
    let ann = site.browser("/data").await;
    let reply = undelete(&site, &ann, "/app", &[("at", "0x6")]).await;
    assert_eq!(reply.status, 403);
    assert!(reply.body.contains("/app/password") && !reply.body.contains("s3cret"));
}

#[tokio::test]
async fn values_need_the_rights_of_everyone() {
    let mut journal = Journal::new(1);
    journal.open(SERVICE, 30_000);
    journal.create(SERVICE, "/app", "public");
    journal.own("digest", "ann:x");
    journal.create(SERVICE, "/app/private", "of ann");
    journal.ephemeral(SERVICE, "/app/worker", "ann-7:22");
    journal.delete(SERVICE, "/app/private");
    let folder = DataFolder::with(&journal);
    let start = async |shown| {
        let options = WebOptions::new().write(true).history([folder.path()]);
        Site::start(options.history_all_data(shown)).await
    };
    let (strict, lax) = (start(false).await, start(true).await);
    for address in [
        "/history/app/private",
        "/history/app/private?change=0x3",
        "/history/app/private?at=0x4",
        "/api/v1/history/app/private",
        "/api/v1/history/app/private?change=0x3",
        "/api/v1/history/app/private?at=0x4",
    ] {
        let (strict, lax) = (strict.get(address).await.body, lax.get(address).await.body);
        assert!(!strict.contains("of ann") && !strict.contains("ann-7"), "{address}: {strict}");
        assert!(lax.contains("of ann") || lax.contains("ann-7"), "{address}: {lax}");
    }
    let change = strict.json("/api/v1/history/app/private?change=0x3").await;
    assert_eq!(change["changes"][0]["after"]["data_hidden"], "rights");
    assert_eq!(strict.json("/api/v1/history/app/private?at=0x4").await["node"]["acl"], json!(null));
    let open = strict.json("/api/v1/history/app?at=0x4").await;
    assert_eq!(open["node"]["data"]["text"], "public");
    let ann = strict.browser("/data").await;
    let reply = undelete(&strict, &ann, "/app", &[("at", "0x4")]).await;
    assert_eq!(reply.status, 403, "{}", reply.body);
    let ann = lax.browser("/data").await;
    assert_eq!(undelete(&lax, &ann, "/app", &[("at", "0x4")]).await.status, 303);
}

#[tokio::test]
async fn deleted_nodes_come_back() {
    let (_folder, site) = site(&incident(), WebOptions::new().write(true)).await;
    let (ann, bob) = (site.browser("/data").await, site.browser("/data").await);
    let page = site.get_as(&ann, "/history/config").await.body;
    assert_eq!(hidden(&page, "at"), "0xb", "the transaction before the run");
    let reply = undelete(&site, &ann, "/config", &[("at", "0xb")]).await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    let address = reply.header("location").to_owned();
    assert_eq!(site.get_as(&bob, &address).await.status, 410, "the file of another user");
    let page = site.get_as(&ann, &address).await;
    assert_eq!(page.status, 200, "{}", page.body);
    for part in ["Plan of the restore", "/config/db", "/config/flags", "/config/hint"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(site.server.probe().data("/config").is_none(), "nothing was changed");
    let reply = apply(&site, &ann, "/config", &page.body).await;
    assert_eq!((reply.status, reply.destination()), (303, "/tree/config"), "{}", reply.body);
    let probe = site.server.probe();
    assert_eq!(probe.data("/config/flags").unwrap(), "a=1\nb=3\n");
    assert_eq!(probe.children("/config"), ["db", "flags", "hint"]);
}

#[tokio::test]
async fn dangers_of_the_past_are_those_of_a_restore() {
    let mut journal = Journal::new(1);
    journal.open(WORKER, 6_000);
    journal.create(WORKER, "/lock", "x");
    journal.ephemeral(WORKER, "/lock/lock-0000000000", "w1");
    journal.expire(WORKER, &["/lock/lock-0000000000"]);
    let (_folder, site) = site(&journal, WebOptions::new().write(true)).await;
    let ann = site.browser("/data").await;
    let plan = async |fields: &[(&str, &str)]| {
        let fields = [&[("at", "0x3")][..], fields].concat();
        let reply = undelete(&site, &ann, "/lock", &fields).await;
        assert_eq!(reply.status, 303, "{}", reply.body);
        site.get_as(&ann, reply.header("location")).await.body
    };
    assert!(plan(&[]).await.contains("ephemeral, left out"));
    let page = plan(&[("ephemerals", "persistent")]).await;
    assert!(page.contains("contender of a recipe") && page.contains("This plan is refused"));
    site.zk.create("/lock").data("other").await.unwrap();
    let page = plan(&[]).await;
    assert!(page.contains("This plan is refused") && !page.contains("Apply this plan"), "{page}");
    assert!(plan(&[("existing", "replace")]).await.contains("Apply this plan"));
}

#[tokio::test]
async fn a_form_of_the_past_needs_permission_and_token() {
    let folder = DataFolder::with(&incident());
    let read_only = Site::start(WebOptions::new().history([folder.path()])).await;
    let request = ask("POST", "/history/config").body(Body::from("action=undelete&at=0xb"));
    assert_eq!(read_only.send(request.unwrap()).await.status, 403);
    let page = read_only.get("/history/config").await;
    assert!(!page.body.contains("method=\"post\"") && page.header("set-cookie").is_empty());
    let site = Site::start(WebOptions::new().write(true).history([folder.path()])).await;
    let ann = site.browser("/data").await;
    let forged = Browser { csrf: "0".repeat(64), ..ann.clone() };
    assert_eq!(undelete(&site, &forged, "/config", &[("at", "0xb")]).await.status, 403);
    assert_eq!(undelete(&site, &ann, "/config", &[]).await.status, 400, "no moment");
    assert_eq!(undelete(&site, &ann, "/config", &[("at", "0x11")]).await.status, 404);
}

#[tokio::test]
async fn reads_are_bounded() {
    let folder = DataFolder::with(&incident());
    let start = async |limits| {
        let options = WebOptions::new().write(true).history([folder.path()]).limits(limits);
        Site::start(options).await
    };
    let (long, large) = (Duration::from_secs(30), 1 << 20);
    for (limits, reason) in [
        (Limits::new().history(0, long, large), "limit of bytes"),
        (Limits::new().history(1 << 20, Duration::ZERO, large), "limit of time"),
        (Limits::new().history(1 << 20, long, 0), "limit of memory"),
    ] {
        let site = start(limits).await;
        let body = site.json("/api/v1/history/config").await;
        let notes = body["notes"].to_string();
        assert!(notes.contains(reason) && body["who"].is_null(), "{body}");
        let past = site.get("/api/v1/history/config?at=0xff").await.problem();
        assert_eq!(past["status"], 503, "{past}");
        assert!(past["detail"].as_str().unwrap().contains(reason), "{past}");
        let ann = site.browser("/data").await;
        assert_eq!(undelete(&site, &ann, "/config", &[("at", "0xff")]).await.status, 503);
    }
    let busy = start(Limits::new().transfers(0, 1_000)).await;
    assert_eq!(busy.get("/api/v1/history/config").await.problem()["status"], 503);
}

#[tokio::test]
async fn missing_and_damaged_files_are_problems() {
    let (folder, site) = site(&incident(), WebOptions::new()).await;
    let whole = fs::read(folder.log()).unwrap();
    let place = whole.windows(8).position(|bytes| bytes == b"10.0.0.9").unwrap();
    let mut damaged = whole.clone();
    damaged[place] ^= 1;
    fs::write(folder.log(), damaged).unwrap();
    let reply = site.get("/history/config").await;
    assert_eq!(reply.status, 500, "{}", reply.body);
    let (_, rest) = reply.body.split_once("log.1 is damaged at byte ").unwrap();
    let offset: usize = rest.split(':').next().unwrap().parse().unwrap();
    assert!(offset < place && place - offset < 100, "{offset} {place}");
    let page = site.get("/history/config?below=true").await;
    let read_on = "href=\"/history/config?below=true&#38;damaged=skip\"";
    assert!(page.status == 500 && page.body.contains(read_on), "{}", page.body);
    let body = site.json("/api/v1/history/config?below=true&damaged=skip").await;
    let notes = body["notes"].to_string();
    assert!(notes.contains(&format!("at byte {offset} of log.1")), "{body}");
    assert!(body["changes"].to_string().contains("/config/flags"), "{body}");
    let directory = folder.path().to_str().unwrap().to_owned();
    drop(folder);
    for address in ["/history/config", "/history/config?at=0xb", "/api/v1/history"] {
        let reply = site.get(address).await;
        assert_eq!(reply.status, 503, "{address}: {}", reply.body);
        assert!(reply.body.contains("The history cannot be read"), "{address}");
        assert!(!reply.body.contains(&directory), "{address}: {}", reply.body);
    }
}

#[tokio::test]
async fn names_and_values_are_text() {
    let mut journal = Journal::new(1);
    journal.open(SCRIPT, 30_000);
    for name in NAMES {
        let path = format!("/{name}");
        journal.create(SCRIPT, &path, name);
        journal.ephemeral(SCRIPT, &format!("{path}-live"), name);
        journal.delete(SCRIPT, &path);
    }
    let (_folder, site) = site(&journal, WebOptions::new().write(true)).await;
    let root = site.get("/history").await.body;
    assert_harmless(&root);
    assert!(root.contains("⟨U+202E⟩gpj.exe"), "{root}");
    for name in NAMES {
        let url = url_of(&format!("/{name}"));
        for query in ["", "?at=0x2", "?since=%22%3E%3Cscript%3E"] {
            let reply = site.get(&format!("/history{url}{query}")).await;
            assert!(matches!(reply.status, 200 | 400), "{name} {query}: {}", reply.body);
            assert_harmless(&reply.body);
        }
    }
}

#[tokio::test]
async fn a_missing_node_leads_to_its_history() {
    let (_folder, site) = site(&incident(), WebOptions::new()).await;
    for view in ["tree", "node", "why", "recipes", "services"] {
        let reply = site.get(&format!("/{view}/config/a%20b")).await;
        assert_eq!(reply.status, 404, "{view}: {}", reply.body);
        for link in ["href=\"/history/config/a%20b\"", "href=\"/tree/config\""] {
            assert!(reply.body.contains(link), "{view} {link}: {}", reply.body);
        }
    }
    let past = site.get("/history/config?at=2020-01-01T00:00:00Z").await;
    assert!(past.status == 404 && !past.body.contains("What happened to it"), "{}", past.body);
}

#[tokio::test]
async fn an_explorer_without_logs_has_no_history() {
    let site = Site::start(WebOptions::new().write(true)).await;
    assert_eq!(site.get("/api/v1/history/a").await.problem()["status"], 404);
    assert_eq!(site.get("/history").await.status, 404);
    assert!(!site.get("/tree").await.body.contains("/history"));
    let missing = site.get("/node/a/b").await.body;
    assert!(missing.contains("href=\"/tree/a\"") && !missing.contains("/history"), "{missing}");
    let ann = site.browser("/data").await;
    assert_eq!(undelete(&site, &ann, "/a", &[("at", "0x1")]).await.status, 404);
}

#[tokio::test]
async fn a_namespace_is_the_root_of_the_past() {
    let mut journal = Journal::new(1);
    journal.open(SCRIPT, 30_000);
    journal.create(SCRIPT, "/app", "");
    journal.create(SCRIPT, "/app/a", "1");
    journal.ephemeral(SCRIPT, "/app/live", "own");
    journal.create(SCRIPT, "/other", "2");
    journal.ephemeral(SCRIPT, "/other/live", "foreign:1");
    journal.delete(SCRIPT, "/app/a");
    let folder = DataFolder::with(&journal);
    let server = TestServer::in_memory().await;
    let zk = server.framework().namespace("app").build().unwrap();
    zk.start().await.unwrap();
    let options = WebOptions::new().write(true).history([folder.path()]).without_probe();
    let site = Site { router: router(&zk, options), server, zk };
    let body = site.json("/api/v1/history/a").await;
    assert_eq!(body["changes"][0]["path"], "/a");
    let author = &body["who"]["author"];
    assert_eq!(author["ephemerals"][0]["path"], "/live");
    assert_eq!(
        (author["ephemerals"].as_array().unwrap().len(), &author["address"]),
        (1, &json!(null))
    );
    assert!(!body["who"].to_string().contains("/other"), "{body}");
    let ann = site.browser("/data").await;
    let reply = undelete(&site, &ann, "/a", &[("at", "0x6")]).await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    let page = site.get_as(&ann, reply.header("location")).await.body;
    assert_eq!(apply(&site, &ann, "/a", &page).await.status, 303, "{page}");
    assert_eq!(site.server.probe().data("/app/a").unwrap(), "1");
}

#[tokio::test]
async fn responses_have_the_described_shapes() {
    let (_folder, site) = site(&incident(), WebOptions::new()).await;
    let document = site.json("/api/v1/openapi.json").await;
    let content = &document["paths"]["/history/{path}"]["get"]["responses"]["200"]["content"];
    let schema = &content["application/json"]["schema"];
    for address in [
        "/api/v1/history",
        "/api/v1/history/config",
        "/api/v1/history/config/flags?change=0x9",
        "/api/v1/history/workers/w1",
        "/api/v1/history/none",
        "/api/v1/history/config?at=0xb",
        "/api/v1/history/config?at=0x11",
        "/api/v1/history/workers/w1?at=0x8",
    ] {
        let value = site.json(address).await;
        assert_eq!(check(&document, schema, &value, address), Ok(()), "{value}");
    }
}
