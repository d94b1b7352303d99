//! The states of subscribers and waiting callers. Pure, above [`state`](super::state).
//!
//! | file | content |
//! |---|---|
//! | `contents` | the state, its freshness, and the subscribers |
//! | `subscriber` | the nodes of which a subscriber has still to be told |
//! | `differences` | the events that it is told |
//! | `checkpoints` | the transaction since which the contents are right, and the callers that wait for one |
//! | `callers` | the callers of `synced` and `refresh` |

mod callers;
mod checkpoints;
mod contents;
mod differences;
mod subscriber;

pub use subscriber::{CacheEvent, Delivered};

pub(crate) use callers::{Caller, Questions, WaitingRefresh, push};
pub(crate) use checkpoints::{
    CheckpointEffect, CheckpointFacts, CheckpointInput, CheckpointOutcome, CheckpointRequest,
    CheckpointStanding, Checkpoints,
};
pub(crate) use contents::Contents;
pub(crate) use subscriber::Subscriber;
