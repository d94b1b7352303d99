//! Backups, comparisons and restores.

use std::convert::Infallible;
use std::io::Write;

use axum::body::Body;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use tower::ServiceExt;
use zk_curator::CreateMode;
use zk_curator_ops::transfer::Backup;
use zk_curator_web::{Limits, WebOptions};

use crate::support::{Browser, Reply, Site, ask, from_peer};

async fn site(options: WebOptions) -> Site {
    let site = Site::start(options).await;
    for (path, data) in [("/app", "x"), ("/app/a", "1"), ("/app/b", "2")] {
        site.zk.create(path).data(data).await.unwrap();
    }
    site
}

async fn writable() -> Site {
    site(WebOptions::new().write(true)).await
}

/// Sends a form with a file as a browser does.
async fn upload(
    site: &Site,
    browser: &Browser,
    address: &str,
    fields: &[(&str, &str)],
    file: &[u8],
) -> Reply {
    let mut body = Vec::new();
    for (name, value) in [("csrf", browser.csrf.as_str())].iter().chain(fields) {
        body.extend_from_slice(
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                .as_bytes(),
        );
    }
    let head = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.zkb\"\r\n\
                Content-Type: application/octet-stream\r\n\r\n";
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(file);
    body.extend_from_slice(b"\r\n--B--\r\n");
    let request = ask("POST", address)
        .header("cookie", &browser.cookie)
        .header("origin", "http://localhost:9181")
        .header("content-type", "multipart/form-data; boundary=B");
    site.send(request.body(Body::from(body)).unwrap()).await
}

async fn backup(site: &Site, path: &str) -> Vec<u8> {
    let mut file = Vec::new();
    Backup::new(path).plain().write_to(&site.zk, &mut file).await.unwrap();
    file
}

fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Returns the lines of a backup without the first and the last one, which have times.
fn records(file: &str) -> Vec<&str> {
    let lines: Vec<_> = file.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

#[tokio::test]
async fn a_download_is_a_backup() {
    let site = writable().await;
    let reply = site.get("/api/v1/backup/app?plain=true").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "application/octet-stream"));
    assert_eq!(
        reply.header("content-disposition"),
        "attachment; filename=\"zookeeper-backup.zkb\""
    );
    assert_eq!(reply.header("content-length"), reply.body.len().to_string());
    assert_eq!(reply.header("zk-backup-consistency"), "exact");
    assert_eq!((reply.header("zk-backup-nodes"), reply.header("zk-backup-unreadable")), ("3", "0"));
    let expected = String::from_utf8(backup(&site, "/app").await).unwrap();
    assert_eq!(records(&reply.body), records(&expected));
    let compressed = site.get("/api/v1/backup/app").await;
    assert_eq!((compressed.status, compressed.header("zk-backup-nodes")), (200, "3"));
    assert_eq!(site.get("/api/v1/backup/none").await.problem()["status"], 404);
}

#[tokio::test]
async fn secrets_are_not_backed_up() {
    let site = writable().await;
    for path in ["/app/password", "/app/secrets", "/app/secrets/x"] {
        site.zk.create(path).data("s3cret").await.unwrap();
    }
    let reply = site.get("/api/v1/backup/app?plain=true").await;
    assert_eq!((reply.header("zk-backup-nodes"), reply.header("zk-backup-unreadable")), ("4", "2"));
    // The parent of secrets is none, by the default patterns.
    assert_eq!(reply.body.matches("s3cret").count(), 1, "{}", reply.body);
    assert!(reply.body.contains("\"unreadable\":[\"/app/password\",\"/app/secrets/x\"]"));
    assert_eq!(site.get("/api/v1/backup/app/password").await.problem()["status"], 403);
}

