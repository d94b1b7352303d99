//! [`jobs`](zk_curator_recipes::queue::jobs): who executes what, what becomes of the jobs of the
//! dead, and that the clients that wake too late are refused; in spite of lost requests, lost
//! responses and lost sessions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::health::Health;
use zk_curator_recipes::queue::Error;
use zk_curator_recipes::queue::jobs::{JobDelivery, JobState, JobTask, Jobs};
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    closes_clean, connected, expire, is_kept, is_write_multi, items, once, once_on_write_multi,
    pairs, rule_if, session_id, simulated_each, simulated_on, simulated_with, stopped_by,
    two_in_memory, until,
};

const JOBS: &str = "/jobs";
const A_MOMENT: Duration = Duration::from_secs(1);

fn jobs(zk: &CuratorFramework) -> Jobs {
    Jobs::new(zk, JOBS)
}

/// The job and the ordinal attempt it is.
fn seen(job: &JobDelivery) -> (&str, &[u8], u32) {
    (job.id(), job.data(), job.attempt())
}

async fn states(jobs: &Jobs) -> Vec<(String, u32, &'static str)> {
    let name = |state: &JobState| match state {
        JobState::Pending => "pending",
        JobState::Executing { is_alive: true, .. } => "executing",
        JobState::Executing { .. } => "orphaned",
        JobState::Done { .. } => "done",
        JobState::Failed { .. } => "failed",
        _ => "?",
    };
    jobs.list()
        .all()
        .await
        .unwrap()
        .into_iter()
        .map(|job| (job.id, job.attempts, name(&job.state)))
        .collect()
}

async fn nothing_stays(server: &TestServer, zk: &CuratorFramework) {
    zk.delete(JOBS).deleting_children().quietly().await.unwrap();
    closes_clean(server, zk).await;
}

#[test]
fn a_job_is_claimed_executed_and_its_result_is_kept_or_not() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit(format!("job {id}")).id(id).await.unwrap();
        }
        jobs.flush().await.unwrap();
        assert_eq!(states(&jobs).await, [("a".into(), 0, "pending"), ("b".into(), 0, "pending")]);

        let mut worker = jobs.worker("w1");
        let a = worker.next().await.unwrap();
        assert_eq!(seen(&a), ("a", &b"job a"[..], 1));
        assert_eq!(states(&jobs).await, [("a".into(), 1, "executing"), ("b".into(), 0, "pending")]);
        let info = jobs.list().all().await.unwrap().remove(0);
        let JobState::Executing { worker: by, session, since, .. } = info.state else {
            panic!("{info:?}")
        };
        let now = server.probe().stat("/jobs/all/a").unwrap().ctime;
        let since = since.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        assert_eq!((&by[..], session), ("w1", session_id(&zk).get()));
        assert!(since >= u128::try_from(now).unwrap());

        a.complete_with("result").await.unwrap();
        worker.next().await.unwrap().complete().await.unwrap();
        assert_eq!(states(&jobs).await, [("a".into(), 0, "done")]);
        assert_eq!(
            (jobs.result("a").await.unwrap().unwrap(), jobs.result("b").await.unwrap()),
            ("result".into(), None)
        );
        // The id is taken as long as anything is known of the job.
        assert!(
            matches!(jobs.submit("").id("a").await, Err(Error::Exists { id, .. }) if id == "a")
        );
        assert!(jobs.forget("a").await.unwrap() && !jobs.forget("a").await.unwrap());
        assert!(server.probe().children("/jobs/all").is_empty());
        jobs.submit("again").id("a").await.unwrap();
        assert_eq!(seen(&worker.next().await.unwrap()), ("a", &b"again"[..], 1));
        drop(worker);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn the_jobs_are_a_stream() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut stream = Box::pin(jobs.worker("w1").into_stream());
        for id in ["a", "b"] {
            let job = stream.next().await.unwrap().unwrap();
            assert_eq!(seen(&job), (id, &b""[..], 1));
            job.complete().await.unwrap();
        }
        assert!(timeout(A_MOMENT, stream.next()).await.is_err());
        drop(stream);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn the_job_of_a_dead_worker_is_executed_at_its_old_place() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        for id in ["a", "b", "c"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let doomed = connected(&server).await;
        let mut victim = self::jobs(&doomed).worker("victim");
        let a = victim.next().await.unwrap();
        assert_eq!(seen(&a), ("a", &b""[..], 1));
        let token = a.fencing_token();
        expire(&server, &doomed).await;
        a.lost().await;
        // A candidate for the cleaner, and no worker yet.
        let cleaner = tokio::spawn({
            let jobs = jobs.clone();
            async move { jobs.clean().await }
        });
        until(&server, |probe| items(probe, "/jobs/pending").len() == 3).await;
        assert_eq!(states(&jobs).await[0], ("a".into(), 1, "pending"));
        let mut worker = jobs.worker("heir");
        let again = worker.next().await.unwrap();
        assert_eq!(seen(&again), ("a", &b""[..], 2));
        assert!(again.fencing_token() > token);
        assert!(matches!(a.complete().await, Err(Error::Lost { .. })));
        again.complete().await.unwrap();
        cleaner.abort();
    });
}

