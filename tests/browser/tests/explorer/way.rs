//! The way through the pages.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use zk_curator_browser::key::TAB;
use zk_curator_browser::{Browser, BrowserError, Explorer};
use zk_curator_testing::wait;
use zk_curator_web::{Limits, WebOptions};

use super::steps::open;

/// The time in which a page has to reach a state, also on a busy machine.
const REACHED: Duration = Duration::from_secs(30);
/// More than the elements before the content of a page.
const TABS: usize = 60;

/// Returns the settings of an explorer whose pages are loaded once: no update replaces an element
/// between two commands of a test.
pub(super) fn still() -> WebOptions {
    WebOptions::new().limits(Limits::new().streams(0, 0))
}

/// Opens a page, and waits until its script runs.
pub(super) async fn open_ready(
    browser: &Browser,
    explorer: &Explorer,
    address: &str,
) -> Result<(), BrowserError> {
    open(browser, explorer, address).await?;
    let path = address.split('?').next().unwrap_or_default();
    arrived(browser, path).await
}

/// Waits until the browser shows the page with this path, and its script runs. The page before it
/// has another path.
pub(super) async fn arrived(browser: &Browser, path: &str) -> Result<(), BrowserError> {
    let path = json!(path);
    browser.wait_for("html.js", &format!("() => location.pathname === {path}")).await
}

/// Clicks on an element of a live page. An update may replace it just before the click.
pub(super) async fn click_live(browser: &Browser, css: &str) -> Result<(), BrowserError> {
    let attempt = async || match browser.click(css).await {
        Err(BrowserError::Refused { error, .. }) if error == "stale element reference" => None,
        clicked => Some(clicked),
    };
    match timeout(REACHED, wait::until_some(attempt)).await {
        Ok(clicked) => clicked,
        Err(_) => panic!("{css} is always replaced before the click"),
    }
}

/// Waits until an element has the focus.
pub(super) async fn focused(browser: &Browser, css: &str) -> Result<(), BrowserError> {
    browser.wait_for(css, "element => element === document.activeElement").await
}

/// Presses the tab key until the element with this accessible name has the focus.
pub(super) async fn tab_to(browser: &Browser, name: &str) -> Result<(), BrowserError> {
    let mut passed = Vec::new();
    for _ in 0..TABS {
        browser.keys(TAB).await?;
        let focused = browser.focused_name().await?;
        if focused == name {
            return Ok(());
        }
        passed.push(focused);
    }
    panic!("the tab key does not reach {name}: {passed:?}");
}

/// Waits until the texts of the elements that a selector matches fulfil a condition, and returns
/// them. Unlike [`Browser::wait_for`], it works in pages without script, where no timer runs.
pub(super) async fn until_texts(
    browser: &Browser,
    css: &str,
    condition: impl Fn(&[String]) -> bool,
) -> Result<Vec<String>, BrowserError> {
    let attempt = async || match browser.texts_of(css).await {
        Ok(texts) if condition(&texts) => Some(Ok(texts)),
        // A script ends with its page.
        Ok(_) | Err(BrowserError::Refused { .. }) => None,
        Err(error) => Some(Err(error)),
    };
    match timeout(REACHED, wait::until_some(attempt)).await {
        Ok(texts) => texts,
        Err(_) => panic!("the texts of {css} are {:?}", browser.texts_of(css).await),
    }
}

/// Waits until the first element that a selector matches has a text that contains this one.
pub(super) async fn says(browser: &Browser, css: &str, part: &str) -> Result<(), BrowserError> {
    let contains = |texts: &[String]| texts.first().is_some_and(|text| text.contains(part));
    until_texts(browser, css, contains).await.map(drop)
}
