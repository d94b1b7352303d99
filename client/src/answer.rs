//! Responses: functions that decode them, and futures that wait for them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::{Instant, Sleep};
use zk_curator_proto::records::{Create2Response, MultiResult, Stat};
use zk_curator_proto::{ErrorCode, Response};

use crate::path::visible;
use crate::session::ResponseTicket;
use crate::timer::sleep_until;
use crate::watch::OneshotWatch;
use crate::{Children, Created, Data, Error, OpResult};

/// Decodes a response. Returns `None` if it is of another kind.
pub(crate) type Decode<T> = fn(Response, &str) -> Option<T>;

/// Decodes responses without content.
pub(crate) fn nothing(_: Response, _: &str) -> Option<()> {
    Some(())
}

pub(crate) fn stat_of_response(response: Response, _: &str) -> Option<Stat> {
    if let Response::Stat(stat) = response { Some(stat) } else { None }
}

pub(crate) fn stat(response: Response, chroot: &str) -> Option<Option<Stat>> {
    stat_of_response(response, chroot).map(Some)
}

pub(crate) fn data(response: Response, _: &str) -> Option<Data> {
    match response {
        Response::Data(body) => {
            let is_null = body.data.is_none();
            Some(Data { data: body.data.unwrap_or_default(), is_null, stat: body.stat })
        }
        _ => None,
    }
}

pub(crate) fn children(response: Response, _: &str) -> Option<Children> {
    match response {
        Response::Children2(body) => Some(Children { names: body.children, stat: body.stat }),
        _ => None,
    }
}

pub(crate) fn created(body: Create2Response, chroot: &str) -> Created {
    Created { path: below(chroot, body.path), stat: body.stat }
}

/// Returns the path without the chroot.
pub(crate) fn below(chroot: &str, path: String) -> String {
    if chroot.is_empty() { path } else { visible(chroot, &path).to_owned() }
}

pub(crate) fn multi_results(response: Response, chroot: &str) -> Option<Vec<OpResult>> {
    let Response::Multi(results) = response else {
        return None;
    };
    let convert = |result| match result {
        MultiResult::Create(path) => {
            Some(OpResult::Created { path: below(chroot, path), stat: None })
        }
        MultiResult::Create2(body) => {
            Some(OpResult::Created { path: below(chroot, body.path), stat: Some(body.stat) })
        }
        MultiResult::Delete => Some(OpResult::Deleted),
        MultiResult::SetData(stat) => Some(OpResult::DataSet(stat)),
        MultiResult::Check => Some(OpResult::Checked),
        _ => None,
    };
    results.into_iter().map(convert).collect()
}

/// Waits for the response to a request that is already queued.
///
/// # Cancel safety
/// A dropped future does not withdraw a request that was sent: it may still be applied. A request
/// that still waits for a connection is not sent.
#[must_use = "the response, or the error, is only known by awaiting it"]
pub struct Pending<T> {
    state: PendingState,
    decode: Decode<T>,
    /// An error of the server that is a value to the caller.
    expected: Option<(ErrorCode, fn() -> T)>,
    deadline: Option<AnswerDeadline>,
}

/// The time after which the caller gives up.
struct AnswerDeadline {
    at: Instant,
    /// Created at the first poll, because the call itself needs no runtime.
    sleep: Option<Pin<Box<Sleep>>>,
}

enum PendingState {
    Waiting(ResponseTicket),
    Failed(Option<Error>),
}

impl<T> Pending<T> {
    pub(crate) fn failed(error: Error) -> Self {
        Self {
            state: PendingState::Failed(Some(error)),
            decode: |_, _| None,
            expected: None,
            deadline: None,
        }
    }

    pub(crate) const fn waiting(ticket: ResponseTicket, decode: Decode<T>) -> Self {
        Self { state: PendingState::Waiting(ticket), decode, expected: None, deadline: None }
    }
}

impl<T> Pending<T> {
    /// Gives up `deadline` from now.
    pub(crate) fn until(mut self, deadline: Option<Duration>) -> Self {
        // A deadline too far away to be a point in time means no deadline.
        self.deadline = deadline.and_then(|deadline| {
            Some(AnswerDeadline { at: Instant::now().checked_add(deadline)?, sleep: None })
        });
        self
    }