/// It resumes when its job is pending again, executed by another worker, or done. Its session is
/// long over, or its claim was deleted while the session lives.
#[test]
fn a_worker_that_was_paused_too_long_cannot_complete_its_job() {
    simulated_each(
        (0..3).flat_map(|stage| [(stage, false), (stage, true)]),
        async |(stage, expired), server, zk| {
            let jobs = jobs(&zk);
            jobs.submit("").id("a").await.unwrap();
            let sleeper = connected(&server).await;
            // It has no cleaner that could notify it, and does not read its claim.
            let job = self::jobs(&sleeper).worker("sleeper").next().await.unwrap();
            if expired {
                expire(&server, &sleeper).await;
            } else {
                let claim = server.probe().children("/jobs/leases")[0].to_owned();
                zk.delete(format!("/jobs/leases/{claim}")).await.unwrap();
            }
            let mut worker = jobs.worker("worker");
            let mut second = None;
            let cleaner = jobs.clone();
            let cleaner = tokio::spawn(async move { cleaner.clean().await });
            match stage {
                0 => {}
                1 => second = Some(worker.next().await.unwrap()),
                _ => worker.next().await.unwrap().complete_with("by the other").await.unwrap(),
            }
            until(&server, |probe| {
                probe.children("/jobs/executing").len() == usize::from(stage == 1)
            })
            .await;
            cleaner.abort();
            let before = states(&jobs).await;
            let refused =
                if expired { job.complete_with("late").await } else { job.fail("late").await };
            assert!(matches!(refused, Err(Error::Lost { .. })), "{stage} {expired}: {refused:?}");
            assert_eq!(states(&jobs).await, before);
            if let Some(second) = second {
                second.complete_with("by the other").await.unwrap();
            }
            if stage > 0 {
                assert_eq!(jobs.result("a").await.unwrap().unwrap(), "by the other");
            }
        },
    );
}

#[test]
fn a_dropped_job_runs_again_and_fails_after_too_many_attempts() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk).max_attempts(3);
        jobs.submit("").id("a").await.unwrap();
        let mut worker = jobs.worker("w");
        drop(worker.next().await.unwrap());
        let second = worker.next().await.unwrap();
        assert_eq!(second.attempt(), 2);
        second.fail("no luck").await.unwrap();
        let third = worker.next().await.unwrap();
        assert_eq!(third.attempt(), 3);
        third.fail("no luck either").await.unwrap();
        assert_eq!(states(&jobs).await, [("a".into(), 3, "failed")]);
        let failed = jobs.list().all().await.unwrap().remove(0).state;
        assert!(
            matches!(&failed, JobState::Failed { why, .. } if why == "no luck either"),
            "{failed:?}"
        );
        assert!(worker.try_next().await.unwrap().is_none());

        assert!(jobs.retry("a").await.unwrap() && !jobs.retry("a").await.unwrap());
        let first = worker.next().await.unwrap();
        assert_eq!(first.attempt(), 1);
        first.reject("never").await.unwrap();
        assert_eq!(states(&jobs).await, [("a".into(), 1, "failed")]);

        // The limit holds for workers that die, too.
        let limited = self::jobs(&zk).max_attempts(1);
        assert!(jobs.forget("a").await.unwrap());
        jobs.submit("").id("b").await.unwrap();
        drop(worker);
        let mut worker = limited.worker("w2");
        drop(worker.next().await.unwrap());
        until(&server, |probe| is_kept(probe, "/jobs/failed", "b")).await;
        let failed = limited.list().all().await.unwrap().remove(0).state;
        assert!(
            matches!(&failed, JobState::Failed { why, .. } if why == "the worker w2 has gone"),
            "{failed:?}"
        );
        drop(worker);
        nothing_stays(&server, &zk).await;
    });
}

