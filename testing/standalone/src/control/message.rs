//! Requests, responses and errors.

use std::fmt;

use serde_json::{Map, Number, Value, json};

use super::call::Call;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The code of an error.
        #[non_exhaustive]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the name in messages.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The request is malformed.
    BadRequest = "bad_request",
    /// The token is wrong, or there was no `hello`.
    Unauthorized = "unauthorized",
    /// The version of `hello` is not supported.
    UnsupportedVersion = "unsupported_version",
    /// There is no such member.
    NoSuchMember = "no_such_member",
    /// There is no such session.
    NoSuchSession = "no_such_session",
    /// There is no such rule.
    NoSuchRule = "no_such_rule",
    /// There is no such lag.
    NoSuchLag = "no_such_lag",
    /// There is no such node.
    NoSuchNode = "no_such_node",
    /// This program cannot do it.
    Unsupported = "unsupported",
    /// The condition of `until` did not become true in time.
    Timeout = "timeout",
    /// The call failed for another reason.
    Failed = "failed",
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    code: Code,
    message: String,
}

impl CallError {
    /// Creates an error. The message begins with the name of the call.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates the error of a call that this program does not support.
    #[must_use]
    pub fn unsupported(call: &str, why: &str) -> Self {
        Self::new(Code::Unsupported, format!("{call}: {why}"))
    }

    /// Returns the code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CallError {}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: Number,
    pub(super) call: Call,
}

/// A line that is no request.
#[derive(Debug)]
pub(super) struct Malformed {
    /// The `id` of the line; `None` if it has none.
    pub(super) id: Option<Number>,
    pub(super) error: CallError,
    /// `true` if the line is not JSON, so the next line may not begin a message.
    pub(super) ends: bool,
}

impl Request {
    /// Reads a line, without its line feed.
    pub(super) fn parse(line: &[u8]) -> Result<Self, Malformed> {
        let malformed = |id, ends, message| {
            Err(Malformed { id, error: CallError::new(Code::BadRequest, message), ends })
        };
        let mut fields = match serde_json::from_slice(line) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return malformed(None, true, "a request is a JSON object".to_owned()),
            Err(error) => {
                return malformed(None, true, format!("the line is not valid JSON: {error}"));
            }
        };
        let id = match fields.remove("id") {
            Some(Value::Number(id)) if !id.is_f64() => id,
            _ => return malformed(None, false, "`id` must be an integer".to_owned()),
        };
        match Call::parse(fields) {
            Ok(call) => Ok(Self { id, call }),
            Err(message) => malformed(Some(id), false, message),
        }
    }
}

/// Returns the line of a response, with its line feed.
pub(super) fn response(id: Option<&Number>, result: Result<&Value, &CallError>) -> Vec<u8> {
    let message = match result {
        Ok(value) => json!({ "id": id, "ok": value }),
        Err(error) => json!({
            "id": id, "error": { "code": error.code.as_str(), "message": error.message },
        }),
    };
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Returns the result without fields.
#[must_use]
pub fn nothing() -> Value {
    Value::Object(Map::new())
}