#[tokio::test]
async fn a_restore_applies_the_plan_that_was_seen() {
    let site = writable().await;
    let file = backup(&site, "/app").await;
    site.zk.set_data("/app/a", "9").await.unwrap();
    site.zk.delete("/app/b").await.unwrap();
    site.zk.create("/app/c").await.unwrap();
    let (ann, bob) = (site.browser("/data/app").await, site.browser("/data/app").await);
    let choice = [("action", "plan"), ("existing", "replace"), ("extra", "delete")];
    let reply = upload(&site, &ann, "/data/app", &choice, &file).await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    let address = reply.header("location").to_owned();
    let page = site.get_as(&ann, &address).await;
    assert_eq!(page.status, 200, "{}", page.body);
    for part in ["Plan of the restore", "/app/a", "/app/b", "/app/c", "One transaction", "danger"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert_eq!(site.get_as(&bob, &address).await.status, 410, "the file of another user");
    assert_eq!(site.get(&address).await.status, 410, "no session");
    let (id, token) = (hidden(&page.body, "upload"), hidden(&page.body, "token"));
    let apply = async |browser: &Browser, token: &str, existing: &str, confirm: &str| {
        let fields = [
            ("action", "apply"),
            ("upload", &*id),
            ("token", token),
            ("root", "file"),
            ("existing", existing),
            ("extra", "delete"),
            ("confirm", confirm),
        ];
        site.form(browser, "/data/app", &fields).await
    };
    assert_eq!(apply(&ann, &token, "replace", "").await.status, 400, "not confirmed");
    assert_eq!(apply(&bob, &token, "replace", "yes").await.status, 410, "another user");
    assert_eq!(apply(&ann, &"0".repeat(64), "replace", "yes").await.status, 409, "another token");
    assert_eq!(apply(&ann, &token, "keep", "yes").await.status, 409, "another choice");
    let forged = Browser { csrf: bob.csrf.clone(), ..ann.clone() };
    assert_eq!(apply(&forged, &token, "replace", "yes").await.status, 403);
    assert_eq!(site.server.probe().data("/app/a").unwrap(), "9", "nothing was changed");
    let reply = apply(&ann, &token, "replace", "yes").await;
    assert_eq!((reply.status, reply.destination()), (303, "/tree/app"), "{}", reply.body);
    let page = site.get_as(&ann, reply.header("location")).await.body;
    assert!(page.contains("</span> Restored: 3 nodes changed.</p>"), "{page}");
    let probe = site.server.probe();
    assert_eq!(probe.data("/app/a").unwrap(), "1");
    assert_eq!(probe.children("/app"), ["a", "b"]);
    assert_eq!(apply(&ann, &token, "replace", "yes").await.status, 410, "applied before");
}

#[tokio::test]
async fn a_plan_that_has_changed_is_shown_again() {
    let site = writable().await;
    let file = backup(&site, "/app").await;
    site.zk.delete("/app/b").await.unwrap();
    let ann = site.browser("/data/app").await;
    let reply = upload(&site, &ann, "/data/app", &[("action", "plan")], &file).await;
    let page = site.get_as(&ann, reply.header("location")).await.body;
    site.zk.delete("/app/a").await.unwrap();
    let apply = async |page: &str| {
        let (id, token) = (hidden(page, "upload"), hidden(page, "token"));
        let fields =
            [("action", "apply"), ("upload", &*id), ("token", &*token), ("confirm", "yes")];
        site.form(&ann, "/data/app", &fields).await
    };
    let reply = apply(&page).await;
    assert_eq!(reply.status, 409);
    assert!(reply.body.contains("Nothing was changed") && reply.body.contains("/app/a"));
    assert_eq!(apply(&reply.body).await.status, 303);
    assert_eq!(site.server.probe().children("/app"), ["a", "b"]);
}

#[tokio::test]
async fn dangerous_plans_are_refused() {
    let site = writable().await;
    let file = backup(&site, "/app").await;
    site.zk.set_data("/app/a", "9").await.unwrap();
    let ann = site.browser("/data/app").await;
    let plan = async |choice: &[(&str, &str)], file: &[u8]| {
        let fields = [&[("action", "plan")][..], choice].concat();
        let reply = upload(&site, &ann, "/data/app", &fields, file).await;
        assert_eq!(reply.status, 303, "{}", reply.body);
        site.get_as(&ann, reply.header("location")).await
    };
    let page = plan(&[], &file).await.body;
    assert!(page.contains("This plan is refused") && page.contains("conflict"), "{page}");
    assert!(!page.contains("Apply this plan"));
    // A contender of a lock would hold it forever.
    site.zk.create("/lock").await.unwrap();
    let contender = site.zk.create("/lock/lock-").mode(CreateMode::EphemeralSequential);
    let contender = contender.await.unwrap().path;
    let file = backup(&site, "/lock").await;
    site.zk.delete(&contender).await.unwrap();
    let page = plan(&[("ephemerals", "persistent")], &file).await.body;
    assert!(page.contains("contender of a recipe") && page.contains("This plan is refused"));
    // Secrets are not restored: the numbers of a plan would tell if a guess is right.
    site.zk.create("/app/password").data("x").await.unwrap();
    let file = backup(&site, "/app").await;
    assert_eq!(plan(&[("existing", "keep")], &file).await.status, 403);
    let page = plan(&[], b"no backup").await;
    assert_eq!(page.status, 400);
    assert!(page.body.contains("not an intact backup") && !page.body.contains("zkc-upload"));
}

#[tokio::test]
async fn a_user_sends_two_files_at_the_same_time() {
    let site = writable().await;
    let ann = site.browser("/data/app").await;
    // Each body waits for the content of its file.
    let begin = || {
        let head = format!(
            "--B\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{}\r\n\
             --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n",
            ann.csrf
        );
        let parts = stream::iter([Ok::<_, Infallible>(head)]).chain(stream::pending());
        let request = ask("POST", "/data/app")
            .header("cookie", &ann.cookie)
            .header("content-type", "multipart/form-data; boundary=B");
        site.router.clone().oneshot(request.body(Body::from_stream(parts)).unwrap())
    };
    let (mut one, mut two) = (Box::pin(begin()), Box::pin(begin()));
    assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
    let file = backup(&site, "/app").await;
    let send = async || upload(&site, &ann, "/data/app", &[("action", "diff")], &file).await.status;
    assert_eq!(send().await, 503);
    drop(one);
    assert_eq!(send().await, 303);
    drop(two);
}

#[tokio::test]
async fn a_user_leaves_a_place_to_others() {
    let limits = Limits::new().transfers(2, 1_000);
    let site = site(WebOptions::new().limits(limits)).await;
    site.server.hold();
    let begin = |peer: &str| {
        let request = ask("GET", "/api/v1/backup/app").body(Body::empty()).unwrap();
        site.router.clone().oneshot(from_peer(request, peer))
    };
    let mut first = Box::pin(begin("127.0.0.1"));
    assert!(first.as_mut().now_or_never().is_none());
    assert_eq!(begin("127.0.0.1").await.unwrap().status().as_u16(), 503);
    let mut other = Box::pin(begin("127.0.0.2"));
    assert!(other.as_mut().now_or_never().is_none());
    site.server.release();
    assert_eq!(other.await.unwrap().status().as_u16(), 200);
    drop(first);
}

#[tokio::test]
async fn uploads_are_bounded() {
    let limits = Limits::new().transfers(4, 1_000);
    let site = site(WebOptions::new().write(true).limits(limits)).await;
    let ann = site.browser("/data/app").await;
    let plan = [("action", "plan")];
    let reply = upload(&site, &ann, "/data/app", &plan, &vec![b'x'; 200_000]).await;
    assert_eq!(reply.status, 413);
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b'0'; 100_000]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 1_000);
    assert_eq!(upload(&site, &ann, "/data/app", &plan, &bomb).await.status, 413);
    assert_eq!(upload(&site, &ann, "/data/app", &plan, b"").await.status, 400);
    let long = "x".repeat(20_000);
    let reply = upload(&site, &ann, "/data/app", &[("existing", &*long)], b"x").await;
    assert_eq!(reply.status, 413);
    let forged = Browser { csrf: "0".repeat(64), ..ann };
    assert_eq!(upload(&site, &forged, "/data/app", &plan, b"x").await.status, 403);
    let none = Site::start(WebOptions::new().limits(Limits::new().transfers(0, 0))).await;
    assert_eq!(none.get("/api/v1/backup").await.problem()["status"], 503);
    assert!(!none.get("/data").await.body.contains("type=\"file\""));
}

