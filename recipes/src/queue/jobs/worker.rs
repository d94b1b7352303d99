use std::future::{Future, IntoFuture};

use bytes::Bytes;
use futures_util::future::join;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use zk_curator::certain::ReceiptPool;
use zk_curator::op::Transaction;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OpResult, OwnedNode};

use super::cleaner;
use super::job::{Claimed, ClaimedJob, JobTask};
use super::places::{Places, is_gone};
use super::record::Executing;
use super::retention::Policy;
use crate::health::{HealthReporter, HealthWatch};
use crate::queue::consume::claims::{ClaimKind, ClaimResult, Claims, Unclaimed};
use crate::queue::consume::consumer::Consumer;
use crate::queue::consume::delivery::Delivery;
use crate::queue::consume::kind::Finish;
use crate::queue::error::Error;
use crate::queue::feed::driver::FeedDriver;
use crate::queue::jobs::job::JobDelivery;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::{ItemMeta, NamingRules};

impl Consumer<Claimed> {
    pub(super) fn leasing(
        places: Places,
        policy: Policy,
        refresh_after: u32,
        worker: String,
    ) -> Self {
        let line = Some(places.line.clone());
        let feed = FeedDriver::new(places.pending.clone(), line, refresh_after);
        let receipts = ReceiptPool::below(&places.pending.zk, places.path.as_str());
        let reporter = HealthReporter::default();
        let health = reporter.watch();
        let (cleaner, reporter) = (None, Some(reporter));
        let kind = Claimed { places, worker, policy, cleaner, reporter, health };
        Self::of(Claims::new(feed, kind, receipts))
    }

    /// Follows the health of the candidate for the [cleaner](super::Jobs::clean):
    /// [`Waiting`](crate::health::Health::Waiting) before it is elected,
    /// [`Working`](crate::health::Health::Working) while it cleans.
    pub fn health(&self) -> HealthWatch {
        self.source.kind.health.restarted()
    }
}

impl ClaimKind for Claimed {
    /// Creates the directories if they are missing, and starts a candidate for the cleaner.
    async fn prepare(&mut self) -> Result<(), Error> {
        if self.reporter.is_none() {
            return Ok(());
        }
        self.places.prepare().await?;
        let health = self.reporter.take().unwrap_or_default();
        let (stop, policy) = (CancellationToken::new(), self.policy);
        let (stopped, cleaned) = (stop.clone(), self.places.clone());
        self.places.zk.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = cleaner::keep_running(&cleaned, policy, &health) => {}
            }
        });
        self.cleaner = Some(stop.drop_guard());
        Ok(())
    }

    fn claimed_by(&self, _pending: &QueueLayout, _name: &str) -> Option<String> {
        None
    }

    fn claim(
        &self,
        item: Unclaimed,
    ) -> impl Future<Output = Result<ClaimResult<Self>, Error>> + Send + 'static {
        claim(item, self.places.clone(), self.worker.clone(), self.policy.max_attempts)
    }

    fn finish(job: Delivery<Self>, done: Result<Option<Bytes>, String>) -> Finish {
        let is_last = job.item.max_attempts.is_some_and(|limit| job.attempt >= limit);
        match (done, job.item.task.pause()) {
            (Ok(Some(result)), _) => Finish::done(job.complete_with(result)),
            (Ok(None), _) => Finish::done(job.complete()),
            (Err(why), Some(pause)) => {
                Finish::now("a job has failed, and is delayed", job.retry_after(why, pause))
            }
            (Err(why), None) if is_last => {
                Finish::now("a job has failed for the last time", job.fail(why))
            }
            (Err(why), None) => Finish::later("a job has failed", job.fail(why)),
        }
    }
}

