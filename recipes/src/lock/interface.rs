use std::fmt;

use async_trait::async_trait;

use super::guard::Any;
use super::{Error, Guard, InterProcessSemaphoreMutex, QueueLock};

/// A lock of any kind, for what works with all of them, such as
/// [`InterProcessMultiLock`](super::InterProcessMultiLock): Curator's interface of the same name.
#[async_trait]
pub trait InterProcessLock: fmt::Debug + Send + Sync {
    /// The path of the lock, within the namespace of its framework.
    fn path(&self) -> &str;

    /// The path of the lock on the server, with the namespace. Of two locks of one ensemble that exclude each other it is
    /// the same.
    fn server_path(&self) -> String;

    /// Acquires the lock, however long it takes. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// As the lock's own method.
    async fn acquire(&self) -> Result<Guard<Any>, Error>;

    /// Acquires the lock if it is free; `None` if it is not. Dropping the future leaves nothing behind.
    ///
    /// # Errors
    /// As the lock's own method.
    async fn try_acquire(&self) -> Result<Option<Guard<Any>>, Error>;
}

#[async_trait]
impl<K: Clone + Send + Sync> InterProcessLock for QueueLock<K> {
    fn path(&self) -> &str {
        self.path()
    }

    fn server_path(&self) -> String {
        self.server_path()
    }

    async fn acquire(&self) -> Result<Guard<Any>, Error> {
        Ok(self.acquire().await?.into_any())
    }

    async fn try_acquire(&self) -> Result<Option<Guard<Any>>, Error> {
        Ok(self.try_acquire().await?.map(Guard::into_any))
    }
}

#[async_trait]
impl InterProcessLock for InterProcessSemaphoreMutex {
    fn path(&self) -> &str {
        self.path()
    }

    fn server_path(&self) -> String {
        self.server_path()
    }

    async fn acquire(&self) -> Result<Guard<Any>, Error> {
        Ok(self.acquire().await?.into_any())
    }

    async fn try_acquire(&self) -> Result<Option<Guard<Any>>, Error> {
        Ok(self.try_acquire().await?.map(Guard::into_any))
    }
}
