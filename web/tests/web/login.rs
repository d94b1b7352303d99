//! Users and their sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::body::Body;
use zk_curator_testing::{paused, wait};
use zk_curator_web::{Limits, Users, WebOptions};

use crate::support::{Browser, Site, ask, from_peer};

/// The token of ann is `foo`.
const USERS: &str = "ann 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

fn options() -> WebOptions {
    WebOptions::new().write(true).users(USERS.parse::<Users>().unwrap())
}

/// Signs in, and returns the browser with the session.
async fn sign_in(site: &Site) -> Browser {
    let anyone = site.browser("/login").await;
    let reply = site.form(&anyone, "/login", &[("token", "foo"), ("next", "/node")]).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/node"));
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let ann = Browser { cookie, csrf: String::new() };
    let csrf = site.get_as(&ann, "/node").await.csrf();
    Browser { csrf, ..ann }
}

#[tokio::test]
async fn nothing_is_shown_before_signing_in() {
    let site = Site::start(options()).await;
    site.zk.create("/a").await.unwrap();
    let before = site.server.probe().total_requests();
    let reply = site.get("/tree/a%20b?from=200").await;
    assert_eq!(reply.status, 303);
    assert_eq!(reply.header("location"), "/login?next=%2Ftree%2Fa%2520b%3Ffrom%3D200");
    for address in ["/api/v1/node/a", "/api/v1/children", "/api/v1/watch/a", "/api/v1/names?path=/"]
    {
        let reply = site.get(address).await;
        assert_eq!(reply.problem()["status"], 401, "{address}");
        assert_eq!(reply.header("www-authenticate"), "Bearer", "{address}");
    }
    let page = site.get("/login").await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("memory:2181") && !page.body.contains("/tree\">Tree"));
    assert_eq!(site.server.probe().total_requests(), before);
}

#[tokio::test]
async fn signing_in_returns_to_every_page() {
    let limits = Limits::new().requests(1_000, 1_000);
    let site = Site::probing(options().limits(limits)).await;
    site.zk.create("/a").await.unwrap();
    let ann = sign_in(&site).await;
    let page = site.get_as(&ann, "/node/a").await.body;
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links = links.filter(|link| link.starts_with('/') && !link.contains('&'));
    let mut pages: Vec<&str> = links.collect();
    pages.extend(["/tree/a%20b?from=200", "/search/a?for=x%26y&in=text", "/ensemble?from=50"]);
    let mut starts = BTreeSet::new();
    for address in pages {
        let reply = site.get_as(&ann, address).await;
        if reply.header("content-type") != "text/html; charset=utf-8" {
            continue;
        }
        let anyone = site.browser("/login").await;
        let fields = [("token", "foo"), ("next", address)];
        let reply = site.form(&anyone, "/login", &fields).await;
        assert_eq!((reply.status, reply.header("location")), (303, address));
        starts.extend(address.split(['/', '?']).nth(1));
    }
    let all = [
        "changes", "data", "ensemble", "help", "node", "recipes", "search", "services", "tree",
        "why",
    ];
    assert_eq!(starts, all.into());
}

#[tokio::test]
async fn a_token_opens_a_session() {
    let site = Site::start(options()).await;
    site.zk.create("/a").data("1").await.unwrap();
    let ann = sign_in(&site).await;
    let page = site.get_as(&ann, "/node/a").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Signed in as") && page.body.contains("ann"));
    let fields = [("action", "set"), ("version", "0"), ("data", "2")];
    assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 303);
    assert_eq!(site.server.probe().data("/a").unwrap(), "2");
    let reply = site.form(&ann, "/logout", &[]).await;
    assert!(reply.header("set-cookie").contains("Max-Age=0"), "{:?}", reply.headers);
    assert_eq!(site.get_as(&ann, "/node/a").await.status, 303);
}

#[tokio::test]
async fn a_session_may_last_as_long_as_one_likes() {
    let limits = Limits::new().sessions(9, Duration::MAX);
    let site = Site::start(options().limits(limits)).await;
    let ann = sign_in(&site).await;
    assert_eq!(site.get_as(&ann, "/tree").await.status, 200);
}

#[tokio::test]
async fn signing_in_again_ends_the_previous_session() {
    let site = Site::start(options()).await;
    let before = sign_in(&site).await;
    let reply = site.form(&before, "/login", &[("token", "foo")]).await;
    assert_eq!(reply.status, 303);
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let after = Browser { cookie, csrf: String::new() };
    assert_eq!(site.get_as(&after, "/tree").await.status, 200);
    assert_eq!(site.get_as(&before, "/tree").await.status, 303);
}

#[tokio::test]
async fn programs_send_their_token() {
    let site = Site::start(options()).await;
    site.zk.create("/a").data("1").await.unwrap();
    let put = |token: &str| {
        let request =
            ask("PUT", "/api/v1/node/a").header("authorization", format!("Bearer {token}"));
        request.header("if-match", "*").body(Body::from("2")).unwrap()
    };
    assert_eq!(site.send(put("bar")).await.problem()["status"], 401);
    assert_eq!(site.send(put("")).await.problem()["status"], 401);
    assert_eq!(site.send(put("foo")).await.status, 200);
}

