//! Barriers: many processes wait for one event, or for each other.
//!
//! * [`DistributedBarrier`] blocks all waiters until a client removes it.
//! * [`DistributedDoubleBarrier`]: a number of members begin a round together, and end it together.

mod double;
mod leaving;
mod ready;
pub(crate) mod rules;
mod single;

pub use double::DistributedDoubleBarrier;
pub use leaving::RoundPlace;
pub use single::DistributedBarrier;

/// Why a barrier could not be used.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Our node is gone: its session is over, or another client has deleted it. The other members
    /// no longer wait for this one.
    #[error("the place in the round of the barrier {path} was lost")]
    Lost {
        /// The path of the barrier.
        path: String,
    },
    /// A round with as many members as there can be waits to begin, or is under way.
    #[error("the barrier {path} already has its {members} members")]
    OverSubscribed {
        /// The path of the barrier.
        path: String,
        /// The number of members of a round.
        members: usize,
    },
    /// A barrier without members.
    #[error("a double barrier needs at least one member: {path}")]
    NoMembers {
        /// The path of the barrier.
        path: String,
    },
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}

crate::failure::classify!(
    Error,
    retryable: [Self::Lost { .. }, Self::OverSubscribed { .. }],
    unknown: [Self::Lost { .. }]
);
