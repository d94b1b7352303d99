use std::fmt;

use zk_curator::watch::DataWatch;

use super::{Bound, Error};

/// Follows a name: see [`NameService::follow`](super::NameService::follow). It needs no task:
/// nothing is read unless [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless `next` is awaited"]
pub struct NameWatch(Result<DataWatch, Error>);

impl NameWatch {
    pub(super) const fn new(watch: Result<DataWatch, Error>) -> Self {
        Self(watch)
    }

    /// Waits for the next binding, without a time limit and across sessions. The first call returns
    /// the current binding. Each further call waits for a binding that differs from the last one
    /// returned. `None` means that the name is not bound. Bindings that are replaced between two
    /// calls are skipped; the latest never is.
    ///
    /// # Errors
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] with a permanent error: `InvalidPath`, `NoAuth`, `Closed`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Result<Option<Bound>, Error> {
        let watch = self.0.as_mut().map_err(|error| error.clone())?;
        let node = watch.next().await?;
        Ok(node.map(|(data, stat)| Bound::new(watch.path().to_owned(), data, &stat)))
    }
}

impl fmt::Debug for NameWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NameWatch").field(&self.0).finish()
    }
}
