//! Tasks that a process starts without the simulation.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::task::{JoinSet, spawn_blocking};
use zk_curator::CuratorFramework;
use zk_curator_sim::{Client, Failure, Fault, FaultAction, Faults, Outcome, Sim};
use zk_curator_testing::wait::spend;

fn run<F, Fut>(faults: Vec<Fault>, workload: F) -> Outcome
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let sim = Sim::seed(1).clients(1).rounds(1).settings(false).faults(Faults::list(faults));
    sim.workload(workload).run()
}

/// Returns the description of the stray task, and the line of the history before it.
fn stray<F, Fut>(faults: Vec<Fault>, workload: F) -> (String, String)
where
    F: Fn(Client) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let outcome = run(faults.clone(), workload.clone());
    let violation = outcome.violation.unwrap_or_else(|| panic!("{}", outcome.history));
    assert_eq!(violation.checker, "strays", "{violation}");
    assert_eq!(
        run(faults, workload).violation,
        Some(violation.clone()),
        "every run finds the same"
    );
    let before = violation.records.first().map(|place| outcome.history.excerpt(&[*place]));
    (violation.broken, before.unwrap_or_default())
}

async fn a_while() {
    spend(Duration::from_millis(100)).await;
}

#[test]
fn spawned_task_is_found_where_it_was_started() {
    let (broken, before) = stray(Vec::new(), |client: Client| async move {
        a_while().await;
        client.note("begins");
        a_while().await;
        drop(tokio::spawn(a_while()));
        client.note("goes on");
        Ok(())
    });
    assert!(broken.starts_with("c0 has started a task at "), "{broken}");
    assert!(broken.contains("in the future of its workload, after \"begins\""), "{broken}");
    assert!(broken.contains("Use CuratorFramework::spawn_task"), "{broken}");
    assert!(before.ends_with("begins\n"), "{before}");
}

#[test]
fn task_that_ends_at_once_is_found() {
    stray(Vec::new(), |_| async {
        tokio::spawn(async {}).await?;
        Ok(())
    });
}

#[test]
fn tasks_of_tasks_are_found() {
    let (broken, _) = stray(Vec::new(), |client: Client| async move {
        let zk = client.connect().await?;
        let task = zk.spawn_task(async {
            let mut tasks = JoinSet::new();
            tasks.spawn(a_while());
            tasks.spawn(a_while());
            while tasks.join_next().await.is_some() {}
        });
        Ok(task.await?)
    });
    assert!(broken.contains("2 tasks") && broken.contains("in task "), "{broken}");
}

#[test]
fn tasks_of_other_frameworks_are_found() {
    stray(Vec::new(), |_| async {
        CuratorFramework::builder().connect_string("zk1").build()?.spawn(a_while());
        Ok(())
    });
}

#[test]
fn task_that_is_started_by_a_drop_is_found() {
    struct Spawns;
    impl Drop for Spawns {
        fn drop(&mut self) {
            drop(tokio::spawn(async {}));
        }
    }
    let at = Duration::from_millis(50);
    let kill = FaultAction::KillClient { client: 0, silently: false };
    stray(vec![Fault { at, lasts: at, action: kill }], |_| async {
        let _spawns = Spawns;
        spend(Duration::from_secs(1)).await;
        Ok(())
    });
    stray(Vec::new(), |_| async {
        drop(Spawns);
        Ok(())
    });
}

#[test]
fn work_of_other_threads_is_found() {
    let (broken, _) = stray(Vec::new(), |_| async {
        spawn_blocking(|| {}).await?;
        Ok(())
    });
    assert!(broken.contains("spawn_blocking"), "{broken}");
}

#[test]
fn tasks_that_the_simulation_knows_are_no_strays() {
    let outcome = run(Vec::new(), |client| async move {
        let zk = client.connect().await?;
        let inner = zk.clone();
        zk.spawn(async move { inner.spawn(a_while()) });
        let task = zk.spawn_task(a_while());
        assert_eq!(client.spawn(a_while()).await, Some(()));
        task.await?;
        // An aborted task ends with its handle.
        drop(zk.spawn_task(std::future::pending::<()>()));
        let mut futures: FuturesUnordered<_> = (0..3).map(|_| a_while()).collect();
        while futures.next().await.is_some() {}
        // Opens another session on another connection.
        client.connect().await?.close().await?;
        Ok(())
    });
    assert_eq!(outcome.violation, None, "{}", outcome.history);
}
