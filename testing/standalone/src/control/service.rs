//! [`Service`]: a target with its rules.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::VERSION;
use super::call::Call;
use super::condition::Condition;
use super::message::{CallError, Code, nothing};
use super::rule::RuleSpec;
use super::rule_book::RuleBook;
use super::target::Target;

/// The maximum length of the state in the error of a wait, in bytes.
const MAX_STATE: usize = 16 * 1024;

/// Executes calls. All connections, and the steps of a scenario, share one service.
pub struct Service<T> {
    target: T,
    rules: RuleBook,
}

impl<T> fmt::Debug for Service<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").finish_non_exhaustive()
    }
}

impl<T: Target> Service<T> {
    /// Creates a service without rules.
    #[must_use]
    pub fn new(target: T) -> Self {
        Self { target, rules: RuleBook::default() }
    }

    /// Returns the target.
    #[must_use]
    pub const fn target(&self) -> &T {
        &self.target
    }

    /// Executes a call, and returns its result. The caller has checked the token of `hello`.
    ///
    /// # Errors
    /// Those of the call.
    ///
    /// # Cancel safety
    /// Dropping the future of `until` has no effect. Other calls may be executed in part.
    pub async fn call(&self, call: Call) -> Result<Value, CallError> {
        match call {
            Call::Hello { version, .. } => self.hello(version),
            Call::AddRule(spec) => Ok(json!({ "rule": self.add_rule(spec)? })),
            Call::Rule { rule } => Ok(json!({ "hits": self.rules.hits("rule", &rule)? })),
            Call::RemoveRule { rule } => Ok(json!({ "hits": self.rules.remove(&rule)? })),
            Call::RemoveRules {} => {
                self.rules.clear();
                Ok(nothing())
            }
            Call::Until { condition, timeout_ms } => {
                let waited = self.until(&condition, timeout_ms.get()).await?;
                Ok(json!({ "waited_ms": u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) }))
            }
            Call::Reset {} => {
                self.rules.clear();
                self.target.perform(Call::Reset {}).await
            }
            call => self.target.perform(call).await,
        }
    }

    /// Installs a rule, and returns its name.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if the name is used; [`Code::NoSuchMember`].
    pub fn add_rule(&self, rule: RuleSpec) -> Result<String, CallError> {
        self.rules.add(&self.target, rule)
    }

    fn hello(&self, version: i64) -> Result<Value, CallError> {
        if version != VERSION {
            let text = format!("hello: version {version} is not supported, only {VERSION}");
            return Err(CallError::new(Code::UnsupportedVersion, text));
        }
        Ok(json!({
            "version": VERSION,
            "server": env!("CARGO_PKG_VERSION"),
            "kind": T::KIND,
            "connect_string": self.target.connect_string(),
        }))
    }

    /// Waits until a condition is true. Returns the time that it took.
    ///
    /// # Errors
    /// [`Code::Timeout`] with the present state; [`Code::NoSuchRule`]; [`Code::Unsupported`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn until(
        &self,
        condition: &Condition,
        timeout: Duration,
    ) -> Result<Duration, CallError> {
        let begin = Instant::now();
        let wait = async {
            match condition {
                Condition::Rule(rule, hits) => self.rules.fired(rule, *hits).await,
                condition => self.target.wait(condition).await,
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(result) => result.map(|()| begin.elapsed()),
            Err(_) => {
                let state = shortened(format!("{}{}", self.target.state(), self.rules.summary()));
                let text = format!("until: not true after {timeout:?}; the state:\n{state}");
                Err(CallError::new(Code::Timeout, text))
            }
        }
    }
}

/// Cuts a text at [`MAX_STATE`] bytes.
fn shortened(mut text: String) -> String {
    if text.len() > MAX_STATE {
        let end = (0..=MAX_STATE).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
