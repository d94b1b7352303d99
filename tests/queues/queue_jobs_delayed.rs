//! Jobs that are retried after a time, and jobs with priorities.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator_proto::ErrorCode;
use zk_curator_recipes::queue::Error;
use zk_curator_recipes::queue::jobs::{JobDelivery, JobState, JobTask, Jobs};
use zk_curator_testing::wait::reached;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    closes_clean, expire, is_kept, simulated_drops, simulated_each, simulated_each_on,
    simulated_steps, simulated_with, two_in_memory, until,
};

const JOBS: &str = "/jobs";
const PAUSE: Duration = Duration::from_secs(20);
/// For the cleaner to hear of something, and for a worker.
const SOON: Duration = Duration::from_secs(2);

/// Jobs with a clock that runs in simulated time.
struct Clocked {
    since: Instant,
}

impl Clocked {
    fn new() -> Self {
        Self { since: Instant::now() }
    }

    fn jobs(&self, zk: &CuratorFramework) -> Jobs {
        let since = self.since;
        Jobs::new(zk, JOBS)
            .clock(move || SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30) + since.elapsed())
    }
}

fn seen(job: &JobDelivery) -> (&str, u32) {
    (job.id(), job.attempt())
}

async fn state(jobs: &Jobs, id: &str) -> Option<(u32, JobState)> {
    let listed = jobs.list().all().await.unwrap().into_iter();
    listed.filter(|job| job.id == id).map(|job| (job.attempts, job.state)).next()
}

async fn nothing_stays(server: &TestServer, zk: &CuratorFramework) {
    zk.delete(JOBS).deleting_children().quietly().await.unwrap();
    closes_clean(server, zk).await;
}

#[test]
fn a_delayed_job_is_pending_again_at_its_time_and_place() {
    simulated_with(async |server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        for id in ["a", "b", "c"] {
            jobs.submit(id).id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        let a = worker.next().await.unwrap();
        let failed = Instant::now();
        a.retry_after("the database is busy", PAUSE).await.unwrap();
        let Some((1, JobState::Delayed { why, until, .. })) = state(&jobs, "a").await else {
            panic!("{:?}", state(&jobs, "a").await)
        };
        assert_eq!(why, "the database is busy");
        let since_1970 = until.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since_1970, Duration::from_secs(1 << 30) + PAUSE);
        // The other jobs continue.
        let b = worker.next().await.unwrap();
        assert_eq!(seen(&b), ("b", 1));
        b.complete().await.unwrap();
        assert!(
            jobs.submit("").id("a").await.is_err_and(|error| matches!(error, Error::Exists { .. }))
        );
        // It comes back before the ones that were submitted after it.
        reached(failed + PAUSE + SOON).await;
        assert!(matches!(state(&jobs, "a").await, Some((1, JobState::Pending))));
        drop(worker);
        let mut worker = jobs.worker("other");
        let a = worker.next().await.unwrap();
        assert_eq!((seen(&a), &a.data()[..]), (("a", 2), &b"a"[..]));
        // The waiting worker is woken, and not before the time.
        let failed = Instant::now();
        a.retry_after("again", PAUSE).await.unwrap();
        worker.next().await.unwrap().complete().await.unwrap();
        let a = worker.next().await.unwrap();
        let took = failed.elapsed();
        assert!((PAUSE..PAUSE + SOON).contains(&took), "{took:?}");
        assert_eq!(seen(&a), ("a", 3));
        a.complete().await.unwrap();
        jobs.flush().await.unwrap();
        drop(worker);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn the_time_survives_the_worker_and_the_cleaner() {
    simulated_each_on([true, false], two_in_memory, async |dies, (server, zk, other)| {
        let clocked = Clocked::new();
        clocked.jobs(&zk).submit("").id("a").await.unwrap();
        let mut worker = clocked.jobs(&zk).worker("first");
        let failed = Instant::now();
        worker.next().await.unwrap().retry_after("busy", PAUSE).await.unwrap();
        let mut heir = clocked.jobs(&other).worker("heir");
        assert!(timeout(PAUSE / 2, heir.next()).await.is_err());
        // The first one is the cleaner.
        if dies {
            zk.close().await.unwrap();
        } else {
            expire(&server, &zk).await;
        }
        let again = heir.next().await.unwrap();
        let took = failed.elapsed();
        assert!((PAUSE..PAUSE + SOON).contains(&took), "{took:?}");
        assert_eq!(seen(&again), ("a", 2));
        again.complete().await.unwrap();
        drop(worker);
    });
}

#[test]
fn a_job_is_not_early_because_another_one_is_delayed() {
    simulated_with(async |_server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        let (a, b) = (worker.next().await.unwrap(), worker.next().await.unwrap());
        let failed = Instant::now();
        a.retry_after("busy", PAUSE).await.unwrap();
        assert!(timeout(PAUSE - SOON / 2, worker.next()).await.is_err());
        b.retry_after("busy", PAUSE).await.unwrap();
        for (id, at) in [("a", PAUSE), ("b", PAUSE * 2 - SOON / 2)] {
            let job = worker.next().await.unwrap();
            assert_eq!(seen(&job), (id, 2));
            assert!((at..at + SOON).contains(&failed.elapsed()), "{id} {:?}", failed.elapsed());
            job.complete().await.unwrap();
        }
    });
}

#[test]
fn the_last_attempt_fails_permanently_and_zero_is_no_pause() {
    simulated_with(async |_server, zk| {
        let jobs = Clocked::new().jobs(&zk).max_attempts(2);
        jobs.submit("").id("a").await.unwrap();
        let mut worker = jobs.worker("w");
        worker.next().await.unwrap().retry_after("one", Duration::ZERO).await.unwrap();
        assert!(matches!(state(&jobs, "a").await, Some((1, JobState::Pending))));
        worker.next().await.unwrap().retry_after("two", PAUSE).await.unwrap();
        let failed = state(&jobs, "a").await;
        assert!(
            matches!(&failed, Some((2, JobState::Failed { why, .. })) if why == "two"),
            "{failed:?}"
        );
    });
}

#[test]
fn a_body_says_when_its_job_is_tried_again() {
    simulated_with(async |server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        jobs.submit("").id("a").await.unwrap();
        let begun = Instant::now();
        let body = |task: JobTask| async move {
            if task.attempt < 3 {
                task.retry_after(PAUSE * 10);
                task.retry_after(PAUSE);
                return Err("busy");
            }
            task.retry_after(PAUSE);
            Ok(Some(Bytes::from("done")))
        };
        let work = tokio::spawn(jobs.worker("w").run(1, body));
        until(&server, |probe| probe.children("/jobs/later").len() == 1).await;
        // It is not held back under a claim.
        assert!(server.probe().children("/jobs/leases").is_empty());
        server.until(|probe| is_kept(probe, "/jobs/done", "a")).await;
        let took = begun.elapsed();
        assert!((PAUSE * 2..PAUSE * 2 + SOON).contains(&took), "{took:?}");
        work.abort();
    });
}

