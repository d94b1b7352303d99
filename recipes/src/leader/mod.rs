//! Leader election.
//!
//! * [`LeaderLatch`] stays in the race in the background, through every outage, and says who leads.
//! * [`LeaderSelector`] runs a future of yours while we lead.
//! * [`Election`] is modelled on etcd's: campaign with a value, proclaim another one, resign; other
//!   clients observe.
//! * [`LeaderObserver`] follows who leads among the candidates of a latch or a selector, in Java or
//!   in Rust, without taking part.
//!
//! Each is a queue, like a [lock](crate::lock): the candidate with the first node leads, every
//! other candidate watches its predecessor, and when a leader leaves, one candidate is woken.
//!
//! # When leadership ends
//! When the node is gone, by whatever delete, or the session is over. And by the framework's
//! [`ConnectionStateErrorPolicy`](zk_curator::state::ConnectionStateErrorPolicy):
//!
//! | state | `Standard`, the default | `Session` |
//! |---|---|---|
//! | SUSPENDED | leadership ends | goes on |
//! | RECONNECTED, same session | begins again, if the node is still there: the same node, token and place | nothing has happened |
//! | LOST | the place is lost | leadership ends, and the place is lost |
//! | RECONNECTED, another session | in the queue again, at its end | the same |
//!
//! No leader that is elected over a network is the only one by that alone: it may be paused for
//! longer than its session, and wake up believing that it leads. Write through
//! [`fenced`](Leadership::fenced) transactions, or give the
//! [fencing token](Leadership::fencing_token) to the resource that you protect.

mod election;
mod first;
mod latch;
mod leadership;
mod observer;
mod queue;
mod selector;

pub use election::{Elected, Election};
pub use latch::{Candidate, CloseMode, LatchState, LatchStates, LeaderLatch};
pub use leadership::Leadership;
pub use observer::{LeaderObserver, Observer, Proclaimed};
pub use selector::LeaderSelector;

pub use crate::participant::Participant;

/// The tags in the names of nodes.
pub(crate) mod tag {
    /// `LeaderLatch.LOCK_NAME`.
    pub(crate) const LATCH: &str = "latch-";
    /// `LeaderSelector` is an `InterProcessMutex`.
    pub(crate) const SELECTOR: &str = "lock-";
    /// Ours: Curator has no such recipe.
    pub(crate) const ELECTION: &str = "election-";
}

/// Why leadership could not be won or kept.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Leadership was lost: see [the table](self#when-leadership-ends).
    #[error("leadership was lost, with the node {path}")]
    Lost {
        /// The path of the leader's node.
        path: String,
    },
    /// [`LeaderSelector::interrupt_leadership`] has ended it.
    #[error("leadership was interrupted, with the node {path}")]
    Interrupted {
        /// The path of the leader's node.
        path: String,
    },
    /// The latch or the selector was closed, or the framework was.
    #[error("the candidate has left the election {path}")]
    Closed {
        /// The path of the election, or of the node of the candidate.
        path: String,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(zk_curator::Error),
}

crate::failure::classify!(
    Error,
    retryable: [Self::Lost { .. }, Self::Interrupted { .. }],
    unknown: [Self::Lost { .. }, Self::Interrupted { .. }]
);

impl From<zk_curator::Error> for Error {
    fn from(error: zk_curator::Error) -> Self {
        match error.kind() {
            zk_curator::ErrorKind::Closed => Self::Closed { path: error.path().to_owned() },
            _ => Self::Framework(error),
        }
    }
}
