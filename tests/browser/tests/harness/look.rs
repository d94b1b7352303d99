//! The size and the colours of pages.

use serde_json::json;
use zk_curator_browser::Theme;

use super::pages;
use crate::in_browser;

#[test]
#[ignore = "slow: scripts/test-all"]
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
#[ignore = "slow: scripts/test-all"]
fn pictures_have_the_size_of_the_window() {
    in_browser(async |browser| {
        // Latin, Hebrew, Arabic.
        let body = "<main><h1>Sizes, אבג, مرحبا</h1></main>";
        let site = pages::site(body, "")?;
        browser.goto(&site.url("/")).await?;
        let inner = "return [innerWidth, innerHeight, devicePixelRatio]";
        assert_eq!(browser.execute(inner, &[]).await?, json!([1280, 800, 1]));
        let wide = browser.screenshot("harness-wide").await?;
        assert_eq!(wide.size(), (1280, 800));
        browser.resize(390, 844).await?;
        browser.goto(&site.url("/")).await?;
        assert_eq!(browser.execute(inner, &[]).await?, json!([390, 844, 1]));
        let narrow = browser.screenshot("harness-narrow").await?;
        assert_eq!(narrow.size(), (390, 844));
        assert!(narrow.path().ends_with("browser/pictures/harness-narrow.png"), "{narrow:?}");
        Ok(site)
    });
}
