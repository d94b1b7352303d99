use std::fmt;

use zk_curator::watch::DataWatch;

use super::{Bound, Error};

/// Follows a name: see [`NameService::follow`](super::NameService::follow). It costs no task: nothing is read unless
/// [`next`](Self::next) is awaited.
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless it is asked for the next binding"]
pub struct NameWatch(Result<DataWatch, Error>);

impl NameWatch {
    pub(super) const fn new(watch: Result<DataWatch, Error>) -> Self {
        Self(watch)
    }

    /// Waits for the next binding, for ever and across sessions: at first what there is, then what differs from the last one
    /// told. `None`: the name is not bound. Bindings that are replaced before anybody looks are left out; the newest
    /// never is.
    ///
    /// # Errors
    /// * [`Error::InvalidName`].
    /// * [`Error::Framework`] that does not pass by itself: `InvalidPath`, `NoAuth`, `Closed`.
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
