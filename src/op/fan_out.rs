use std::fmt;
use std::future::IntoFuture;
use std::iter::Map;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::vec;

use futures_util::future::{Either, Ready, ready};
use futures_util::stream::{self, Buffered, Collect, StreamExt};

use crate::error::{Error, Result};

/// Runs many operations, at most `limit` at a time, and returns their results in order. With a
/// limit of zero, each of them fails with [`InvalidArgument`](crate::ErrorKind::InvalidArgument),
/// and nothing is sent.
///
/// The operations begin in order, but without a wait between them. Two operations that must happen
/// one after the other belong in a [`Transaction`](super::Transaction).
///
/// The iterator is consumed immediately, so the builders of all operations are in memory. They send
/// nothing yet.
///
/// ```
/// # fn is_send(_: impl Send) {}
/// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
/// let names = zk.children("/jobs").await?;
/// let reads = names.iter().map(|name| zk.get_data(format!("/jobs/{name}")));
/// for (name, data) in names.iter().zip(zk_curator::op::fan_out(64, reads).await) {
///     println!("{name}: {data:?}");
/// }
/// # Ok(()) }
/// # fn spawned(zk: zk_curator::CuratorFramework) { is_send(run(zk)) }
/// ```
///
/// # Cancel safety
/// As that of each operation. Operations that have not begun are not sent.
pub fn fan_out<T, I>(limit: usize, operations: I) -> FanOut<I::Item>
where
    I: IntoIterator,
    I::Item: IntoFuture<Output = Result<T>>,
{
    let operations = operations.into_iter().collect::<Vec<_>>().into_iter();
    if limit == 0 {
        let none = || Error::invalid_argument("fan_out", "", "the limit cannot be 0");
        return FanOut(Box::pin(Either::Left(ready(operations.map(|_| Err(none())).collect()))));
    }
    let into_future: fn(I::Item) -> <I::Item as IntoFuture>::IntoFuture = IntoFuture::into_future;
    FanOut(Box::pin(Either::Right(
        stream::iter(operations.map(into_future)).buffered(limit).collect(),
    )))
}

/// The future of [`fan_out`]. It does not contain the iterator of the operations, so it is `Send`
/// if they are, even if the closures of the iterator borrow.
#[must_use = "nothing is sent before it is awaited"]
pub struct FanOut<O: IntoFuture>(Pin<Box<Either<Refused<O>, All<O>>>>);

type Refused<O> = Ready<Vec<<O as IntoFuture>::Output>>;

type Begun<O> = Map<vec::IntoIter<O>, fn(O) -> <O as IntoFuture>::IntoFuture>;
type All<O> = Collect<Buffered<stream::Iter<Begun<O>>>, Vec<<O as IntoFuture>::Output>>;

impl<O: IntoFuture> Future for FanOut<O> {
    type Output = Vec<O::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<O: IntoFuture> fmt::Debug for FanOut<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").finish_non_exhaustive()
    }
}
