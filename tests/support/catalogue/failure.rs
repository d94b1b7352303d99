//! The error of a row.

use std::fmt;

use zk_curator::{Error, ErrorKind, Recoverable};

/// An error of any recipe.
#[non_exhaustive]
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind of the error of the framework, if it is one.
    pub kind: Option<ErrorKind>,
    pub operation: &'static str,
    pub path: String,
    pub is_retryable: bool,
    pub may_have_applied: bool,
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (kind {:?}", self.text, self.kind)?;
        f.write_str(if self.may_have_applied { ", may have applied)" } else { ")" })
    }
}

impl Failure {
    /// An expectation of a row that was not met.
    pub fn new(text: impl Into<String>) -> Self {
        let (kind, operation, path) = (None, "", String::new());
        let (is_retryable, may_have_applied) = (false, false);
        Self { kind, operation, path, is_retryable, may_have_applied, text: text.into() }
    }

    fn of(error: &(impl Recoverable + fmt::Display), flags: [bool; 2]) -> Self {
        let [is_retryable, may_have_applied] = flags;
        let inner = error.framework_error();
        Self {
            kind: inner.map(Error::kind),
            operation: inner.map_or("", Error::operation),
            path: inner.map_or("", Error::path).to_owned(),
            is_retryable,
            may_have_applied,
            text: error.to_string(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::of(&error, [error.is_transient(), error.may_have_applied()])
    }
}

macro_rules! failures {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::of(&error, [error.is_retryable(), error.may_have_applied()])
            }
        })*
    };
}

failures! {
    zk_curator_recipes::barrier::Error,
    zk_curator_recipes::config::Error,
    zk_curator_recipes::counter::Error,
    zk_curator_recipes::lease::Error,
    zk_curator_recipes::lock::Error,
    zk_curator_recipes::migration::Error,
    zk_curator_recipes::name::Error,
    zk_curator_recipes::partition::Error,
    zk_curator_recipes::queue::Error,
    zk_curator_recipes::schedule::Error,
    zk_curator_recipes::shared::Error,
    zk_curator_recipes::stm::Error,
    zk_curator_recipes::two_phase::Error
}

impl From<zk_curator_recipes::leader::Error> for Failure {
    fn from(error: zk_curator_recipes::leader::Error) -> Self {
        let closed = matches!(error, zk_curator_recipes::leader::Error::Closed { .. });
        let failure = Self::of(&error, [error.is_retryable(), error.may_have_applied()]);
        Self { kind: failure.kind.or_else(|| closed.then_some(ErrorKind::Closed)), ..failure }
    }
}

impl From<zk_curator_discovery::RegistrationError> for Failure {
    fn from(error: zk_curator_discovery::RegistrationError) -> Self {
        let inner = error.framework_error();
        let applied = inner.is_some_and(Error::may_have_applied);
        let is_retryable = inner.is_some_and(Error::is_transient);
        Self::of(&error, [is_retryable, applied])
    }
}
