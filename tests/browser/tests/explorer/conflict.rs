//! Two clients that change the same node.

use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{client, open_live, replace_text, took_statuses, typed};
use super::way::says;
use crate::in_browser;

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_second_of_two_saves_is_refused_and_loses_nothing() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let other = client(&explorer).await?;
        other.create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details:has(#edit-data) > summary").await?;
        replace_text(browser, "#edit-data", "my value").await?;
        other.set_data("/app", "their value").await?;
        // The page shows the new value, and the form still stands for the old version.
        says(browser, "#data", "their value").await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "h1", "Not saved: the node has changed").await?;
        says(browser, "[aria-labelledby=theirs-heading]", "their value").await?;
        assert_eq!(typed(browser, "#edit-data").await?, "my value");
        assert_eq!(explorer.server().probe().data("/app").unwrap(), "their value");
        took_statuses(browser, &[412]).await?;
        browser.survey("conflict").await?;
        // The two values are side by side on a wide page.
        let both = "
            const top = name => document
                .querySelector(`[aria-labelledby=${name}-heading]`).getBoundingClientRect().top;
            return top('yours') === top('theirs');";
        assert_eq!(browser.execute(both, &[]).await?, true);
        // A third version: the present one is not replaced by accident either.
        other.set_data("/app", "their third value").await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "[aria-labelledby=theirs-heading]", "their third value").await?;
        assert_eq!(typed(browser, "#edit-data").await?, "my value");
        took_statuses(browser, &[412]).await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "#data", "my value").await?;
        assert_eq!(explorer.server().probe().data("/app").unwrap(), "my value");
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_save_of_a_deleted_node_loses_nothing() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let other = client(&explorer).await?;
        other.create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details:has(#edit-data) > summary").await?;
        replace_text(browser, "#edit-data", "my value").await?;
        other.delete("/app").await?;
        browser.wait_for("#live-text", "e => e.textContent === 'deleted'").await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "h1", "Not saved: No such node").await?;
        assert_eq!(typed(browser, "#edit-data").await?, "my value");
        says(browser, "main", "The node cannot be read now.").await?;
        browser.survey("conflict-deleted").await?;
        assert!(!explorer.server().probe().exists("/app"));
        took_statuses(browser, &[404]).await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_node_that_has_changed_is_not_deleted() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let other = client(&explorer).await?;
        other.create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details.danger > summary").await?;
        browser.click("#confirm").await?;
        other.set_data("/app", "two").await?;
        says(browser, "#data", "two").await?;
        browser.click("details.danger button").await?;
        says(browser, "h1", "The node has changed").await?;
        browser.survey("conflict-delete").await?;
        assert_eq!(explorer.server().probe().data("/app").unwrap(), "two");
        took_statuses(browser, &[412]).await?;
        // A person who has seen the new value can delete it.
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details.danger > summary").await?;
        browser.click("#confirm").await?;
        browser.click("details.danger button").await?;
        browser.wait_for("body", "e => e.dataset.path === '/'").await?;
        assert!(!explorer.server().probe().exists("/app"));
        // The old page may have asked for the node once more.
        took_statuses(browser, &[404]).await?;
        Ok((explorer, other))
    });
}