/// Whether it was executed cannot be known.
#[test]
fn claim_that_ends_with_its_session_is_an_attempt() {
    simulated_with(async |server, zk| {
        let limited = jobs(&zk).max_attempts(4);
        limited.submit("").id("a").await.unwrap();
        limited.submit("").id("b").await.unwrap();
        for ends in 1..=4 {
            let doomed = connected(&server).await;
            let mut worker = jobs(&doomed).max_attempts(4).worker("w").prefetch(2);
            // It has claimed both, and executes one of them.
            let job = worker.next().await.unwrap();
            until(&server, |probe| probe.children("/jobs/leases").len() == 2).await;
            assert_eq!((job.id(), job.attempt()), ("a", ends));
            expire(&server, &doomed).await;
            job.lost().await;
            drop((job, worker));
            doomed.close().await.unwrap();
            let cleaned = limited.clean();
            tokio::select! {
                _ = cleaned => panic!("the cleaner has ended"),
                _ = until(&server, |probe| probe.children("/jobs/executing").is_empty()) => {}
            }
        }
        // The other job was never executed.
        let expected = [("a".into(), 4, "failed"), ("b".into(), 4, "failed")];
        assert_eq!(states(&limited).await, expected);
    });
}

#[test]
fn a_pending_job_is_withdrawn_and_no_other() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        let a = worker.next().await.unwrap();
        assert!(!jobs.cancel("a").await.unwrap());
        assert!(jobs.cancel("b").await.unwrap() && !jobs.cancel("b").await.unwrap());
        a.complete().await.unwrap();
        assert!(timeout(A_MOMENT, worker.next()).await.is_err());
        assert!(server.probe().children("/jobs/all").is_empty());
        for id in ["", "a/b", "a|b", ".", "a\u{1}"] {
            assert!(matches!(jobs.submit("").id(id).await, Err(Error::InvalidId { .. })), "{id:?}");
        }
    });
}

#[test]
fn a_job_that_comes_back_while_it_is_withdrawn_is_withdrawn() {
    simulated_with(async |server, zk| {
        let (operator, jobs) = (connected(&server).await, jobs(&zk));
        jobs.submit("").id("a").await.unwrap();
        jobs.flush().await.unwrap();
        let late = once_on_write_multi(&server, Verdict::Delay(A_MOMENT));
        let theirs = self::jobs(&operator);
        let (withdrawn, ()) = tokio::join!(theirs.cancel("a"), async {
            late.fired().await;
            // It comes back under another name.
            let mut worker = jobs.worker("w");
            drop(worker.next().await.unwrap());
            until(&server, |probe| probe.children("/jobs/executing").is_empty()).await;
        });
        assert!(withdrawn.unwrap());
        assert!(server.probe().children("/jobs/all").is_empty());
        assert!(items(&server.probe(), "/jobs/pending").is_empty());
    });
}

