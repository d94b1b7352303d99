//! Waits for states of the page.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use zk_curator_testing::wait::until_some;

use super::Browser;
use crate::error::BrowserError;
use crate::webdriver::malformed;

/// The time in which a page has to reach a state, also on a busy machine.
const REACHED: Duration = Duration::from_secs(30);

/// Checks the element whenever the document changes, and regularly, because some states are not in
/// the document: the focus, or what a person has typed. Returns `true`, `false` at the end of the
/// time, or the error of the predicate.
const SCRIPT: &str = "
const [css, limit] = arguments;
const holds = (PREDICATE);
return new Promise(resolve => {
    const end = result => {
        observer.disconnect();
        clearInterval(interval);
        clearTimeout(timer);
        resolve(result);
    };
    const check = () => {
        try {
            const element = document.querySelector(css);
            if (element !== null && holds(element)) end(true);
        } catch (error) {
            end(String(error));
        }
    };
    const observer = new MutationObserver(check);
    const all = {subtree: true, childList: true, attributes: true, characterData: true};
    observer.observe(document, all);
    const interval = setInterval(check, 50);
    const timer = setTimeout(() => end(false), limit);
    check();
});";

impl Browser {
    /// Waits until the first element that a selector matches fulfils a predicate: a JavaScript
    /// function of the element, for example `e => e.textContent === '2'`. The element need not
    /// exist yet, and the page may be replaced by another one.
    pub async fn wait_for(&self, css: &str, predicate: &str) -> Result<(), BrowserError> {
        self.wait_for_at_most(css, predicate, REACHED).await
    }

    /// Does the same as [`wait_for`](Self::wait_for), with a time limit of the test in place of 30
    /// s.
    pub async fn wait_for_at_most(
        &self,
        css: &str,
        predicate: &str,
        limit: Duration,
    ) -> Result<(), BrowserError> {
        let deadline = Instant::now() + limit;
        let script = SCRIPT.replace("PREDICATE", predicate);
        let refusal = Mutex::new(None);
        let refuse = |error| *refusal.lock().unwrap_or_else(PoisonError::into_inner) = error;
        let attempt = async || {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            let args = [json!(css), json!(u64::try_from(left).unwrap_or(u64::MAX))];
            match self.execute(&script, &args).await {
                Ok(Value::Bool(true)) => Some(Ok(())),
                Ok(Value::Bool(false)) => {
                    refuse(None);
                    None
                }
                Ok(Value::String(message)) => Some(Err(BrowserError::Refused {
                    command: predicate.to_owned(),
                    error: "javascript error".to_owned(),
                    message,
                })),
                Ok(other) => Some(Err(malformed(predicate, &other))),
                // A script ends with its page, and is started again on the next one.
                Err(error @ BrowserError::Refused { .. }) => {
                    refuse(Some(error.to_string()));
                    None
                }
                Err(error) => Some(Err(error)),
            }
        };
        if let Ok(reached) = timeout_at(deadline, until_some(attempt)).await {
            return reached;
        }
        let refusal = refusal.into_inner().unwrap_or_else(PoisonError::into_inner);
        Err(BrowserError::NotReached {
            css: css.to_owned(),
            predicate: predicate.to_owned(),
            after: limit,
            now: match refusal {
                Some(refusal) => refusal,
                None => self.html_of(css).await,
            },
        })
    }

    /// Returns the beginning of an element as HTML, or the reason why there is none.
    async fn html_of(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.outerHTML ?? 'no element'";
        match self.execute(script, &[json!(css)]).await {
            Ok(html) => html.as_str().unwrap_or_default().chars().take(500).collect(),
            Err(error) => error.to_string(),
        }
    }
}
