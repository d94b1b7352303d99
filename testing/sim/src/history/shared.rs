//! Events of shared objects: values, counters and sequences.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// An event of a shared object.
///
/// The field `id` is the number of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Shared {
    /// The client calls a shared object.
    Call {
        /// The number of the call.
        id: u64,
        /// The object.
        object: Name,
        /// The operation.
        operation: Operation,
    },
    /// The client has received the response to a call.
    Return {
        /// The number of the call.
        id: u64,
        /// The response.
        answer: Answer,
    },
    /// The response to a call is unknown for this reason. Comes before the [`Return`](Self::Return)
    /// of the same client.
    Doubtful {
        /// The number of the call.
        id: u64,
        /// The reason.
        why: Doubt,
    },
    /// The client has got a number that should be unique.
    Issued {
        /// The sequence.
        sequence: Name,
        /// The number.
        number: i64,
    },
    /// The client has read that no number of a sequence is issued from then on.
    Settled {
        /// The sequence.
        sequence: Name,
    },
    /// The client begins to count a key at a shared object that counts each key once, or asks for
    /// its number again.
    Counting {
        /// The object.
        object: Name,
        /// The key.
        key: Name,
    },
    /// A key was counted, now or earlier.
    Counted {
        /// The object.
        object: Name,
        /// The key.
        key: Name,
        /// The number of counted keys at that moment, including this one.
        number: i64,
    },
    /// The follower was notified of the value of a shared object.
    Followed {
        /// The object.
        object: Name,
        /// The number of the follower, unique in the history.
        follower: u64,
        /// The value.
        value: i64,
        /// The transaction that wrote the value.
        revision: i64,
    },
}

names! { Shared:
    Call "call", Return "return", Doubtful "doubtful", Issued "issued", Settled "settled",
    Counting "counting", Counted "counted", Followed "followed",
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { id, object, operation } => write!(f, "calls {object}: {operation}, @{id}"),
            Self::Return { id, answer } => write!(f, "receives the response: {answer}, @{id}"),
            Self::Doubtful { id, why } => write!(f, "cannot know the response: {why}, @{id}"),
            Self::Issued { sequence, number } => write!(f, "gets {number} of {sequence}"),
            Self::Settled { sequence } => write!(f, "sees that {sequence} is settled"),
            Self::Counting { object, key } => write!(f, "counts {key} at {object}"),
            Self::Counted { object, key, number } => {
                write!(f, "has counted {key} at {object}: number {number}")
            }
            Self::Followed { object, follower, value, revision } => {
                write!(f, "follower {follower} is notified of {object}: {value}, of {revision:#x}")
            }
        }
    }
}

/// An operation on a shared object, such as a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Operation {
    /// Reads the value. The response is [`Answer::Value`].
    Get,
    /// Replaces the value. The response is [`Answer::Done`].
    Set(i64),
    /// Adds to the value. The response is [`Answer::Value`] with the new value.
    Add(i64),
    /// Replaces the value if it is the expected one. The response is [`Answer::Done`] or
    /// [`Answer::Differs`].
    CompareAndSet {
        /// The expected value.
        expected: i64,
        /// The new value.
        new: i64,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("get"),
            Self::Set(value) => write!(f, "set {value}"),
            Self::Add(value) => write!(f, "add {value}"),
            Self::CompareAndSet { expected, new } => write!(f, "set {new} if it is {expected}"),
        }
    }
}

/// The response of a shared object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Answer {
    /// The value.
    Value(i64),
    /// The operation was applied.
    Done,
    /// The operation was not applied, because the value differs from the expected one.
    Differs,
    /// The operation had no effect and will have none.
    Failed,
    /// A response was lost: the operation may have taken effect, or may still take effect.
    Unknown,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::Done => f.write_str("done"),
            Self::Differs => f.write_str("another value"),
            Self::Failed => f.write_str("failed"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// The reason why a response is [unknown](Answer::Unknown).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Doubt {
    /// The session ended between the call and its response.
    SessionEnded,
    /// The deadline of the operation passed.
    Deadline,
    /// The caller dropped its future.
    Cancelled,
    /// The operation was called without a receipt, which outlasts a lost response.
    Unproven,
    /// There was no such reason.
    Unexplained,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionEnded => "the session has ended",
            Self::Deadline => "the deadline has passed",
            Self::Cancelled => "it was cancelled",
            Self::Unproven => "there is no receipt",
            Self::Unexplained => "no reason",
        })
    }
}
