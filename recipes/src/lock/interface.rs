use std::fmt;

use async_trait::async_trait;

use super::{AnyGuard, Error};

/// A lock of any kind, for what works with all of them, such as
/// [`InterProcessMultiLock`](super::InterProcessMultiLock): Curator's interface of the same name.
///
/// A [`ReentrantMutex`](super::ReentrantMutex) is one [for an
/// owner](super::ReentrantMutex::for_owner).
#[async_trait]
pub trait InterProcessLock: fmt::Debug + Send + Sync {
    /// The path of the lock, within the namespace of its framework.
    fn path(&self) -> &str;

    /// The absolute path of the lock on the servers, with namespace and chroot:
    /// [`CuratorFramework::server_path`](zk_curator::CuratorFramework::server_path). Two locks of
    /// one ensemble that exclude each other have the same.
    fn server_path(&self) -> String;

    /// Acquires the lock, however long it takes. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// As the lock's own method.
    async fn acquire(&self) -> Result<AnyGuard, Error>;

    /// Acquires the lock if it is free; `None` if it is not. Dropping the future leaves nothing
    /// behind.
    ///
    /// # Errors
    /// As the lock's own method.
    async fn try_acquire(&self) -> Result<Option<AnyGuard>, Error>;
}
