use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::stream::unfold;

/// Returns the results of an asynchronous `next` as a stream that ends after the first error.
///
/// The followers of this module and of recipes use it, these by `zk_curator::internal`.
///
/// # Cancel safety
/// Dropping the stream drops `follower`.
pub fn until_error<F, T, E>(
    follower: F,
    next: fn(&mut F) -> BoxFuture<'_, Result<T, E>>,
) -> impl Stream<Item = Result<T, E>> + Send + 'static
where
    F: Send + 'static,
    T: 'static,
    E: 'static,
{
    unfold(Some(follower), move |follower| async move {
        let mut follower = follower?;
        let result = next(&mut follower).await;
        let follower = result.is_ok().then_some(follower);
        Some((result, follower))
    })
}
