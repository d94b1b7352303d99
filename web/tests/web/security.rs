//! The layers of security, on every address.

use std::fs;
use std::path::Path;

use axum::body::Body;
use axum::http::header;
use zk_curator_testing::OpCode;
use zk_curator_web::{Limits, Redaction, WebOptions};

use crate::support::{Reply, Site, ask};

/// Every address, with a method that it supports.
const ADDRESSES: [(&str, &str); 51] = [
    ("GET", "/"),
    ("GET", "/go?path=/a"),
    ("GET", "/help"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("POST", "/logout"),
    ("GET", "/static/none.css"),
    ("GET", "/tree"),
    ("GET", "/tree/"),
    ("GET", "/tree/a"),
    ("GET", "/node/a"),
    ("POST", "/node/a"),
    ("GET", "/raw/a"),
    ("GET", "/api/v1/node/a"),
    ("PUT", "/api/v1/node/a"),
    ("POST", "/api/v1/node/b"),
    ("DELETE", "/api/v1/node/a"),
    ("GET", "/api/v1/children/a"),
    ("GET", "/api/v1/names?path=/"),
    ("GET", "/api/v1/watch/a"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/why"),
    ("GET", "/why/a"),
    ("GET", "/recipes"),
    ("GET", "/recipes/a"),
    ("GET", "/services"),
    ("GET", "/services/a"),
    ("GET", "/api/v1/why"),
    ("GET", "/api/v1/why/a"),
    ("GET", "/api/v1/recipes"),
    ("GET", "/api/v1/recipes/a"),
    ("GET", "/api/v1/services"),
    ("GET", "/api/v1/services/a"),
    ("GET", "/ensemble"),
    ("GET", "/api/v1/ensemble"),
    ("GET", "/api/v1/ensemble/watch"),
    ("GET", "/search/a"),
    ("GET", "/search/a?for=a&in=text"),
    ("GET", "/api/v1/search/a?for=a"),
    ("GET", "/data/a"),
    ("POST", "/data/a"),
    ("GET", "/changes/a"),
    ("GET", "/history/a"),
    ("POST", "/history/a"),
    ("GET", "/history/a?at=0x1"),
    ("GET", "/api/v1/history/a"),
    ("GET", "/api/v1/backup/a"),
    ("GET", "/api/v1/diff?before=/a&after=/a"),
    ("GET", "/api/v1/changes/a"),
    ("GET", "/none"),
    ("PATCH", "/tree/a"),
];

#[test]
fn every_route_is_in_the_table() {
    const METHODS: [(&str, &str); 4] =
        [("GET", "get("), ("PUT", "put("), ("POST", "post("), ("DELETE", "delete(")];
    let mut found = 0;
    for line in include_str!("../../src/routes.rs").lines() {
        let Some((_, line)) = line.split_once("(\"/") else { continue };
        let Some((route, handlers)) = line.split_once('"') else { continue };
        for (method, _) in METHODS.iter().filter(|(_, call)| handlers.contains(call)) {
            let is_listed = |(of, address): &(&str, &str)| of == method && is_at(address, route);
            assert!(ADDRESSES.iter().any(is_listed), "{method} /{route}");
            found += 1;
        }
    }
    assert!(found > 30, "{found} routes were found");
}

/// Returns `true` if an address is one of a route, which has no slash at its beginning.
fn is_at(address: &str, route: &str) -> bool {
    let (fixed, is_whole) = match route.split_once('{') {
        Some((fixed, _)) => (fixed, false),
        None => (route, true),
    };
    let rest = address.strip_prefix('/').and_then(|address| address.strip_prefix(fixed));
    rest.is_some_and(|rest| !is_whole || rest.is_empty() || rest.starts_with(['/', '?']))
}

/// `SECURITY.md` names a test for each protection.
#[test]
fn the_tests_that_the_security_page_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../SECURITY.md")).unwrap();
    let spans = page.split('`').skip(1).step_by(2);
    let mut found = 0;
    for (file, test) in spans.filter_map(|span| span.split_once("::")) {
        let file = root.join("tests/web").join(file).with_extension("rs");
        let source = fs::read_to_string(file).unwrap();
        assert!(source.contains(&format!("fn {test}()")), "{test}");
        found += 1;
    }
    assert!(found > 20, "{found} tests were found");
}

#[tokio::test]
async fn the_health_is_for_everybody_and_says_nothing() {
    let users = "ann 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    let options = WebOptions::new().users(users.parse().unwrap());
    let site = Site::start(options.limits(Limits::new().requests(1, 1))).await;
    let before = site.server.probe().total_requests();
    for host in ["10.1.2.3:9181", "evil.com"] {
        let mut request = ask("GET", "/health").body(Body::empty()).unwrap();
        request.headers_mut().insert(header::HOST, host.parse().unwrap());
        let reply = site.send(request).await;
        assert_eq!((reply.status, &*reply.body), (200, "ok\n"), "{host}");
        assert_headers(&reply, "/health");
        assert_eq!(reply.header(header::SET_COOKIE.as_str()), "");
    }
    let request = ask("POST", "/health").body(Body::empty()).unwrap();
    assert_eq!(site.send(request).await.status, 405);
    assert_eq!(site.server.probe().total_requests(), before);
    site.server.stop().await;
    assert_eq!(site.get("/health").await.status, 200, "an outage of ZooKeeper");
}

fn is_change((method, _): &&(&str, &str)) -> bool {
    !matches!(*method, "GET" | "PATCH")
}

async fn site() -> Site {
    // The directory is missing: the addresses are checked, and not what they show.
    let options = WebOptions::new().write(true).history(["/none/zk-curator"]);
    let site = Site::probing(options).await;
    site.zk.create("/a").data("1").await.unwrap();
    site
}

/// Returns the number of writes that the server has received.
fn writes(site: &Site) -> u64 {
    let probe = site.server.probe();
    [OpCode::Create, OpCode::Create2, OpCode::SetData, OpCode::Delete]
        .into_iter()
        .map(|opcode| probe.requests(opcode))
        .sum()
}

fn assert_headers(reply: &Reply, address: &str) {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                  connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
    assert_eq!(reply.header("content-security-policy"), policy, "{address}");
    assert_eq!(reply.header("x-content-type-options"), "nosniff", "{address}");
    assert_eq!(reply.header("referrer-policy"), "same-origin", "{address}");
    assert_eq!(reply.header("cross-origin-resource-policy"), "same-origin", "{address}");
    assert_eq!(reply.header("x-accel-buffering"), "no", "{address}");
    assert!(!reply.header("cache-control").is_empty(), "{address}");
    assert_eq!(reply.header("access-control-allow-origin"), "", "{address}");
}

#[tokio::test]
async fn every_response_has_the_headers() {
    let site = site().await;
    let is_stream = |address: &str| address.contains("/watch") || address.contains("v1/changes");
    for (method, address) in ADDRESSES.into_iter().filter(|(_, address)| !is_stream(address)) {
        let reply = site.send(ask(method, address).body(Body::empty()).unwrap()).await;
        assert_headers(&reply, address);
        let kind = reply.header("content-type");
        let is_known = [
            "text/html; charset=utf-8",
            "application/json",
            "application/problem+json",
            "application/octet-stream",
        ];
        assert!(kind.is_empty() || is_known.contains(&kind), "{address} {kind}");
    }
}

#[tokio::test]
async fn a_stream_has_the_headers() {
    let site = site().await;
    for address in ["/api/v1/watch/a", "/api/v1/changes/a", "/api/v1/ensemble/watch"] {
        let request = ask("GET", address).body(Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(site.router.clone(), request).await.unwrap();
        let headers = response.headers().clone();
        let reply = Reply { status: response.status().as_u16(), headers, body: String::new() };
        assert_headers(&reply, address);
        assert_eq!((reply.status, reply.header("content-type")), (200, "text/event-stream"));
    }
}

#[tokio::test]
async fn a_foreign_host_reaches_nothing() {
    let site = site().await;
    let before = site.server.probe().total_requests();
    for (method, address) in ADDRESSES {
        for host in ["evil.com", "localhost.evil.com:9181", "10.0.0.1"] {
            let mut request = ask(method, address).body(Body::empty()).unwrap();
            request.headers_mut().insert(header::HOST, host.parse().unwrap());
            let reply = site.send(request).await;
            assert_eq!(reply.status, 421, "{method} {address} {host}");
            assert_headers(&reply, address);
        }
        let mut request = ask(method, address).body(Body::empty()).unwrap();
        request.headers_mut().remove(header::HOST);
        assert_eq!(site.send(request).await.status, 400, "{method} {address}");
    }
    // Only the identity of the session may be read, for the footer.
    let after = site.server.probe().total_requests();
    assert!(after - before <= 1, "{before} {after}");
}

#[tokio::test]
async fn another_site_changes_nothing() {
    let site = site().await;
    let before = writes(&site);
    for (method, address) in ADDRESSES.iter().filter(is_change) {
        for (name, value) in [
            ("origin", "http://evil.com"),
            ("origin", "null"),
            ("origin", "http://localhost:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let request = ask(method, address).header(name, value).header("if-match", "*");
            let reply = site.send(request.body(Body::from("x")).unwrap()).await;
            assert_eq!(reply.status, 403, "{method} {address} {name} {value}");
            assert_headers(&reply, address);
        }
    }
    assert_eq!(writes(&site), before);
}

#[tokio::test]
async fn another_site_may_only_link() {
    let site = site().await;
    for (address, mode, status) in [
        ("/tree/a", "navigate", 200),
        ("/tree/a", "no-cors", 403),
        ("/raw/a", "no-cors", 403),
        ("/api/v1/node/a", "navigate", 403),
        ("/api/v1/watch/a", "cors", 403),
        ("/api/v1/backup/a", "navigate", 403),
        ("/api/v1/changes/a", "cors", 403),
        ("/data/a", "navigate", 200),
        ("/changes/a", "no-cors", 403),
        ("/why/a", "navigate", 200),
        ("/why/a", "no-cors", 403),
        ("/recipes", "navigate", 200),
        ("/services", "navigate", 200),
        ("/api/v1/why/a", "navigate", 403),
        ("/api/v1/recipes", "cors", 403),
        ("/api/v1/services", "cors", 403),
        ("/api/v1/ensemble", "cors", 403),
        ("/api/v1/search/a?for=a", "navigate", 403),
        ("/api/v1/diff?before=/a&after=/a", "navigate", 403),
        ("/history/a", "no-cors", 403),
        ("/api/v1/history/a", "navigate", 403),
    ] {
        let request = ask("GET", address).header("sec-fetch-site", "cross-site");
        let request = request.header("sec-fetch-mode", mode).body(Body::empty()).unwrap();
        assert_eq!(site.send(request).await.status, status, "{address} {mode}");
    }
}

#[tokio::test]
async fn a_form_needs_the_token_of_its_session() {
    let site = site().await;
    let (ann, bob) = (site.browser("/node/a").await, site.browser("/node/a").await);
    assert!(!ann.csrf.is_empty() && ann.csrf != bob.csrf);
    let fields = [("action", "set"), ("version", "0"), ("data", "2")];
    let mut forged = ann.clone();
    forged.csrf.clone_from(&bob.csrf);
    assert_eq!(site.form(&forged, "/node/a", &fields).await.status, 403);
    forged.csrf.clear();
    assert_eq!(site.form(&forged, "/node/a", &fields).await.status, 403);
    forged = ann.clone();
    forged.cookie.clear();
    assert_eq!(site.form(&forged, "/node/a", &fields).await.status, 403);
    assert_eq!(site.server.probe().data("/a").unwrap(), "1");
    assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 303);
    assert_eq!(site.server.probe().data("/a").unwrap(), "2");
}

#[tokio::test]
async fn a_script_of_a_browser_needs_the_token_too() {
    let site = site().await;
    let ann = site.browser("/node/a").await;
    let put = |token: &str| {
        let request = ask("PUT", "/api/v1/node/a")
            .header("cookie", &ann.cookie)
            .header("origin", "http://localhost:9181")
            .header("x-csrf-token", token)
            .header("if-match", "*");
        request.body(Body::from("2")).unwrap()
    };
    assert_eq!(site.send(put("")).await.status, 403);
    assert_eq!(site.send(put("0")).await.status, 403);
    assert_eq!(site.send(put(&ann.csrf)).await.status, 200);
}

#[tokio::test]
async fn a_read_only_explorer_changes_nothing() {
    let site = Site::start(WebOptions::new()).await;
    site.zk.create("/a").data("1").await.unwrap();
    let before = writes(&site);
    for (method, address) in ADDRESSES.iter().filter(is_change) {
        for condition in ["if-match", "if-none-match"] {
            let request = ask(method, address).header(condition, "*");
            let reply = site.send(request.body(Body::from("x")).unwrap()).await;
            assert!((400..500).contains(&reply.status), "{method} {address} {}", reply.status);
            if ["node", "data", "history"].iter().any(|part| address.contains(part)) {
                assert_eq!(reply.status, 403, "{method} {address}");
            }
        }
    }
    assert_eq!(writes(&site), before);
    let page = site.get("/node/a").await;
    assert!(!page.body.contains("method=\"post\"") && page.body.contains("read-only"));
    assert_eq!(page.header("set-cookie"), "", "nothing needs a cookie");
}

#[tokio::test]
async fn cookies_are_for_this_site_only() {
    let site = site().await;
    let cookie = site.get("/node/a").await.header("set-cookie").to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let options = WebOptions::new().write(true).tls(true).base_path("/zk").unwrap();
    let site = Site::start(options).await;
    let cookie = site.get("/tree").await.header("set-cookie").to_owned();
    assert!(cookie.ends_with("; Path=/zk; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    assert_eq!(site.get("/api/v1/node").await.header("set-cookie"), "");
}

#[tokio::test]
async fn requests_have_a_size() {
    let server = zk_curator_testing::TestServer::in_memory().await;
    let zk = server.framework().max_frame(1_000).build().unwrap();
    zk.start().await.unwrap();
    zk.create("/a").await.unwrap();
    let router = zk_curator_web::router(&zk, WebOptions::new().write(true));
    let site = Site { server, zk, router };
    for length in [1_001, 10_000] {
        let request = ask("PUT", "/api/v1/node/a").header("if-match", "*");
        let reply = site.send(request.body(Body::from(vec![b'x'; length])).unwrap()).await;
        assert_eq!(reply.problem()["status"], 413, "{length}");
        assert_headers(&reply, "PUT");
        let ann = site.browser("/node/a").await;
        let data = "x".repeat(length * 20);
        let fields = [("action", "set"), ("version", "0"), ("data", data.as_str())];
        let reply = site.form(&ann, "/node/a", &fields).await;
        assert_eq!(reply.status, 413, "{length}");
        assert!(reply.header("content-type").starts_with("text/html"));
    }
}

#[tokio::test]
async fn requests_have_a_rate() {
    let options = WebOptions::new().limits(Limits::new().requests(1, 3));
    let site = Site::start(options).await;
    let mut replies = Vec::new();
    for _ in 0..5 {
        replies.push(site.get("/api/v1/node").await);
    }
    let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses[..3], [200, 200, 200]);
    assert!(statuses[3..].contains(&429), "{statuses:?}");
    let refused = replies.iter().find(|reply| reply.status == 429).unwrap();
    assert_eq!(refused.header("retry-after"), "1");
    assert_headers(refused, "429");
}

#[tokio::test]
async fn secrets_are_not_shown() {
    let options =
        WebOptions::new().write(true).redaction(Redaction::new(["**/password*"]).unwrap());
    let site = Site::start(options).await;
    site.zk.create("/password").data("s3cret").await.unwrap();
    for address in [
        "/node/password",
        "/node/password?as=hex",
        "/tree/password",
        "/api/v1/node/password",
        "/raw/password",
    ] {
        let reply = site.get(address).await;
        assert!(!reply.body.contains("s3cret") && !reply.body.contains("czNjcmV0"), "{address}");
        assert!(!reply.body.contains("73 33 63"), "{address}");
    }
    assert_eq!(site.json("/api/v1/node/password").await["data_hidden"], "redacted");
    assert_eq!(site.get("/raw/password").await.status, 403);
    let ann = site.browser("/node/password").await;
    let fields = [("action", "set"), ("version", "7"), ("data", "mine")];
    let reply = site.form(&ann, "/node/password", &fields).await;
    assert_eq!(reply.status, 412);
    assert!(reply.body.contains("mine") && !reply.body.contains("s3cret"));
}

#[tokio::test]
async fn static_files_are_kept_by_browsers() {
    let site = site().await;
    let page = site.get("/tree").await.body;
    let (_, rest) = page.split_once("href=\"/static/style-").unwrap();
    let name = format!("/static/style-{}", rest.split('"').next().unwrap());
    let reply = site.get(&name).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, "text/css; charset=utf-8"));
    assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
    assert_headers(&reply, &name);
    let request = ask("GET", &name).header("if-none-match", reply.header("etag"));
    assert_eq!(site.send(request.body(Body::empty()).unwrap()).await.status, 304);
    assert_eq!(site.get("/static/style-0.css").await.status, 404);
}

#[tokio::test]
async fn other_methods_name_the_right_ones() {
    let site = site().await;
    let reply = site.send(ask("PATCH", "/api/v1/node/a").body(Body::empty()).unwrap()).await;
    assert_eq!(reply.problem()["status"], 405);
    let allowed = reply.header("allow");
    assert!(["GET", "PUT", "POST", "DELETE"].iter().all(|one| allowed.contains(one)), "{allowed}");
    assert_headers(&reply, "405");
}
