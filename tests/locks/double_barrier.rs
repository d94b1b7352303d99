//! [`DistributedDoubleBarrier`]: its guarantees and its cost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::barrier::{DistributedDoubleBarrier, Error, RoundPlace};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::idle;
use zk_curator_tests::{
    all_close_clean, closes_clean, connected, cut_off, poll_then_drop, simulated_each_on,
    simulated_on, simulated_steps_on, simulated_with, size, until,
};

const BARRIER: &str = "/barriers/sort";
const READY: &str = "/barriers/sort/ready";

fn barrier(zk: &CuratorFramework, members: usize) -> DistributedDoubleBarrier {
    DistributedDoubleBarrier::new(zk, BARRIER, members)
}

async fn clients(server: &TestServer, count: usize) -> Vec<CuratorFramework> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(connected(server).await);
    }
    clients
}

/// All of these enter, and are in one round.
async fn enter(clients: &[CuratorFramework]) -> Vec<RoundPlace> {
    let barriers: Vec<_> = clients.iter().map(|zk| barrier(zk, clients.len())).collect();
    let entered =
        futures_util::future::join_all(barriers.iter().map(DistributedDoubleBarrier::enter)).await;
    let rounds: Vec<_> = entered.into_iter().map(Result::unwrap).collect();
    assert!(rounds.iter().all(|round| round.token() == rounds[0].token()), "{rounds:?}");
    rounds
}

async fn leave(rounds: Vec<RoundPlace>) {
    for left in futures_util::future::join_all(rounds.into_iter().map(RoundPlace::leave)).await {
        left.unwrap();
    }
}

/// The number of members that have begun and ended each part of each round.
#[derive(Default)]
struct Ledger {
    entering: Vec<usize>,
    leaving: Vec<usize>,
}

/// Goes through consecutive rounds, and proves for each that no member passed before all had
/// arrived.
async fn rounds(barrier: DistributedDoubleBarrier, ledger: Arc<Mutex<Ledger>>, count: usize) {
    let members = barrier.members();
    for round in 0..count {
        ledger.lock().unwrap().entering[round] += 1;
        let entered = barrier.enter().await.unwrap();
        assert_eq!(
            ledger.lock().unwrap().entering[round],
            members,
            "an early entry into round {round}"
        );
        ledger.lock().unwrap().leaving[round] += 1;
        entered.leave().await.unwrap();
        assert_eq!(
            ledger.lock().unwrap().leaving[round],
            members,
            "an early return from round {round}"
        );
    }
}

async fn back_to_back(server: &TestServer, members: usize, count: usize) {
    let ledger = Arc::new(Mutex::new(Ledger { entering: vec![0; count], leaving: vec![0; count] }));
    let mut tasks = JoinSet::new();
    for zk in clients(server, members).await {
        tasks.spawn(rounds(barrier(&zk, members), Arc::clone(&ledger), count));
    }
    tasks.join_all().await;
}

/// Runs a test in simulated time with a server and clients.
fn simulated_members(count: usize, test: impl AsyncFnOnce(TestServer, Vec<CuratorFramework>)) {
    simulated_on(TestServer::in_memory, async |server| {
        let clients = clients(&server, count).await;
        test(server, clients).await;
    });
}

/// Curator 5.4 hangs after 6 to 365 rounds: the last member to enter counts too few members,
/// because another one has already left.
#[test]
#[ignore = "slow: scripts/test-all"]
fn thousands_of_rounds_back_to_back() {
    let rounds = size(2_000, 10_000);
    simulated_on(TestServer::in_memory, async |server| {
        back_to_back(&server, 8, rounds).await;
        let probe = server.probe();
        let each = probe.total_requests() as f64 / rounds as f64;
        assert!(each < 60.0, "{each} requests a round");
        assert_eq!(probe.children(BARRIER), [""; 0]);
    });
}

