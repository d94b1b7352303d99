//! What is kept of jobs: results and failures in buckets, by their ids.

use futures_util::future::join_all;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::queue::jobs::{Job, JobState, Jobs};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{connected, in_memory, is_kept, items, simulated, until};

const JOBS: &str = "/jobs";
const BUCKETS: usize = 1024;
const ENDS: [&str; 2] = ["/jobs/done", "/jobs/failed"];

fn jobs(zk: &CuratorFramework) -> Jobs {
    Jobs::new(zk, JOBS)
}

async fn claim(jobs: &Jobs, count: usize) -> Vec<Job> {
    for number in 0..count {
        jobs.submit_as(&number.to_string(), "").await.unwrap();
    }
    let mut worker = jobs.worker("worker").prefetch(count);
    let mut claimed = Vec::new();
    for _ in 0..count {
        claimed.push(worker.next().await.unwrap());
    }
    claimed
}

/// Half of the jobs is done, the other half has failed; those that end at the same time share buckets.
async fn end(claimed: Vec<Job>) {
    let ends = claimed.into_iter().map(|job| async move {
        let id = job.id().to_owned();
        if id.parse::<u32>().unwrap() % 2 == 0 { job.complete_with(id).await } else { job.reject(id).await }
    });
    join_all(ends).await.into_iter().for_each(|end| end.unwrap());
}

async fn check(jobs: &Jobs, count: usize) {
    let listed = jobs.inspect().await.unwrap();
    assert_eq!(listed.len(), count);
    for job in listed {
        match (job.id.parse::<u32>().unwrap() % 2, job.state) {
            (0, JobState::Done { .. }) => {
                assert_eq!(jobs.result(&job.id).await.unwrap().unwrap(), job.id);
            }
            (_, JobState::Failed { why, .. }) => {
                assert_eq!((why, jobs.result(&job.id).await.unwrap()), (job.id, None));
            }
            (_, state) => panic!("{} {state:?}", job.id),
        }
    }
}

/// The longest listing below the directories, in names.
fn longest(server: &TestServer) -> usize {
    let probe = server.probe();
    let of = |end: &&str| {
        let children = probe.children(end);
        let buckets = children.iter().map(|bucket| probe.children(&format!("{end}/{bucket}")).len());
        buckets.max().unwrap_or(0)
    };
    ENDS.iter().map(of).max().unwrap_or(0)
}

#[test]
fn results_and_failures_are_spread_over_buckets() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let jobs = jobs(&zk);
        let count = 2000;
        end(claim(&jobs, count).await).await;
        for end in ENDS {
            let children = server.probe().children(end).len();
            assert!((BUCKETS / 2..=BUCKETS).contains(&children), "{children}");
        }
        // One in each on the average.
        assert!(longest(&server) <= 8, "{}", longest(&server));
        check(&jobs, count).await;
        for number in 0..count {
            let id = number.to_string();
            assert_eq!(jobs.retry(&id).await.unwrap(), number % 2 == 1);
            assert_eq!(jobs.forget(&id).await.unwrap(), number % 2 == 0);
            assert!(!jobs.forget(&id).await.unwrap() && !jobs.retry(&id).await.unwrap());
        }
        assert_eq!(items(&server.probe(), "/jobs/pending").len(), count / 2);
        let kept = ENDS.map(|end| {
            server
                .probe()
                .children(end)
                .iter()
                .any(|bucket| !server.probe().children(&format!("{end}/{bucket}")).is_empty())
        });
        assert_eq!(kept, [false, false]);
    });
}

/// What earlier versions have made.
async fn old_layout(zk: &CuratorFramework) {
    for directory in ["done", "failed"] {
        zk.create(format!("{JOBS}/{directory}")).creating_parents().await.unwrap();
    }
}

#[test]
fn jobs_of_an_earlier_version_keep_their_layout_until_it_is_upgraded() {
    simulated(async {
        let (server, zk) = in_memory().await;
        old_layout(&zk).await;
        let other = connected(&server).await;
        let (old, new) = (jobs(&other), jobs(&zk).upgrade_layout());
        end(claim(&old, 4).await).await;
        let flat = |server: &TestServer| ENDS.map(|end| server.probe().children(end).len());
        assert_eq!(flat(&server), [2, 2]);
        assert!(server.probe().exists("/jobs/done/2") && server.probe().exists("/jobs/failed/3"));
        check(&old, 4).await;
        check(&new, 4).await;
        // The upgrade moves nothing.
        for (id, kept) in [("4", "/jobs/done"), ("5", "/jobs/failed")] {
            new.submit_as(id, "").await.unwrap();
            end(vec![new.worker("new").next().await.unwrap()]).await;
            assert!(is_kept(&server.probe(), kept, id) && !server.probe().exists(&format!("{kept}/{id}")));
        }
        assert_eq!(flat(&server), [3, 3]);
        check(&old, 6).await;
        // It need not know: both places are looked at.
        old.submit_as("6", "").await.unwrap();
        end(vec![old.worker("old").next().await.unwrap()]).await;
        assert!(server.probe().exists("/jobs/done/6"));
        check(&new, 7).await;
        for jobs in [&old, &new] {
            assert!(jobs.retry(if std::ptr::eq(jobs, &old) { "5" } else { "3" }).await.unwrap());
        }
        for id in ["0", "1", "2", "4", "6"] {
            assert!(new.forget(id).await.unwrap() && !old.forget(id).await.unwrap(), "{id}");
        }
        // One that begins later knows.
        let late = jobs(&connected(&server).await);
        end(vec![late.worker("late").next().await.unwrap()]).await;
        assert!(
            is_kept(&server.probe(), "/jobs/failed", "5") || is_kept(&server.probe(), "/jobs/failed", "3")
        );
        assert!(!server.probe().exists("/jobs/failed/3") && !server.probe().exists("/jobs/failed/5"));
    });
}

#[test]
fn the_cleaner_keeps_failures_in_buckets_whatever_is_lost() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
            let jobs = jobs(&zk).max_attempts(1);
            for job in claim(&jobs, 20).await {
                drop(job);
            }
            let lost = server.rule(
                move |request| {
                    if request.matches("/jobs/failed/**") { verdict } else { Verdict::Pass }
                },
            );
            let lost = lost.times(10);
            let cleaner = tokio::spawn({
                let jobs = jobs.clone();
                async move { jobs.clean().await }
            });
            until(&server, |probe| items(probe, "/jobs/failed").len() == 20).await;
            assert_eq!(lost.hits(), 10);
            cleaner.abort();
            let listed = jobs.inspect().await.unwrap();
            assert!(listed.iter().all(|job| matches!(job.state, JobState::Failed { .. })), "{listed:?}");
        }
    });
}

/// An operator may take a bucket away, or the directory.
#[test]
fn a_bucket_that_was_deleted_is_made_again() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let jobs = jobs(&zk);
        for round in 0..3 {
            end(claim(&jobs, 2).await).await;
            check(&jobs, 2).await;
            for end in ENDS {
                for bucket in server.probe().children(end) {
                    zk.delete(format!("{end}/{bucket}")).deleting_children().await.unwrap();
                }
            }
            for id in ["0", "1"] {
                zk.delete(format!("/jobs/all/{id}")).await.unwrap();
            }
            assert!(jobs.inspect().await.unwrap().is_empty(), "{round}");
        }
        zk.create("/jobs/done/ephemeral").mode(CreateMode::Ephemeral).await.unwrap();
        assert_eq!(jobs.inspect().await.unwrap()[0].id, "ephemeral");
    });
}
