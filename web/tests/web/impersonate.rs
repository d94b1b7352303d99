//! Sessions of users with their own identities.

use std::time::Duration;

use axum::body::Body;
use zk_curator::Acl;
use zk_curator_testing::{TestServer, paused, wait};
use zk_curator_web::{Impersonation, NewToken, Users, WebOptions, router};

use crate::support::{Browser, Site, ask};

struct Explorer {
    site: Site,
    ann: NewToken,
    bob: NewToken,
}

async fn explorer(most: usize) -> Explorer {
    let server = TestServer::in_memory().await;
    let zk = server.framework().build().unwrap();
    zk.start().await.unwrap();
    let (ann, bob) = (NewToken::of("ann").unwrap(), NewToken::of("bob").unwrap());
    let users: Users = format!("{}\n{}", ann.line, bob.line).parse().unwrap();
    let connect = {
        let server = server.clone();
        move || Ok(server.framework())
    };
    let impersonation = Impersonation::new(connect).most(most);
    let options = WebOptions::new().write(true).users(users).impersonate(impersonation);
    let options = options.without_probe();
    let router = router(&zk, options);
    let owner = server.framework().authorization("digest", "ann:secret").build().unwrap();
    owner.start().await.unwrap();
    owner.create("/private").data("of ann").acl(Acl::creator_all()).await.unwrap();
    owner.create("/common").data("1").await.unwrap();
    owner.close().await.unwrap();
    Explorer { site: Site { server, zk, router }, ann, bob }
}

async fn sign_in(site: &Site, token: &NewToken, digest: &str) -> Browser {
    let anyone = site.browser("/login").await;
    let fields = [("token", &*token.token), ("digest", digest), ("next", "/tree")];
    let reply = site.form(&anyone, "/login", &fields).await;
    assert_eq!(reply.status, 303, "{}", reply.body);
    let cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let browser = Browser { cookie, csrf: String::new() };
    let csrf = site.get_as(&browser, "/tree").await.csrf();
    Browser { csrf, ..browser }
}

#[tokio::test]
async fn each_user_has_the_own_rights() {
    let Explorer { site, ann, bob } = explorer(9).await;
    let own = sign_in(&site, &ann, "ann:secret").await;
    let other = sign_in(&site, &bob, "bob:secret").await;
    let page = site.get_as(&own, "/node/private").await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert!(page.body.contains("of ann") && page.body.contains("digest:ann"), "{}", page.body);
    // Reads are not shared with other users.
    let page = site.get_as(&other, "/node/private").await;
    assert!(!page.body.contains("of ann") && page.body.contains("digest:bob"), "{}", page.body);
    let missing = site.get_as(&other, "/node/none").await;
    assert_eq!(missing.status, 404);
    assert!(missing.body.contains("digest:bob"), "the page of a problem names it too");
    let fields = [("action", "set"), ("version", "0"), ("data", "2")];
    assert_eq!(site.form(&other, "/node/private", &fields).await.status, 403);
    assert_eq!(site.form(&other, "/node/common", &fields).await.status, 303);
    assert_eq!(site.form(&own, "/node/private", &fields).await.status, 303);
}

#[tokio::test]
async fn a_token_alone_has_no_identity() {
    let Explorer { site, ann, .. } = explorer(9).await;
    let request = ask("GET", "/api/v1/node/common");
    let request = request.header("authorization", format!("Bearer {}", ann.token));
    let reply = site.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!(reply.problem()["status"], 403);
    let anyone = site.browser("/login").await;
    for digest in ["", "ann", ":x", "ann:"] {
        let fields = [("token", &*ann.token), ("digest", digest)];
        let reply = site.form(&anyone, "/login", &fields).await;
        assert_eq!(reply.status, 400, "{digest}");
        assert_eq!(reply.header("set-cookie"), "", "{digest}");
    }
    let page = site.get("/login").await.body;
    assert!(page.contains("name=\"digest\"") && page.contains("shown to users"), "{page}");
}

#[tokio::test]
async fn signing_out_closes_the_session_with_zookeeper() {
    let Explorer { site, ann, .. } = explorer(9).await;
    let before = site.server.probe().sessions().len();
    let (one, two) =
        (sign_in(&site, &ann, "ann:secret").await, sign_in(&site, &ann, "ann:secret").await);
    let sessions = |wanted: usize| site.server.until(move |probe| probe.sessions().len() == wanted);
    sessions(before + 1).await;
    assert_eq!(site.form(&one, "/logout", &[]).await.status, 303);
    assert_eq!(site.get_as(&two, "/node/private").await.status, 200, "it is still used");
    assert_eq!(site.form(&two, "/logout", &[]).await.status, 303);
    sessions(before).await;
    assert_eq!(site.get_as(&two, "/tree").await.status, 303);
}

#[tokio::test]
async fn the_number_of_sessions_is_bounded() {
    let Explorer { site, ann, bob } = explorer(2).await;
    let first = sign_in(&site, &ann, "ann:secret").await;
    let second = sign_in(&site, &bob, "bob:secret").await;
    assert_eq!(site.get_as(&first, "/tree").await.status, 200, "now the other one is older");
    let third = sign_in(&site, &ann, "ann:other").await;
    assert_eq!(site.get_as(&first, "/tree").await.status, 200);
    assert_eq!(site.get_as(&third, "/tree").await.status, 200);
    let reply = site.get_as(&second, "/tree").await;
    assert_eq!((reply.status, reply.header("location")), (303, "/login?next=%2Ftree"));
}

#[test]
fn an_idle_session_is_closed() {
    paused(async {
        let Explorer { site, ann, .. } = explorer(9).await;
        let own = sign_in(&site, &ann, "ann:secret").await;
        wait::past(Duration::from_secs(14 * 60)).await;
        assert_eq!(site.get_as(&own, "/tree").await.status, 200);
        wait::past(Duration::from_secs(16 * 60)).await;
        assert_eq!(site.get_as(&own, "/tree").await.status, 303);
    });
}
