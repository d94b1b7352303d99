//! [`Target`]: what is controlled.

use std::fmt::Display;

use serde_json::Value;
use zk_curator_testing::{RuleGuard, RuleRequest, Verdict};

use super::call::Call;
use super::condition::Condition;
use super::message::CallError;

/// The function of a rule.
pub type Decide = Box<dyn Fn(&RuleRequest<'_>) -> Verdict + Send + Sync>;

/// The servers, or the proxy, that a program serves and its control port controls.
pub trait Target: Send + Sync + 'static {
    /// The `kind` in the response to `hello`.
    const KIND: &'static str;

    /// Returns the connect string of the clients.
    fn connect_string(&self) -> String;

    /// Installs a rule on a member, or on all.
    ///
    /// # Errors
    /// [`Code::NoSuchMember`](super::Code::NoSuchMember).
    fn install(&self, member: Option<usize>, decide: Decide) -> Result<RuleGuard, CallError>;

    /// Executes a call. `hello`, `until`, and the calls about rules never come here. `reset` comes
    /// after the rules are removed.
    ///
    /// # Errors
    /// [`CallError::unsupported`] for a call that the target cannot execute; the errors of the
    /// call.
    ///
    /// # Cancel safety
    /// The future is dropped only when the program ends.
    fn perform(&self, call: Call) -> impl Future<Output = Result<Value, CallError>> + Send;

    /// Waits, without a limit, until a condition is true that is not about a rule.
    ///
    /// # Errors
    /// [`CallError::unsupported`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    fn wait(&self, condition: &Condition) -> impl Future<Output = Result<(), CallError>> + Send;

    /// Returns the present state, for the message of a wait that takes too long.
    fn state(&self) -> impl Display;
}
