//! Files that a person downloads, and files that a form sends.

use std::path::Path;

use serde_json::json;

use super::Browser;
use crate::error::BrowserError;

impl Browser {
    /// Chooses a file in the first field for files that a selector matches, as a person does in the
    /// dialog of the browser. `file` is an absolute path, and the file must exist.
    pub async fn attach(&self, css: &str, file: &Path) -> Result<(), BrowserError> {
        let id = self.session.find(css).await?;
        let text = json!({ "text": file.display().to_string() });
        self.session.post(&format!("element/{id}/value"), &text).await.map(drop)
    }

    /// Saves the files that a person downloads in this folder, under the names that the server
    /// gives them. A file has another name until it is complete. `folder` is an absolute path.
    pub async fn download_to(&self, folder: &Path) -> Result<(), BrowserError> {
        let allowed = json!({ "behavior": "allow", "downloadPath": folder.display().to_string() });
        self.session.devtools("Browser.setDownloadBehavior", &allowed).await.map(drop)
    }
}
