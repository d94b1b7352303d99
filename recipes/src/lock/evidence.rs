use zk_curator::Ownership;

use super::Error;
use crate::contender::KeptWatch;

/// Shows whether the node of a lock still exists, before the lock is granted again: to the next
/// task of a process, or to the same owner. An operator may have deleted the node, and another
/// process may hold the lock.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// A watch on the node.
    pub(super) kept: Option<Box<KeptWatch>>,
}

impl Evidence {
    /// Returns `true` if the node exists. Sends a request if there is no watch yet, after a change
    /// of the node, and after a loss of the connection.
    ///
    /// # Errors
    /// As every read: then nothing is known.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect, except that the next call sends a request.
    pub(super) async fn is_there(&mut self, ownership: &Ownership) -> Result<bool, Error> {
        if ownership.is_over() {
            return Ok(false);
        }
        let zk = ownership.framework();
        if self.kept.as_mut().is_some_and(|kept| kept.holds(zk)) {
            return Ok(true);
        }
        self.kept = None;
        let since = zk.status().epoch;
        let Some(watch) = ownership.confirm().await? else { return Ok(false) };
        self.kept = Some(Box::new(KeptWatch { watch, since }));
        Ok(true)
    }
}
