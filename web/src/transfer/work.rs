//! Work that reads and writes files, in threads of their own: it would block the other requests.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::error;

use crate::problem::{Problem, RequestResult};
use crate::security::StreamLimits;

/// The places for such work, as a user has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkPlaces<'a> {
    pub(crate) limits: &'a Arc<StreamLimits>,
    /// The name by which the user is counted.
    pub(crate) who: &'a str,
}

/// Runs work to its end, also if the caller goes away.
pub(crate) async fn complete<T: Send + 'static, F: Future<Output = T>>(
    places: WorkPlaces<'_>,
    work: impl FnOnce() -> F + Send + 'static,
) -> RequestResult<T> {
    let place = places.limits.take(places.who).ok_or_else(busy)?;
    let runtime = Handle::current();
    let done = spawn_blocking(move || {
        let done = runtime.block_on(work());
        drop(place);
        done
    });
    done.await.map_err(|why| {
        error!(%why, "work of the web explorer has panicked");
        let detail = "The explorer has failed. Its log has the reason.";
        Problem::internal("Internal error", detail)
    })
}

/// Runs work until its end, or until the caller goes away, for example because the browser has
/// closed the connection.
pub(crate) async fn until_gone<T: Send + 'static, F: Future<Output = T>>(
    places: WorkPlaces<'_>,
    work: impl FnOnce() -> F + Send + 'static,
) -> RequestResult<T> {
    let (caller, gone) = oneshot::channel::<()>();
    let work = move || async move {
        tokio::select! {
            done = work() => Some(done),
            _ = gone => None,
        }
    };
    let done = complete(places, work).await?;
    drop(caller);
    // Only a caller that is gone could see this.
    done.ok_or_else(busy)
}

fn busy() -> Problem {
    let detail = "Other backups, comparisons, restores or pages of the past are being made, by \
                  you or by others. Try again later.";
    Problem::no_place("Too much at the same time", detail)
}
