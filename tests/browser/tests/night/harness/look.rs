//! The size and the colours of pages.

use serde_json::json;
use zk_curator_browser::{BrowserError, Theme};

use super::pages;
use crate::in_browser;

#[test]
#[ignore = "night: scripts/night"]
fn dark_and_light_pages_differ() {
    in_browser(async |browser| {
        let site = pages::site("<main><h1>Colours</h1></main>", "")?;
        browser.goto(&site.url("/")).await?;
        assert_eq!(browser.style_of("body", "backgroundColor").await?, "rgb(255, 255, 255)");
        browser.set_theme(Theme::Dark).await?;
        assert_eq!(browser.style_of("body", "backgroundColor").await?, "rgb(20, 20, 20)");
        // The next page is dark, too.
        browser.goto(&site.url("/")).await?;
        assert_eq!(browser.style_of("body", "backgroundColor").await?, "rgb(20, 20, 20)");
        let animated = "return matchMedia('(prefers-reduced-motion: reduce)').matches";
        assert_eq!(browser.execute(animated, &[]).await?, json!(true));
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn pictures_have_the_size_of_the_window() {
    in_browser(async |browser| {
        // Latin, Hebrew, Arabic.
        let body = "<main><h1>Sizes, אבג, مرحبا</h1></main>";
        let site = pages::site(body, "")?;
        browser.goto(&site.url("/")).await?;
        let inner = "return [innerWidth, innerHeight, devicePixelRatio]";
        assert_eq!(browser.execute(inner, &[]).await?, json!([1280, 800, 1]));
        let wide = browser.screenshot("window-wide").await?;
        assert_eq!(wide.size(), (1280, 800));
        browser.resize(390, 844).await?;
        browser.goto(&site.url("/")).await?;
        assert_eq!(browser.execute(inner, &[]).await?, json!([390, 844, 1]));
        let narrow = browser.screenshot("window-narrow").await?;
        assert_eq!(narrow.size(), (390, 844));
        assert!(narrow.path().ends_with("browser/pictures/window-narrow.png"), "{narrow:?}");
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn a_survey_checks_a_page_in_all_looks() {
    in_browser(async |browser| {
        let site = pages::site("<main><h1>A page</h1></main>", "")?;
        browser.goto(&site.url("/")).await?;
        let pictures = browser.survey_all("harness").await?;
        let sizes = pictures.iter().map(|picture| picture.size()).collect::<Vec<_>>();
        assert_eq!(sizes, [(1280, 800), (1280, 800), (390, 844)]);
        assert_eq!(browser.style_of("body", "backgroundColor").await?, "rgb(255, 255, 255)");
        Ok(site)
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn a_survey_finds_what_only_one_look_shows() {
    in_browser(async |browser| {
        let wide = pages::site("<main><h1>A page</h1><p class=\"wide\">Wide</p></main>", "")?;
        browser.goto(&wide.url("/")).await?;
        let error = browser.survey_all("harness-wide").await.unwrap_err();
        assert!(matches!(error, BrowserError::TooWide { width: 390, .. }), "{error}");
        let dim = pages::site("<main><h1>A page</h1><p class=\"dim\">Dim</p></main>", "")?;
        browser.goto(&dim.url("/")).await?;
        let error = browser.survey_all("harness-dim").await.unwrap_err();
        let BrowserError::Inaccessible(violations) = &error else { panic!("{error}") };
        assert_eq!(violations[0].rule(), "color-contrast");
        assert_eq!(browser.style_of("body", "backgroundColor").await?, "rgb(20, 20, 20)");
        Ok((wide, dim))
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn pages_run_script_unless_they_may_not() {
    in_browser(async |browser| {
        let site = pages::site("<main><h1>A page</h1></main>", "document.title = 'changed';")?;
        for (runs, title) in [(false, "A page"), (true, "changed")] {
            browser.set_script(runs).await?;
            browser.goto(&site.url("/")).await?;
            assert_eq!(browser.title().await?, title);
            // Scripts of tests run in any case.
            assert_eq!(browser.execute("return 1 + 1", &[]).await?, json!(2));
            let scripting = "return matchMedia('(scripting: enabled)').matches";
            assert_eq!(browser.execute(scripting, &[]).await?, json!(runs));
        }
        Ok(site)
    });
}