    /// Withdraws the request. If this returns `true`, the request was not sent, never will be, and
    /// fails with [`Error::NotConnected`]. Otherwise nothing changes.
    ///
    /// A request that waits for a connection can be withdrawn. While there is a connection, a
    /// request without a [deadline](crate::ZooKeeper::with_deadline) counts as sent.
    pub fn withdraw(&mut self) -> bool {
        let withdrawn = match &mut self.state {
            PendingState::Waiting(ticket) => ticket.withdraw(),
            PendingState::Failed(_) => false,
        };
        if withdrawn {
            self.state = PendingState::Failed(Some(Error::NotConnected));
        }
        withdrawn
    }

    /// Returns `value` instead of the error `code`.
    pub(crate) fn refused_with(mut self, code: ErrorCode, value: fn() -> T) -> Self {
        self.expected = Some((code, value));
        self
    }
}

impl<T> Pending<Option<T>> {
    pub(crate) fn absent_is_none(self) -> Self {
        self.refused_with(ErrorCode::NoNode, || None)
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let ticket = match &mut this.state {
            PendingState::Waiting(ticket) => ticket,
            PendingState::Failed(error) => {
                return Poll::Ready(Err(error.take().unwrap_or(Error::Closed { sent: false })));
            }
        };
        // Responses that are already there must not let a task run forever.
        let budget = std::task::ready!(coop::poll_proceed(cx));
        let answer = match (ticket.poll(cx), &mut this.deadline) {
            (Poll::Ready(answer), _) => answer,
            (Poll::Pending, Some(AnswerDeadline { at, sleep })) => {
                let sleep = sleep.get_or_insert_with(|| Box::pin(sleep_until(*at)));
                std::task::ready!(sleep.as_mut().poll(cx));
                ticket.give_up().unwrap_or_else(|sent| Err(Error::DeadlineExceeded { sent }))
            }
            (Poll::Pending, None) => return Poll::Pending,
        };
        budget.made_progress();
        Poll::Ready(match answer {
            Ok(Response::Multi(results)) if transaction_error(&results).is_some() => {
                Err(transaction_error(&results).unwrap_or(Error::UnexpectedResponse))
            }
            Ok(response) => {
                (this.decode)(response, ticket.chroot()).ok_or(Error::UnexpectedResponse)
            }
            Err(error) => match this.expected {
                Some((code, value)) if error == Error::Refused(code) => Ok(value()),
                _ => Err(error),
            },
        })
    }
}

/// Returns the error of the operation that failed. The other operations carry filler codes.
fn transaction_error(results: &[MultiResult]) -> Option<Error> {
    let failed = |result: &MultiResult| match result {
        MultiResult::Error(Some(code)) if *code != ErrorCode::RuntimeInconsistency => Some(*code),
        _ => None,
    };
    let at_fault =
        results.iter().enumerate().find_map(|(index, result)| Some((index, failed(result)?)));
    if let Some((index, code)) = at_fault {
        return Some(Error::TransactionFailed { index, code });
    }
    let index = results.iter().position(|result| matches!(result, MultiResult::Error(_)))?;
    Some(Error::TransactionFailed { index, code: ErrorCode::RuntimeInconsistency })
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// A [`Pending`] for a read that also sets a watch.
///
/// # Cancel safety
/// The same as for [`Pending`]; the watch is removed.
#[must_use = "the response, or the error, is only known by awaiting it"]
pub struct PendingWatched<T, W = OneshotWatch> {
    pub(crate) answer: Pending<T>,
    pub(crate) watch: Option<W>,
}

impl<T, W: Unpin> Future for PendingWatched<T, W> {
    type Output = Result<(T, W), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(cx));
        let watch = self.watch.take();
        Poll::Ready(answer.and_then(|answer| Ok((answer, watch.ok_or(Error::UnexpectedResponse)?))))
    }
}

impl<T, W> fmt::Debug for PendingWatched<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingWatched").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_operation_at_fault_is_the_one_with_an_error_of_its_own() {
        let filler = || MultiResult::Error(Some(ErrorCode::RuntimeInconsistency));
        let cases = [
            (vec![], None),
            (vec![MultiResult::Delete, MultiResult::Check], None),
            (
                vec![
                    MultiResult::Error(None),
                    MultiResult::Error(Some(ErrorCode::NoNode)),
                    filler(),
                ],
                Some((1, ErrorCode::NoNode)),
            ),
            (
                vec![filler(), MultiResult::Error(Some(ErrorCode::NoNode))],
                Some((1, ErrorCode::NoNode)),
            ),
            (vec![filler(), filler()], Some((0, ErrorCode::RuntimeInconsistency))),
        ];
        for (results, expected) in cases {
            let expected = expected.map(|(index, code)| Error::TransactionFailed { index, code });
            assert_eq!(transaction_error(&results), expected);
        }
    }
}
