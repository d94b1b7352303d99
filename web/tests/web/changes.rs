//! Changes by forms.

use zk_curator_web::WebOptions;

use crate::support::{Browser, Site};

async fn site() -> Site {
    let site = Site::start(WebOptions::new().write(true)).await;
    site.zk.create("/a").data("1").await.unwrap();
    site
}

/// Returns the text of the form for data, as a browser reads it.
fn textarea(page: &str) -> String {
    let (_, rest) = page.split_once("<textarea id=\"edit-data\"").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    let text = rest.split("</textarea>").next().unwrap();
    let text = text.strip_prefix('\n').unwrap_or(text);
    text.replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\"").replace("&#38;", "&")
}

fn hidden<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap()
}

#[tokio::test]
async fn a_conflict_shows_both_values() {
    let site = site().await;
    let ann = site.browser("/node/a").await;
    site.zk.set_data("/a", "theirs").await.unwrap();
    let fields = [
        ("action", "set"),
        ("version", "0"),
        ("data", "\n<mine>\r\n"),
        ("encoding", "text"),
        ("newlines", "lf"),
    ];
    let reply = site.form(&ann, "/node/a", &fields).await;
    assert_eq!(reply.status, 412);
    assert!(reply.body.contains("theirs") && reply.body.contains("Nothing is lost"));
    assert_eq!(textarea(&reply.body), "\n<mine>\r\n");
    assert_eq!(hidden(&reply.body, "version"), "1");
    assert_eq!(site.server.probe().data("/a").unwrap(), "theirs");
    // The user decides to replace the other value.
    let text = textarea(&reply.body);
    let fields = [
        ("action", "set"),
        ("version", "1"),
        ("data", &*text),
        ("encoding", "text"),
        ("newlines", "lf"),
    ];
    assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 303);
    assert_eq!(site.server.probe().data("/a").unwrap(), "\n<mine>\n");
}

#[tokio::test]
async fn a_restart_of_the_explorer_does_not_lose_the_text() {
    let ann = site().await.browser("/node/a").await;
    // Another explorer has other keys.
    let site = site().await;
    let fields = [
        ("action", "set"),
        ("version", "0"),
        ("data", "mine"),
        ("encoding", "text"),
        ("newlines", "lf"),
    ];
    let reply = site.form(&ann, "/node/a", &fields).await;
    assert_eq!(reply.status, 403, "{}", reply.body);
    assert_eq!(textarea(&reply.body), "mine");
    let ann = Browser { csrf: reply.csrf(), ..ann };
    assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 303);
    assert_eq!(site.server.probe().data("/a").unwrap(), "mine");
    let create = [("action", "create"), ("name", "b"), ("data", "mine"), ("encoding", "text")];
    let forged = Browser { csrf: "0".repeat(64), ..ann };
    let reply = site.form(&forged, "/node/a", &create).await;
    assert_eq!(reply.status, 403);
    assert!(reply.body.contains("mine</textarea>"), "{}", reply.body);
    let delete = [("action", "delete"), ("version", "1"), ("confirm", "yes")];
    assert_eq!(site.form(&forged, "/node/a", &delete).await.status, 403);
    assert!(site.server.probe().data("/a").is_some() && site.server.probe().data("/a/b").is_none());
}

#[tokio::test]
async fn a_deleted_node_does_not_lose_the_text() {
    let site = site().await;
    let ann = site.browser("/node/a").await;
    site.zk.delete("/a").await.unwrap();
    let fields = [("action", "set"), ("version", "0"), ("data", "mine")];
    let reply = site.form(&ann, "/node/a", &fields).await;
    assert_eq!(reply.status, 404);
    assert_eq!(textarea(&reply.body), "mine");
    assert!(!reply.body.contains("Replace version"));
}

#[tokio::test]
async fn a_form_that_is_sent_back_changes_nothing() {
    let site = site().await;
    let values: [&[u8]; 5] = [b"a\nb\n", b"\n\nlines", b"\x00\xff", b"", "ü <&> \"'".as_bytes()];
    for data in values {
        site.zk.set_data("/a", data.to_vec()).await.unwrap();
        let ann = site.browser("/node/a").await;
        let page = site.get("/node/a").await.body;
        let text = textarea(&page).replace("&#39;", "'").replace('\n', "\r\n");
        let (version, encoding) = (hidden(&page, "version"), hidden(&page, "encoding"));
        let newlines = hidden(&page, "newlines");
        let fields = [
            ("action", "set"),
            ("version", version),
            ("encoding", encoding),
            ("newlines", newlines),
            ("data", &*text),
        ];
        assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 303, "{data:?}");
        assert_eq!(site.server.probe().data("/a").unwrap(), data, "{data:?}");
    }
}

