//! The operations that every client has.

use std::cell::RefCell;
use std::pin::Pin;
use std::time::Duration;

use super::measure::{Result, at_most};

/// The requests that are under way while nodes are created or deleted.
const IN_FLIGHT: usize = 128;
/// A parent can have a new child for as long as a client deletes its nodes in the background.
const ATTEMPTS: usize = 10;

/// The path of a node below another.
pub(crate) fn numbered(path: &str, number: usize) -> String {
    format!("{path}/{number:08}")
}

/// A session of a client. Clones use the same session.
pub(crate) trait Session: Clone {
    /// The data of a node.
    type Data: AsRef<[u8]>;

    async fn open(connect: &str, timeout: Duration) -> Result<Self>;

    /// Resolves when the session has been closed, which begins when its last clone is dropped. It
    /// keeps no clone.
    fn closed(&self) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Closes the session, if the client can do so before its last clone is dropped.
    async fn close(&self) -> Result<()>;

    async fn create(&self, path: &str, data: &[u8], is_ephemeral: bool) -> Result<()>;

    async fn get(&self, path: &str) -> Result<Self::Data>;

    /// Reads the data, with a watch that resolves when the node has changed.
    async fn watch(
        &self,
        path: &str,
    ) -> Result<(Self::Data, impl Future<Output = Result<()>> + use<Self>)>;

    /// Returns the node's new version.
    async fn set(&self, path: &str, data: &[u8]) -> Result<i32>;

    async fn delete(&self, path: &str) -> Result<()>;

    async fn exists(&self, path: &str) -> Result<bool>;

    async fn children(&self, path: &str) -> Result<Vec<String>>;

    /// Creates a node without data, and its missing parents.
    async fn create_all(&self, path: &str) -> Result<()> {
        let ends = path.match_indices('/').map(|(end, _)| end).skip(1).chain([path.len()]);
        for parent in ends.map(|end| &path[..end]) {
            if !self.exists(parent).await? {
                self.create(parent, b"", false).await?;
            }
        }
        Ok(())
    }

    /// Creates a node with data, and its missing parents.
    async fn plant(&self, path: &str, data: &[u8]) -> Result<()> {
        let (parent, _) = path.rsplit_once('/').ok_or("a path begins with a slash")?;
        self.create_all(parent).await?;
        self.create(path, data, false).await
    }

    /// Creates a node without data, its missing parents, and `count` [numbered] nodes below it.
    async fn plant_many(&self, path: &str, count: usize, data: &[u8]) -> Result<()> {
        self.create_all(path).await?;
        let create = async |number| self.create(&numbered(path, number), data, false).await;
        at_most(IN_FLIGHT, count, create).await?;
        Ok(())
    }

    /// Deletes a node and everything below it, if it exists.
    async fn remove(&self, path: &str) -> Result<()> {
        for attempt in 1.. {
            let left = RefCell::new(Vec::new());
            let mut level = vec![path.to_owned()];
            while !level.is_empty() {
                let below = RefCell::new(Vec::new());
                at_most(IN_FLIGHT, level.len(), async |number| {
                    // A node that is gone by now has no children.
                    let children = self.children(&level[number]).await.unwrap_or_default();
                    let paths = children.iter().map(|name| format!("{}/{name}", level[number]));
                    below.borrow_mut().extend(paths);
                    Ok(())
                })
                .await?;
                left.borrow_mut().push(std::mem::replace(&mut level, below.take()));
            }
            for level in left.take().iter().rev() {
                at_most(IN_FLIGHT, level.len(), async |number| {
                    // Another deletion can be first.
                    let (Ok(()) | Err(_)) = self.delete(&level[number]).await;
                    Ok(())
                })
                .await?;
            }
            if !self.exists(path).await? {
                break;
            }
            if attempt == ATTEMPTS {
                return Err(format!("{path} cannot be removed").into());
            }
        }
        Ok(())
    }
}
