//! A parent of 100,000 children.

use serde_json::json;
use zk_curator::op::{OpFuture, fan_out};
use zk_curator::{CuratorFramework, OpResult};
use zk_curator_browser::key::ENTER;
use zk_curator_browser::{BrowserError, Explorer};
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{client, open, open_live};
use super::way::{says, still};
use crate::in_browser;

const TRANSACTIONS: usize = 100;
/// The children that a transaction creates.
const AT_ONCE: usize = 1_000;

/// Creates a part of the children.
fn create(zk: &CuratorFramework, part: usize) -> OpFuture<Vec<OpResult>> {
    let numbers = part * AT_ONCE..(part + 1) * AT_ONCE;
    let creates = numbers.fold(zk.transaction(), |creates, number| {
        creates.create(format!("/large/child-{number:06}"), "x")
    });
    creates.commit()
}

/// Starts an explorer of a server with the children.
async fn large(options: WebOptions) -> Result<Explorer, BrowserError> {
    let explorer = explorer(options).await?;
    let other = client(&explorer).await?;
    other.create("/large").await?;
    let parts = (0..TRANSACTIONS).map(|part| create(&other, part));
    for created in fan_out(4, parts).await {
        created?;
    }
    Ok(explorer)
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn all_children_are_reached_from_the_first_page() {
    in_browser(async |browser| {
        // An update would replace a link that is about to be clicked.
        let explorer = large(still()).await?;
        open(browser, &explorer, "/tree/large").await?;
        says(browser, ".range", "1–200 of 100,000").await?;
        says(browser, "#children .summary", "100,000 children.").await?;
        let rows = "return document.querySelectorAll('#children tbody tr').length";
        assert_eq!(browser.execute(rows, &[]).await?, json!(200));
        let size = "return performance.getEntriesByType('navigation')[0].decodedBodySize";
        let size = browser.execute(size, &[]).await?.as_u64().unwrap();
        assert!((10_000..300_000).contains(&size), "{size}");
        browser.survey("large").await?;
        browser.click("a[rel=next]").await?;
        says(browser, ".range", "201–400 of 100,000").await?;
        browser.click(".pager li:last-child a").await?;
        says(browser, ".range", "99,801–100,000 of 100,000").await?;
        says(browser, "#children tbody tr:last-child th", "child-099999").await?;
        assert!(browser.texts_of("a[rel=next]").await?.is_empty());
        browser.click("a[rel=prev]").await?;
        says(browser, ".range", "99,601–99,800 of 100,000").await?;
        browser.click(".pager li:first-child a").await?;
        says(browser, ".range", "1–200 of 100,000").await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn one_child_of_many_is_found_and_followed() {
    in_browser(async |browser| {
        let explorer = large(WebOptions::new()).await?;
        open_live(browser, &explorer, "/tree/large").await?;
        explorer.zk().set_data("/large/child-000000", "xx").await?;
        browser.wait_for("#children tbody .version", "e => e.textContent === '1'").await?;
        browser.keys("/").await?;
        browser.keys("child-012345").await?;
        browser.keys(ENTER).await?;
        says(browser, "#children", "100,000 children, 1 of which match the filter.").await?;
        assert_eq!(browser.texts_of("#children tbody th bdi").await?, ["child-012345"]);
        // An order by stats would need 100,000 requests.
        open(browser, &explorer, "/tree/large?sort=size").await?;
        says(browser, "#children", "Sorted by name.").await?;
        says(browser, "#children tbody th", "child-000000").await?;
        explorer.zk().set_data("/large/child-012347", "the longest").await?;
        open(browser, &explorer, "/tree/large?filter=child-01234*&sort=size").await?;
        says(browser, "#children tbody th", "child-012347").await?;
        says(browser, ".summary", "10 of which match the filter.").await?;
        Ok(explorer)
    });
}