#[tokio::test]
async fn children_are_created_and_deleted() {
    let site = site().await;
    let ann = site.browser("/node/a").await;
    let create = async |name: &str, mode: &str| {
        let fields = [("action", "create"), ("name", name), ("mode", mode), ("data", "x")];
        site.form(&ann, "/node/a", &fields).await
    };
    let reply = create("b c", "persistent").await;
    assert_eq!((reply.status, reply.destination()), (303, "/node/a/b%20c"));
    let reply = create("n-", "persistent_sequential").await;
    assert_eq!(reply.destination(), "/node/a/n-0000000001");
    let reply = create("b c", "persistent").await;
    assert_eq!(reply.status, 412);
    assert!(reply.body.contains("value=\"b c\"") && reply.body.contains("Not created"));
    for (name, mode) in
        [("", "persistent"), ("x/y", "persistent"), ("..", "persistent"), ("x", "ephemeral")]
    {
        assert_eq!(create(name, mode).await.status, 400, "{name} {mode}");
    }
    let delete = async |address: &str, confirm: &str, version: &str| {
        let fields = [("action", "delete"), ("confirm", confirm), ("version", version)];
        site.form(&ann, address, &fields).await
    };
    assert_eq!(delete("/node/a/b%20c", "", "0").await.status, 400);
    assert_eq!(delete("/node/a/b%20c", "yes", "7").await.status, 412);
    assert_eq!(delete("/node/a", "yes", "0").await.status, 409);
    assert_eq!(delete("/node/a/b%20c", "yes", "").await.status, 400);
    let reply = delete("/node/a/b%20c", "yes", "0").await;
    assert_eq!((reply.status, reply.destination()), (303, "/tree/a"));
    assert_eq!(site.server.probe().children("/a"), ["n-0000000001"]);
}

#[tokio::test]
async fn a_form_says_what_to_do() {
    let site = site().await;
    let ann = site.browser("/node/a").await;
    assert_eq!(site.form(&ann, "/node/a", &[("action", "x")]).await.status, 400);
    assert_eq!(site.form(&ann, "/node/a", &[]).await.status, 400);
    let fields = [("action", "set"), ("data", "x")];
    assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 400, "no version");
}

/// Returns the sentence about a change on a page; empty without one.
async fn done(site: &Site, browser: &Browser, address: &str) -> String {
    let page = site.get_as(browser, address).await;
    assert_eq!(page.status, 200, "{address}: {}", page.body);
    let (_, rest) = page.body.split_once("id=\"done\" role=\"status\">").unwrap_or_default();
    let sentence = rest.split("</p>").next().unwrap();
    sentence.split_once("</span> ").unwrap_or_default().1.to_owned()
}

async fn saved(site: &Site, browser: &Browser, version: &str, data: &str) -> String {
    let fields = [("action", "set"), ("version", version), ("data", data)];
    let reply = site.form(browser, "/node/a", &fields).await;
    assert_eq!((reply.status, reply.destination()), (303, "/node/a"), "{}", reply.body);
    reply.header("location").to_owned()
}

#[tokio::test]
async fn the_next_page_tells_of_a_change() {
    let site = site().await;
    let ann = site.browser("/node/a").await;
    let create = [("action", "create"), ("name", "b <i>"), ("data", "x")];
    let created = site.form(&ann, "/node/a", &create).await;
    assert_eq!(done(&site, &ann, created.header("location")).await, "Created.");
    site.zk.set_data("/a/b <i>", "y").await.unwrap();
    let sentence = done(&site, &ann, created.header("location")).await;
    assert_eq!(sentence, "Created. The node has changed since.");
    let first = saved(&site, &ann, "0", "2").await;
    assert_eq!(done(&site, &ann, &first).await, "Saved: version 1.");
    // A node that another client changes in between, or deletes and creates again.
    site.zk.set_data("/a", "3").await.unwrap();
    let again = "Saved. The node has changed again since.";
    assert_eq!(done(&site, &ann, &first).await, again);
    let second = saved(&site, &ann, "2", "4").await;
    assert_eq!(done(&site, &ann, &second).await, "Saved: version 3.");
    assert_eq!(done(&site, &ann, &first).await, again);
    let fields = [("action", "delete"), ("confirm", "yes"), ("version", "1")];
    let deleted = site.form(&ann, "/node/a/b%20%3Ci%3E", &fields).await;
    assert_eq!((deleted.status, deleted.destination()), (303, "/tree/a"));
    let sentence = done(&site, &ann, deleted.header("location")).await;
    assert_eq!(sentence, "Deleted: /a/b &#60;i&#62;.");
    assert_eq!(done(&site, &ann, "/node/a").await, "");
}

#[tokio::test]
async fn no_link_claims_a_change() {
    let site = site().await;
    let (ann, bob) = (site.browser("/node/a").await, site.browser("/node/a").await);
    let address = saved(&site, &ann, "0", "2").await;
    assert_eq!(done(&site, &ann, &address).await, "Saved: version 1.");
    assert_eq!(done(&site, &bob, &address).await, "", "another browser");
    let (_, query) = address.split_once('?').unwrap();
    let (_, code) = query.split_once("&code=").unwrap();
    for forged in [
        "/node/a?done=created".to_owned(),
        "/node/a?done=restored&of=7".to_owned(),
        format!("/node/a?done=restored&of=7&code={code}"),
        format!("/tree/a?done=deleted&of=b&code={code}"),
        format!("/node/a?{}", query.replace("done=saved", "done=created")),
        format!("/tree/a?{query}"),
        format!("/node?{query}"),
        format!("/node/a?{}", &query[..query.len() - 1]),
    ] {
        assert_eq!(done(&site, &ann, &forged).await, "", "{forged}");
    }
}
