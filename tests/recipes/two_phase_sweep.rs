//! A sweep of transactions keeps up with their coordinators.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::{Acl, CuratorFramework, ErrorKind, Permissions};
use zk_curator_proto::OpCode;
use zk_curator_recipes::two_phase::{
    Coordinator, Error, Form, Outcome, Site, Vote, inspect, sweep,
};
use zk_curator_testing::wait::spend;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{always, join_all, simulated_each, simulated_with, try_join_all};

const PARENT: &str = "/transactions";
const SITES: [&str; 2] = ["orders", "stock"];
const DEADLINE: Duration = Duration::from_secs(30);
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];

fn paths(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{PARENT}/t{number:03}")).collect()
}

async fn begin(zk: &CuratorFramework, path: &str, form: Form) {
    Coordinator::begin(zk, path, SITES, "").form(form).deadline(DEADLINE).await.unwrap();
}

async fn sites(zk: &CuratorFramework, path: &str) -> Vec<Site> {
    try_join_all(SITES.map(|site| Site::join(zk, path, site))).await.unwrap()
}

/// Begins a transaction, and ends it without its coordinator.
async fn finish(zk: &CuratorFramework, path: &str) {
    begin(zk, path, Form::Coordinated).await;
    for mut site in sites(zk, path).await {
        drop(site.vote(Vote::Abort).await);
        assert_eq!(site.outcome().await.unwrap(), Outcome::Aborted);
        site.acknowledge().await.unwrap();
    }
}

fn reads(server: &TestServer) -> u64 {
    [OpCode::GetData, OpCode::Exists, OpCode::GetChildren2, OpCode::GetChildren]
        .map(|read| server.probe().requests(read))
        .iter()
        .sum()
}

#[test]
fn an_undecided_transaction_costs_a_sweep_one_read() {
    simulated_with(async |server, zk| {
        let all = paths(100);
        join_all(all.iter().map(|path| begin(&zk, path, Form::Coordinated))).await;
        let before = reads(&server);
        assert_eq!(sweep(&zk, PARENT).at_once(0).await.unwrap(), [""; 0]);
        assert_eq!(reads(&server) - before, 101);
    });
}

#[test]
fn overdue_transactions_are_decided_in_one_deadline() {
    simulated_each(FORMS, async |form, server, zk| {
        let all = paths(200);
        join_all(all.iter().map(|path| begin(&zk, path, form))).await;
        // In one of them all sites have voted to commit: it must not be aborted.
        for mut site in sites(&zk, &all[7]).await {
            site.vote(Vote::Commit).await.unwrap();
        }
        let began = Instant::now();
        assert_eq!(sweep(&zk, PARENT).deciding_overdue().await.unwrap(), [""; 0]);
        let took = began.elapsed();
        assert!(took >= DEADLINE && took < DEADLINE + Duration::from_secs(1), "{form:?}: {took:?}");
        for path in &all {
            let outcome = inspect(&zk, path).await.unwrap().unwrap().outcome;
            let expected = if *path == all[7] { Outcome::Committed } else { Outcome::Aborted };
            assert_eq!(outcome, Some(expected), "{form:?} {path}");
            for mut site in sites(&zk, path).await {
                assert_eq!(site.outcome().await.unwrap(), expected);
                site.acknowledge().await.unwrap();
            }
        }
        assert_eq!(sweep(&zk, PARENT).await.unwrap(), all);
        assert_eq!(server.probe().children(PARENT), [""; 0]);
    });
}

#[test]
fn no_deadline_is_cut_short_by_a_sweep() {
    simulated_with(async |_server, zk| {
        let path = &paths(1)[0];
        begin(&zk, path, Form::Coordinated).await;
        let swept = tokio::spawn(sweep(&zk, PARENT).deciding_overdue().into_future());
        spend(DEADLINE - Duration::from_secs(1)).await;
        // Another transaction replaces the transaction that the sweep has read.
        let mut coordinator = Coordinator::resume(&zk, path).await.unwrap();
        coordinator.abort().await.unwrap();
        coordinator.discard().await.unwrap();
        begin(&zk, path, Form::Coordinated).await;
        swept.await.unwrap().unwrap();
        assert_eq!(inspect(&zk, path).await.unwrap().unwrap().outcome, None);
    });
}

#[test]
fn a_transaction_that_cannot_be_read_holds_up_no_other() {
    simulated_with(async |server, zk| {
        let all = paths(9);
        join_all(all.iter().map(|path| finish(&zk, path))).await;
        zk.set_acl(all[4].as_str(), vec![Acl::new(Permissions::ADMIN, "world", "anyone")])
            .await
            .unwrap();
        let Err(Error::Framework(error)) = sweep(&zk, PARENT).at_once(1).await else {
            panic!("all of them")
        };
        assert_eq!((error.kind(), error.path()), (ErrorKind::NoAuth, all[4].as_str()));
        assert_eq!(server.probe().children(PARENT), ["t004"]);
    });
}

#[test]
fn a_sweep_without_a_server_ends_with_the_first_error() {
    simulated_with(async |server, zk| {
        join_all(paths(100).iter().map(|path| begin(&zk, path, Form::Coordinated))).await;
        let refused = always(&server, OpCode::GetData, Verdict::Disconnect);
        let before = server.probe().requests(OpCode::GetData);
        let failed = sweep(&zk, PARENT).at_once(1).await.unwrap_err();
        assert!(failed.is_retryable(), "{failed}");
        drop(refused);
        // The retry policy repeats one read, and no second transaction is tried.
        assert!(server.probe().requests(OpCode::GetData) - before <= 6, "{}", server.probe());
    });
}
