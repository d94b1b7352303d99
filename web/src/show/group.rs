//! The groups of recipes by which a page filters.

use zk_curator_recipes::inspect::RecipeKind;

/// A group of recipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecipeGroup {
    Lock,
    Election,
    Semaphore,
    Lease,
    Queue,
    Jobs,
    Barrier,
    Partition,
    Group,
    Service,
    Migration,
    Other,
}

impl RecipeGroup {
    pub(crate) const ALL: [Self; 12] = [
        Self::Lock,
        Self::Election,
        Self::Semaphore,
        Self::Lease,
        Self::Queue,
        Self::Jobs,
        Self::Barrier,
        Self::Partition,
        Self::Group,
        Self::Service,
        Self::Migration,
        Self::Other,
    ];

    pub(crate) const fn of(kind: RecipeKind) -> Self {
        match kind {
            RecipeKind::Mutex | RecipeKind::ReadWriteLock => Self::Lock,
            RecipeKind::LeaderLatch => Self::Election,
            RecipeKind::Semaphore => Self::Semaphore,
            RecipeKind::TimedLease => Self::Lease,
            RecipeKind::Queue
            | RecipeKind::SimpleQueue
            | RecipeKind::PriorityQueue
            | RecipeKind::DelayQueue
            | RecipeKind::IdQueue
            | RecipeKind::QueueLocks
            | RecipeKind::ShardedQueue
            | RecipeKind::FifoQueue
            | RecipeKind::LockingQueue => Self::Queue,
            RecipeKind::Jobs => Self::Jobs,
            RecipeKind::Barrier | RecipeKind::DoubleBarrier => Self::Barrier,
            RecipeKind::Partitioner => Self::Partition,
            RecipeKind::Group => Self::Group,
            RecipeKind::Service => Self::Service,
            RecipeKind::Migrations => Self::Migration,
            _ => Self::Other,
        }
    }

    /// Returns the name in URLs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Election => "election",
            Self::Semaphore => "semaphore",
            Self::Lease => "lease",
            Self::Queue => "queue",
            Self::Jobs => "jobs",
            Self::Barrier => "barrier",
            Self::Partition => "partition",
            Self::Group => "group",
            Self::Service => "service",
            Self::Migration => "migration",
            Self::Other => "other",
        }
    }

    /// Returns the text on pages.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Lock => "locks",
            Self::Election => "elections",
            Self::Semaphore => "semaphores",
            Self::Lease => "leases",
            Self::Queue => "queues",
            Self::Jobs => "job queues",
            Self::Barrier => "barriers",
            Self::Partition => "partition sets",
            Self::Group => "groups",
            Self::Service => "services",
            Self::Migration => "migration sets",
            Self::Other => "others",
        }
    }

    /// Returns the group of a name; `None` for all groups.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names() {
        for group in RecipeGroup::ALL {
            assert_eq!(RecipeGroup::named(group.name()), Some(group));
        }
        assert_eq!(RecipeGroup::named("all"), None);
        assert_eq!(RecipeGroup::of(RecipeKind::DelayQueue), RecipeGroup::Queue);
        assert_eq!(RecipeGroup::of(RecipeKind::ConfigStore), RecipeGroup::Other);
    }
}