#[tokio::test]
async fn trees_are_compared() {
    let site = site(WebOptions::new()).await;
    let file = backup(&site, "/app").await;
    for (path, data) in [("/copy", "x"), ("/copy/a", "9"), ("/copy/c", "3")] {
        site.zk.create(path).data(data).await.unwrap();
    }
    for path in ["/app/password", "/copy/password"] {
        site.zk.create(path).data(path).await.unwrap();
    }
    let body = site.json("/api/v1/diff?before=/app&after=/copy").await;
    let differences = json!([
        { "change": "changed", "path": "/app/a", "what": "data" },
        { "change": "removed", "path": "/app/b", "what": "" },
        { "change": "added", "path": "/copy/c", "what": "" },
    ]);
    assert_eq!((&body["differences"], &body["total"]), (&differences, &json!(3)));
    assert_eq!(body["next"], json!(null));
    assert_eq!(site.get("/api/v1/diff?before=/app").await.problem()["status"], 400);
    assert_eq!(site.get("/api/v1/diff?before=/a&after=/../b").await.problem()["status"], 400);
    assert_eq!(site.get("/api/v1/diff?before=/app&after=/none").await.problem()["status"], 404);
    let page = site.get("/data/app?with=/copy&show=diff").await.body;
    assert!(page.contains("3 differences between /app and /copy."), "{page}");
    // A read-only explorer compares with a file, and restores none.
    let ann = site.browser("/data/app").await;
    let reply = upload(&site, &ann, "/data/app", &[("action", "diff")], &file).await;
    assert_eq!(reply.status, 303);
    let page = site.get_as(&ann, reply.header("location")).await.body;
    assert!(page.contains("1 difference") && page.contains("/app/password"), "{page}");
    let reply = upload(&site, &ann, "/data/app", &[("action", "plan")], &file).await;
    assert_eq!(reply.status, 403);
    assert!(!page.contains("Upload and show the plan"));
}

#[tokio::test]
async fn names_are_text_on_the_page() {
    let site = writable().await;
    let name = "<img src=x onerror=alert(1)>";
    site.zk.create(format!("/app/{name}")).data("1").await.unwrap();
    let file = backup(&site, "/app").await;
    site.zk.delete(format!("/app/{name}")).await.unwrap();
    let ann = site.browser("/data/app").await;
    for action in ["diff", "plan"] {
        let reply = upload(&site, &ann, "/data/app", &[("action", action)], &file).await;
        let page = site.get_as(&ann, reply.header("location")).await.body;
        assert!(page.contains("onerror") && !page.contains("<img"), "{action}");
    }
    let page = site.get("/data/app?with=%22%3E%3Cscript%3E").await;
    assert!(!page.body.contains("<script>"));
}
