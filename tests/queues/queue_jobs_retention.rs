//! The records of ended jobs are bounded.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator_proto::ErrorCode;
use zk_curator_recipes::queue::Error;
use zk_curator_recipes::queue::jobs::{Jobs, Retention};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    connected, expire, items, simulated_each, simulated_each_on, simulated_on, simulated_with,
    two_in_memory,
};

const JOBS: &str = "/jobs";
const MINUTE: Duration = Duration::from_secs(60);
const ENDS: [&str; 2] = ["/jobs/done", "/jobs/failed"];

fn jobs(zk: &CuratorFramework) -> Jobs {
    Jobs::new(zk, JOBS).keep_done(5).keep_failed(3)
}

/// Submits jobs and ends them: those with an odd number fail.
async fn end(jobs: &Jobs, ids: std::ops::Range<u32>) {
    let mut worker = jobs.worker("w");
    for id in ids {
        jobs.submit("").id(id.to_string()).await.unwrap();
        let job = worker.next().await.unwrap();
        if id % 2 == 0 { job.complete_with("result").await } else { job.reject("no").await }
            .unwrap();
    }
}

fn clean(jobs: &Jobs) -> JoinHandle<Result<(), Error>> {
    let jobs = jobs.clone();
    tokio::spawn(async move { jobs.clean().await })
}

fn kept(server: &TestServer) -> [Vec<u32>; 2] {
    let probe = server.probe();
    ENDS.map(|end| {
        let ids = items(&probe, end).into_iter();
        let mut ids: Vec<u32> =
            ids.map(|name| name.rsplit('/').next().unwrap().parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    })
}

async fn until_kept(server: &TestServer, expected: [&[u32]; 2]) {
    let reached = timeout(MINUTE * 20, server.until(|_| kept(server) == expected)).await;
    assert!(reached.is_ok(), "{:?}\n{}", kept(server), server.probe());
    // The jobs themselves as well, and nothing else.
    let all = server.probe().children("/jobs/all").len();
    assert_eq!(all, expected[0].len() + expected[1].len());
}

const NEWEST: [&[u32]; 2] = [&[30, 32, 34, 36, 38], &[35, 37, 39]];

#[test]
fn the_newest_are_kept() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        end(&jobs, 0..40).await;
        let cleaner = clean(&jobs);
        until_kept(&server, NEWEST).await;
        assert!(
            jobs.result("38").await.unwrap().is_some()
                && jobs.result("28").await.unwrap().is_none()
        );
        end(&jobs, 40..42).await;
        until_kept(&server, [&[32, 34, 36, 38, 40], &[37, 39, 41]]).await;
        // Jobs that are not at their end are not touched.
        jobs.submit("").id("50").await.unwrap();
        let held = jobs.worker("w").next().await.unwrap();
        idle(MINUTE * 3).await;
        held.complete().await.unwrap();
        cleaner.abort();
    });
}

#[test]
fn nothing_is_deleted_below_the_limits() {
    simulated_each([false, true], async |all, server, zk| {
        let jobs = Jobs::new(&zk, JOBS);
        let unlimited = Retention::unlimited();
        let jobs = if all { jobs.keep_done(unlimited).keep_failed(unlimited) } else { jobs };
        end(&jobs, 0..40).await;
        let cleaner = clean(&jobs);
        idle(MINUTE * 10).await;
        assert_eq!(kept(&server).map(|kept| kept.len()), [20, 20]);
        cleaner.abort();
    });
}

#[test]
fn jobs_are_kept_for_a_time() {
    let wall_clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let builder = TestServer::builder().tcp(false).wall_clock(wall_clock);
    let setup = async || builder.start().await.unwrap();
    simulated_on(setup, async |server| {
        let since = Instant::now();
        let zk = connected(&server).await;
        let jobs = Jobs::new(&zk, JOBS).clock(move || wall_clock + since.elapsed());
        let jobs = jobs
            .keep_done(MINUTE * 10)
            .keep_failed(Retention::unlimited().newest(3).within(MINUTE * 20));
        end(&jobs, 0..10).await;
        let cleaner = clean(&jobs);
        spend(MINUTE * 5).await;
        end(&jobs, 10..12).await;
        until_kept(&server, [&[0, 2, 4, 6, 8, 10], &[7, 9, 11]]).await;
        until_kept(&server, [&[10], &[7, 9, 11]]).await;
        assert!((MINUTE * 10..MINUTE * 12).contains(&since.elapsed()), "{:?}", since.elapsed());
        until_kept(&server, [&[], &[11]]).await;
        until_kept(&server, [&[], &[]]).await;
        assert!((MINUTE * 25..MINUTE * 27).contains(&since.elapsed()), "{:?}", since.elapsed());
        cleaner.abort();
    });
}

