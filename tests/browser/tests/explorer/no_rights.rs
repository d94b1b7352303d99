//! Nodes that the explorer may not read, list or change.

use zk_curator::{Acl, CuratorFramework, Permissions};
use zk_curator_browser::{BrowserError, Explorer, connect};
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{open, open_live, replace_text, status, took_statuses, typed};
use super::way::says;
use crate::in_browser;

/// Returns a client with rights that the explorer does not have.
async fn admin(explorer: &Explorer) -> Result<CuratorFramework, BrowserError> {
    let builder = explorer.server().framework().authorization("digest", "admin:secret");
    connect(builder).await
}

/// The list of a node that others may read, and do nothing else.
fn readable() -> Vec<Acl> {
    [Acl::creator_all(), vec![Acl::new(Permissions::READ, "world", "anyone")]].concat()
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_hidden_node_is_described_in_words() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let admin = admin(&explorer).await?;
        admin.create("/app").await?;
        admin.create("/app/hidden").acl(Acl::creator_all()).data("s3cret").await?;
        open_live(browser, &explorer, "/tree/app").await?;
        says(browser, "#children tbody", "hidden").await?;
        says(browser, "#children tbody .kind", "hidden").await?;
        browser.survey("no-rights-tree").await?;
        for path in ["/tree/app/hidden", "/node/app/hidden"] {
            open(browser, &explorer, path).await?;
            assert_eq!(browser.text_of("h1").await?, "ZooKeeper refuses permission");
            assert_eq!(status(browser).await?, 403);
        }
        browser.survey("no-rights").await?;
        for page in ["why", "recipes", "services", "search", "changes", "data"] {
            let query = if page == "search" { "?for=s3cret&in=text" } else { "" };
            open(browser, &explorer, &format!("/{page}/app/hidden{query}")).await?;
            let status = status(browser).await?;
            assert!(matches!(status, 200 | 403), "{page}: {status}");
            let text = browser.text_of("main").await?;
            assert!(!text.contains("s3cret"), "{page}: {text}");
        }
        took_statuses(browser, &[403]).await?;
        Ok((explorer, admin))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn refused_changes_keep_what_was_typed() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let admin = admin(&explorer).await?;
        admin.create("/app").acl(readable()).data("theirs").await?;
        open_live(browser, &explorer, "/node/app").await?;
        says(browser, "#facts .acl", "admin").await?;
        browser.click("details:has(#edit-data) > summary").await?;
        replace_text(browser, "#edit-data", "mine").await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "h1", "Not saved: ZooKeeper refuses permission").await?;
        assert_eq!(typed(browser, "#edit-data").await?, "mine");
        browser.survey("no-rights-save").await?;
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details:has(#create-name) > summary").await?;
        replace_text(browser, "#create-name", "child").await?;
        replace_text(browser, "#create-data", "its data").await?;
        browser.click("#create-data ~ p button").await?;
        says(browser, "h1", "Not created: ZooKeeper refuses permission").await?;
        assert_eq!(typed(browser, "#create-name").await?, "child");
        assert_eq!(typed(browser, "#create-data").await?, "its data");
        browser.survey("no-rights-create").await?;
        let probe = explorer.server().probe();
        assert_eq!(probe.data("/app").unwrap(), "theirs");
        assert!(probe.children("/app").is_empty(), "{probe}");
        took_statuses(browser, &[403]).await?;
        Ok((explorer, admin))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_refused_deletion_is_described_in_words() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let admin = admin(&explorer).await?;
        admin.create("/app").acl(readable()).await?;
        // The list of the parent decides.
        admin.create("/app/child").data("x").await?;
        open_live(browser, &explorer, "/node/app/child").await?;
        browser.click("details.danger > summary").await?;
        browser.click("#confirm").await?;
        browser.click("details.danger button").await?;
        says(browser, "h1", "ZooKeeper refuses permission").await?;
        assert!(explorer.server().probe().exists("/app/child"));
        took_statuses(browser, &[403]).await?;
        Ok((explorer, admin))
    });
}
