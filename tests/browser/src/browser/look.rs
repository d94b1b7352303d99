//! The look of the page: the size of the window, the preferences of its user, script, and pictures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Browser;
use super::theme::Theme;
use crate::error::BrowserError;
use crate::picture::Picture;
use crate::webdriver::malformed;

impl Browser {
    /// Sets the size of the page, in pixels, without the frame of a window.
    pub async fn resize(&self, width: u32, height: u32) -> Result<(), BrowserError> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        let done = self.session.devtools("Emulation.setDeviceMetricsOverride", &size);
        done.await.map(drop)
    }

    /// Sets the colours that the user prefers. The user never wants animations, so pictures of a
    /// page do not depend on the time.
    pub async fn set_theme(&self, theme: Theme) -> Result<(), BrowserError> {
        let scheme = match theme {
            Theme::Light => "light",
            Theme::Dark => "dark",
        };
        let media = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        self.session.devtools("Emulation.setEmulatedMedia", &media).await.map(drop)
    }

    /// Lets pages run script, or not, from the next one on. Default: they do.
    ///
    /// [`execute`](Self::execute) runs its script in any case. But no timer and no observer of a
    /// page without script runs, so [`wait_for`](Self::wait_for) checks only once there.
    pub async fn set_script(&self, runs: bool) -> Result<(), BrowserError> {
        let disabled = json!({ "value": !runs });
        let done = self.session.devtools("Emulation.setScriptExecutionDisabled", &disabled);
        done.await.map(drop)
    }

    /// Returns a property of the style of the first element that a selector matches, as computed,
    /// for example `backgroundColor`. A colour is `rgb(255, 255, 255)`.
    pub async fn style_of(&self, css: &str, property: &str) -> Result<String, BrowserError> {
        let script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]";
        let value = self.execute(script, &[json!(css), json!(property)]).await?;
        value.as_str().map(str::to_owned).ok_or_else(|| malformed("the style", &value))
    }

    /// Takes a picture of the visible part of the page. It is `target/browser/pictures/NAME.png`,
    /// and replaces the one of an earlier run.
    pub async fn screenshot(&self, name: &str) -> Result<Picture, BrowserError> {
        let value = self.session.get("screenshot").await?;
        let png = value.as_str().and_then(|text| STANDARD.decode(text).ok());
        let png = png.ok_or_else(|| malformed("screenshot", &value))?;
        Picture::save(self.folder.join(format!("pictures/{name}.png")), &png)
    }
}
