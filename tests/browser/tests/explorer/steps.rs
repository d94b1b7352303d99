//! Steps that several tests take.

use serde_json::json;
use zk_curator::CuratorFramework;
use zk_curator_browser::key::CONTROL;
use zk_curator_browser::{Browser, BrowserError, Explorer, connect};

/// Returns another client of the server, with a session of its own.
pub(super) async fn client(explorer: &Explorer) -> Result<CuratorFramework, BrowserError> {
    connect(explorer.server().framework()).await
}

/// Opens a page of the explorer.
pub(super) async fn open(
    browser: &Browser,
    explorer: &Explorer,
    path: &str,
) -> Result<(), BrowserError> {
    browser.goto(&explorer.url(path)).await
}

/// Opens a page, and waits until it shows every change.
pub(super) async fn open_live(
    browser: &Browser,
    explorer: &Explorer,
    path: &str,
) -> Result<(), BrowserError> {
    open(browser, explorer, path).await?;
    is_live(browser).await
}

/// Waits until the page shows every change.
pub(super) async fn is_live(browser: &Browser) -> Result<(), BrowserError> {
    browser.wait_for("#live-text", "e => e.textContent === 'live'").await
}

/// Waits until the banner has this text and a duration.
pub(super) async fn is_away(browser: &Browser, banner: &str) -> Result<(), BrowserError> {
    browser.wait_for("#live-text", &format!("e => e.textContent === '{banner}'")).await?;
    browser.wait_for("#live-age", r"e => /^\d+ (s|min)$/.test(e.textContent)").await
}

/// Types a text in place of the one in a field.
pub(super) async fn replace_text(
    browser: &Browser,
    css: &str,
    text: &str,
) -> Result<(), BrowserError> {
    browser.click(css).await?;
    browser.chord(&[CONTROL, "a"]).await?;
    browser.keys(text).await
}

/// Returns the text that a person sees in a field.
pub(super) async fn typed(browser: &Browser, css: &str) -> Result<String, BrowserError> {
    let script = "return document.querySelector(arguments[0]).value";
    let value = browser.execute(script, &[json!(css)]).await?;
    Ok(value.as_str().unwrap_or_default().to_owned())
}

/// Returns the status of the response that is the page.
pub(super) async fn status(browser: &Browser) -> Result<u64, BrowserError> {
    let script = "return performance.getEntriesByType('navigation')[0].responseStatus";
    Ok(browser.execute(script, &[]).await?.as_u64().unwrap_or_default())
}

/// Takes the errors in the console. Each has to be a response with one of these statuses: the
/// browser reports that of a page, too.
pub(super) async fn took_statuses(browser: &Browser, statuses: &[u16]) -> Result<(), BrowserError> {
    let errors = browser.console_errors().await?;
    let is_expected = |message: &str| {
        statuses.iter().any(|status| message.contains(&format!("a status of {status}")))
    };
    assert!(errors.iter().all(|error| is_expected(error.message())), "{errors:?}");
    Ok(())
}

/// Fails if a script of a node has run, or if the content is wider than a page of 320 pixels.
pub(super) async fn is_unharmed(browser: &Browser, what: &str) -> Result<(), BrowserError> {
    browser.resize(320, 800).await?;
    let script = "return [String(window.hacked), document.documentElement.scrollWidth]";
    let found = browser.execute(script, &[]).await?;
    browser.resize(1280, 800).await?;
    assert_eq!(found[0], "undefined", "{what}");
    assert!(found[1].as_u64().is_some_and(|width| width <= 320), "{what}: {found}");
    Ok(())
}
