//! The rules of axe-core, and the accessible names.

use zk_curator_browser::BrowserError;

use super::pages;
use crate::in_browser;

#[test]
#[ignore = "night: scripts/night"]
fn axe_passes_a_page_without_violations() {
    in_browser(async |browser| {
        let body = "<main><h1>A page</h1><img src=\"data:,\" alt=\"A picture\" hidden>\
                    <label>Path <input></label> <a href=\"/\">Here</a></main>";
        let site = pages::site(body, "")?;
        browser.goto(&site.url("/")).await?;
        browser.axe().await?;
        // It can be repeated.
        browser.axe().await?;
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn axe_finds_planted_violations() {
    in_browser(async |browser| {
        let body = "<main><h1>A page</h1><img src=\"data:,\"><input>\
                    <p class=\"pale\">Hardly legible</p></main>";
        let site = pages::site(body, "")?;
        browser.goto(&site.url("/")).await?;
        let error = browser.axe().await.unwrap_err();
        let BrowserError::Inaccessible(violations) = &error else { panic!("{error}") };
        let mut rules = violations.iter().map(|violation| violation.rule()).collect::<Vec<_>>();
        rules.sort_unstable();
        assert_eq!(rules, ["color-contrast", "image-alt", "label"], "{error}");
        let text = error.to_string();
        for expected in ["3 violations", "image-alt (critical): Images must have", "\n  img: "] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn accessible_names_and_roles_are_those_of_the_browser() {
    in_browser(async |browser| {
        let body = "<main><h1>A page</h1><button aria-label=\"Delete /a\">x</button>\
                    <label>Path <input></label></main>";
        let site = pages::site(body, "")?;
        browser.goto(&site.url("/")).await?;
        assert_eq!(browser.accessible_name("button").await?, "Delete /a");
        assert_eq!(browser.accessible_role("button").await?, "button");
        assert_eq!(browser.accessible_name("input").await?, "Path");
        assert_eq!(browser.text_of("button").await?, "x");
        assert_eq!(browser.texts_of("h1, button").await?, ["A page", "x"]);
        assert_eq!(browser.title().await?, "A page");
        Ok(site)
    });
}
