//! What clients achieve.

use super::{
    Barrier, Cache, CacheStep, Commit, Discovery, Division, Event, Group, Hold, Leader, Migration,
    Queue, Shared, Transact, UseOutcome,
};

impl Event {
    /// Returns what a client has achieved with this event, in the plural. `None` if the event only
    /// begins something, or is a failure.
    #[must_use]
    pub const fn achievement(&self) -> Option<&'static str> {
        Some(match self {
            Self::Hold(Hold::Acquired { .. }) => "acquisitions",
            Self::Hold(Hold::Used { outcome: UseOutcome::Accepted(_), .. }) => "uses",
            Self::Queue(Queue::Done { .. }) => "items acknowledged",
            Self::Queue(Queue::Finishing { .. }) => "items processed by bodies",
            Self::Queue(Queue::Returned { .. }) => "items returned",
            Self::Queue(Queue::Dead { .. }) => "dead letters",
            Self::Barrier(Barrier::Entered { .. }) => "entries",
            Self::Barrier(Barrier::Left { .. }) => "exits",
            Self::Commit(Commit::Decided { .. }) => "decisions",
            Self::Group(Group::Viewed { .. }) => "views of members",
            Self::Division(Division::Settled { .. }) => "divisions",
            Self::Discovery(Discovery::Serving { .. }) => "registrations",
            Self::Shared(Shared::Return { .. }) => "responses",
            Self::Shared(Shared::Issued { .. }) => "numbers issued",
            Self::Shared(Shared::Counted { .. }) => "keys counted",
            Self::Shared(Shared::Followed { .. }) => "values followed",
            Self::Transact(Transact::Committed { .. }) => "transactions",
            Self::Leader(Leader::Observed { .. }) => "leaders observed",
            Self::Cache(Cache::Step { step: CacheStep::Looked { .. }, .. }) => "views",
            Self::Cache(Cache::Step { step: CacheStep::Told { .. }, .. }) => "cache events",
            Self::Migration(Migration::Migrated { .. }) => "migrations",
            Self::Checked { .. } => "checks",
            _ => return None,
        })
    }
}
