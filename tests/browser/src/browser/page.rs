//! The page: where it is, what it says, and what a person does with it.

use serde_json::{Value, json};

use super::Browser;
use crate::error::BrowserError;
use crate::webdriver::malformed;

impl Browser {
    /// Opens a page, and waits until it is loaded, for at most 40 s.
    pub async fn goto(&self, url: &str) -> Result<(), BrowserError> {
        self.session.post("url", &json!({ "url": url })).await.map(drop)
    }

    /// Returns the address of the page.
    pub async fn url(&self) -> Result<String, BrowserError> {
        self.text("url").await
    }

    /// Returns the title of the page.
    pub async fn title(&self) -> Result<String, BrowserError> {
        self.text("title").await
    }

    /// Returns the text of the first element that a selector matches, without hidden parts.
    pub async fn text_of(&self, css: &str) -> Result<String, BrowserError> {
        self.text_of_element(css, "text").await
    }

    /// Returns the texts of all elements that a selector matches, without hidden parts.
    pub async fn texts_of(&self, css: &str) -> Result<Vec<String>, BrowserError> {
        let script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)";
        let value = self.execute(script, &[json!(css)]).await?;
        serde_json::from_value(value.clone()).map_err(|_| malformed("the texts", &value))
    }

    /// Returns the accessible name of the first element that a selector matches: what a screen
    /// reader says.
    pub async fn accessible_name(&self, css: &str) -> Result<String, BrowserError> {
        self.text_of_element(css, "computedlabel").await
    }

    /// Returns the role of the first element that a selector matches, for example `button`.
    pub async fn accessible_role(&self, css: &str) -> Result<String, BrowserError> {
        self.text_of_element(css, "computedrole").await
    }

    /// Returns the accessible name of the element that has the focus.
    pub async fn focused_name(&self) -> Result<String, BrowserError> {
        let id = self.session.focused().await?;
        self.text(&format!("element/{id}/computedlabel")).await
    }

    /// Clicks on the first element that a selector matches, at its centre, as a person does: it
    /// fails if another element covers it.
    pub async fn click(&self, css: &str) -> Result<(), BrowserError> {
        let id = self.session.find(css).await?;
        self.session.post(&format!("element/{id}/click"), &json!({})).await.map(drop)
    }

    /// Presses and releases a key for each character, which the element with the focus receives.
    pub async fn keys(&self, keys: &str) -> Result<(), BrowserError> {
        let strokes = keys.chars().flat_map(|key| [down(key), up(key)]);
        self.perform(strokes.collect()).await
    }

    /// Presses the keys one after another, and then releases them, the last one first: for example
    /// [`SHIFT`](super::key::SHIFT) and [`TAB`](super::key::TAB).
    pub async fn chord(&self, keys: &[&str]) -> Result<(), BrowserError> {
        let keys = keys.concat();
        let strokes = keys.chars().map(down).chain(keys.chars().rev().map(up));
        self.perform(strokes.collect()).await
    }

    async fn perform(&self, strokes: Vec<Value>) -> Result<(), BrowserError> {
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.session.post("actions", &json!({ "actions": [keyboard] })).await.map(drop)
    }

    async fn text_of_element(&self, css: &str, what: &str) -> Result<String, BrowserError> {
        let id = self.session.find(css).await?;
        self.text(&format!("element/{id}/{what}")).await
    }

    async fn text(&self, name: &str) -> Result<String, BrowserError> {
        let value = self.session.get(name).await?;
        value.as_str().map(str::to_owned).ok_or_else(|| malformed(name, &value))
    }
}

fn down(key: char) -> Value {
    json!({ "type": "keyDown", "value": key })
}

fn up(key: char) -> Value {
    json!({ "type": "keyUp", "value": key })
}
