//! Names and data that attack the browser, or its user.

use zk_curator_web::WebOptions;

use crate::support::Site;

pub(crate) const NAMES: [&str; 9] = [
    "<img src=x onerror=alert(1)>",
    "\"><script>alert(1)",
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "%2f..%2f..",
    "\u{202e}gpj.exe",
    "a\u{200b}b",
    "{{ 7 * 7 }}",
    "\\..\\..",
];

#[tokio::test]
async fn names_are_text() {
    let site = Site::start(WebOptions::new().write(true)).await;
    for name in NAMES {
        site.zk.create(format!("/{name}")).data(name).await.unwrap();
    }
    let tree = site.get("/tree").await.body;
    assert_harmless(&tree);
    assert!(tree.contains("⟨U+202E⟩gpj.exe") && tree.contains("a⟨U+200B⟩b"));
    let rows: Vec<_> = tree.split("<th scope=\"row\"><a href=\"").skip(1).collect();
    // The nodes, and the one of the servers.
    assert_eq!(rows.len(), NAMES.len() + 1);
    for row in rows {
        let address = row.split('"').next().unwrap();
        assert!(address.starts_with("/tree/") && address.is_ascii(), "{address}");
        let reply = site.get(address).await;
        assert_eq!(reply.status, 200, "{address}");
        assert_harmless(&reply.body);
        let reply = site.get(&address.replacen("/tree/", "/node/", 1)).await;
        assert_eq!(reply.status, 200, "{address}");
        assert_harmless(&reply.body);
    }
}

/// Looks for markup that no template has.
pub(crate) fn assert_harmless(page: &str) {
    for part in [
        "<img",
        "<script>",
        "alert(1)</script>",
        "onerror=alert(1)>",
        "' onmouseover='",
        "href=\"javascript",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    // Fields contain the real characters, so that they can be edited.
    for name in page.split("<bdi>").skip(1).map(|rest| rest.split("</bdi>").next().unwrap()) {
        assert!(!name.contains(['\u{202e}', '\u{200b}']), "{name}");
    }
}

#[tokio::test]
async fn data_are_text() {
    let site = Site::start(WebOptions::new().write(true)).await;
    site.zk.create("/a").await.unwrap();
    for data in [
        "</pre></textarea><script>alert(1)</script>",
        "{\"</summary><img src=x onerror=alert(1)>\": [\"<b>\", {\"x\": 1}]}",
        "<!--",
        "key: <img src=x>\nother: \u{202e}gpj",
    ] {
        site.zk.set_data("/a", data).await.unwrap();
        let page = site.get("/node/a").await.body;
        for part in ["<img", "<script>", "<b>", "<!--", "</pre></textarea>"] {
            assert!(!page.contains(part), "{data} {part}");
        }
        assert_eq!(page.matches("<details").count(), page.matches("</details>").count(), "{data}");
        assert_eq!(
            page.matches("<textarea").count(),
            page.matches("</textarea>").count(),
            "{data}"
        );
    }
}

#[tokio::test]
async fn addresses_are_not_trusted() {
    let site = Site::start(WebOptions::new()).await;
    for address in [
        "/tree/%2e%2e/a",
        "/tree/../a",
        "/tree/a%00",
        "/tree/%ff",
        "/tree/a%2fb",
        "/tree//a",
        "/node/a//",
        "/raw/%",
        "/tree/a?filter=%ff",
    ] {
        let reply = site.get(address).await;
        assert!(matches!(reply.status, 400 | 404), "{address} {}", reply.status);
    }
    let page = site
        .get("/tree?filter=%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E&sort=%3Cb%3E&from=-1")
        .await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("<script>") && !page.body.contains("<b>"));
    let page = site.get("/login?next=javascript:alert(1)").await;
    assert!(!page.body.contains("javascript:"));
}

#[tokio::test]
async fn large_data_are_cut() {
    let site = Site::start(WebOptions::new().write(true)).await;
    site.zk.create("/a").data("<".repeat(1 << 19)).await.unwrap();
    let page = site.get("/node/a").await.body;
    assert!(page.contains("Only the first 64.0 KiB of 512.0 KiB are shown."));
    assert!(page.contains("href=\"/raw/a\"") && page.contains("too large for a form"));
    assert!(page.len() < 600_000, "{}", page.len());
    assert_eq!(site.get("/raw/a").await.body.len(), 1 << 19);
}