#[test]
fn jobs_are_worked_off_so_many_at_a_time() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk).max_attempts(2);
        for id in ["a", "b", "bad", "c"] {
            jobs.submit(id).id(id).await.unwrap();
        }
        let body = |task: JobTask| async move {
            spend(Duration::from_millis(10)).await;
            match &task.data[..] {
                b"bad" => Err(format!("attempt {}", task.attempt)),
                b"c" => Ok(None),
                _ => Ok(Some(Bytes::from(format!("done with {}", task.id)))),
            }
        };
        let work = tokio::spawn(jobs.worker("w").run(2, body));
        until(&server, |probe| {
            items(probe, "/jobs/done").len() == 2
                && !probe.exists("/jobs/all/c")
                && is_kept(probe, "/jobs/failed", "bad")
        })
        .await;
        work.abort();
        let expected = [("a", 0, "done"), ("b", 0, "done"), ("bad", 2, "failed")];
        assert_eq!(
            states(&jobs).await,
            expected.map(|(id, attempts, state)| (id.to_owned(), attempts, state))
        );
        assert_eq!(jobs.result("a").await.unwrap().unwrap(), "done with a");
    });
}

/// The cleaner learns of it late, or of claims before attempts: its transaction proves that there
/// is no claim.
#[test]
fn the_cleaner_takes_no_job_of_a_worker_that_lives() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        jobs.submit("").id("a").await.unwrap();
        let mut worker = jobs.worker("w");
        let a = worker.next().await.unwrap();
        // Other claims come and go, so that it looks.
        for _ in 0..5 {
            zk.create("/jobs/leases/other").await.unwrap();
            past(A_MOMENT).await;
            zk.delete("/jobs/leases/other").await.unwrap();
            past(A_MOMENT).await;
        }
        // Nodes that are no attempts stay.
        zk.create("/jobs/executing/other").data("nonsense").await.unwrap();
        zk.create("/jobs/leases/other").await.unwrap();
        zk.delete("/jobs/leases/other").await.unwrap();
        idle(A_MOMENT).await;
        assert_eq!(states(&jobs).await, [("a".into(), 1, "executing")]);
        assert!(server.probe().exists("/jobs/executing/other"));
        a.complete().await.unwrap();
    });
}

/// An operator deletes it all, and it is made again with a job of the same id.
#[test]
fn a_worker_of_a_deleted_job_cannot_complete_its_successor() {
    simulated_with(async |server, zk| {
        jobs(&zk).submit("old").id("a").await.unwrap();
        let old = jobs(&zk).worker("old").next().await.unwrap();
        let operator = connected(&server).await;
        operator.delete(JOBS).deleting_children().await.unwrap();
        let jobs = jobs(&operator);
        jobs.submit("new").id("a").await.unwrap();
        let new = jobs.worker("new").next().await.unwrap();
        assert_eq!(seen(&new), ("a", &b"new"[..], 1));
        assert!(matches!(old.complete().await, Err(Error::Lost { .. })));
        new.complete_with("done").await.unwrap();
        assert_eq!(jobs.result("a").await.unwrap().unwrap(), "done");
    });
}

/// The request is lost, and before the worker looks, an operator deletes the claim: that it is gone
/// proves nothing.
#[test]
fn a_completion_that_was_lost_is_not_proven_by_a_deleted_claim() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        jobs(&zk).submit("a").id("a").await.unwrap();
        let job = jobs(&zk).worker("first").next().await.unwrap();
        let claim = job.ownership().path().to_owned();
        let lost = once(&server, OpCode::Multi, Verdict::LoseRequest);
        let (completed, ()) = tokio::join!(job.complete(), async {
            lost.fired().await;
            other.delete(&claim).await.unwrap();
        });
        assert!(matches!(completed, Err(Error::Lost { .. })), "{completed:?}");
        let again = jobs(&zk).worker("second").next().await.unwrap();
        assert_eq!(seen(&again), ("a", &b"a"[..], 2));
        again.complete().await.unwrap();
    });
}

