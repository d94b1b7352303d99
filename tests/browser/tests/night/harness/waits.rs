//! Waits for states of pages.

use std::time::Duration;

use super::pages;
use crate::in_browser;

const SHORT: Duration = Duration::from_millis(200);

#[test]
#[ignore = "night: scripts/night"]
fn a_state_that_is_not_reached_is_described() {
    in_browser(async |browser| {
        let site = pages::site("<main><h1>A page</h1><output>1</output></main>", "")?;
        browser.goto(&site.url("/")).await?;
        let wait = async |css, predicate| {
            browser.wait_for_at_most(css, predicate, SHORT).await.unwrap_err().to_string()
        };
        assert_eq!(
            wait("output", "e => e.textContent === '2'").await,
            "output did not fulfil e => e.textContent === '2' within 200ms; at the end: \
             <output>1</output>"
        );
        assert!(wait("table", "e => true").await.ends_with("at the end: no element"));
        for wrong in ["e => e.missing.field", "e => ("] {
            let error = wait("output", wrong).await;
            assert!(error.contains("javascript error"), "{error}");
        }
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn a_wait_survives_the_change_of_the_page() {
    in_browser(async |browser| {
        // The page goes to another one as soon as a person has clicked.
        let script = "
document.querySelector('output').textContent = location.search;
document.querySelector('button')?.addEventListener('click', () => {
    setTimeout(() => { location.search = '?next'; }, 100);
});";
        let body = "<main><h1>A page</h1><button>Next</button><output></output></main>";
        let site = pages::site(body, script)?;
        browser.goto(&site.url("/")).await?;
        browser.click("button").await?;
        browser.wait_for("output", "e => e.textContent === '?next'").await?;
        assert!(browser.url().await?.ends_with("/?next"));
        Ok(site)
    });
}