/// A member that waits too long learns who is there, and how many are missing.
#[test]
fn participants_have_entered_and_not_left() {
    simulated_members(3, async |server, clients| {
        let members = ["a", "b", "c"].map(|label| barrier(&clients[0], 3).label(label));
        let labels = async || {
            let there = barrier(&clients[2], 3).participants().await.unwrap();
            there.iter().map(|member| member.label_str().into_owned()).collect::<Vec<_>>()
        };
        let missing = async || barrier(&clients[2], 3).missing().await.unwrap();
        assert_eq!((labels().await, missing().await), (vec![], 3));
        let mut entering = JoinSet::new();
        for (count, member) in members.iter().take(2).cloned().enumerate() {
            entering.spawn(async move { member.enter().await.unwrap() });
            until(&server, |probe| probe.children(BARRIER).len() == count + 1).await;
        }
        assert_eq!((labels().await, missing().await), (vec!["a".into(), "b".into()], 1));
        let last = members[2].enter().await.unwrap();
        let mut rounds = entering.join_all().await;
        assert_eq!((labels().await.len(), missing().await), (3, 0));
        drop(rounds.pop());
        until(&server, |probe| probe.children(BARRIER).len() == 3).await;
        assert_eq!((labels().await.len(), missing().await), (2, 0), "one has left the round");
        let (one, other) = tokio::join!(last.leave(), rounds.pop().unwrap().leave());
        one.unwrap();
        other.unwrap();
        assert_eq!((labels().await, missing().await), (vec![], 3));
    });
}

