//! Pages that have nothing to show. They say so in words.

use zk_curator_browser::{Browser, BrowserError, Explorer};
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::open;
use super::way::says;
use crate::in_browser;

/// Opens pages, looks for their sentences, and surveys them. Each has a name, an address, the
/// selector of a part and a sentence in it.
async fn say_nothing(
    browser: &Browser,
    explorer: &Explorer,
    pages: &[[&str; 4]],
) -> Result<(), BrowserError> {
    for [name, address, css, sentence] in pages {
        open(browser, explorer, address).await?;
        says(browser, css, sentence).await?;
        browser.survey(&format!("empty-{name}")).await?;
    }
    Ok(())
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn an_empty_node_is_described_in_words() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        for path in ["/empty", "/other"] {
            explorer.zk().create(path).data("").await?;
        }
        let pages = [
            ["tree", "/tree/empty", "#children", "The node has no children."],
            ["filter", "/tree/empty?filter=x", "#children", "No child matches"],
            ["node", "/node/empty", "#data", "empty: 0 bytes"],
            ["kinds", "/node/empty", "#facts", "The node has no children."],
            ["changes", "/changes/empty", "#changes", "Nothing has changed yet."],
            ["diff", "/data/empty?with=%2Fother&show=diff", "#diff", "do not differ"],
        ];
        say_nothing(browser, &explorer, &pages).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn an_empty_server_is_described_in_words() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let no_service = "No service of Curator's discovery is registered here.";
        let pages = [
            ["root", "/tree", "#children", "1 child."],
            ["recipes", "/recipes", "#recipes", "No recipe is recognised."],
            ["services", "/services", "#services", no_service],
            ["search", "/search?for=no-such-name", "#search-end", "Nothing matches."],
            ["text", "/search?for=no-such-text&in=text", "#search-end", "Nothing matches."],
        ];
        say_nothing(browser, &explorer, &pages).await?;
        Ok(explorer)
    });
}
