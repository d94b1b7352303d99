//! What the browser refuses because of the policy of the pages and the cookie, and what the
//! explorer refuses because another site has asked for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE};
use axum::response::Html;
use axum::routing::{get, post};
use serde_json::json;
use tokio::time::timeout;
use zk_curator_browser::{Browser, Site};
use zk_curator_testing::wait::until;
use zk_curator_web::WebOptions;

use super::explorer;
use super::steps::{open, open_live, replace_text, took_statuses};
use super::way::says;
use crate::in_browser;

/// The time in which an error has to be in the console, also on a busy machine.
const REPORTED: Duration = Duration::from_secs(30);

/// The policies of two pages at another port of the same host. The browser of the tests reaches no
/// other host. With the second policy, the browser treats the page as another site.
const SITES: [&str; 2] = ["", "sandbox allow-forms allow-scripts"];

/// Notes the directives that are violated, and adds elements to the page.
const PLANT: &str = "
document.addEventListener('securitypolicyviolation', event => {
    const before = document.body.dataset.refused ?? '';
    document.body.dataset.refused = `${before} ${event.effectiveDirective}`;
});
document.querySelector('main').insertAdjacentHTML('afterbegin', arguments[0]);";

fn page(body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Another site</title><link rel=\"icon\" href=\"data:,\"></head>\
         <body><main><h1>Another site</h1>{body}</main></body></html>"
    )
}

/// Returns the router of another site: a page with this policy.
fn other_site(policy: &'static str, body: &str) -> Router {
    let page = page(body);
    let response = move || async move { ([(CONTENT_SECURITY_POLICY, policy)], Html(page)) };
    Router::new().route("/", get(response))
}

/// Waits until the console has an error with this text, and takes the errors until then.
async fn console_says(browser: &Browser, text: &str) {
    let is_reported = async || {
        let errors = browser.console_errors().await.unwrap_or_default();
        errors.iter().any(|error| error.message().contains(text))
    };
    let reported = timeout(REPORTED, until(is_reported)).await;
    assert!(reported.is_ok(), "no error in the console contains {text}");
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_browser_refuses_what_an_attacker_adds_to_a_page() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new()).await?;
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let count = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            async { "counted" }
        };
        let site = Site::serve(Router::new().fallback(count))?;
        let other = site.url("/");
        for (attack, directive) in [
            ("<button id=planted onclick='window.hacked = 1'>x</button>".to_owned(), "script-src"),
            ("<a id=planted href='javascript:window.hacked = 1'>x</a>".to_owned(), "script-src"),
            (format!("<img src={other}><button id=planted>x</button>"), "img-src"),
            (format!("<form action={other}><button id=planted>x</button></form>"), "form-action"),
        ] {
            open(browser, &explorer, "/node").await?;
            browser.execute(PLANT, &[json!(attack)]).await?;
            browser.click("#planted").await?;
            let is_refused = format!("e => (e.dataset.refused ?? '').includes('{directive}')");
            browser.wait_for("body", &is_refused).await?;
            let hacked = browser.execute("return String(window.hacked)", &[]).await?;
            assert_eq!(hacked, "undefined", "{attack}");
            assert_eq!(browser.url().await?, explorer.url("/node"), "{attack}");
            console_says(browser, "Content Security Policy").await;
        }
        assert_eq!(requests.load(Ordering::SeqCst), 0);
        // Some attacks are reported twice.
        let errors = browser.console_errors().await?;
        let is_of_policy = |message: &str| message.contains("Content Security Policy");
        assert!(errors.iter().all(|error| is_of_policy(error.message())), "{errors:?}");
        Ok((explorer, site))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn no_other_site_shows_the_explorer_in_a_frame() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        let address = explorer.url("/node");
        let frame = format!("<iframe src=\"{address}\" title=\"The explorer\"></iframe>");
        let site = Site::serve(other_site("", &frame))?;
        browser.goto(&site.url("/")).await?;
        console_says(browser, "frame-ancestors").await;
        Ok((explorer, site))
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn the_cookie_is_for_the_explorer_only() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        assert_eq!(browser.execute("return document.cookie", &[]).await?, "");
        // There is a cookie, without which this form would be refused.
        browser.click("details:has(#edit-data) > summary").await?;
        replace_text(browser, "#edit-data", "mine").await?;
        browser.click("#edit-data ~ p button").await?;
        says(browser, "#data", "mine").await?;
        let mut sent = Vec::new();
        let form = "<form action=\"/collect\" method=\"post\"><button>Send</button></form>";
        for policy in SITES {
            let cookies = Arc::new(Mutex::new(None));
            let seen = Arc::clone(&cookies);
            let collect = move |headers: HeaderMap| {
                let has_cookie = headers.contains_key(COOKIE);
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(has_cookie);
                async { Html(page("<p id=\"collected\">Collected</p>")) }
            };
            let site = Site::serve(other_site(policy, form).route("/collect", post(collect)))?;
            browser.goto(&site.url("/")).await?;
            browser.click("button").await?;
            says(browser, "#collected", "Collected").await?;
            sent.push(*cookies.lock().unwrap());
        }
        // Cookies belong to a host and not to a port, so the first site has got it.
        assert_eq!(sent, [Some(true), Some(false)]);
        Ok(explorer)
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn forms_of_other_sites_change_nothing() {
    in_browser(async |browser| {
        let explorer = explorer(WebOptions::new().write(true)).await?;
        explorer.zk().create("/app").data("one").await?;
        open_live(browser, &explorer, "/node/app").await?;
        let form = format!(
            "<form action=\"{}\" method=\"post\"><input name=\"action\" value=\"set\">\
             <input name=\"version\" value=\"0\"><input name=\"data\" value=\"hacked\">\
             <button>Send</button></form>",
            explorer.url("/node/app")
        );
        for policy in SITES {
            let site = Site::serve(other_site(policy, &form))?;
            browser.goto(&site.url("/")).await?;
            browser.click("button").await?;
            says(browser, "h1", "Request of another site").await?;
            assert_eq!(explorer.server().probe().data("/app").unwrap(), "one", "{policy}");
        }
        took_statuses(browser, &[403]).await?;
        // A link is allowed.
        let link = format!("<a href=\"{}\">The explorer</a>", explorer.url("/node/app"));
        let site = Site::serve(other_site("", &link))?;
        browser.goto(&site.url("/")).await?;
        browser.click("a").await?;
        says(browser, "#data", "one").await?;
        Ok((explorer, site))
    });
}
