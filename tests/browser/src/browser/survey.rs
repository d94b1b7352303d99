//! A page in the looks that every page of the explorer must have.

use std::env;

use super::Browser;
use super::theme::Theme;
use crate::error::BrowserError;
use crate::picture::Picture;
use crate::webdriver::malformed;

/// The end of the name of a picture, the theme, the width and the height.
type Look = (&'static str, Theme, u32, u32);

/// The looks of which a survey takes pictures.
const LOOKS: [Look; 3] = [
    ("light", Theme::Light, 1280, 800),
    ("dark", Theme::Dark, 1280, 800),
    ("narrow", Theme::Light, 390, 844),
];
/// The least width that a page must support.
const NARROWEST: u32 = 320;

impl Browser {
    /// Checks the page as [`survey_all`](Self::survey_all) in one look, which depends on the name.
    /// At night (`ZK_CURATOR_NIGHT=1`) in all looks.
    pub async fn survey(&self, name: &str) -> Result<Vec<Picture>, BrowserError> {
        if env::var_os("ZK_CURATOR_NIGHT").is_some_and(|value| value == "1") {
            return self.survey_all(name).await;
        }
        let look = name.bytes().map(usize::from).sum::<usize>() % LOOKS.len();
        self.survey_in(name, &LOOKS[look..=look]).await
    }

    /// Checks the page with axe-core, light and dark at 1280 × 800, and light at 390 × 844, and
    /// takes a picture of each: `NAME-light.png`, `NAME-dark.png`, `NAME-narrow.png`. Fails as
    /// [`axe`](Self::axe), or if the content is wider than the page at one of these sizes or at 320
    /// pixels. The page is light and has 1280 × 800 pixels afterwards.
    pub async fn survey_all(&self, name: &str) -> Result<Vec<Picture>, BrowserError> {
        self.survey_in(name, &LOOKS).await
    }

    async fn survey_in(&self, name: &str, looks: &[Look]) -> Result<Vec<Picture>, BrowserError> {
        let mut pictures = Vec::new();
        for (look, theme, width, height) in looks {
            self.set_theme(*theme).await?;
            self.resize(*width, *height).await?;
            self.axe().await?;
            pictures.push(self.screenshot(&format!("{name}-{look}")).await?);
        }
        self.set_theme(Theme::Light).await?;
        for (_, _, width, height) in LOOKS {
            self.fits(width, height).await?;
        }
        self.fits(NARROWEST, 800).await?;
        self.resize(1280, 800).await?;
        Ok(pictures)
    }

    /// Resizes the page, and fails if its content is wider.
    async fn fits(&self, width: u32, height: u32) -> Result<(), BrowserError> {
        self.resize(width, height).await?;
        let value = self.execute("return document.documentElement.scrollWidth", &[]).await?;
        match value.as_u64() {
            Some(content) if content <= u64::from(width) => Ok(()),
            Some(content) => Err(BrowserError::TooWide { page: self.url().await?, width, content }),
            None => Err(malformed("scrollWidth", &value)),
        }
    }
}
