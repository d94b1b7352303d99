//! The checks of a page: the rules of axe-core, and the errors in the console.

use std::fs;

use serde_json::json;

use super::Browser;
use crate::error::BrowserError;
use crate::findings::{ConsoleEntry, Violation};
use crate::webdriver::malformed;

/// Runs axe-core, which defines `axe` unless the page has it already.
const AXE: &str = "
return axe.run(document, {resultTypes: ['violations']}).then(results => results.violations.map(
    ({id, impact, help, nodes}) => ({
        rule: id,
        impact: String(impact),
        help,
        elements: nodes.map(({target, failureSummary}) => ({
            css: target.flat(Infinity).join(' '),
            why: String(failureSummary),
        })),
    })
));";

impl Browser {
    /// Checks the page with all rules of axe-core that are not experimental, and fails with the
    /// violations.
    pub async fn axe(&self) -> Result<(), BrowserError> {
        let file = self.folder.join("axe.min.js");
        let Ok(axe) = fs::read_to_string(&file) else {
            return Err(BrowserError::Missing { what: file.display().to_string() });
        };
        let value = self.execute(&format!("{axe}\n{AXE}"), &[]).await?;
        match Violation::list(&value) {
            Some(violations) if violations.is_empty() => Ok(()),
            Some(violations) => Err(BrowserError::Inaccessible(violations)),
            None => Err(malformed("axe.run", &value)),
        }
    }

    /// Takes the errors in the console since the last call: errors of scripts, violations of the
    /// policy of the page, failed requests, and calls of `console.error`. [`in_browser`] fails for
    /// errors that a test does not take.
    ///
    /// [`in_browser`]: crate::in_browser
    pub async fn console_errors(&self) -> Result<Vec<ConsoleEntry>, BrowserError> {
        let value = self.session.post("se/log", &json!({ "type": "browser" })).await?;
        let entries = ConsoleEntry::list(&value).ok_or_else(|| malformed("se/log", &value))?;
        Ok(entries.into_iter().filter(ConsoleEntry::is_error).collect())
    }
}