/// Every request of a submission, a claim and each way to settle, lost on the way there or on the
/// way back.
#[test]
fn whatever_is_lost_every_job_is_done_and_none_is_doubled() {
    let cases = pairs([Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect], 0..14);
    simulated_each(cases, async |(verdict, nth), server, zk| {
        let jobs = jobs(&zk).max_attempts(9);
        jobs.submit("").id("zero").await.unwrap();
        let mut worker = jobs.worker("w");
        worker.next().await.unwrap().complete_with("").await.unwrap();
        let lost = server.rule(move |request| match request.opcode() {
            OpCode::Create2
            | OpCode::Multi
            | OpCode::GetData
            | OpCode::GetChildren2
            | OpCode::Delete
                if request.paths().all(|path| !path.contains("cleaner")) =>
            {
                verdict
            }
            _ => Verdict::Pass,
        });
        let lost = lost.after(nth).times(1);
        for id in ["a", "b", "c"] {
            jobs.submit(id).id(id).await.unwrap();
        }
        let a = worker.next().await.unwrap();
        assert_eq!(seen(&a), ("a", &b"a"[..], 1), "{verdict:?} {nth}");
        a.complete_with("done").await.unwrap();
        worker.next().await.unwrap().fail("once").await.unwrap();
        worker.next().await.unwrap().complete_with("done").await.unwrap();
        server.restart().await.unwrap();
        worker.next().await.unwrap().complete_with("done").await.unwrap();
        assert_eq!(lost.hits(), 1, "{verdict:?} {nth}");
        let expected = ["a", "b", "c", "zero"].map(|id| (id.to_owned(), 0, "done"));
        assert_eq!(states(&jobs).await, expected, "{verdict:?} {nth}");
        jobs.flush().await.unwrap();
        drop(worker);
        nothing_stays(&server, &zk).await;
    });
}

/// A worker that dies with its jobs.
async fn orphans(server: &TestServer, ids: &[&str]) {
    doom(server, ids, async || {}).await;
}

/// The same, with something that happens before the death.
async fn doom(server: &TestServer, ids: &[&str], before: impl AsyncFn()) {
    let doomed = connected(server).await;
    for id in ids {
        jobs(&doomed).submit("").id(*id).await.unwrap();
    }
    let mut victim = jobs(&doomed).worker("victim").prefetch(ids.len());
    let held = victim.next().await.unwrap();
    until(server, |probe| probe.children("/jobs/leases").len() == ids.len()).await;
    before().await;
    // Its claims end with its session, and its attempts stay.
    doomed.close().await.unwrap();
    drop((victim, held));
}

/// The attempt at the job with this id.
fn attempt_at(server: &TestServer, id: &str) -> String {
    let probe = server.probe();
    let attempts = probe.children("/jobs/executing");
    let mut attempts = attempts.iter().map(|name| format!("/jobs/executing/{name}"));
    let names = |path: &String| {
        let data = probe.data(path).unwrap();
        String::from_utf8_lossy(&data).contains(&format!("|{id}|"))
    };
    attempts.find(names).unwrap()
}

#[test]
fn an_attempt_that_begins_and_ends_between_two_looks_is_ended() {
    simulated_with(async |server, zk| {
        jobs(&zk).submit("").id("a").await.unwrap();
        let doomed = connected(&server).await;
        let (cleaner, listed) = (session_id(&zk).get(), AtomicUsize::new(0));
        // Of the two lists of the cleaner, the second one is late.
        let late = server.rule(move |request| {
            let is_list =
                request.paths().any(|path| path == "/jobs/executing" || path == "/jobs/leases");
            let is_list =
                is_list && request.is(OpCode::GetChildren2) && request.session_id() == cleaner;
            if is_list && listed.fetch_add(1, Ordering::Relaxed) == 1 {
                Verdict::Delay(A_MOMENT)
            } else {
                Verdict::Pass
            }
        });
        let cleaner = jobs(&zk);
        let cleaner = tokio::spawn(async move { cleaner.clean().await });
        late.fired().await;
        let mut victim = jobs(&doomed).worker("victim");
        let held = victim.next().await.unwrap();
        doomed.close().await.unwrap();
        drop((victim, held));
        assert!(items(&server.probe(), "/jobs/pending").is_empty());
        until(&server, |probe| probe.children("/jobs/executing").is_empty()).await;
        cleaner.abort();
        assert_eq!(jobs(&zk).worker("heir").next().await.unwrap().attempt(), 2);
    });
}

