use std::future::IntoFuture;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

use crate::error::Result;

/// Runs many operations, at most `limit` of them at a time (zero counts as one), and answers their results in
/// their order.
///
/// They are begun in their order, but without a wait between them: two that must happen one after the other
/// belong into a [`Transaction`](super::Transaction).
///
/// ```
/// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
/// let names = zk.children("/jobs").await?;
/// let reads = names.iter().map(|name| zk.get_data(format!("/jobs/{name}")));
/// for (name, data) in names.iter().zip(zk_curator::op::fan_out(64, reads).await) {
///     println!("{name}: {data:?}");
/// }
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// As that of each operation; those that have not begun are not sent.
pub async fn fan_out<T, I>(limit: usize, operations: I) -> Vec<Result<T>>
where
    I: IntoIterator,
    I::Item: IntoFuture<Output = Result<T>>,
{
    let mut operations = operations.into_iter();
    let mut running: FuturesOrdered<_> =
        operations.by_ref().take(limit.max(1)).map(IntoFuture::into_future).collect();
    let mut results = Vec::new();
    while let Some(result) = running.next().await {
        results.push(result);
        running.extend(operations.by_ref().take(1).map(IntoFuture::into_future));
    }
    results
}
