//! Pages while ZooKeeper is away, and after its return.

use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{client, is_away, is_live, open, open_live, replace_text, took_statuses, typed};
use super::way::says;
use crate::in_browser;

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_page_says_since_when_it_is_stale() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app/first").creating_parents().data("1").await?;
        open_live(browser, &explorer, "/tree/app").await?;
        explorer.server().stop().await;
        is_away(browser, "stale since").await?;
        says(browser, "#children tbody th", "first").await?;
        browser.survey("outage").await?;
        explorer.server().restart().await.unwrap();
        is_live(browser).await?;
        browser.wait_for("#live-age", "e => e.textContent === ''").await?;
        other.set_data("/app/first", "2").await?;
        browser.wait_for("#children tbody .version", "e => e.textContent === '1'").await?;
        took_statuses(browser, &[503]).await?;
        Ok((explorer, other))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_page_of_an_outage_says_what_is_wrong() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        explorer.zk().create("/app").data("one").await?;
        explorer.server().stop().await;
        for path in ["/tree/app", "/node/app", "/why/app"] {
            open(browser, &explorer, path).await?;
            assert_eq!(browser.text_of("h1").await?, "No connection to ZooKeeper");
            assert_eq!(browser.text_of("main .hint").await?, "Status 503.");
            says(browser, "#live", "ZooKeeper is away").await?;
        }
        browser.survey("outage-opened").await?;
        took_statuses(browser, &[503]).await?;
        explorer.server().restart().await.unwrap();
        // Waits for the connection.
        explorer.zk().exists("/app").await?;
        open_live(browser, &explorer, "/node/app").await?;
        says(browser, "#data", "one").await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_form_that_is_sent_in_an_outage_keeps_its_text() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        browser.click("details:has(#edit-data) > summary").await?;
        replace_text(browser, "#edit-data", "mine").await?;
        explorer.server().stop().await;
        is_away(browser, "stale since").await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "h1", "Not saved").await?;
        assert_eq!(typed(browser, "#edit-data").await?, "mine");
        says(browser, "main", "Nothing is lost: your text is below.").await?;
        says(browser, "main", "The node cannot be read now.").await?;
        browser.survey("outage-not-saved").await?;
        assert_eq!(explorer.server().probe().data("/app").unwrap(), "one");
        took_statuses(browser, &[503]).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_page_follows_its_node_after_a_lost_session() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let other = client(&explorer).await?;
        other.create("/app").await?;
        open_live(browser, &explorer, "/tree/app").await?;
        assert!(explorer.server().expire(explorer.zk()).await);
        other.create("/app/first").await?;
        says(browser, "#children tbody th", "first").await?;
        is_live(browser).await?;
        other.delete("/app/first").await?;
        says(browser, "#children", "The node has no children.").await?;
        took_statuses(browser, &[503]).await?;
        Ok((explorer, other))
    });
}
