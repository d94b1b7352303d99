//! The records of jobs: results and failures in buckets, by their ids.

use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::jobs::{JobDelivery, JobState, Jobs};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{items, join_all, rule_if, simulated_each, simulated_with, until};

const JOBS: &str = "/jobs";
const BUCKETS: usize = 1024;
const ENDS: [&str; 2] = ["/jobs/done", "/jobs/failed"];

fn jobs(zk: &CuratorFramework) -> Jobs {
    Jobs::new(zk, JOBS)
}

async fn claim(jobs: &Jobs, count: usize) -> Vec<JobDelivery> {
    for number in 0..count {
        jobs.submit("").id(number.to_string()).await.unwrap();
    }
    let mut worker = jobs.worker("worker").prefetch(count);
    let mut claimed = Vec::new();
    for _ in 0..count {
        claimed.push(worker.next().await.unwrap());
    }
    claimed
}

/// Half of the jobs is done, the other half has failed; the ones that end at the same time share
/// buckets.
async fn end(claimed: Vec<JobDelivery>) {
    let ends = claimed.into_iter().map(|job| async move {
        let id = job.id().to_owned();
        if id.parse::<u32>().unwrap() % 2 == 0 {
            job.complete_with(id).await
        } else {
            job.reject(id).await
        }
    });
    join_all(ends).await.into_iter().for_each(|end| end.unwrap());
}

async fn check(jobs: &Jobs, count: usize) {
    let listed = jobs.list().all().await.unwrap();
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
        let buckets =
            children.iter().map(|bucket| probe.children(&format!("{end}/{bucket}")).len());
        buckets.max().unwrap_or(0)
    };
    ENDS.iter().map(of).max().unwrap_or(0)
}

#[test]
fn results_and_failures_are_spread_over_buckets() {
    simulated_with(async |server, zk| {
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

/// Nodes next to the buckets are not jobs.
#[test]
fn nodes_beside_the_buckets_are_no_results() {
    simulated_with(async |server, zk| {
        for end in ENDS {
            zk.create(format!("{end}/0")).data("foreign").creating_parents().await.unwrap();
        }
        let jobs = jobs(&zk);
        assert_eq!((jobs.result("0").await.unwrap(), jobs.get("0").await.unwrap()), (None, None));
        assert_eq!(jobs.counts().await.unwrap().total(), 0);
        end(claim(&jobs, 4).await).await;
        check(&jobs, 4).await;
        assert!(jobs.forget("0").await.unwrap() && !jobs.forget("0").await.unwrap());
        assert!(ENDS.iter().all(|end| server.probe().exists(&format!("{end}/0"))));
    });
}

#[test]
fn the_cleaner_keeps_failures_in_buckets_whatever_is_lost() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let jobs = jobs(&zk).max_attempts(1);
        for job in claim(&jobs, 20).await {
            drop(job);
        }
        let lost = rule_if(&server, move |request| request.matches("/jobs/failed/**"), verdict);
        let lost = lost.times(10);
        let cleaner = tokio::spawn({
            let jobs = jobs.clone();
            async move { jobs.clean().await }
        });
        until(&server, |probe| items(probe, "/jobs/failed").len() == 20).await;
        assert_eq!(lost.hits(), 10);
        cleaner.abort();
        let listed = jobs.list().all().await.unwrap();
        assert!(
            listed.iter().all(|job| matches!(job.state, JobState::Failed { .. })),
            "{listed:?}"
        );
    });
}

/// An operator may take a bucket away, or the directory.
#[test]
fn a_bucket_that_was_deleted_is_made_again() {
    simulated_with(async |server, zk| {
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
            assert!(jobs.list().all().await.unwrap().is_empty(), "{round}");
        }
    });
}
