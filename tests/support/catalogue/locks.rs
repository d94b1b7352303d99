use std::future::ready;
use std::time::Duration;

use futures_util::future::{join, try_join};
use zk_curator::{CuratorFramework, SessionId};
use zk_curator_recipes::barrier::{DistributedBarrier, DistributedDoubleBarrier};
use zk_curator_recipes::leader::{Candidate, Elected, Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lease::{MultiLease, PreviousIncarnation, SessionLease, TimedLease};
use zk_curator_recipes::lock::{
    HandoverMutex, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphore, InterProcessSemaphoreMutex, ReentrantMutex,
    RevocableReadWriteLock, attempt_revoke,
};

use super::failure::Failure;
use super::row::list;
use super::stage::Stage;

const MINUTE: Duration = Duration::from_secs(60);

fn mutex(stage: &Stage) -> InterProcessMutex {
    InterProcessMutex::new(&stage.zk, stage.at()).label("me")
}

fn read_write(stage: &Stage) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(&stage.zk, stage.at()).label("me")
}

fn revocable(stage: &Stage) -> RevocableReadWriteLock {
    RevocableReadWriteLock::new(&stage.zk, stage.at()).label("me")
}

fn semaphore(stage: &Stage) -> InterProcessSemaphore {
    InterProcessSemaphore::new(&stage.zk, stage.at(), 2).label("me")
}

fn semaphore_mutex(stage: &Stage) -> InterProcessSemaphoreMutex {
    InterProcessSemaphoreMutex::new(&stage.zk, stage.at()).label("me")
}

fn handover(stage: &Stage) -> HandoverMutex {
    mutex(stage).local_batch(2, Duration::MAX)
}

fn multi(stage: &Stage) -> InterProcessMultiLock {
    InterProcessMultiLock::of_mutexes(&stage.zk, [stage.at(), stage.beside("b")])
}

fn reentrant(stage: &Stage) -> ReentrantMutex<&'static str> {
    ReentrantMutex::new(&stage.zk, stage.at())
}

fn double(zk: &CuratorFramework, stage: &Stage) -> DistributedDoubleBarrier {
    DistributedDoubleBarrier::new(zk, stage.at(), 1).label("me")
}

async fn candidate(stage: &Stage) -> Result<Candidate, Failure> {
    let candidate = LeaderLatch::new(&stage.zk, stage.at()).id("me").join();
    candidate.await_leadership().await?;
    Ok(candidate)
}

async fn elected(stage: &Stage) -> Result<Elected, Failure> {
    Ok(Election::new(&stage.zk, stage.at()).campaign("a").await?)
}

fn lease(stage: &Stage) -> TimedLease {
    TimedLease::new(&stage.zk, stage.at(), "me")
}

/// Asks the holder of a node to release it while this future waits.
async fn and_revoke<T>(
    call: impl Future<Output = T>,
    other: &CuratorFramework,
    path: &str,
) -> Result<T, Failure> {
    let (output, asked) = join(call, attempt_revoke(other, path)).await;
    asked?;
    Ok(output)
}

