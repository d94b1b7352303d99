//! Changes by the forms of the pages, as a person makes them.

use std::time::Duration;

use serde_json::json;
use zk_curator_browser::key::ENTER;
use zk_curator_browser::{Browser, BrowserError};
use zk_curator_testing::wait::spend;
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{open_live, replace_text, took_statuses};
use super::way::{arrived, focused, open_ready, says};
use crate::in_browser;

/// The form in the section with this heading.
fn form(heading: &str) -> String {
    format!("section[aria-labelledby='{heading}']")
}

/// Unfolds the form in the section with this heading.
async fn unfold(browser: &Browser, heading: &str) -> Result<(), BrowserError> {
    browser.click(&format!("{} summary", form(heading))).await
}

/// Sends the form in the section with this heading.
async fn send(browser: &Browser, heading: &str) -> Result<(), BrowserError> {
    browser.click(&format!("{} button[type='submit']", form(heading))).await
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_node_is_created_edited_and_deleted() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let probe = || explorer.server().probe();
        explorer.zk().create("/config").data("kept").await?;
        open_live(browser, &explorer, "/node/config").await?;

        unfold(browser, "create-heading").await?;
        browser.click("#create-name").await?;
        browser.keys("limits ü.txt").await?;
        browser.click("#create-data").await?;
        browser.keys("orders: 10").await?;
        browser.keys(ENTER).await?;
        browser.keys("bills: <20> & \"more\"").await?;
        browser.axe().await?;
        send(browser, "create-heading").await?;
        arrived(browser, "/node/config/limits%20%C3%BC.txt").await?;
        let path = "/config/limits ü.txt";
        let created = "orders: 10\nbills: <20> & \"more\"";
        assert_eq!(probe().data(path).expect("the node was created"), created);
        says(browser, "#data .value", created).await?;
        says(browser, "#facts .summary", "and never changed: version 0.").await?;
        says(browser, "#done", "Created.").await?;

        unfold(browser, "edit-heading").await?;
        browser.wait_for("#edit-data", "e => e.value.startsWith('orders: 10')").await?;
        replace_text(browser, "#edit-data", "orders: 11").await?;
        browser.axe().await?;
        send(browser, "edit-heading").await?;
        // The page has the same address. It shows the new value and its version.
        says(browser, "#facts .summary", "version 1. Created").await?;
        says(browser, "#data .value", "orders: 11").await?;
        assert_eq!(probe().data(path).expect("the node is there"), "orders: 11");
        // An update of the page keeps the sentence, and a reload does not repeat it.
        says(browser, "#done", "Saved: version 1.").await?;
        browser.survey("saved").await?;
        explorer.zk().set_data(path, "orders: 12").await?;
        says(browser, "#data .value", "orders: 12").await?;
        says(browser, "#done", "Saved: version 1.").await?;
        browser.wait_for("html.js", "() => location.search === ''").await?;
        open_live(browser, &explorer, "/node/config/limits%20%C3%BC.txt").await?;
        assert!(browser.texts_of("#done").await?.is_empty());

        unfold(browser, "delete-heading").await?;
        browser.click("#confirm").await?;
        browser.axe().await?;
        send(browser, "delete-heading").await?;
        arrived(browser, "/tree/config").await?;
        says(browser, "#children .summary", "No children.").await?;
        says(browser, "#done", "Deleted: /config/limits ü.txt.").await?;
        assert!(!probe().exists(path));
        // The old page may have asked for the node once more.
        took_statuses(browser, &[404]).await?;
        assert_eq!(probe().data("/config").expect("the parent is there"), "kept");
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_deletion_needs_its_confirmation() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/config").data("kept").await?;
        open_live(browser, &explorer, "/node/config").await?;
        unfold(browser, "delete-heading").await?;
        send(browser, "delete-heading").await?;
        // The browser does not send the form, and leads to the box.
        browser.wait_for("#confirm", "box => box.matches(':invalid') && !box.checked").await?;
        focused(browser, "#confirm").await?;
        assert!(explorer.server().probe().exists("/config"));
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_name_that_exists_keeps_what_was_typed() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/config/app").creating_parents().data("old").await?;
        open_live(browser, &explorer, "/node/config").await?;
        unfold(browser, "create-heading").await?;
        browser.click("#create-name").await?;
        browser.keys("app").await?;
        browser.click("#create-data").await?;
        browser.keys("new").await?;
        send(browser, "create-heading").await?;
        says(browser, "h1", "Not created").await?;
        browser.wait_for("#create-data", "e => e.value === 'new'").await?;
        browser.survey("not-created").await?;
        replace_text(browser, "#create-name", "app-2").await?;
        browser.click("main form button[type='submit']").await?;
        arrived(browser, "/node/config/app-2").await?;
        let probe = explorer.server().probe();
        assert_eq!(probe.data("/config/app-2").expect("the node was created"), "new");
        assert_eq!(probe.data("/config/app").expect("the node is there"), "old");
        took_statuses(browser, &[412]).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_read_only_explorer_has_no_such_forms() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        explorer.zk().create("/config").data("kept").await?;
        let count = "return document.querySelectorAll(arguments[0]).length";
        open_ready(browser, &explorer, "/node/config").await?;
        says(browser, "#data .value", "kept").await?;
        assert_eq!(browser.execute(count, &[json!("form[method='post']")]).await?, json!(0));
        assert_eq!(browser.execute(count, &[json!("textarea")]).await?, json!(0));
        says(browser, ".foot", "read-only").await?;
        // Files are compared, and not restored.
        open_ready(browser, &explorer, "/data/config").await?;
        assert_eq!(browser.execute(count, &[json!("#compare-file")]).await?, json!(1));
        assert_eq!(browser.execute(count, &[json!("#restore-file")]).await?, json!(0));
        Ok(explorer)
    });
}

/// Clicks twice on the button of a new child.
const TWICE: &str = "
const button = document.querySelector(\"section[aria-labelledby='create-heading'] button\");
for (const after of [0, 200]) setTimeout(() => button.click(), after);";

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_double_click_creates_one_node() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/queue").await?;
        open_live(browser, &explorer, "/node/queue").await?;
        unfold(browser, "create-heading").await?;
        let sequential = "document.querySelector('#create-mode').value = 'persistent_sequential'";
        browser.execute(sequential, &[]).await?;
        explorer.server().hold();
        browser.execute(TWICE, &[]).await?;
        spend(Duration::from_millis(500)).await;
        explorer.server().release();
        arrived(browser, "/node/queue/0000000000").await?;
        assert_eq!(explorer.server().probe().children("/queue").len(), 1);
        Ok(explorer)
    });
}