#[test]
fn an_attempt_that_cannot_be_ended_stops_no_cleaning() {
    simulated_with(async |server, zk| {
        orphans(&server, &["a", "b", "c"]).await;
        let stuck = attempt_at(&server, "a");
        let refused = rule_if(
            &server,
            move |request| request.paths().any(|path| path == stuck) && request.is(OpCode::Multi),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        let mut errors = zk.background_errors();
        let mut worker = jobs(&zk).worker("heir").prefetch(2);
        let mut ids = [worker.next().await.unwrap(), worker.next().await.unwrap()];
        ids.sort_by(|one, other| one.id().cmp(other.id()));
        assert_eq!(ids.iter().map(|job| job.id()).collect::<Vec<_>>(), ["b", "c"]);
        let error = timeout(A_MOMENT, errors.next()).await.unwrap().unwrap();
        assert_eq!(error.code(), Some(ErrorCode::NoAuth), "{error}");
        // Reported once, and retried.
        assert!(timeout(A_MOMENT * 300, errors.next()).await.is_err());
        assert!((4..8).contains(&refused.hits()), "{}", refused.hits());
        drop(refused);
        assert_eq!(worker.next().await.unwrap().id(), "a");
    });
}

#[test]
fn a_cleaner_that_is_refused_is_reported_and_comes_back() {
    simulated_with(async |server, zk| {
        orphans(&server, &["a"]).await;
        let refused = rule_if(
            &server,
            |request| {
                request.paths().any(|path| path == "/jobs/executing")
                    && request.is(OpCode::GetChildren2)
            },
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        let mut errors = zk.background_errors();
        let mut worker = jobs(&zk).worker("heir");
        let mut health = worker.health();
        assert!(matches!(health.next().await, Some(Health::Waiting)));
        assert!(timeout(A_MOMENT, worker.next()).await.is_err());
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        assert!(matches!(health.next().await, Some(Health::Failed(_))));
        // Reported once, and retried.
        assert!(timeout(A_MOMENT * 300, errors.next()).await.is_err());
        assert!(refused.hits() > 5, "{}", refused.hits());
        drop(refused);
        let job = worker.next().await.unwrap();
        assert_eq!(job.id(), "a");
        while !matches!(health.next().await, Some(Health::Working)) {}
        // The end of the lease wakes the cleaner. It has succeeded in between.
        let again = rule_if(
            &server,
            |request| request.is(OpCode::GetChildren2) && request.is_about("/jobs/executing"),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        job.complete().await.unwrap();
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        drop(again);
        while !matches!(health.next().await, Some(Health::Working)) {}
        drop(worker);
        assert!(health.next().await.is_none());
        // It ends with its worker.
        until(&server, |probe| probe.children("/jobs/cleaner").is_empty()).await;
    });
}

/// The lease of a restored tree, for example: the job would be executed for ever.
#[test]
fn a_lease_that_no_session_will_remove_is_reported() {
    simulated_with(async |server, zk| {
        orphans(&server, &["a"]).await;
        let attempt = server.probe().children("/jobs/executing")[0].to_owned();
        let restored = format!("/jobs/leases/{attempt}");
        zk.create(restored.as_str()).await.unwrap();
        let mut errors = zk.background_errors();
        let mut worker = jobs(&zk).worker("heir");
        assert!(timeout(A_MOMENT, worker.next()).await.is_err());
        let told = timeout(A_MOMENT * 120, errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::NodeExists, restored.as_str()));
        assert!(timeout(A_MOMENT * 3600, errors.next()).await.is_err());
        zk.delete(restored.as_str()).await.unwrap();
        assert_eq!(worker.next().await.unwrap().id(), "a");
    });
}

#[test]
fn a_directory_that_is_deleted_stops_no_cleaning() {
    simulated_with(async |server, zk| {
        let mut worker = jobs(&zk).worker("heir");
        assert!(worker.try_next().await.unwrap().is_none());
        doom(&server, &["a"], async || {
            zk.delete("/jobs/pending").deleting_children().await.unwrap();
        })
        .await;
        assert_eq!(worker.next().await.unwrap().id(), "a");
    });
}

#[test]
fn a_worker_without_a_name_executes_jobs() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        jobs.submit("").id("a").await.unwrap();
        let a = timeout(A_MOMENT, jobs.worker("").next()).await.unwrap().unwrap();
        let state = jobs.list().all().await.unwrap().remove(0).state;
        assert!(matches!(state, JobState::Executing { worker, .. } if worker.is_empty()));
        a.complete().await.unwrap();
        for id in ["", "/", "a/b", "a|b", ".", "..", "\u{0}"] {
            let invalid =
                |error| matches!(error, Some(Error::InvalidId { id: told, .. }) if told == id);
            assert!(invalid(jobs.submit("").id(id).await.err()), "{id:?}");
            assert!(invalid(jobs.cancel(id).await.err()) && invalid(jobs.forget(id).await.err()));
            assert!(invalid(jobs.retry(id).await.err()) && invalid(jobs.result(id).await.err()));
        }
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn a_failing_job_is_held_back_and_finally_fails_permanently() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        jobs.submit("").id("bad").await.unwrap();
        jobs.submit("").id("good").await.unwrap();
        let begun = tokio::time::Instant::now();
        let body = async |task: JobTask| {
            if task.id == "bad" && task.attempt <= 1000 {
                Err("no luck")
            } else {
                Ok(Some(Bytes::new()))
            }
        };
        let work = tokio::spawn(jobs.worker("w").run(1, move |task| Box::pin(body(task))));
        until(&server, |probe| is_kept(probe, "/jobs/done", "good")).await;
        assert!(begun.elapsed() < A_MOMENT / 10, "{:?}", begun.elapsed());
        server.until(|probe| is_kept(probe, "/jobs/failed", "bad")).await;
        work.abort();
        // 0.1 s, 0.2 s, ... 25.6 s, and ten times 30 s; at least half of it.
        assert!(begun.elapsed() > A_MOMENT * 175, "{:?}", begun.elapsed());
        let bad = jobs.list().all().await.unwrap().remove(0);
        assert_eq!(bad.attempts, 20);
        assert!(matches!(bad.state, JobState::Failed { why, .. } if why == "no luck"));
    });
}