/// Enter and leave for n members, from the second round on: what Apache Curator needs 69.5 requests
/// for with 8.
#[test]
fn a_round_costs_seven_requests_for_each_member() {
    a_round_costs_seven_requests(&[2, 8, 10, 100]);
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_round_of_500_members_costs_seven_requests_each() {
    a_round_costs_seven_requests(&[500]);
}

fn a_round_costs_seven_requests(of: &[usize]) {
    simulated_each_on(of, TestServer::in_memory, async |&members, server| {
        let clients = clients(&server, members).await;
        leave(enter(&clients).await).await;
        let count = || {
            let probe = server.probe();
            (probe.total_requests(), probe.notifications())
        };
        let (requests, notifications) = count();
        let rounds = enter(&clients).await;
        let (entered, told) = count();
        let n = members as u64;
        // A create, a listing, a watch, and ready read; all but the last watch their own node;
        // ready is created once.
        assert_eq!(entered - requests, 5 * n, "{members} members");
        assert_eq!(told - notifications, n, "{members} members");
        leave(rounds).await;
        let (left, last) = count();
        // A watch and a delete; the lowest listens for the highest some times, lists, and ends
        // the round.
        let listings = left - entered - 2 * (n - 1) - 1;
        assert!(
            listings <= 2 * u64::from(n.ilog2()) + 2,
            "{members} members: {listings} of the lowest"
        );
        assert!(
            last - told <= 3 * n + u64::from(n.ilog2()) + 2,
            "{members} members: {}",
            last - told
        );
    });
}

#[test]
fn members_enter_when_all_arrive_and_leave_when_all_are_done() {
    simulated_members(3, async |server, clients| {
        let early = [&clients[0], &clients[1]].map(|zk| {
            let barrier = barrier(zk, 3);
            tokio::spawn(async move { barrier.enter().await })
        });
        until(&server, |probe| probe.children(BARRIER).len() == 2).await;
        idle(Duration::from_secs(3600)).await;
        assert!(early.iter().all(|task| !task.is_finished()));
        let late = barrier(&clients[2], 3).enter().await.unwrap();
        assert!(server.probe().exists(READY));
        let leaving = early
            .map(|task| tokio::spawn(async move { task.await.unwrap().unwrap().leave().await }));
        until(&server, |probe| probe.children(BARRIER).len() <= 3).await;
        idle(Duration::from_secs(3600)).await;
        assert!(leaving.iter().all(|task| !task.is_finished()));
        late.leave().await.unwrap();
        for task in leaving {
            task.await.unwrap().unwrap();
        }
        all_close_clean(&server, clients).await;
    });
}

#[test]
fn one_member_is_enough_for_a_barrier_of_one() {
    simulated_with(async |server, zk| {
        let mut last = None;
        for _ in 0..3 {
            let round = barrier(&zk, 1).enter().await.unwrap();
            assert!(last < Some(round.token()), "tokens grow");
            last = Some(round.token());
            round.fenced().create("/sorted", "").delete("/sorted").commit().await.unwrap();
            round.leave().await.unwrap();
        }
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn barriers_without_members_or_valid_path_are_refused() {
    simulated_with(async |server, zk| {
        let error = barrier(&zk, 0).enter().await.unwrap_err();
        assert!(matches!(error, Error::NoMembers { path } if path == BARRIER));
        let error = DistributedDoubleBarrier::new(&zk, "sort", 2).enter().await.unwrap_err();
        assert!(error.to_string().starts_with("enter \"sort\": invalid path ("), "{error}");
        assert_eq!(server.probe().paths(), [""; 0]);
    });
}

/// Too many members, while the others wait and during the round.
#[test]
fn more_than_there_can_be_are_refused() {
    simulated_members(5, async |server, clients| {
        let barriers: Vec<_> = clients.iter().map(|zk| barrier(zk, 3)).collect();
        let entered =
            futures_util::future::join_all(barriers.iter().map(DistributedDoubleBarrier::enter))
                .await;
        let (rounds, refused): (Vec<_>, Vec<_>) = entered.into_iter().partition(Result::is_ok);
        assert_eq!((rounds.len(), refused.len()), (3, 2));
        for error in refused {
            assert_eq!(
                error.unwrap_err().to_string(),
                format!("the barrier {BARRIER} already has its 3 members")
            );
        }
        let error = barriers[0].enter().await.unwrap_err();
        assert!(matches!(error, Error::OverSubscribed { members: 3, .. }));
        until(&server, |probe| probe.children(BARRIER).len() == 4).await;
        leave(rounds.into_iter().map(Result::unwrap).collect()).await;
        assert_eq!(server.probe().children(BARRIER), [""; 0]);
    });
}

/// A bug of Curator: the member stays, and the next enter finds it.
#[test]
fn curator_34_an_enter_that_was_given_up_leaves_no_node() {
    simulated_members(2, async |server, clients| {
        for _ in 0..2 {
            let enter = timeout(Duration::from_millis(1), barrier(&clients[0], 2).enter()).await;
            assert!(enter.is_err());
        }
        until(&server, |probe| probe.children(BARRIER).is_empty()).await;
        // It does not count: one is not enough.
        assert!(timeout(Duration::from_secs(60), barrier(&clients[1], 2).enter()).await.is_err());
        leave(enter(&clients).await).await;
    });
}

/// Bug 32 of Curator, GH-1290: whatever wakes a member is taken for the beginning of the round.
#[test]
fn curator_32_a_spurious_wake_up_releases_no_member() {
    simulated_members(2, async |server, clients| {
        let (first, second) = (barrier(&clients[0], 2), barrier(&clients[1], 2));
        let waiting = tokio::spawn(async move { first.enter().await });
        until(&server, |probe| probe.watches().len() == 2).await;
        // Its watch fires, and its connection is cut, without a round.
        for _ in 0..3 {
            let left_behind =
                clients[1].create(READY).data("members of the round:\nnobody").await.unwrap();
            until(&server, |probe| !probe.exists(&left_behind.path) && probe.watches().len() == 2)
                .await;
            server.disconnect_all();
            clients[1].wait_connected().await.unwrap();
            until(&server, |probe| probe.watches().len() == 2).await;
        }
        assert!(!waiting.is_finished());
        let (second, first) = tokio::join!(second.enter(), waiting);
        leave(vec![first.unwrap().unwrap(), second.unwrap()]).await;
    });
}

/// The mutex, the latch and the semaphore recover from it in the same way.
#[test]
fn enter_starts_again_when_its_node_is_deleted() {
    simulated_members(2, async |server, clients| {
        let operator = connected(&server).await;
        let first = barrier(&clients[0], 2);
        let waiting = tokio::spawn(async move { first.enter().await });
        for _ in 0..3 {
            until(&server, |probe| probe.watches().len() == 2).await;
            let name = server.probe().children(BARRIER).remove(0).to_owned();
            operator.delete(format!("{BARRIER}/{name}")).await.unwrap();
            until(&server, |probe| probe.children(BARRIER).iter().any(|other| *other != name))
                .await;
        }
        assert!(!waiting.is_finished());
        let second =
            timeout(Duration::from_secs(60), barrier(&clients[1], 2).enter()).await.unwrap();
        leave(vec![second.unwrap(), waiting.await.unwrap().unwrap()]).await;
        assert_eq!(server.probe().children(BARRIER), [""; 0]);
    });
}

/// Its round may have begun, and be over: it must not wait for the next one in silence.
#[test]
fn enter_tells_a_deletion_during_an_outage() {
    simulated_members(2, async |server, clients| {
        let operator = connected(&server).await;
        let first = barrier(&clients[0], 2);
        let waiting = tokio::spawn(async move { first.enter().await });
        until(&server, |probe| probe.watches().len() == 2).await;
        let rule = cut_off(&server, &clients[0]);
        let name = server.probe().children(BARRIER).remove(0).to_owned();
        operator.delete(format!("{BARRIER}/{name}")).await.unwrap();
        drop(rule);
        let entered = timeout(Duration::from_secs(60), waiting).await.unwrap().unwrap();
        assert!(matches!(entered, Err(Error::Lost { .. })), "{entered:?}");
    });
}

/// Bug 33 of Curator, CURATOR-536: a leave with a time limit runs forever.
#[test]
fn curator_33_an_abandoned_leave_ends_and_blocks_no_member() {
    simulated_members(3, async |server, clients| {
        for impatient in 0..3 {
            let mut rounds = enter(&clients).await;
            let impatient = rounds.remove(impatient);
            assert!(timeout(Duration::from_secs(1), impatient.leave()).await.is_err());
            leave(rounds).await;
            assert_eq!(server.probe().children(BARRIER), [""; 0]);
        }
    });
}

#[test]
fn a_member_that_drops_its_round_is_not_waited_for() {
    simulated_members(4, async |server, clients| {
        for gone in 0..4 {
            let mut rounds = enter(&clients).await;
            drop(rounds.remove(gone));
            leave(rounds).await;
            assert_eq!(server.probe().children(BARRIER), [""; 0]);
        }
    });
}

/// When all members have died, none is left to end the round: the next one does.
#[test]
fn what_a_dead_round_has_left_behind_is_no_hindrance() {
    simulated_members(2, async |server, clients| {
        drop(enter(&clients).await);
        until(&server, |probe| probe.children(BARRIER) == ["ready"]).await;
        let dead = server.probe().stat(READY).unwrap().czxid;
        let rounds = enter(&clients).await;
        assert!(rounds[0].token().get() > dead);
        leave(rounds).await;
        // Curator does not say whose round it was.
        clients[0].create(READY).data("127.0.0.1").await.unwrap();
        leave(enter(&clients).await).await;
        assert_eq!(server.probe().children(BARRIER), [""; 0]);
    });
}

/// As Curator's members do: no names, and every member that is present belongs to the round.
#[test]
fn a_round_begun_by_curator_has_all_present_members() {
    simulated_members(2, async |server, clients| {
        let java = connected(&server).await;
        let enter = |zk: &CuratorFramework| {
            let barrier = barrier(zk, 3);
            tokio::spawn(async move { barrier.enter().await })
        };
        let waiting: Vec<_> = clients.iter().map(enter).collect();
        until(&server, |probe| probe.watches().len() == 4).await;
        let member = format!("{BARRIER}/5f9f2f6e-3f0e-4d39-9f0b-000000000000");
        java.create(&member).mode(CreateMode::Ephemeral).await.unwrap();
        java.create(READY).data("127.0.0.1").await.unwrap();
        let mut rounds = Vec::new();
        for task in waiting {
            rounds.push(task.await.unwrap().unwrap());
        }
        // No other client does.
        let error = barrier(&java, 3).enter().await.unwrap_err();
        assert!(matches!(error, Error::OverSubscribed { .. }), "{error}");
        let leaving = tokio::spawn(leave(rounds));
        idle(Duration::from_secs(3600)).await;
        assert!(!leaving.is_finished());
        java.delete(&member).await.unwrap();
        leaving.await.unwrap();
        assert_eq!(server.probe().children(BARRIER), [""; 0]);
    });
}

/// kazoo #606: sequence numbers that restart, or turn negative.
#[test]
fn rounds_go_on_when_sequence_numbers_run_out() {
    simulated_on(TestServer::in_memory, async |server| {
        back_to_back(&server, 3, 1).await;
        server.set_sequence(BARRIER, i32::MAX - 10).unwrap();
        back_to_back(&server, 3, 10).await;
    });
}

/// An enter that is dropped at any point lets the next round begin with other members.
#[test]
fn one_that_gives_up_makes_room_for_another_one() {
    simulated_steps_on(0, TestServer::in_memory, async |step, server| {
        let clients = clients(&server, 3).await;
        let first = barrier(&clients[0], 2);
        let waiting = tokio::spawn(async move { first.enter().await });
        until(&server, |probe| probe.watches().len() == 2).await;
        let given_up = poll_then_drop(barrier(&clients[1], 2).enter(), step).await;
        let third = barrier(&clients[2], 2);
        if given_up.is_none() {
            clients[1].close().await.unwrap();
        }
        match given_up {
            Some(round) => {
                let rounds = vec![round.unwrap(), waiting.await.unwrap().unwrap()];
                assert!(matches!(third.enter().await, Err(Error::OverSubscribed { .. })));
                leave(rounds).await;
                return true;
            }
            // Either the round had begun and continues without the second member, or it begins with
            // the third.
            None => match third.enter().await {
                Ok(round) => leave(vec![round, waiting.await.unwrap().unwrap()]).await,
                Err(Error::OverSubscribed { .. }) => {
                    waiting.await.unwrap().unwrap().leave().await.unwrap();
                }
                Err(error) => panic!("{error}"),
            },
        }
        false
    });
}
