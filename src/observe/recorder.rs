use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::debug;

use crate::core::FencingToken;
use crate::error::Result;

/// Receives the steps of a service: what it believes to hold, and what it does on the strength of that.
///
/// A service takes a recorder as a parameter. In production that is `()`, which forgets all steps, or [`TracingRecorder`]. In a
/// simulation (crate `zk-curator-sim`) it is the simulated client, and checkers judge what was recorded. The service depends on
/// neither.
///
/// # When to record
/// A step that announces (`…ing`) is recorded before the call, every other one after the answer.
/// [`Attempt`](super::Attempt) records the steps of a lock, a lease or a term of leadership in this order. Those of queues are
/// recorded one by one:
///
/// ```
/// use zk_curator::observe::{Outcome, Recorder, Step};
/// use zk_curator::{CuratorFramework, Error};
///
/// async fn put(zk: &CuratorFramework, recorder: &impl Recorder, item: &str) -> Result<(), Error> {
///     recorder.record(Step::Putting { queue: "mails", item, rank: 0 });
///     let put = zk.create(format!("/mails/{item}")).idempotent().await;
///     recorder.record(Step::Put { queue: "mails", item, outcome: Outcome::of(&put) });
///     put.map(drop)
/// }
/// ```
pub trait Recorder: Send + Sync {
    /// Takes note of a step.
    fn record(&self, step: Step<'_>);

    /// Returns the number of a new attempt. All attempts that are judged together have different numbers. Default: a count
    /// of the attempts of this process.
    fn next_attempt(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// Forgets all steps.
impl Recorder for () {
    fn record(&self, _: Step<'_>) {}
}

impl<R: Recorder + ?Sized> Recorder for &R {
    fn record(&self, step: Step<'_>) {
        (**self).record(step);
    }

    fn next_attempt(&self) -> u64 {
        (**self).next_attempt()
    }
}

impl<R: Recorder + ?Sized> Recorder for Arc<R> {
    fn record(&self, step: Step<'_>) {
        (**self).record(step);
    }

    fn next_attempt(&self) -> u64 {
        (**self).next_attempt()
    }
}

/// Emits each step as a `tracing` event at debug level, `step` with the field `step`.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TracingRecorder;

impl TracingRecorder {
    /// The recorder. It has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Recorder for TracingRecorder {
    fn record(&self, step: Step<'_>) {
        debug!(%step, "step");
    }
}

/// A step of a service.
///
/// `hold` is the number of an attempt to hold something, and of the hold that comes of it. The names of resources, queues and
/// items are the service's own, the same in all its processes.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of all variants are explained above, or have types of their own")]
pub enum Step<'a> {
    /// Begins to acquire a resource.
    Acquiring { resource: &'a str, mode: HoldMode, hold: u64 },
    /// Holds the resource, and believes so until [`Lost`](Self::Lost) or [`Releasing`](Self::Releasing).
    Acquired { resource: &'a str, mode: HoldMode, hold: u64, token: FencingToken },
    /// An attempt has ended without a hold: given up, cancelled, failed.
    Missed { hold: u64 },
    /// Has learnt that the resource is not held any more.
    Lost { hold: u64 },
    /// Begins to let go. The resource is not used from here on.
    Releasing { hold: u64 },
    /// A server has confirmed that the resource was held until it was released.
    Released { hold: u64 },
    /// The resource was used on the strength of a hold, with its token.
    Used { resource: &'a str, hold: u64, token: FencingToken, outcome: UseOutcome },
    /// Begins to put an item into a queue. Items with a lower rank come first: a priority, or a time; 0 where there is none.
    Putting { queue: &'a str, item: &'a str, rank: i64 },
    /// The put was answered.
    Put { queue: &'a str, item: &'a str, outcome: Outcome },
    /// Has got an item, in this delivery of it, from 1.
    Taken { queue: &'a str, item: &'a str, attempt: u32 },
    /// Has done the work of an item, and is about to remove it.
    Finishing { queue: &'a str, item: &'a str },
    /// The removal of an item was answered.
    Done { queue: &'a str, item: &'a str, outcome: Outcome },
    /// Gives an item back, for others; recorded before they can see it.
    Returned { queue: &'a str, item: &'a str },
    /// An item was put aside, because it failed too often.
    Dead { queue: &'a str, item: &'a str },
    /// A note for the reader. Checkers ignore it.
    Note { text: &'a str },
}

/// The way in which a resource is held.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldMode {
    /// Alone: a mutex, or a lock for writing.
    Exclusive,
    /// Together with others in the same mode: a lock for reading.
    Shared,
    /// One of a limited number: a semaphore.
    Lease,
    /// As the leader.
    Leader,
}

/// The answer of a resource to a use.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseOutcome {
    /// It took effect, at this place among all uses: their count, or the version of the znode that was written.
    Accepted(u64),
    /// It was refused and had no effect.
    Refused,
}

/// What a service knows of the effect of a request.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect.
    Sure,
    /// It may have taken effect, or may still.
    Unknown,
    /// It had no effect and will have none.
    Failed,
}

impl Outcome {
    /// The outcome of an operation of the framework.
    #[must_use]
    pub const fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Sure,
            Err(error) => Self::of_failure(error.may_have_applied()),
        }
    }

    /// The outcome of a request that has failed, by the `may_have_applied` of its error.
    #[must_use]
    pub const fn of_failure(may_have_applied: bool) -> Self {
        if may_have_applied { Self::Unknown } else { Self::Failed }
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquiring { resource, mode, hold } => write!(f, "acquiring {resource} ({mode:?}), #{hold}"),
            Self::Acquired { resource, mode, hold, token } => {
                write!(f, "acquired {resource} ({mode:?}), #{hold}, token {token}")
            }
            Self::Missed { hold } => write!(f, "missed #{hold}"),
            Self::Lost { hold } => write!(f, "lost #{hold}"),
            Self::Releasing { hold } => write!(f, "releasing #{hold}"),
            Self::Released { hold } => write!(f, "released #{hold}"),
            Self::Used { resource, hold, token, outcome } => {
                write!(f, "used {resource}, #{hold}, token {token}: {outcome:?}")
            }
            Self::Putting { queue, item, rank } => write!(f, "putting {item} into {queue}, rank {rank}"),
            Self::Put { queue, item, outcome } => write!(f, "put {item} into {queue}: {outcome:?}"),
            Self::Taken { queue, item, attempt } => write!(f, "taken {item} of {queue}, delivery {attempt}"),
            Self::Finishing { queue, item } => write!(f, "finishing {item} of {queue}"),
            Self::Done { queue, item, outcome } => write!(f, "done {item} of {queue}: {outcome:?}"),
            Self::Returned { queue, item } => write!(f, "returned {item} to {queue}"),
            Self::Dead { queue, item } => write!(f, "put aside {item} of {queue}"),
            Self::Note { text } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Recorder};
    use crate::{Error, ErrorKind};

    #[test]
    fn attempts_of_a_process_have_different_numbers() {
        assert_ne!(().next_attempt(), ().next_attempt());
    }

    #[test]
    fn outcomes_follow_the_error() {
        let refused = Error::new(ErrorKind::NoNode, "create", "/a");
        assert_eq!(Outcome::of(&Ok(1)), Outcome::Sure);
        assert_eq!(Outcome::of::<()>(&Err(refused)), Outcome::Failed);
        assert_eq!(Outcome::of_failure(true), Outcome::Unknown);
    }
}
