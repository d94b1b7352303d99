//! Commands of WebDriver, as chromedriver understands them: <https://www.w3.org/TR/webdriver2/>.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::error::BrowserError;
use super::http;

/// The time that a page may take to load, and a script to return, by the clock of the driver.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);
/// The time after which a driver that does not respond is given up. It is longer than [`LIMIT`], so
/// that the driver can say what hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the field that holds the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A session of a driver: one browser with one page.
#[derive(Debug)]
pub(crate) struct Session {
    addr: SocketAddr,
    id: String,
}

impl Session {
    /// Starts a browser, and returns the session with its capabilities.
    pub(crate) async fn open(
        addr: SocketAddr,
        capabilities: &Value,
    ) -> Result<(Self, Value), BrowserError> {
        let body = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let mut opened = command(addr, "POST", "/session", "session", Some(&body)).await?;
        match opened["sessionId"].as_str().map(str::to_owned) {
            Some(id) => Ok((Self { addr, id }, opened["capabilities"].take())),
            None => Err(malformed("session", &opened)),
        }
    }

    /// Ends the session: the browser closes, and removes its files.
    pub(crate) async fn close(&self) -> Result<(), BrowserError> {
        let path = format!("/session/{}", self.id);
        command(self.addr, "DELETE", &path, "the end of the session", None).await.map(drop)
    }

    pub(crate) async fn get(&self, name: &str) -> Result<Value, BrowserError> {
        self.command("GET", name, None).await
    }

    pub(crate) async fn post(&self, name: &str, body: &Value) -> Result<Value, BrowserError> {
        self.command("POST", name, Some(body)).await
    }

    /// Performs a command of the Chrome DevTools protocol.
    pub(crate) async fn devtools(&self, name: &str, body: &Value) -> Result<Value, BrowserError> {
        let body = json!({ "cmd": name, "params": body });
        let path = format!("/session/{}/goog/cdp/execute", self.id);
        command(self.addr, "POST", &path, name, Some(&body)).await
    }

    /// Runs the body of a function, and returns its result. A promise is awaited.
    pub(crate) async fn execute(
        &self,
        script: &str,
        args: &[Value],
    ) -> Result<Value, BrowserError> {
        self.post("execute/sync", &json!({ "script": script, "args": args })).await
    }

    /// Returns the id of the first element that a selector matches.
    pub(crate) async fn find(&self, css: &str) -> Result<String, BrowserError> {
        let body = json!({ "using": "css selector", "value": css });
        element("element", &self.post("element", &body).await?)
    }

    /// Returns the id of the element that has the focus.
    pub(crate) async fn focused(&self) -> Result<String, BrowserError> {
        element("element/active", &self.get("element/active").await?)
    }

    async fn command(
        &self,
        method: &str,
        name: &str,
        body: Option<&Value>,
    ) -> Result<Value, BrowserError> {
        command(self.addr, method, &format!("/session/{}/{name}", self.id), name, body).await
    }
}

/// Sends a command, and returns the value of the response. `name` is for errors.
async fn command(
    addr: SocketAddr,
    method: &str,
    path: &str,
    name: &str,
    body: Option<&Value>,
) -> Result<Value, BrowserError> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let sent = timeout(PATIENCE, http::send(addr, method, path, &body)).await;
    let response = match sent {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(ended(name, &error.to_string())),
        Err(_) => {
            return Err(BrowserError::NoResponse { command: name.to_owned(), after: PATIENCE });
        }
    };
    let Ok(mut parsed) = serde_json::from_slice::<Value>(&response.body) else {
        let response = String::from_utf8_lossy(&response.body).into_owned();
        return Err(BrowserError::Malformed { command: name.to_owned(), response });
    };
    let value = parsed.get_mut("value").map_or(Value::Null, Value::take);
    match response.status {
        200..300 => Ok(value),
        _ => Err(refused(name, &value)),
    }
}

fn refused(name: &str, value: &Value) -> BrowserError {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let (error, message) = (text("error"), summary(text("message")));
    // The driver deletes the session when its browser is gone.
    let codes = ["invalid session id", "disconnected", "chrome not reachable"];
    if codes.contains(&error) || message.contains("disconnected:") {
        return ended(name, &message);
    }
    BrowserError::Refused { command: name.to_owned(), error: error.to_owned(), message }
}

fn ended(name: &str, message: &str) -> BrowserError {
    BrowserError::Ended { command: name.to_owned(), message: message.to_owned() }
}

/// Returns a message of the driver without the versions of its programs.
fn summary(message: &str) -> String {
    let lines =
        message.lines().map(str::trim).take_while(|line| !line.starts_with("(Session info"));
    lines.collect::<Vec<_>>().join("; ")
}

fn element(name: &str, value: &Value) -> Result<String, BrowserError> {
    value[ELEMENT].as_str().map(str::to_owned).ok_or_else(|| malformed(name, value))
}

/// Returns the error for a value that a command does not return.
pub(crate) fn malformed(name: &str, value: &Value) -> BrowserError {
    BrowserError::Malformed { command: name.to_owned(), response: value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_code_and_the_first_lines_of_the_message() {
        let value = json!({
            "error": "no such element",
            "message": "no such element: Unable to locate element: a\n  (Session info: chrome=1)",
        });
        assert_eq!(
            refused("element", &value).to_string(),
            "element failed: no such element: no such element: Unable to locate element: a"
        );
    }

    #[test]
    fn a_deleted_session_means_that_the_browser_has_ended() {
        let value = json!({
            "error": "invalid session id",
            "message": "invalid session id: session deleted as the browser has closed the \
                        connection\nfrom disconnected: not connected to DevTools\n\
                        \u{20} (Session info: chrome=1)",
        });
        assert_eq!(
            refused("url", &value).to_string(),
            "the browser has ended: url failed: invalid session id: session deleted as the \
             browser has closed the connection; from disconnected: not connected to DevTools"
        );
    }

    #[test]
    fn an_element_has_an_id() {
        assert_eq!(element("element", &json!({ ELEMENT: "f.1" })).unwrap(), "f.1");
        let error = element("element", &json!({})).unwrap_err();
        assert_eq!(error.to_string(), "the response to element is not understood: {}");
    }
}