/// Makes sure that the transaction which begins an attempt is applied: `false` if another worker
/// has the job.
async fn is_executing(
    claim: &OwnedNode,
    places: &Places,
    name: &str,
    path: &str,
    mut executed: Result<Vec<OpResult>, zk_curator::Error>,
    execute: impl Fn(Transaction) -> Transaction,
) -> Result<bool, Error> {
    // Which operation of the transaction deletes the place: the claim is made sure of before, at
    // first in sight.
    let mut place = 1;
    while let Err(error) = executed {
        if error.may_have_applied() {
            if places.zk.exists(path).linearizable().await.map_err(|_| error)?.is_some() {
                break;
            }
            // It was not applied, and can no longer be applied.
        } else if is_gone(&error, place) || error.kind() == ErrorKind::OwnershipLost {
            return Ok(false);
        } else if let ErrorKind::TransactionFailed { code: ErrorCode::NotEmpty, .. } = error.kind()
        {
            // Only the place is deleted.
            return match places.pending.foreign_child(&places.of("pending", name), None).await? {
                Some(path) => Err(Error::Foreign { path }),
                None => Ok(false),
            };
        } else if is_gone(&error, place + 1) {
            places.prepare().await?;
        } else if !(place == 1 && is_gone(&error, 0)) {
            return Err(error.into());
        }
        place = 0;
        executed = execute(claim.ownership().fenced().uncompressed()).await;
    }
    Ok(true)
}

/// Claims a job and reads it, in one round trip unless other workers contend for it.
#[expect(clippy::too_many_lines, reason = "the steps of a claim in their order")]
async fn claim(
    item: Unclaimed,
    places: Places,
    worker: String,
    max_attempts: Option<u32>,
) -> Result<ClaimResult<Claimed>, Error> {
    let Unclaimed { name, is_contended, receipts, .. } = item;
    let zk = &places.zk;
    let (Some(ItemMeta { id, times, .. }), Some(held)) =
        (NamingRules::Job.meta(&name), NamingRules::Job.once_more(&name))
    else {
        return Ok(ClaimResult::Gone);
    };
    // These names are unique, so our changes cannot be confused with changes by other workers.
    let attempt = zk.new_guid();
    let (claim_path, path) = (places.of("leases", &attempt), places.of("executing", &attempt));
    let session = zk.session().map_or(0, |session| session.id.get());
    let record = Executing { name: held.clone(), session, worker: worker.clone() }.encode();
    let execute = |transaction: Transaction| {
        transaction.delete(places.of("pending", &name)).create(&path, record.clone())
    };

    let claim = zk.create(&claim_path).mode(CreateMode::Ephemeral).creating_parents();
    // The data show whose it is after a lost response.
    let claim = claim.data(if worker.is_empty() { "-".to_owned() } else { worker });
    let claim = claim.protected_by_data().unique_name().owned();
    let executed = execute(zk.transaction().check(&claim_path, None));
    let read = || zk.get_data(places.of("all", id)).into_future();
    let claimed = join(claim.into_future(), executed.into_future());
    let ((claim, executed), read_ahead) = if is_contended {
        (claimed.await, None)
    } else {
        let (claimed, read) = join(claimed, read()).await;
        (claimed, Some(read))
    };
    let claim = match claim {
        Ok(claim) => claim,
        // The claim of an earlier session: the cleaner ends the attempt, if there is one.
        Err(error) if error.kind() == ErrorKind::NodeExists => return Ok(ClaimResult::Gone),
        Err(error) => return Err(error.into()),
    };
    if !is_executing(&claim, &places, &name, &path, executed, execute).await? {
        return Ok(ClaimResult::Gone);
    }
    let read = match read_ahead {
        Some(read) => read,
        None => read().await,
    };
    let (is_there, data) = match read {
        Err(error) if error.kind() == ErrorKind::NoNode => (false, Bytes::new()),
        read => (true, read?),
    };
    let (data, why) = match places.pending.unpack(data) {
        Ok(data) => (data, None),
        Err(why) => (Bytes::new(), Some(why)),
    };
    let attempt = times.saturating_add(1);
    let task = JobTask::new(data, id.to_owned(), attempt, claim.ownership().clone());
    let item = ClaimedJob { places: places.clone(), max_attempts, task, held };
    let job: JobDelivery = Delivery { claim, receipts, path, attempt, item };
    if let Some(why) = why {
        let path = places.of("all", id);
        job.reject(why.to_string()).await?;
        return Err(Error::Corrupt { path, why });
    }
    if is_there {
        return Ok(ClaimResult::Ours(Box::new(job)));
    }
    // An operator has deleted the job.
    warn!(id = job.id(), "there was a place for a job that does not exist");
    job.settle(|transaction| transaction).await?;
    Ok(ClaimResult::Gone)
}
