//! Signing in and out.

use zk_curator_browser::key::ENTER;
use zk_curator_browser::{Browser, BrowserError};
use zk_curator_web::{Limits, Users, WebOptions};

use super::explorer;
use super::steps::{client, is_live, open, took_statuses};
use super::way::says;
use crate::in_browser;

/// The token of ann is `foo`.
const USERS: &str = "ann 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

fn options() -> WebOptions {
    let users: Users = USERS.parse().expect("the line of a user");
    WebOptions::new().write(true).users(users)
}

/// Signs out as another tab of the browser does.
const SIGN_OUT: &str = "
const csrf = document.querySelector('[name=csrf]').value;
return fetch('/logout', {method: 'POST', body: new URLSearchParams({csrf})}).then(() => null);";

/// Sends the form of the login page, and waits for the end of the next page.
async fn sign_in(browser: &Browser, token: &str) -> Result<(), BrowserError> {
    browser.execute("document.body.dataset.isOld = 'true'", &[]).await?;
    browser.click("#token").await?;
    browser.keys(token).await?;
    browser.keys(ENTER).await?;
    browser.wait_for("body:not([data-is-old]) .foot", "e => true").await
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn signing_in_leads_to_the_page_that_was_asked_for() {
    in_browser(async |browser| {
        let explorer = explorer(options()).await?;
        for path in ["/recipes?kind=lock", "/node/zookeeper?as=hex"] {
            open(browser, &explorer, path).await?;
            assert_eq!(browser.title().await?, "Sign in – ZooKeeper");
            says(browser, ".foot", "shown to users").await?;
            sign_in(browser, "bar").await?;
            assert_eq!(browser.title().await?, "Sign in – ZooKeeper");
            says(browser, "[role=alert]", "No user has this token.").await?;
            browser.survey("login-refused").await?;
            sign_in(browser, "foo").await?;
            assert_eq!(browser.url().await?, explorer.url(path));
            says(browser, ".foot", "ann").await?;
            // No script can take the session.
            let cookies = browser.execute("return document.cookie", &[]).await?;
            assert_eq!(cookies, "", "{path}");
            browser.click(".foot button").await?;
            says(browser, "h1", "Sign in").await?;
        }
        open(browser, &explorer, "/tree").await?;
        assert_eq!(browser.title().await?, "Sign in – ZooKeeper");
        browser.survey("login").await?;
        took_statuses(browser, &[403]).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn too_many_attempts_are_refused_for_a_while() {
    in_browser(async |browser| {
        let limits = Limits::new().login_attempts(1);
        let explorer = explorer(options().limits(limits)).await?;
        open(browser, &explorer, "/login?next=/help").await?;
        // The pause doubles with each failure, until an attempt of this browser falls into it.
        let mut told = String::new();
        for _ in 0..8 {
            sign_in(browser, "bar").await?;
            told = browser.text_of("[role=alert]").await?;
            if told.contains("Too many failed attempts.") {
                break;
            }
        }
        assert!(told.contains("Too many failed attempts. Try again in "), "{told}");
        while browser.title().await?.starts_with("Sign in") {
            sign_in(browser, "foo").await?;
        }
        assert_eq!(browser.url().await?, explorer.url("/help"));
        took_statuses(browser, &[403, 429]).await?;
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_live_page_says_that_its_session_is_over() {
    in_browser(async |browser| {
        let explorer = explorer(options()).await?;
        let other = client(&explorer).await?;
        other.create("/app").await?;
        open(browser, &explorer, "/tree/app").await?;
        sign_in(browser, "foo").await?;
        is_live(browser).await?;
        browser.execute(SIGN_OUT, &[]).await?;
        other.create("/app/first").await?;
        browser.wait_for("#live-text", "e => e.textContent === 'signed out'").await?;
        says(browser, "#children", "The node has no children.").await?;
        Ok((explorer, other))
    });
}
