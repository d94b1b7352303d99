//! The number of clicks to the answer that people look for most: who holds a lock, and since when.

use zk_curator_browser::{Browser, BrowserError, Explorer};

use super::way::{arrived, open_ready, says, still};
use super::world::{HELD_SINCE, HOLDER, LOCK, explore};
use crate::in_browser;

const MOST: usize = 3;

/// A person at the first page of the explorer, who clicks on links.
struct Visitor<'a> {
    browser: &'a Browser,
    clicks: usize,
}

impl<'a> Visitor<'a> {
    async fn begin(browser: &'a Browser, explorer: &Explorer) -> Result<Self, BrowserError> {
        browser.goto(&explorer.url("/")).await?;
        arrived(browser, "/tree").await?;
        Ok(Self { browser, clicks: 0 })
    }

    /// Clicks on the first link to a page, in this part of the present page.
    async fn click(&mut self, part: &str, path: &str) -> Result<(), BrowserError> {
        self.clicks += 1;
        self.browser.click(&format!("{part} a[href='{path}']")).await?;
        arrived(self.browser, path).await
    }

    /// Reads who holds the lock, and since when.
    async fn reads_the_holder(self) -> Result<(), BrowserError> {
        says(self.browser, "#why .verdicts li", &format!("held by {HOLDER} (")).await?;
        for part in [HOLDER, HELD_SINCE] {
            says(self.browser, "#holders-heading + table tbody tr", part).await?;
        }
        assert!(self.clicks <= MOST, "{} clicks", self.clicks);
        Ok(())
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_list_of_recipes_leads_to_the_holder() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        let mut visitor = Visitor::begin(browser, &explorer).await?;
        visitor.click(".pages", "/recipes").await?;
        visitor.click(".recipes", &format!("/why{LOCK}")).await?;
        visitor.reads_the_holder().await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_tree_leads_to_the_holder() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        let mut visitor = Visitor::begin(browser, &explorer).await?;
        visitor.click(".children", "/tree/locks").await?;
        visitor.click(".children", &format!("/tree{LOCK}")).await?;
        visitor.click(".tabs", &format!("/why{LOCK}")).await?;
        visitor.reads_the_holder().await?;
        Ok((explorer, world))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_list_of_recipes_names_holder_and_time() {
    in_browser(async |browser| {
        let (explorer, world) = explore(still()).await?;
        open_ready(browser, &explorer, "/tree").await?;
        browser.click(".pages a[href='/recipes']").await?;
        arrived(browser, "/recipes").await?;
        for part in [LOCK, HOLDER, HELD_SINCE] {
            says(browser, ".recipes tbody tr:first-child", part).await?;
        }
        Ok((explorer, world))
    });
}