#[test]
fn a_delayed_job_is_withdrawn() {
    simulated_with(async |server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        for _ in 0..2 {
            worker.next().await.unwrap().retry_after("busy", PAUSE).await.unwrap();
        }
        assert!(jobs.cancel("a").await.unwrap() && !jobs.cancel("a").await.unwrap());
        assert!(!jobs.forget("b").await.unwrap() && !jobs.retry("b").await.unwrap());
        let b = worker.next().await.unwrap();
        assert_eq!(seen(&b), ("b", 2));
        b.complete().await.unwrap();
        jobs.flush().await.unwrap();
        assert!(server.probe().children("/jobs/all").is_empty());
        drop(worker);
        nothing_stays(&server, &zk).await;
    });
}

/// Every request about the delayed job, lost on the way there or back.
#[test]
fn a_delayed_job_comes_back_once_whatever_is_lost() {
    for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
        simulated_steps(4, async |nth, server, zk| {
            let jobs = Clocked::new().jobs(&zk);
            jobs.submit("").id("a").await.unwrap();
            let mut worker = jobs.worker("w");
            let a = worker.next().await.unwrap();
            let lost = server.rule(move |request| {
                let is_it = request.paths().any(|path| path.starts_with("/jobs/later"));
                if is_it { verdict } else { Verdict::Pass }
            });
            let lost = lost.after(nth as u64).times(1);
            a.retry_after("busy", PAUSE).await.unwrap();
            let again = worker.next().await.unwrap();
            assert_eq!(seen(&again), ("a", 2), "{verdict:?} {nth}");
            again.complete_with("").await.unwrap();
            assert!(timeout(PAUSE * 2, worker.next()).await.is_err(), "{verdict:?} {nth}");
            let done = state(&jobs, "a").await;
            assert!(matches!(done, Some((_, JobState::Done { .. }))), "{done:?}");
            let hits = lost.hits();
            drop((worker, lost));
            jobs.flush().await.unwrap();
            nothing_stays(&server, &zk).await;
            hits == 0
        });
    }
}

