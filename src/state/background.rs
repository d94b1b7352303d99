use std::fmt;

use futures_core::Stream;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// The background errors since this value was created. No caller waits for them.
/// [`BackgroundErrors::into_stream`] makes it a [`Stream`].
///
/// The last 64 errors are kept for a slow reader; [`BackgroundErrors::missed`] counts the others.
/// Ends when the framework is closed.
pub struct BackgroundErrors {
    receiver: broadcast::Receiver<Error>,
    closed: CancellationToken,
    missed: u64,
}

impl BackgroundErrors {
    pub(crate) const CAPACITY: usize = 64;

    pub(crate) const fn new(
        receiver: broadcast::Receiver<Error>,
        closed: CancellationToken,
    ) -> Self {
        Self { receiver, closed, missed: 0 }
    }

    /// Returns the next error; `None` after the framework is closed and all errors are read.
    ///
    /// # Cancel safety
    /// Dropping the future loses no error.
    pub async fn next(&mut self) -> Option<Error> {
        loop {
            let next = tokio::select! {
                biased;
                next = self.receiver.recv() => next,
                () = self.closed.cancelled() => return None,
            };
            match next {
                Ok(error) => return Some(error),
                Err(RecvError::Lagged(missed)) => self.missed += missed,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Returns the number of errors that this reader was too slow for.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the errors as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Error> + Send + 'static {
        futures_util::stream::unfold(self, async |mut errors| {
            errors.next().await.map(|error| (error, errors))
        })
    }
}

impl fmt::Debug for BackgroundErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundErrors").field("missed", &self.missed).finish_non_exhaustive()
    }
}
