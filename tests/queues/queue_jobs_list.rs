//! The operators' view of jobs: one job, the numbers of jobs, and pages of them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::join;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::Error;
use zk_curator_recipes::queue::jobs::{JobInfo, JobPhase, JobState, Jobs};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{connected, once, simulated_with};

const JOBS: &str = "/jobs";
const ALL: [JobPhase; 5] =
    [JobPhase::Pending, JobPhase::Executing, JobPhase::Delayed, JobPhase::Done, JobPhase::Failed];

/// Requests but for pings.
fn requests(server: &TestServer) -> u64 {
    let probe = server.probe();
    probe.total_requests() - probe.requests(OpCode::Ping)
}

/// A number of jobs in every state, each with its id as payload; the ones that are executed go with
/// the worker.
async fn filled(zk: &CuratorFramework, count: usize) -> (Jobs, impl Drop + use<>) {
    struct Held(
        #[expect(dead_code, reason = "given back when it is dropped")] Vec<Box<dyn std::any::Any>>,
    );
    impl Drop for Held {
        fn drop(&mut self) {}
    }
    let jobs = Jobs::new(zk, JOBS).bucket_size(4);
    let mut worker = jobs.worker("worker");
    let mut held: Vec<Box<dyn std::any::Any>> = Vec::new();
    for phase in [JobPhase::Done, JobPhase::Failed, JobPhase::Delayed, JobPhase::Executing] {
        for number in 0..count {
            let id = format!("{phase:?}-{number:03}");
            jobs.submit(id.as_str()).id(&id).await.unwrap();
            let job = worker.next().await.unwrap();
            match phase {
                JobPhase::Done => job.complete_with(format!("result of {id}")).await.unwrap(),
                JobPhase::Failed => job.reject("never").await.unwrap(),
                JobPhase::Delayed => {
                    job.retry_after("later", Duration::from_secs(3600)).await.unwrap();
                }
                _ => held.push(Box::new(job)),
            }
        }
    }
    held.push(Box::new(worker));
    for number in 0..count {
        let id = format!("Pending-{number:03}");
        let priority = i32::try_from(number % 3).unwrap() - 1;
        jobs.submit(id.as_str()).id(id).priority(priority).await.unwrap();
    }
    jobs.flush().await.unwrap();
    (jobs, Held(held))
}

fn is_named_for_its_state(job: &JobInfo) -> bool {
    job.id.starts_with(&format!("{:?}-", job.state.phase()))
}

#[test]
fn a_job_is_found_in_every_state_with_its_payload() {
    simulated_with(async |server, zk| {
        let (jobs, _held) = filled(&zk, 12).await;
        let operator = Jobs::new(&connected(&server).await, JOBS);
        for phase in ALL {
            let id = format!("{phase:?}-007");
            let before = requests(&server);
            let job = operator.get(&id).await.unwrap().unwrap();
            let cost = requests(&server) - before;
            assert_eq!((job.state.phase(), &job.id), (phase, &id));
            assert_eq!(job.value::<String>().unwrap().unwrap(), id);
            assert!(job.submitted_at.is_some());
            let is_ended = matches!(phase, JobPhase::Done | JobPhase::Failed);
            assert!(cost <= if is_ended { 1 } else { 8 }, "{phase:?}: {cost} requests");
            let result =
                job.result().unwrap().map(|result| String::from_utf8(result.to_vec()).unwrap());
            assert_eq!(result, (phase == JobPhase::Done).then(|| format!("result of {id}")));
            let expected = match phase {
                JobPhase::Pending => (0, Some(0)),
                JobPhase::Done => (0, None),
                _ => (1, Some(0)),
            };
            assert_eq!((job.attempts, job.priority), expected, "{phase:?}");
            match job.state {
                JobState::Executing { worker, is_alive, .. } => {
                    assert_eq!((&*worker, is_alive), ("worker", true));
                }
                JobState::Delayed { why, .. } => assert_eq!(why, "later"),
                JobState::Failed { why, .. } => assert_eq!(why, "never"),
                _ => {}
            }
        }
        assert_eq!(jobs.get("nobody").await.unwrap(), None);
        assert!(matches!(jobs.get("a/b").await, Err(Error::InvalidId { .. })));
        assert_eq!(Jobs::new(&zk, "/none").get("a").await.unwrap(), None);
    });
}

/// The job is pending while the attempts are listed, and executed while the pending jobs are.
#[test]
fn a_job_that_moves_is_found_all_the_same() {
    simulated_with(async |server, zk| {
        let jobs = Jobs::new(&zk, JOBS);
        jobs.submit("payload").id("a").await.unwrap();
        let operator = Jobs::new(&connected(&server).await, JOBS);
        let listing = once(&server, OpCode::GetChildren2, Verdict::Delay(Duration::from_secs(1)));
        let mut worker = jobs.worker("w");
        let claimed = async {
            listing.fired().await;
            worker.next().await.unwrap()
        };
        let (job, claimed) = join!(operator.get("a"), claimed);
        let job = job.unwrap().unwrap();
        assert_eq!((job.state.phase(), job.attempts), (JobPhase::Executing, claimed.attempt()));
    });
}

