//! Errors in the console.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::json;
use zk_curator_browser::BrowserError;

use super::pages;
use crate::in_browser;

/// Returns the message of the panic with which a test ends.
fn panic_of(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("a panic");
    *panic.downcast::<String>().expect("a text")
}

#[test]
#[ignore = "night: scripts/night"]
fn an_error_of_a_script_fails_the_test() {
    let message = panic_of(|| {
        in_browser(async |browser| {
            let site = pages::site("<main><h1>A page</h1></main>", "missing();")?;
            browser.goto(&site.url("/")).await?;
            Ok(site)
        });
    });
    assert!(message.contains("missing is not defined"), "{message}");
    assert!(message.contains("1 errors in the console of the browser"), "{message}");
    assert!(message.contains("/browser/pictures/failed-"), "{message}");
}

#[test]
#[ignore = "night: scripts/night"]
fn a_violation_of_the_policy_is_an_error() {
    in_browser(async |browser| {
        let body = "<main><h1>A page</h1></main><script>document.title = 'changed'</script>";
        let site = pages::site(body, "")?;
        browser.goto(&site.url("/")).await?;
        let errors = browser.console_errors().await?;
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].message().contains("Content Security Policy"), "{errors:?}");
        assert_eq!(browser.title().await?, "A page");
        // They are taken once.
        assert!(browser.console_errors().await?.is_empty());
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn scripts_of_tests_are_not_subject_to_the_policy() {
    in_browser(async |browser| {
        let site = pages::site("<main><h1>A page</h1></main>", "")?;
        browser.goto(&site.url("/")).await?;
        let script = "return new Function('a', 'return a + 1')(arguments[0])";
        assert_eq!(browser.execute(script, &[json!(1)]).await?, json!(2));
        let script = "return Promise.resolve(arguments[0])";
        assert_eq!(browser.execute(script, &[json!(["a"])]).await?, json!(["a"]));
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn a_panic_of_the_test_names_a_picture() {
    let message = panic_of(|| {
        in_browser(async |_| -> Result<(), BrowserError> { panic!("planted") });
    });
    assert!(message.starts_with("planted\nthe page: "), "{message}");
}
