//! The common part of the workloads of locks: attempts, holds, and their ends.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::observe::{self, Recorder, Step};
use zk_curator::op::Transaction;
use zk_curator_client::internal::Locked;

use crate::history::{HoldMode, Name, UseOutcome};
use crate::{Client, Failure};

pub(in crate::scenarios) type Attempt<'a> = observe::Attempt<&'a Client>;
pub(in crate::scenarios) type Held<'a> = observe::Held<&'a Client>;

/// Exclusive attempts of which the next begins as soon as one has succeeded.
pub(in crate::scenarios) struct Attempts<R: Recorder> {
    recorder: R,
    resource: Name,
    next: Locked<observe::Attempt<R>>,
}

impl<R: Recorder + Clone> Attempts<R> {
    pub(in crate::scenarios) fn begin(recorder: R, resource: &str) -> Self {
        let next = observe::Attempt::begin(recorder.clone(), resource, HoldMode::Exclusive);
        Self { recorder, resource: resource.into(), next: Locked::new(next) }
    }

    /// Returns the attempt that has succeeded.
    pub(in crate::scenarios) fn take(&self) -> observe::Attempt<R> {
        let (recorder, resource) = (self.recorder.clone(), Name::clone(&self.resource));
        let next = observe::Attempt::begin(recorder, resource, HoldMode::Exclusive);
        std::mem::replace(&mut *self.next.lock(), next)
    }
}

/// A hold of a body that is dropped when the hold is lost.
pub(in crate::scenarios) struct LostIfDropped<'a>(pub(in crate::scenarios) Held<'a>);

impl Drop for LostIfDropped<'_> {
    fn drop(&mut self) {
        self.0.lost();
    }
}

/// Works until the work is done, or the hold is known to be `lost`. Returns `true` if it was not
/// lost.
pub(in crate::scenarios) async fn hold_on(
    held: &Held<'_>,
    lost: impl Future<Output = ()>,
    work: impl Future<Output = ()>,
) -> bool {
    tokio::select! {
        biased;
        () = lost => {
            held.lost();
            false
        }
        () = work => true,
    }
}

/// Ends the hold: by a release, a cancelled release, or a drop.
pub(in crate::scenarios) async fn let_go<E>(
    client: &Client,
    held: &Held<'_>,
    release: impl Future<Output = Result<(), E>>,
) {
    held.releasing();
    if ends(client, release).await {
        held.released();
    }
}

/// Awaits a release, or drops it, perhaps before its first poll. Returns `true` if the release was
/// confirmed.
pub(in crate::scenarios) async fn ends<E>(
    client: &Client,
    release: impl Future<Output = Result<(), E>>,
) -> bool {
    client.rng().u8(..3) > 0 && matches!(client.maybe_cancel(release).await, Some(Ok(())))
}

/// Uses the resource, and writes to a znode in transactions that are applied only while the lock is
/// held.
pub(in crate::scenarios) async fn work(
    client: &Client,
    held: &Held<'_>,
    node: &str,
    fenced: impl Fn() -> Transaction,
) {
    let mut rng = client.rng();
    let most = Duration::from_millis([1, 20, 200][rng.usize(..3)]);
    for _ in 0..rng.u8(..3) {
        sleep(client.moment(most)).await;
        if rng.bool() {
            client.use_resource(held).await;
        } else {
            write(client, &[(held, node)], fenced()).await;
        }
    }
}

/// Writes to znodes in one transaction. Each znode is protected by the hold next to it.
pub(in crate::scenarios) async fn write(
    client: &Client,
    nodes: &[(&Held<'_>, &str)],
    fenced: Transaction,
) {
    let used = |held: &Held<'_>, resource: &str, outcome| {
        let (hold, token) = (held.number(), held.token());
        client.record(Step::Used { resource, hold, token, outcome });
    };
    let fenced = nodes.iter().fold(fenced, |fenced, (_, node)| fenced.set_data(*node, ""));
    match fenced.commit().await {
        Ok(results) => {
            for ((held, node), result) in nodes.iter().zip(results) {
                let version = result.stat().map_or(0, |stat| stat.version);
                used(held, node, UseOutcome::Accepted(version.unsigned_abs().into()));
            }
        }
        Err(error) if error.may_have_applied() => client.note(format!("unknown outcome: {error}")),
        Err(_) => nodes.iter().for_each(|(held, node)| used(held, node, UseOutcome::Refused)),
    }
}

/// Tries to acquire: without a time limit, for a while, or only if the lock is free. The call may
/// be cancelled.
pub(in crate::scenarios) async fn acquire<G, E: Display>(
    client: &Client,
    acquire: impl Future<Output = Result<G, E>>,
    try_acquire: impl Future<Output = Result<Option<G>, E>>,
) -> Option<G> {
    let answer = match client.rng().u8(..8) {
        0 => client.maybe_cancel(try_acquire).await?,
        1 => {
            let patience = client.moment(client.session_timeout());
            client.maybe_cancel(timeout(patience, acquire)).await?.ok()?.map(Some)
        }
        _ => client.maybe_cancel(acquire).await?.map(Some),
    };
    answer.unwrap_or_else(|error| {
        client.note(format!("not acquired: {error}"));
        None
    })
}

/// The pauses between attempts: some clients are busy, others come rarely.
pub(in crate::scenarios) struct Pauses(Duration);

impl Pauses {
    pub(in crate::scenarios) fn of(client: &Client) -> Self {
        Self(Duration::from_millis([5, 50, 500][client.rng().usize(..3)]))
    }

    pub(in crate::scenarios) async fn wait(&self, client: &Client) {
        sleep(client.moment(self.0)).await;
    }
}

/// Lets some clients come again after the last fault, when nothing may fail.
pub(in crate::scenarios) async fn last_visit<G, E>(
    client: &Client,
    acquire: impl Future<Output = Result<G, E>>,
) -> Result<Option<G>, Failure>
where
    Failure: From<E>,
{
    if client.rng().u8(..4) > 0 {
        return Ok(None);
    }
    client.faults_are_over().await;
    // Waits until the effects of the faults are over.
    sleep(client.session_timeout() * 3).await;
    Ok(Some(acquire.await?))
}