#[test]
fn jobs_are_counted_in_few_requests() {
    simulated_with(async |server, zk| {
        let none = Jobs::new(&zk, JOBS).counts().await.unwrap();
        assert_eq!((none.total(), none), (0, Default::default()));
        let (jobs, _held) = filled(&zk, 40).await;
        let before = requests(&server);
        let counts = jobs.counts().await.unwrap();
        let cost = requests(&server) - before;
        let each = [counts.pending, counts.executing, counts.delayed, counts.done, counts.failed];
        assert_eq!((each, counts.total()), ([40; 5], 200));
        assert_eq!(cost, 2);
    });
}

#[test]
fn nodes_of_other_programs_are_not_counted() {
    simulated_with(async |server, zk| {
        let jobs = Jobs::new(&zk, JOBS);
        jobs.submit("").id("a").await.unwrap();
        let bucket = server.probe().children("/jobs/pending")[0].to_owned();
        for directory in ["pending", "executing", "later", "done", "failed"] {
            zk.create(format!("{JOBS}/{directory}/README")).creating_parents().await.unwrap();
        }
        zk.create(format!("{JOBS}/pending/{bucket}/README")).await.unwrap();
        let counts = jobs.counts().await.unwrap();
        assert_eq!((counts.pending, counts.total()), (1, 1));
        assert_eq!(jobs.list().all().await.unwrap().len(), 1);
    });
}

#[test]
fn pages_hold_every_job_once_for_few_requests() {
    simulated_with(async |server, zk| {
        let (jobs, _held) = filled(&zk, 60).await;
        for (limit, has_payload) in [(1, false), (7, true), (100, false), (u32::MAX, true)] {
            let list = jobs.list().limit(limit);
            let list = if has_payload { list.with_payload() } else { list };
            let (mut seen, mut next, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let before = requests(&server);
                let page = match next {
                    None => list.clone().await.unwrap(),
                    Some(next) => list.clone().after(next).await.unwrap(),
                };
                let cost = requests(&server) - before;
                assert!(cost <= 32 + u64::from(limit.min(1000)) / 7, "{limit}: {cost} requests");
                assert!(
                    page.jobs.len() <= limit as usize
                        && page.jobs.iter().all(is_named_for_its_state)
                );
                for job in &page.jobs {
                    let payload = job.value::<String>().unwrap();
                    assert_eq!(payload, has_payload.then(|| job.id.clone()));
                    let has_result = has_payload && job.state.phase() == JobPhase::Done;
                    assert_eq!(job.result().unwrap().is_some(), has_result);
                }
                seen.extend(page.jobs.into_iter().map(|job| job.id));
                pages += 1;
                next = page.next;
                if next.is_none() {
                    break;
                }
            }
            assert_eq!(
                (seen.len(), seen.iter().collect::<BTreeSet<_>>().len()),
                (300, 300),
                "{limit}"
            );
            assert!(pages >= 300 / limit.min(1000), "{limit}: {pages} pages");
            // Pending jobs in the order in which they are claimed: by priority, then by age.
            let expected = (0..3)
                .flat_map(|rank| (rank..60).step_by(3))
                .map(|job| format!("Pending-{job:03}"));
            assert_eq!(seen[..60], expected.collect::<Vec<_>>());
        }
        assert_eq!(jobs.list().all().await.unwrap().len(), 300);
    });
}

#[test]
fn a_filter_lists_only_its_states() {
    simulated_with(async |_server, zk| {
        let (jobs, _held) = filled(&zk, 9).await;
        for phase in ALL {
            let listed = jobs.list().only([phase]).limit(2).all().await.unwrap();
            assert!(
                listed.len() == 9 && listed.iter().all(|job| job.state.phase() == phase),
                "{listed:?}"
            );
        }
        let both = jobs.list().only([JobPhase::Failed, JobPhase::Pending]).await.unwrap();
        assert_eq!((both.jobs.len(), both.next), (18, None));
        let none = jobs.list().only([]).await.unwrap();
        assert_eq!((none.jobs.len(), none.next), (0, None));
    });
}

#[test]
fn what_is_no_position_of_a_list_is_refused() {
    simulated_with(async |_server, zk| {
        let (jobs, _held) = filled(&zk, 1).await;
        assert!(matches!(jobs.list().limit(0).await, Err(Error::Zero { setting: "limit", .. })));
        for position in [
            "",
            "a",
            "pending",
            "running ",
            "pending a",
            "pending a/b",
            "done b|1/",
            "executing a/b",
        ] {
            let Err(Error::Framework(error)) = jobs.list().after(position).await else {
                // A bucket of this name may exist.
                assert_eq!(position, "done b|1/");
                continue;
            };
            assert_eq!(
                (error.kind(), error.path()),
                (ErrorKind::InvalidArgument, JOBS),
                "{position:?}"
            );
        }
        // A position stays valid where none of the jobs is.
        let next = jobs.list().limit(1).await.unwrap().next.unwrap();
        assert!(Jobs::new(&zk, "/none").list().after(next).await.unwrap().jobs.is_empty());
    });
}
