use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::debug;

use crate::core::FencingToken;
use crate::error::Result;

/// Receives the steps of a service: the resources that it believes to hold, and its use of them.
///
/// A service takes a recorder as a parameter. In production that is `()`, which ignores all steps,
/// or [`TracingRecorder`]. In a simulation (crate `zk-curator-sim`) it is the simulated client, and
/// checkers judge the records. The service depends on neither.
///
/// # When to record
/// Record an announcing step (`…ing`) before the call, and every other step after the response.
/// [`Attempt`](super::Attempt) records the steps of a lock, a lease or a term of leadership in this
/// order:
///
/// | step | when to record it | if it is missing |
/// |---|---|---|
/// | `Attempt::begin` | before the call that acquires | the checker does not know what the client had seen when it began the attempt |
/// | `acquired` | when the guard exists, with its fencing token | two simultaneous holders are not found |
/// | `used` | when the protected resource has responded, with its version or count, even after `lost` | a write by a stale leader is not found |
/// | `lost` | where the service learns of the loss, and stops | a service that believes for too long that it holds is not found |
/// | `releasing`, or the drop of `Held` | before the guard is released | a correct hand-over counts as two holders |
/// | `released` | when a server has confirmed the release | the checker excuses an overlap if the client was stopped or its session expired |
///
/// Do not record a write whose response was lost, because its position among the other writes is
/// unknown. The steps of queues are recorded one by one. Without them, lost and repeated items are
/// not found:
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
    /// Records a step.
    fn record(&self, step: Step<'_>);

    /// Returns the number of a new attempt. Attempts that are judged together have different
    /// numbers. Default: a count of the attempts of this process.
    fn next_attempt(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

/// Ignores all steps.
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
    /// Creates the recorder. It has no settings.
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
/// The field `hold` is the number of an attempt to hold a resource, and of the hold that it leads
/// to. The names of resources, queues and items are chosen by the service, and are the same in all
/// its processes.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the fields of all variants are explained above, or have types of their own"
)]
pub enum Step<'a> {
    /// The service begins to acquire a resource.
    Acquiring { resource: &'a str, mode: HoldMode, hold: u64 },
    /// The service holds the resource, and believes so until [`Lost`](Self::Lost) or
    /// [`Releasing`](Self::Releasing).
    Acquired { resource: &'a str, mode: HoldMode, hold: u64, token: FencingToken },
    /// An attempt has ended without a hold: given up, cancelled, or failed.
    Missed { hold: u64 },
    /// The service has learnt that it no longer holds the resource.
    Lost { hold: u64 },
    /// The service begins to release the resource, and does not use it from here on.
    Releasing { hold: u64 },
    /// A server has confirmed that the resource was held until it was released.
    Released { hold: u64 },
    /// The service has used the resource by a hold, with its token.
    Used { resource: &'a str, hold: u64, token: FencingToken, outcome: UseOutcome },
    /// The service begins to put an item into a queue. The rank is a priority or a time; items with
    /// a lower rank come first. Use 0 if there is none.
    Putting { queue: &'a str, item: &'a str, rank: i64 },
    /// The put has ended.
    Put { queue: &'a str, item: &'a str, outcome: Outcome },
    /// The service has received an item. `attempt` is the number of the delivery, from 1.
    Taken { queue: &'a str, item: &'a str, attempt: u32 },
    /// The service has processed an item, and is about to remove it.
    Finishing { queue: &'a str, item: &'a str },
    /// The removal of an item has ended.
    Done { queue: &'a str, item: &'a str, outcome: Outcome },
    /// The service returns an item to the queue. Recorded before other consumers can see it.
    Returned { queue: &'a str, item: &'a str },
    /// An item became a dead letter, because it failed too often.
    Dead { queue: &'a str, item: &'a str },
    /// A note for the reader. Checkers ignore it.
    Note { text: &'a str },
}

/// The way in which a resource is held.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HoldMode {
    /// Exclusive: a mutex, or a lock for writing.
    Exclusive,
    /// Shared with other holders in the same mode: a lock for reading.
    Shared,
    /// One of a limited number of permits: a semaphore.
    Permit,
    /// Leadership.
    Leader,
}

/// The reaction of a resource to a use.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum UseOutcome {
    /// The use took effect. The number is its place among all uses: their count, or the version of
    /// the znode that was written.
    Accepted(u64),
    /// The use was refused and had no effect.
    Refused,
}

/// The knowledge of a service about the effect of a request.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// The request took effect.
    Sure,
    /// The request may have taken effect, or may still take effect.
    Unknown,
    /// The request had no effect and will have none.
    Failed,
}

impl Outcome {
    /// Returns the outcome of an operation of the framework.
    #[must_use]
    pub const fn of<T>(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::Sure,
            Err(error) => Self::of_failure(error.may_have_applied()),
        }
    }

    /// Returns the outcome of a failed request, by the `may_have_applied` of its error.
    #[must_use]
    pub const fn of_failure(may_have_applied: bool) -> Self {
        if may_have_applied { Self::Unknown } else { Self::Failed }
    }
}

impl fmt::Display for HoldMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Permit => "permit",
            Self::Leader => "leader",
        })
    }
}

impl fmt::Display for UseOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(place) => write!(f, "accepted as use {place}"),
            Self::Refused => f.write_str("refused"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sure => "done",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        })
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquiring { resource, mode, hold } => {
                write!(f, "acquiring {resource} ({mode}), #{hold}")
            }
            Self::Acquired { resource, mode, hold, token } => {
                write!(f, "acquired {resource} ({mode}), #{hold}, token {token}")
            }
            Self::Missed { hold } => write!(f, "missed #{hold}"),
            Self::Lost { hold } => write!(f, "lost #{hold}"),
            Self::Releasing { hold } => write!(f, "releasing #{hold}"),
            Self::Released { hold } => write!(f, "released #{hold}"),
            Self::Used { resource, hold, token, outcome } => {
                write!(f, "used {resource}, #{hold}, token {token}: {outcome}")
            }
            Self::Putting { queue, item, rank } => {
                write!(f, "putting {item} into {queue}, rank {rank}")
            }
            Self::Put { queue, item, outcome } => write!(f, "put {item} into {queue}: {outcome}"),
            Self::Taken { queue, item, attempt } => {
                write!(f, "taken {item} of {queue}, delivery {attempt}")
            }
            Self::Finishing { queue, item } => write!(f, "finishing {item} of {queue}"),
            Self::Done { queue, item, outcome } => write!(f, "done {item} of {queue}: {outcome}"),
            Self::Returned { queue, item } => write!(f, "returned {item} to {queue}"),
            Self::Dead { queue, item } => write!(f, "made {item} of {queue} a dead letter"),
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
