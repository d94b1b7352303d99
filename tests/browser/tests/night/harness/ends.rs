//! The end of browsers, and what they cannot reach.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::timeout;
use zk_curator_browser::{Browser, BrowserError};

use super::pages;
use crate::{TMP, in_browser};

const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "night: scripts/night"]
async fn drop_leaves_no_process() {
    let browser = Browser::start(TMP).await.unwrap_or_else(|error| panic!("{error}"));
    let processes = browser.processes();
    assert!(processes.running().contains(&browser.process().unwrap()), "{processes:?}");
    drop(browser);
    assert!(processes.running().is_empty(), "{:?}", processes.running());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "night: scripts/night"]
async fn a_closed_browser_leaves_no_process() {
    let browser = Browser::start(TMP).await.unwrap_or_else(|error| panic!("{error}"));
    let processes = browser.processes();
    browser.close().await.unwrap_or_else(|error| panic!("{error}"));
    assert!(processes.running().is_empty(), "{:?}", processes.running());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "night: scripts/night"]
async fn commands_of_a_browser_that_died_fail() {
    let browser = Browser::start(TMP).await.unwrap_or_else(|error| panic!("{error}"));
    let process = browser.process().and_then(|id| Pid::from_raw(i32::try_from(id).unwrap()));
    let never = "return new Promise(() => {})";
    let (failed, killed) = tokio::join!(browser.execute(never, &[]), async {
        kill_process(process.unwrap(), Signal::KILL)
    });
    killed.unwrap();
    for result in [failed, timeout(LONG, browser.execute("return 1", &[])).await.unwrap()] {
        assert!(matches!(result, Err(BrowserError::Ended { .. })), "{result:?}");
    }
    let error = browser.goto("about:blank").await.unwrap_err().to_string();
    assert!(error.starts_with("the browser has ended: url failed: "), "{error}");
}

#[test]
#[ignore = "night: scripts/night"]
fn only_this_machine_is_reachable() {
    in_browser(async |browser| {
        let site = pages::site("<main><h1>A page</h1><img alt=\"A picture\"></main>", "")?;
        browser.goto(&site.url("/")).await?;
        // Every name is unknown, also that of this machine. Other addresses are names to the rule.
        let url = site.url("/").replace("127.0.0.1", "localhost");
        let error = browser.goto(&url).await.unwrap_err().to_string();
        assert!(error.contains("ERR_NAME_NOT_RESOLVED"), "{error}");
        // The failed page is an error of the console, too, in some versions.
        browser.console_errors().await?;
        Ok(site)
    });
}
