use std::time::Duration;

/// A lock that a counter or a [transaction](crate::stm::Transaction::then_lock) acquires after
/// several conflicts with other writers (`PromotedToLock`).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PromotedToLock {
    /// The path of the lock, an [`InterProcessMutex`](crate::lock::InterProcessMutex).
    pub path: String,
    /// The longest wait for the lock.
    pub timeout: Duration,
}

impl PromotedToLock {
    /// A lock at a path, and the longest wait for it.
    pub fn new(path: impl Into<String>, timeout: Duration) -> Self {
        Self { path: path.into(), timeout }
    }
}