#[test]
fn a_job_whose_result_cannot_be_kept_is_executed_once() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        jobs.submit("").id("a").await.unwrap();
        let executed = AtomicUsize::new(0);
        let body = async |_: JobTask| {
            executed.fetch_add(1, Ordering::Relaxed);
            Ok::<_, String>(Some(Bytes::from(vec![0; 2 << 20])))
        };
        let over =
            async { drop(until(&server, |probe| is_kept(probe, "/jobs/failed", "a")).await) };
        let worker = jobs.worker("w");
        let run = async |stop: Shutdown| {
            worker.run(1, body).until(stop.drain(A_MOMENT)).await.unwrap();
        };
        stopped_by(over, run).await;
        assert_eq!(executed.into_inner(), 1);
        let failed = jobs.list().all().await.unwrap().remove(0).state;
        let says_so =
            |why: &str| why.starts_with("it was executed, and its result cannot be kept: ");
        assert!(matches!(&failed, JobState::Failed { why, .. } if says_so(why)), "{failed:?}");

        assert!(jobs.retry("a").await.unwrap());
        let job = jobs.worker("w").next().await.unwrap();
        let error = job.complete_with(vec![0; 2 << 20]).await.unwrap_err();
        assert!(
            matches!(&error, Error::Framework(why) if why.kind() == ErrorKind::TooLarge),
            "{error}"
        );
        assert_eq!(states(&jobs).await, [("a".into(), 1, "failed")]);
        nothing_stays(&server, &zk).await;
    });
}

#[test]
fn a_worker_goes_on_when_a_server_takes_writes_again() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        jobs.submit("").id("a").await.unwrap();
        let refused = server.rule(|request| {
            let is_write = request.is_create() || is_write_multi(request);
            if is_write { Verdict::Refuse(ErrorCode::NotReadOnly) } else { Verdict::Pass }
        });
        let work = tokio::spawn(jobs.worker("w").run(1, async |_| Ok::<_, String>(None)));
        refused.fired_times(5).await;
        // It does not ask all the time.
        let hits = refused.hits();
        past(A_MOMENT).await;
        assert!((1..=100).contains(&(refused.hits() - hits)), "{}", refused.hits() - hits);
        drop(refused);
        until(&server, |probe| probe.children("/jobs/all").is_empty()).await;
        work.abort();
    });
}