#[test]
fn failed_attempts_are_slowed_down() {
    paused(async {
        let site = Site::start(options().limits(Limits::new().login_attempts(2))).await;
        let anyone = site.browser("/login").await;
        let attempt = async |token: &str| {
            site.form(&anyone, "/login", &[("token", token), ("next", "//evil.com")]).await
        };
        for _ in 0..3 {
            assert_eq!(attempt("bar").await.status, 403);
        }
        let reply = attempt("foo").await;
        assert_eq!((reply.status, reply.header("retry-after")), (429, "1"));
        wait::past(Duration::from_secs(3)).await;
        let reply = attempt("foo").await;
        assert_eq!((reply.status, reply.header("location")), (303, "/tree"));
    });
}

#[test]
fn unknown_tokens_of_programs_are_limited() {
    paused(async {
        let limits = Limits::new().requests(1, 3).login_attempts(0);
        let site = Site::start(options().limits(limits)).await;
        let get = |token: &str| {
            let request = ask("GET", "/api/v1/node").header("authorization", token);
            from_peer(request.body(Body::empty()).unwrap(), "2001:db8::1")
        };
        let mut statuses = Vec::new();
        for _ in 0..5 {
            statuses.push(site.send(get("Bearer bar")).await.status);
        }
        assert_eq!(statuses, [401, 401, 401, 429, 429]);
        // Neither a user nor the form pays for them.
        assert_eq!(site.send(get("Bearer foo")).await.status, 200);
        wait::past(Duration::from_secs(5)).await;
        let page = ask("GET", "/login").body(Body::empty()).unwrap();
        let page = site.send(from_peer(page, "2001:db8::2")).await;
        let cookie = page.header("set-cookie").split(';').next().unwrap().to_owned();
        let form = ask("POST", "/login")
            .header("cookie", cookie)
            .header("content-type", "application/x-www-form-urlencoded");
        let form = form.body(Body::from(format!("csrf={}&token=foo", page.csrf()))).unwrap();
        assert_eq!(site.send(from_peer(form, "2001:db8::2")).await.status, 303);
    });
}

#[test]
fn clients_of_a_proxy_are_counted_one_by_one() {
    paused(async {
        let options = options().limits(Limits::new().login_attempts(0));
        let options = options.trusted_proxies(["10.0.0.0/8".parse().unwrap()]);
        let site = Site::start(options).await;
        let anyone = site.browser("/login").await;
        let attempt = async |token: &str, client: &str| {
            let form = ask("POST", "/login")
                .header("cookie", &anyone.cookie)
                .header("x-forwarded-for", client)
                .header("content-type", "application/x-www-form-urlencoded");
            let body = format!("csrf={}&token={token}", anyone.csrf);
            site.send(from_peer(form.body(Body::from(body)).unwrap(), "10.0.0.1")).await.status
        };
        assert_eq!(attempt("bar", "192.0.2.7").await, 403);
        assert_eq!(attempt("foo", "192.0.2.7").await, 429);
        assert_eq!(attempt("foo", "1.1.1.1, 192.0.2.7").await, 429, "a claim of the client");
        assert_eq!(attempt("foo", "192.0.2.8").await, 303);
    });
}

#[test]
fn a_session_ends_after_its_time() {
    paused(async {
        let limits = Limits::new().sessions(2, Duration::from_secs(3600));
        let site = Site::start(options().limits(limits)).await;
        let ann = sign_in(&site).await;
        assert_eq!(site.get_as(&ann, "/tree").await.status, 200);
        wait::past(Duration::from_secs(3601)).await;
        assert_eq!(site.get_as(&ann, "/tree").await.status, 303);
        let (one, two, three) = (sign_in(&site).await, sign_in(&site).await, sign_in(&site).await);
        let statuses =
            [site.get_as(&one, "/tree").await.status, site.get_as(&two, "/tree").await.status];
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1);
        assert_eq!(site.get_as(&three, "/tree").await.status, 200);
    });
}

#[tokio::test]
async fn a_trusted_proxy_names_the_user() {
    let options = WebOptions::new().proxy_user_header("x-user").unwrap();
    let options = options.trusted_proxies(["10.0.0.0/8".parse().unwrap()]);
    let site = Site::start(options).await;
    let get = |user: &str, peer: &str| {
        let request = ask("GET", "/help").header("x-user", user);
        from_peer(request.body(Body::empty()).unwrap(), peer)
    };
    let reply = site.send(get("ann", "10.1.2.3")).await;
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("ann"));
    assert_eq!(site.send(get("ann", "192.0.2.1")).await.status, 401);
    assert_eq!(site.send(get("<b>", "10.1.2.3")).await.status, 401);
    assert_eq!(site.get("/help").await.status, 401);
    assert_eq!(site.get("/login").await.status, 404, "there are no tokens");
}

#[tokio::test]
async fn the_login_form_is_not_for_other_sites() {
    let site = Site::start(options()).await;
    let anyone = site.browser("/login").await;
    let forged = Browser { csrf: "0".repeat(64), ..anyone };
    assert_eq!(site.form(&forged, "/login", &[("token", "foo")]).await.status, 403);
}
