//! The explorer in a browser that runs no script.

use zk_curator::op::fan_out;
use zk_curator_browser::key::ENTER;
use zk_curator_browser::{Browser, BrowserError, Explorer};
use zk_curator_testing::wait;
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::replace_text;
use super::way::{says, until_texts};
use super::world::{HELD_SINCE, HOLDER, LOCK, SHOP, explore};
use crate::in_browser;

/// The children of a page, and one more.
const CHILDREN: usize = 201;

/// Opens a page, and waits until it is there.
async fn open(browser: &Browser, explorer: &Explorer, path: &str) -> Result<(), BrowserError> {
    browser.goto(&explorer.url(path)).await?;
    until_texts(browser, "h1", |headings| headings.len() == 1).await.map(drop)
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn pages_show_what_works_without_script() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new().write(true)).await?;
        browser.set_script(false).await?;
        let hidden = "return [...document.querySelectorAll('.scripted')]
            .filter(e => getComputedStyle(e).display !== 'none').map(e => e.outerHTML).join()";
        let (node, why) = (format!("/node{SHOP}"), format!("/why{LOCK}"));
        for (path, css, part) in [
            ("/tree", ".children tbody", "locks"),
            (&*node, "#data .json", "\"timeout_ms\""),
            ("/recipes", ".recipes tbody tr:first-child", HOLDER),
            (&*why, "#holders-heading + table tbody tr", HELD_SINCE),
            ("/services/services", "main .lead", "1 drained"),
            ("/data", "#backup-heading", "Back up"),
            ("/changes/config/shop", "#changes .summary", "0 created"),
            ("/ensemble", "#verdict h2", "Quorum"),
            ("/help", ".keys", "Moves between the rows"),
        ] {
            open(browser, &explorer, path).await?;
            says(browser, css, part).await?;
            says(browser, "#live-text", "loaded once").await?;
            assert_eq!(browser.execute(hidden, &[]).await?, "", "{path}");
        }
        // The measures appear when the page is loaded again.
        let measured = async || {
            let opened = open(browser, &explorer, "/ensemble").await;
            let texts = browser.texts_of("#verdict .verdict").await;
            opened.is_ok()
                && texts.is_ok_and(|texts| texts.iter().any(|text| text.contains("serves alone")))
        };
        wait::until(measured).await;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn children_are_filtered_and_turned_without_script() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let zk = explorer.zk();
        zk.create("/jobs").await?;
        let creates = (0..CHILDREN).map(|job| zk.create(format!("/jobs/job-{job:03}")));
        for created in fan_out(64, creates).await {
            created?;
        }
        browser.set_script(false).await?;
        open(browser, &explorer, "/tree").await?;
        replace_text(browser, "#goto", "/jobs").await?;
        browser.keys(ENTER).await?;
        says(browser, ".pager .range", "1–200 of 201").await?;
        browser.click(".pager a[rel='next']").await?;
        let last = |names: &[String]| *names == ["job-200"];
        until_texts(browser, ".children tbody th bdi", last).await?;
        browser.click(".pager a[rel='prev']").await?;
        says(browser, ".pager .range", "1–200 of 201").await?;
        replace_text(browser, "#filter", "*17").await?;
        browser.click("form[aria-label='Children'] button").await?;
        let filtered = |names: &[String]| *names == ["job-017", "job-117"];
        until_texts(browser, ".children tbody th bdi", filtered).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_search_runs_without_script() {
    in_browser(async |browser| {
        let (explorer, world) = explore(WebOptions::new()).await?;
        browser.set_script(false).await?;
        open(browser, &explorer, "/search/config").await?;
        browser.click("#search-for").await?;
        browser.keys("routes").await?;
        browser.click("#search button[type='submit']").await?;
        says(browser, "#search-end", "2 nodes match.").await?;
        let mut found = browser.texts_of("#hits th bdi").await?;
        found.sort_unstable();
        assert_eq!(found, ["/config/shop/routes.yaml", "/config/staging/routes.yaml"]);
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn data_are_edited_without_script() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/config").data("limit: 10\n").await?;
        browser.set_script(false).await?;
        open(browser, &explorer, "/node/config").await?;
        let form = "section[aria-labelledby='edit-heading']";
        browser.click(&format!("{form} summary")).await?;
        replace_text(browser, "#edit-data", "limit: 11").await?;
        browser.click(&format!("{form} button[type='submit']")).await?;
        says(browser, "#facts .summary", "version 1. Created").await?;
        says(browser, "#data .value", "limit: 11").await?;
        let data = explorer.server().probe().data("/config");
        assert_eq!(data.expect("the node is there"), "limit: 11");
        Ok(explorer)
    });
}