list! {
    "lock::InterProcessMutex::acquire": |s| {} => mutex(&s).acquire().await?;
    "lock::InterProcessMutex::acquire, behind another": |s| {
        let held = InterProcessMutex::new(&s.other, s.at()).acquire().await?;
    } => {
        let lock = mutex(&s);
        let (ours, released) = join(lock.acquire(), held.release()).await;
        released?;
        ours?
    };
    "lock::InterProcessMutex::try_acquire": |s| {} => mutex(&s).try_acquire().await?;
    "lock::InterProcessMutex::with": |s| {} =>
        mutex(&s).with(|_| { s.call_back(); ready(()) }).await?;
    "lock::InterProcessMutex::participants": |s| { let held = mutex(&s).acquire().await?; } =>
        (mutex(&s).participants().await?, held);
    "lock::Guard::release": |s| {
        let guard = mutex(&s).acquire().await?;
    } => guard.release().await?;
    "lock::Guard::acknowledge": |s| {
        let guard = revocable(&s).write_lock().acquire().await?;
    } => {
        guard.acknowledge().await?;
        guard
    };
    "lock::Guard::lost": |s| { let guard = mutex(&s).acquire().await?; } =>
        s.and_delete(guard.lost(), guard.path()).await?;
    "lock::Guard::revoked": |s| {
        let guard = revocable(&s).write_lock().acquire().await?;
    } => {
        and_revoke(guard.revoked(), &s.other, guard.path()).await?;
        guard
    };
    "lock::AnyGuard::release": |s| {
        let lock: Box<dyn InterProcessLock> = Box::new(mutex(&s));
        let guard = lock.acquire().await?;
    } => guard.release().await?;
    "lock::AnyGuard::acknowledge": |s| {
        let guard = revocable(&s).write_lock().acquire().await?.into_any();
    } => {
        guard.acknowledge().await?;
        guard
    };
    "lock::AnyGuard::lost": |s| {
        let guard = mutex(&s).acquire().await?.into_any();
    } => s.and_delete(guard.lost(), guard.path()).await?;
    "lock::AnyGuard::revoked": |s| {
        let guard = revocable(&s).write_lock().acquire().await?.into_any();
    } => {
        and_revoke(guard.revoked(), &s.other, guard.path()).await?;
        guard
    };
    "lock::ReadLock::acquire": |s| {} => read_write(&s).read_lock().acquire().await?;
    "lock::ReadLock::try_acquire": |s| {} => read_write(&s).read_lock().try_acquire().await?;
    "lock::ReadLock::with": |s| {} =>
        read_write(&s).read_lock().with(|_| { s.call_back(); ready(()) }).await?;
    "lock::ReadLock::participants": |s| {} => read_write(&s).read_lock().participants().await?;
    "lock::WriteLock::acquire": |s| {} => read_write(&s).write_lock().acquire().await?;
    "lock::WriteLock::try_acquire": |s| {} => read_write(&s).write_lock().try_acquire().await?;
    "lock::WriteLock::with": |s| {} =>
        read_write(&s).write_lock().with(|_| { s.call_back(); ready(()) }).await?;
    "lock::WriteLock::participants": |s| {} => read_write(&s).write_lock().participants().await?;
    "lock::WriteGuard::downgrade": |s| {
        let guard = read_write(&s).write_lock().acquire().await?;
    } =>
        guard.downgrade().await.map_err(|error| error.why)?;
    "lock::ReadGuard::try_upgrade": |s| {
        let guard = read_write(&s).read_lock().acquire().await?;
    } =>
        guard.try_upgrade().await.map_err(|error| error.why)?;
    "lock::ReadLock::acquire, revocable": |s| {} => revocable(&s).read_lock().acquire().await?;
    "lock::WriteLock::acquire, revocable": |s| {} => revocable(&s).write_lock().acquire().await?;
    "lock::RevocableReadWriteLock::revoke": |s| {
        let held = RevocableReadWriteLock::new(&s.other, s.at()).write_lock().acquire().await?;
    } => {
        let (lock, path) = (revocable(&s), s.below(held.path().rsplit('/').next().unwrap()));
        let revoke = async { Ok::<_, Failure>(lock.revoke(path, MINUTE).await?) };
        let release = async {
            held.revoked().await;
            Ok(held.release().await?)
        };
        try_join(revoke, release).await?
    };
    "lock::attempt_revoke": |s| { let guard = revocable(&s).write_lock().acquire().await?; } => {
        attempt_revoke(&s.zk, guard.path()).await?;
        guard
    };
    "lock::HandoverMutex::acquire": |s| {} => handover(&s).acquire().await?;
    "lock::HandoverMutex::try_acquire": |s| {} => handover(&s).try_acquire().await?;
    "lock::HandoverMutex::with": |s| {} =>
        handover(&s).with(|_| { s.call_back(); ready(()) }).await?;
    "lock::HandoverGuard::release": |s| { let guard = handover(&s).acquire().await?; } =>
        guard.release().await?;
    "lock::HandoverGuard::lost": |s| {
        let guard = handover(&s).acquire().await?;
    } => s.and_delete(guard.lost(), guard.path()).await?;
    "lock::HandoverGuard::acknowledge": |s| {
        let guard = handover(&s).acquire().await?;
    } => {
        guard.acknowledge().await?;
        guard
    };
    "lock::HandoverGuard::revoked": |s| {
        let guard = handover(&s).acquire().await?;
    } => {
        and_revoke(guard.revoked(), &s.other, guard.path()).await?;
        guard
    };
    "lock::InterProcessMultiLock::acquire": |s| {} => multi(&s).acquire().await?;
    "lock::InterProcessMultiLock::try_acquire": |s| {} => multi(&s).try_acquire().await?;
    "lock::InterProcessMultiLock::with": |s| {} =>
        multi(&s).with(|_| { s.call_back(); ready(()) }).await?;
    "lock::MultiGuard::release": |s| { let guard = multi(&s).acquire().await?; } =>
        guard.release().await?;
    "lock::MultiGuard::lost": |s| {
        let guard = multi(&s).acquire().await?;
        let path = guard.guards().next().unwrap().path().to_owned();
    } => s.and_delete(guard.lost(), &path).await?;
    "lock::ReentrantMutex::acquire": |s| {} => reentrant(&s).acquire("me").await?;
    "lock::ReentrantMutex::try_acquire": |s| {} => reentrant(&s).try_acquire("me").await?;
    "lock::ReentrantMutex::with": |s| {} =>
        reentrant(&s).with("me", |_| { s.call_back(); ready(()) }).await?;
    "lock::ReentrantMutex::participants": |s| {} => reentrant(&s).participants().await?;
    "lock::ReentrantGuard::release": |s| { let guard = reentrant(&s).acquire("me").await?; } =>
        guard.release().await?;
    "lock::InterProcessSemaphore::acquire": |s| {} => semaphore(&s).acquire().await?;
    "lock::InterProcessSemaphore::acquire_many": |s| {} => semaphore(&s).acquire_many(2).await?;
    "lock::InterProcessSemaphore::try_acquire": |s| {} => semaphore(&s).try_acquire().await?;
    "lock::InterProcessSemaphore::try_acquire_many": |s| {} =>
        semaphore(&s).try_acquire_many(2).await?;
    "lock::InterProcessSemaphore::with": |s| {} =>
        semaphore(&s).with(|_| { s.call_back(); ready(()) }).await?;
    "lock::InterProcessSemaphore::participants": |s| {} => semaphore(&s).participants().await?;
    "lock::InterProcessSemaphoreMutex::acquire": |s| {} => semaphore_mutex(&s).acquire().await?;
    "lock::InterProcessSemaphoreMutex::try_acquire": |s| {} =>
        semaphore_mutex(&s).try_acquire().await?;
    "lock::InterProcessSemaphoreMutex::with": |s| {} =>
        semaphore_mutex(&s).with(|_| { s.call_back(); ready(()) }).await?;
    "lock::InterProcessSemaphoreMutex::participants": |s| {} =>
        semaphore_mutex(&s).participants().await?;
    "leader::Candidate::await_leadership": |s| {} => {
        let candidate = LeaderLatch::new(&s.zk, s.at()).id("me").join();
        candidate.await_leadership().await?;
        candidate
    };
    "leader::Candidate::close": |s| { let candidate = candidate(&s).await?; } =>
        candidate.close().await?;
    "leader::LeaderLatch::participants": |s| {} =>
        LeaderLatch::new(&s.zk, s.at()).id("me").participants().await?;
    "leader::LeaderLatch::leader": |s| { let candidate = candidate(&s).await?; } =>
        (LeaderLatch::new(&s.zk, s.at()).id("me").leader().await?, candidate);
    "leader::LatchStates::next": |s| { let candidate = candidate(&s).await?; } =>
        (candidate.states().next().await, candidate);
    "leader::Leadership::lost": |s| {
        let candidate = candidate(&s).await?;
        let leadership = candidate.leadership().unwrap();
    } => {
        s.and_delete(leadership.lost(), leadership.path()).await?;
        candidate.close().await?;
    };
    "leader::LeaderSelector::run_once": |s| {} =>
        LeaderSelector::new(&s.zk, s.at()).run_once(|_| { s.call_back(); ready(()) }).await?;
    "leader::LeaderSelector::run": |s| {} => {
        let selector = LeaderSelector::new(&s.zk, s.at()).id("me");
        let shutdown = zk_curator_recipes::Shutdown::new();
        let body = |_| { s.call_back(); shutdown.begin(); ready(()) };
        selector.run(body).until(shutdown.clone()).await?;
    };
    "leader::LeaderSelector::participants": |s| {} =>
        LeaderSelector::new(&s.zk, s.at()).id("me").participants().await?;
    "leader::LeaderSelector::leader": |s| {} =>
        LeaderSelector::new(&s.zk, s.at()).id("me").leader().await?;
    "leader::Election::campaign": |s| {} => Election::new(&s.zk, s.at()).campaign("a").await?;
    "leader::Election::leader": |s| { let elected = elected(&s).await?; } =>
        (Election::new(&s.zk, s.at()).leader().await?, elected);
    "leader::Elected::proclaim": |s| { let mut elected = elected(&s).await?; } => {
        elected.proclaim("b").await?;
        elected
    };
    "leader::Elected::resign": |s| { let elected = elected(&s).await?; } => elected.resign().await?;
    "leader::Elected::lost": |s| {
        let elected = elected(&s).await?;
        let children = s.zk.children(s.at()).await?;
    } => s.and_delete(elected.lost(), &s.below(&children[0])).await?;
    "leader::Observer::next": |s| { let elected = elected(&s).await?; } =>
        (Election::new(&s.zk, s.at()).observe().next().await?, elected);
    "leader::LeaderObserver::next": |s| { let candidate = candidate(&s).await?; } =>
        (LeaderLatch::new(&s.zk, s.at()).id("me").observe().next().await?, candidate);
    "barrier::DistributedBarrier::set": |s| {} =>
        DistributedBarrier::new(&s.zk, s.at()).label("me").set().await?;
    "barrier::DistributedBarrier::remove": |s| {
        DistributedBarrier::new(&s.zk, s.at()).label("me").set().await?;
    } => DistributedBarrier::new(&s.zk, s.at()).remove().await?;
    "barrier::DistributedBarrier::is_set": |s| {} =>
        DistributedBarrier::new(&s.zk, s.at()).is_set().await?;
    "barrier::DistributedBarrier::set_by": |s| {
        DistributedBarrier::new(&s.zk, s.at()).label("me").set().await?;
    } => DistributedBarrier::new(&s.zk, s.at()).set_by().await?;
    "barrier::DistributedBarrier::wait": |s| {
        DistributedBarrier::new(&s.other, s.at()).set().await?;
    } => {
        let (ours, theirs) =
            (DistributedBarrier::new(&s.zk, s.at()), DistributedBarrier::new(&s.other, s.at()));
        let (waited, removed) = join(ours.wait(), theirs.remove()).await;
        removed?;
        waited?;
    };
    "barrier::DistributedDoubleBarrier::enter": |s| {} => double(&s.zk, &s).enter().await?;
    "barrier::DistributedDoubleBarrier::participants": |s| {
        let place = double(&s.zk, &s).enter().await?;
    } => (double(&s.zk, &s).participants().await?, place);
    "barrier::DistributedDoubleBarrier::missing": |s| {
        let place = double(&s.zk, &s).enter().await?;
    } => (double(&s.zk, &s).missing().await?, place);
    "barrier::RoundPlace::leave": |s| { let place = double(&s.zk, &s).enter().await?; } =>
        place.leave().await?;
    "lease::TimedLease::try_take": |s| {} => lease(&s).try_take(MINUTE).await?;
    "lease::TimedLease::holder": |s| { let held = lease(&s).try_take(MINUTE).await?; } =>
        (lease(&s).holder().await?, held);
    "lease::TimedLeaseGuard::renew": |s| {
        let mut held = lease(&s).try_take(MINUTE).await?.unwrap();
    } => {
        held.renew(MINUTE * 2).await?;
        held
    };
    "lease::TimedLeaseGuard::release": |s| {
        let held = lease(&s).try_take(MINUTE).await?.unwrap();
    } =>
        held.release().await?;
    "lease::MultiLease::try_take": |s| {} =>
        MultiLease::new(&s.zk, s.at(), 2, "me").try_take(MINUTE).await?;
    "lease::MultiLease::holders": |s| {} =>
        MultiLease::new(&s.zk, s.at(), 2, "me").holders().await?;
    "lease::SessionLeaseBuilder::open": |s| {} => {
        let lease = SessionLease::builder(&s.zk).open().await?;
        lease.create(s.at()).await?;
        lease.revoke().await?;
    };
    "lease::SessionLease::revoke": |s| {
        let lease = SessionLease::builder(&s.zk).open().await?;
        lease.create(s.at()).await?;
    } => lease.revoke().await?;
    "lease::PreviousIncarnation::delete": |s| {
        s.zk.create_containers(s.at()).await?;
        let identity = PreviousIncarnation::of(&s.zk, "me").keep(SessionId::new(1));
    } => identity.below(s.at()).delete().await?;
    "barrier::RoundPlace::lost": |s| { let place = double(&s.zk, &s).enter().await?; } =>
        s.and_delete(place.lost(), place.path()).await?;
    "lease::TimedLeaseGuard::expired": |s| {
        let held = lease(&s).try_take(MINUTE).await?.unwrap();
    } =>
        held.expired().await;
}
