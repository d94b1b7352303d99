use std::future::{Future, IntoFuture};

use crate::error::{ErrorKind, Result};

/// The effect of a write with a lost response, as a later read shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth answer")]
pub enum ResolvedOutcome {
    /// The write was applied.
    Applied,
    /// The write was not applied, and cannot be any more.
    NotApplied,
    /// The read does not tell: another client may have changed the node.
    Unknown,
}

/// Sends a write until its outcome is known. After a lost response, `look` reads the node that the
/// write should have changed, behind a quorum: with the option `linearizable`. After such a read
/// the write cannot be applied any more: the node either shows its effect, or never will. Only a
/// write that was [not applied](ResolvedOutcome::NotApplied) is sent again.
///
/// Returns the result of the write; `None` if the read has proven it.
///
/// # Errors
/// * The error of the write, if it was not applied.
/// * The error of the lost response, if the read fails or does not tell: the error of the read
///   would wrongly say that nothing was applied.
///
/// # Cancel safety
/// Once polled, the write may be applied.
pub async fn resolve<T, W, L>(write: impl Fn() -> W, look: impl Fn() -> L) -> Result<Option<T>>
where
    W: IntoFuture<Output = Result<T>>,
    L: Future<Output = Result<ResolvedOutcome>>,
{
    loop {
        let unknown = match write().await {
            Err(error) if error.may_have_applied() => error,
            answered => return answered.map(Some),
        };
        match look().await {
            Ok(ResolvedOutcome::Applied) => return Ok(None),
            // The server would close every connection on it.
            Ok(ResolvedOutcome::NotApplied) if unknown.kind() == ErrorKind::TooLarge => {
                return Err(unknown.not_applied());
            }
            Ok(ResolvedOutcome::NotApplied) => {}
            Ok(ResolvedOutcome::Unknown) | Err(_) => return Err(unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::future::ready;

    use futures_util::FutureExt;

    use super::*;
    use crate::error::Error;

    /// Returns the outcome of a write with these responses and reads, each of which is used.
    fn outcome<const W: usize, const L: usize>(
        responses: [Result<u8>; W],
        looks: [Result<ResolvedOutcome>; L],
    ) -> Result<Option<u8>, ErrorKind> {
        let responses = RefCell::new(VecDeque::from(responses));
        let looks = RefCell::new(VecDeque::from(looks));
        let write = || ready(responses.borrow_mut().pop_front().unwrap());
        let look = || ready(looks.borrow_mut().pop_front().unwrap());
        let outcome = resolve(write, look).now_or_never().unwrap();
        assert!(responses.borrow().is_empty() && looks.borrow().is_empty());
        outcome.map_err(|error| error.kind())
    }

    fn failed<T>(kind: ErrorKind) -> Result<T> {
        Err(Error::new(kind, "delete", "/a"))
    }

    fn lost() -> Result<u8> {
        failed(ErrorKind::ConnectionLoss).map_err(Error::of_unknown_outcome)
    }

    #[test]
    fn response_is_the_outcome() {
        assert_eq!(outcome([Ok(1)], []), Ok(Some(1)));
        assert_eq!(outcome([failed(ErrorKind::NoNode)], []), Err(ErrorKind::NoNode));
    }

    #[test]
    fn write_is_sent_again_only_if_it_was_not_applied() {
        assert_eq!(outcome([lost()], [Ok(ResolvedOutcome::Applied)]), Ok(None));
        assert_eq!(outcome([lost(), Ok(2)], [Ok(ResolvedOutcome::NotApplied)]), Ok(Some(2)));
        let twice = [Ok(ResolvedOutcome::NotApplied), Ok(ResolvedOutcome::Applied)];
        assert_eq!(outcome([lost(), lost()], twice), Ok(None));
        let large = failed(ErrorKind::TooLarge).map_err(Error::of_unknown_outcome);
        assert_eq!(outcome([large], [Ok(ResolvedOutcome::NotApplied)]), Err(ErrorKind::TooLarge));
        let refused = [lost(), failed(ErrorKind::NoNode)];
        assert_eq!(outcome(refused, [Ok(ResolvedOutcome::NotApplied)]), Err(ErrorKind::NoNode));
    }

    #[test]
    fn unknown_outcome_is_the_error_of_the_lost_response() {
        for look in [Ok(ResolvedOutcome::Unknown), failed(ErrorKind::NoAuth)] {
            assert_eq!(outcome([lost()], [look]), Err(ErrorKind::ConnectionLoss));
        }
    }
}
