use std::fmt;

use futures_util::Stream;

use super::{Typed, ZNode};
use crate::error::{Error, Result};
use crate::value::FromData;
use crate::watch::{DataWatch, until_error};

/// Follows the value of a node: see [`Typed::watch`].
///
/// # Cancel safety
/// Dropping it removes its watch.
#[must_use = "nothing is read unless the next state is awaited"]
pub struct TypedWatch<T> {
    typed: Typed<T>,
    watch: DataWatch,
    /// The reason why there is no path to follow.
    refused: Option<Error>,
}

impl<T: FromData + Send + 'static> Typed<T> {
    /// Follows the value of a node, which need not exist: returns it now, and after every change,
    /// as [`watch_data`](crate::CuratorFramework::watch_data) does. **Nothing is sent until
    /// [`next`](TypedWatch::next) is awaited.**
    pub fn watch(&self, path: impl Into<String>) -> TypedWatch<T> {
        TypedWatch { typed: self.clone(), watch: self.zk.watch_data(path), refused: None }
    }

    /// Follows nothing: every state is this error.
    pub(crate) fn watch_refused(&self, error: Error) -> TypedWatch<T> {
        TypedWatch { refused: Some(error), ..self.watch("") }
    }
}

impl<T: FromData + Send + 'static> TypedWatch<T> {
    /// Waits for the next state, as [`DataWatch::next`] does.
    ///
    /// # Errors
    /// The errors of [`DataWatch::next`]. `Undecodable` for data that cannot be decoded, once: the
    /// next call waits for the next state.
    ///
    /// # Cancel safety
    /// Dropping the future loses no state.
    pub async fn next(&mut self) -> Result<Option<ZNode<T>>> {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let state = self.watch.next().await?;
        let node = |(data, stat)| self.typed.node(self.watch.path().to_owned(), data, stat);
        state.map(node).transpose()
    }

    /// Returns the states as a stream, which ends after the first error.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream drops the watch.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<ZNode<T>>>> + Send + 'static {
        until_error(self, |watch| Box::pin(watch.next()))
    }
}

impl<T> fmt::Debug for TypedWatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedWatch").field(&self.watch).finish()
    }
}