#[test]
fn a_retry_that_is_dropped_delays_the_job_or_gives_it_back() {
    simulated_drops(
        20,
        two_in_memory,
        async |(_, zk, _)| {
            let jobs = Clocked::new().jobs(zk);
            jobs.submit("").id("a").await.unwrap();
            let job = jobs.worker("w").next().await.unwrap();
            job.retry_after("busy", PAUSE).await.unwrap();
        },
        async |(server, zk, other), done| {
            zk.close().await.unwrap();
            let jobs = Clocked::new().jobs(&other);
            let mut heir = jobs.worker("heir");
            match timeout(PAUSE * 3, heir.next()).await {
                Ok(job) => job.unwrap().complete().await.unwrap(),
                Err(_) => assert!(done.is_none()),
            }
            drop(heir);
            assert!(jobs.list().all().await.unwrap().is_empty());
            jobs.flush().await.unwrap();
            nothing_stays(&server, &other).await;
        },
    );
}

#[test]
fn a_directory_that_is_deleted_is_made_again() {
    simulated_with(async |_server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        let a = worker.next().await.unwrap();
        for directory in ["/jobs/later", "/jobs/pending"] {
            zk.delete(directory).deleting_children().await.unwrap();
        }
        a.retry_after("busy", PAUSE).await.unwrap();
        zk.delete("/jobs/pending").deleting_children().quietly().await.unwrap();
        assert_eq!(seen(&worker.next().await.unwrap()), ("a", 2));
    });
}

#[test]
fn a_job_that_cannot_be_brought_back_stops_no_other() {
    simulated_with(async |server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        for _ in 0..2 {
            worker.next().await.unwrap().retry_after("busy", PAUSE).await.unwrap();
        }
        zk.create("/jobs/later/notes").await.unwrap();
        zk.create("/jobs/later/0000000000000|notes").data("nonsense").await.unwrap();
        let refused = server.rule(|request| {
            let is_it =
                request.is_transaction() && request.paths().any(|path| path.contains("|a|"));
            if is_it { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        let mut errors = zk.background_errors();
        let b = worker.next().await.unwrap();
        assert_eq!(seen(&b), ("b", 2));
        b.complete().await.unwrap();
        assert_eq!(errors.next().await.unwrap().code(), Some(ErrorCode::NoAuth));
        // Reported once, and retried every minute.
        assert!(timeout(PAUSE * 15, errors.next()).await.is_err());
        assert!((4..9).contains(&refused.hits()), "{}", refused.hits());
        drop(refused);
        assert_eq!(seen(&worker.next().await.unwrap()), ("a", 2));
        assert_eq!(server.probe().children("/jobs/later").len(), 2);
    });
}

#[test]
fn jobs_with_a_lower_priority_number_come_first() {
    simulated_with(async |server, zk| {
        let jobs = Clocked::new().jobs(&zk).max_attempts(2);
        for (id, priority) in [("low", 7), ("high", -1), ("higher", i32::MIN), ("low too", 7)] {
            assert_eq!(jobs.submit(id).id(id).priority(priority).await.unwrap(), id);
        }
        let normal = jobs.submit("").await.unwrap();
        assert_eq!(normal.len(), 36);
        let mut worker = jobs.worker("w");
        for id in ["higher", "high", &normal, "low"] {
            let job = worker.next().await.unwrap();
            assert_eq!(job.id(), id);
            job.complete().await.unwrap();
        }
        // A failed job keeps its priority, also when it is retried by hand.
        let low = worker.next().await.unwrap();
        jobs.submit("").id("lower").priority(8).await.unwrap();
        low.retry_after("busy", PAUSE).await.unwrap();
        worker.next().await.unwrap().complete().await.unwrap();
        worker.next().await.unwrap().fail("no luck").await.unwrap();
        assert!(jobs.retry("low too").await.unwrap() && !jobs.retry("low too").await.unwrap());
        jobs.submit("").id("normal").await.unwrap();
        jobs.submit("").id("lower").priority(8).await.unwrap();
        for expected in [("normal", 1), ("low too", 1), ("lower", 1)] {
            let job = worker.next().await.unwrap();
            assert_eq!(seen(&job), expected);
            job.complete().await.unwrap();
        }
        jobs.flush().await.unwrap();
        drop(worker);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn prioritized_workers_take_new_jobs_first() {
    simulated_each([false, true], async |is_prioritized, _server, zk| {
        let jobs = Clocked::new().jobs(&zk);
        let jobs = if is_prioritized { jobs.prioritized() } else { jobs };
        for id in ["a", "b", "c"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        worker.next().await.unwrap().complete().await.unwrap();
        jobs.submit("").id("urgent").priority(-1).await.unwrap();
        let mut order = Vec::new();
        for _ in 0..3 {
            let job = worker.next().await.unwrap();
            order.push(job.id().to_owned());
            job.complete().await.unwrap();
        }
        let place = order.iter().position(|id| id == "urgent").unwrap();
        assert_eq!(place, if is_prioritized { 1 } else { 2 }, "{order:?}");
    });
}