#[test]
fn what_is_kept_stays_bounded_whatever_is_lost() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let jobs = jobs(&zk);
        end(&jobs, 0..40).await;
        let count = AtomicU32::new(0);
        // One request of seven, and the ones that are in flight with it.
        let lost = server.rule(move |request| {
            let is_it =
                request.paths().any(|path| path.starts_with(ENDS[0]) || path.starts_with(ENDS[1]));
            if is_it && count.fetch_add(1, Ordering::Relaxed) % 7 == 6 {
                verdict
            } else {
                Verdict::Pass
            }
        });
        let lost = lost.times(20);
        let cleaner = clean(&jobs);
        until_kept(&server, NEWEST).await;
        assert!(lost.hits() > 5, "{}", lost.hits());
        cleaner.abort();
    });
}

/// The first cleaner loses its session in the middle of a sweep, and continues for a moment next to
/// the next one.
#[test]
fn a_second_cleaner_keeps_the_same() {
    simulated_each_on([0, 1, 5, 20], two_in_memory, async |deletes, (server, zk, other)| {
        end(&jobs(&zk), 0..40).await;
        let deleted = server.rule(move |request| {
            let is_it = request.is_transaction() && request.matches("/jobs/all/*");
            if is_it { Verdict::Delay(Duration::from_millis(1)) } else { Verdict::Pass }
        });
        let cleaners = [clean(&jobs(&zk)), clean(&jobs(&other))];
        deleted.fired_times(deletes).await;
        expire(&server, &zk).await;
        until_kept(&server, NEWEST).await;
        end(&jobs(&other), 40..42).await;
        until_kept(&server, [&[32, 34, 36, 38, 40], &[37, 39, 41]]).await;
        cleaners.iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn an_id_that_is_used_again_is_a_new_job() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        end(&jobs, 0..12).await;
        let cleaner = clean(&jobs);
        until_kept(&server, [&[2, 4, 6, 8, 10], &[7, 9, 11]]).await;
        assert!(jobs.forget("2").await.unwrap());
        end(&jobs, 2..3).await;
        end(&jobs, 12..13).await;
        // The oldest is another one now.
        until_kept(&server, [&[2, 6, 8, 10, 12], &[7, 9, 11]]).await;
        cleaner.abort();
    });
}

#[test]
fn a_job_that_cannot_be_deleted_stops_no_other() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        end(&jobs, 0..40).await;
        let refused = server.rule(|request| {
            let is_it = request.is_transaction() && request.is_about("/jobs/all/4");
            if is_it { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        // Deleted by hand: its result is deleted nevertheless.
        zk.delete("/jobs/all/6").await.unwrap();
        let mut errors = zk.background_errors();
        let cleaner = clean(&jobs);
        assert_eq!(errors.next().await.unwrap().code(), Some(ErrorCode::NoAuth));
        until_kept(&server, [&[4, 30, 32, 34, 36, 38], NEWEST[1]]).await;
        // Reported once.
        assert!(timeout(MINUTE * 10, errors.next()).await.is_err());
        drop(refused);
        until_kept(&server, NEWEST).await;
        cleaner.abort();
    });
}

#[test]
fn limits_of_zero_are_refused() {
    simulated_with(async |_server, zk| {
        let of = || Jobs::new(&zk, JOBS);
        for (jobs, expected) in [
            (of().keep_done(0), "keep_done"),
            (of().keep_failed(0), "keep_failed"),
            (of().keep_done(Duration::ZERO), "keep_done"),
        ] {
            let error = jobs.submit("").await.unwrap_err();
            assert!(matches!(error, Error::Zero { setting, .. } if setting == expected), "{error}");
        }
    });
}
