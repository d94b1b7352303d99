//! [`DistributedDoubleBarrier`] when something breaks: lost responses, cut connections, lost
//! sessions, at every request.

use std::time::Duration;

use futures_util::future::{join, join_all};
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::barrier::{DistributedDoubleBarrier, Error, RoundPlace};
use zk_curator_testing::wait::{idle, past, settled, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, assert_clean_after_close, connected, cut_off, expire, once, rule_if,
    session_id, simulated, simulated_each_on, simulated_on, until, whenever_of,
};

const BARRIER: &str = "/barriers/sort";
const MEMBERS: usize = 3;
/// More requests than a member sends in these tests.
const TOO_MANY: u64 = 100;

fn barrier(zk: &CuratorFramework) -> DistributedDoubleBarrier {
    DistributedDoubleBarrier::new(zk, BARRIER, MEMBERS)
}

async fn members() -> (TestServer, Vec<CuratorFramework>) {
    let server = TestServer::in_memory().await;
    let mut clients = Vec::new();
    for _ in 0..MEMBERS {
        clients.push(connected(&server).await);
    }
    // The first time the parents are made.
    join_all(clients.iter().map(round)).await.into_iter().collect::<Result<Vec<()>, _>>().unwrap();
    (server, clients)
}

async fn enter(clients: &[CuratorFramework]) -> Vec<RoundPlace> {
    let barriers: Vec<_> = clients.iter().map(barrier).collect();
    let entered = join_all(barriers.iter().map(DistributedDoubleBarrier::enter)).await;
    entered.into_iter().map(Result::unwrap).collect()
}

async fn round(zk: &CuratorFramework) -> Result<(), Error> {
    barrier(zk).enter().await?.leave().await
}

async fn leave(rounds: Vec<RoundPlace>) {
    for left in join_all(rounds.into_iter().map(RoundPlace::leave)).await {
        left.unwrap();
    }
}

async fn close(server: &TestServer, clients: Vec<CuratorFramework>) {
    for zk in clients {
        zk.wait_connected().await.unwrap();
        zk.close().await.unwrap();
    }
    assert_clean_after_close(server);
}

/// Two rounds, with a fault at one request of all that one member sends.
#[test]
fn a_fault_at_any_request_of_a_member_is_made_good() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for number in 0..TOO_MANY {
                let (server, clients) = members().await;
                let rule = whenever_of(&server, &clients[0], verdict);
                let rule = rule.after(number).times(1);
                for _ in 0..2 {
                    for done in join_all(clients.iter().map(round)).await {
                        assert!(
                            done.is_ok(),
                            "{verdict:?} at request {number}: {done:?}\n{}",
                            server.probe()
                        );
                    }
                }
                let fired = rule.hits() > 0;
                drop(rule);
                close(&server, clients).await;
                if !fired {
                    assert!(number > 10, "only {number} requests");
                    break;
                }
            }
        }
    });
}

/// The member whose session is over learns this, and enters again unless the others are in the
/// round. No member waits for it.
#[test]
fn a_session_ending_at_any_request_blocks_no_other_member() {
    simulated(async {
        let (mut lost, mut anew) = (0, 0);
        // Every request twice: while the others arrive at the same time, and long before they
        // arrive.
        for number in 0..TOO_MANY {
            let (number, others_come) = (number / 2, Duration::from_secs(60 * (number % 2)));
            let (server, clients) = members().await;
            let victim = session_id(&clients[0]).get();
            let rule = whenever_of(&server, &clients[0], Verdict::Disconnect);
            let rule = rule.after(number).times(1);
            let death = async {
                tokio::select! {
                    biased;
                    () = rule.fired() => assert!(server.expire(victim).await),
                    () = idle(Duration::from_secs(3600)) => {}
                }
            };
            let others = async {
                spend(others_come).await;
                join_all(clients[1..].iter().map(round)).await
            };
            let mortal = async {
                let end = round(&clients[0]).await;
                if matches!(end, Err(Error::Lost { .. })) {
                    lost += 1;
                    past(2 * others_come).await;
                    // The others wait for the round to begin, or it has begun and they need no
                    // further member.
                    let waiting = until(&server, |probe| {
                        let children = probe.children(BARRIER);
                        children.is_empty() || (children.len() == 2 && probe.watches().len() == 4)
                    });
                    if !waiting.await.children(BARRIER).is_empty() {
                        anew += 1;
                        return round(&clients[0]).await;
                    }
                    return Ok(());
                }
                end
            };
            let (ends, end, ()) = futures_util::future::join3(others, mortal, death).await;
            for end in ends.into_iter().chain([end]) {
                assert!(end.is_ok(), "request {number}: {end:?}");
            }
            let fired = rule.hits() > 0;
            drop(rule);
            close(&server, clients).await;
            if !fired && !others_come.is_zero() {
                break;
            }
        }
        assert!(anew > 0 && lost > anew, "{lost} lost, {anew} came back");
    });
}

#[test]
fn an_expired_member_gets_lost_and_blocks_no_member() {
    // The lowest, a middle one, and the highest by name: the others wait for different members.
    simulated_each_on(0..MEMBERS, members, async |victim, (server, clients)| {
        let mut rounds: Vec<_> = clients.iter().zip(enter(&clients).await).collect();
        rounds.sort_by_key(|(_, round)| round.path().to_owned());
        let (zk, dead) = rounds.remove(victim);
        let others = leave(rounds.into_iter().map(|(_, round)| round).collect());
        let death = async {
            settled().await;
            expire(&server, zk).await;
        };
        join(others, death).await;
        dead.lost().await;
        assert!(matches!(dead.leave().await, Err(Error::Lost { .. })));
        assert_eq!(server.probe().children(BARRIER), [""; 0], "no member has ended the round");
        close(&server, clients).await;
    });
}

/// It was not there to see it.
#[test]
fn a_member_that_expires_before_the_round_is_notified() {
    simulated_each_on([true, false], members, async |in_time, (server, clients)| {
        let away = barrier(&clients[0]);
        let waiting = tokio::spawn(async move { away.enter().await });
        until(&server, |probe| probe.children(BARRIER).len() == 1).await;
        let cut = cut_off(&server, &clients[0]);
        let rounds = enter(&clients[1..]).await;
        if in_time {
            drop(cut);
            let round = waiting.await.unwrap().unwrap();
            assert_eq!(round.token(), rounds[0].token());
            join(leave(rounds), leave(vec![round])).await;
        } else {
            expire(&server, &clients[0]).await;
            drop(cut);
            assert!(matches!(waiting.await.unwrap(), Err(Error::Lost { .. })));
            leave(rounds).await;
        }
        close(&server, clients).await;
    });
}

/// The response to its create is lost, and its session ends during the search for the node: the
/// round has begun with it.
#[test]
fn a_member_created_in_an_ended_session_is_notified() {
    simulated_on(members, async |(server, clients)| {
        let victim = session_id(&clients[0]).get();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let away = rule_if(
            &server,
            move |request| request.session_id() == victim && !request.is_create(),
            Verdict::Delay(CONNECTION_TIMEOUT),
        );
        let member = barrier(&clients[0]);
        let waiting = tokio::spawn(async move { member.enter().await });
        lost.fired().await;
        let rounds = enter(&clients[1..]).await;
        expire(&server, &clients[0]).await;
        drop(away);
        assert!(matches!(waiting.await.unwrap(), Err(Error::Lost { .. })));
        leave(rounds).await;
        close(&server, clients).await;
    });
}

/// A waiter finds a round that is over and that another member is about to delete.
#[test]
fn a_dead_round_is_nobodys_while_it_is_deleted() {
    simulated_on(members, async |(server, clients)| {
        let waiting: Vec<_> = clients[1..]
            .iter()
            .map(|zk| {
                let barrier = barrier(zk);
                tokio::spawn(async move { barrier.enter().await })
            })
            .collect();
        until(&server, |probe| probe.children(BARRIER).len() == 2 && probe.watches().len() == 4)
            .await;
        let late = session_id(&clients[2]).get();
        let ready = format!("{BARRIER}/ready");
        let path = ready.clone();
        let rule = server.rule(move |request| {
            let reads = request.session_id() == late && request.is(OpCode::GetData);
            match request.is_about(&path) {
                true if reads => Verdict::Delay(Duration::from_secs(1)),
                true if request.is_delete() => Verdict::Delay(Duration::from_secs(2)),
                _ => Verdict::Pass,
            }
        });
        // Both have come before it.
        clients[0]
            .create(&ready)
            .data("members of the round:\n_c_dead-member-0000000000")
            .await
            .unwrap();
        until(&server, |probe| probe.children(BARRIER).len() == 2).await;
        assert!(rule.hits() > 1, "no member was late");
        drop(rule);
        idle(Duration::from_secs(3600)).await;
        assert!(waiting.iter().all(|task| !task.is_finished()), "{}", server.probe());
        let mut rounds = enter(&clients[..1]).await;
        for task in waiting {
            rounds.push(task.await.unwrap().unwrap());
        }
        assert!(rounds.iter().all(|round| round.token() == rounds[0].token()));
        leave(rounds).await;
        close(&server, clients).await;
    });
}

/// A client may give its session up before the server does: the node of that session must not count
/// next to the one of the next, else two are three.
#[test]
fn a_member_that_comes_back_in_another_session_counts_once() {
    simulated_on(members, async |(server, clients)| {
        let old = session_id(&clients[0]).get();
        let returning = barrier(&clients[0]);
        let waiting = tokio::spawn(async move {
            assert!(matches!(returning.enter().await, Err(Error::Lost { .. })));
            returning.enter().await
        });
        until(&server, |probe| probe.children(BARRIER).len() == 1).await;
        // The server's clock stands still, the client hears nothing of it.
        server.hold();
        clients[0].states().until(|status| status.state == ConnectionState::Lost).await.unwrap();
        server.release();
        let second = barrier(&clients[1]);
        let second = tokio::spawn(async move { second.enter().await });
        until(&server, |probe| {
            let new = |path: &&&str| {
                probe.stat(&format!("{BARRIER}/{path}")).unwrap().ephemeral_owner != old
            };
            probe.children(BARRIER).iter().filter(new).count() == 2
        })
        .await;
        idle(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished() && !second.is_finished(), "{}", server.probe());
        let third = barrier(&clients[2]).enter().await.unwrap();
        leave(vec![third, waiting.await.unwrap().unwrap(), second.await.unwrap().unwrap()]).await;
        close(&server, clients).await;
    });
}

/// Two find a round that is over; one ends it, and the next round begins before the other one does
/// so too.
#[test]
fn a_late_hand_does_not_end_the_next_round() {
    simulated_on(members, async |(server, clients)| {
        drop(enter(&clients).await);
        until(&server, |probe| probe.children(BARRIER) == ["ready"]).await;
        let slow = session_id(&clients[0]).get();
        let late = server.rule(move |request| {
            let its = request.session_id() == slow && request.is_about(&format!("{BARRIER}/ready"));
            if its && request.is_delete() {
                Verdict::Delay(Duration::from_secs(2))
            } else {
                Verdict::Pass
            }
        });
        let rounds = enter(&clients).await;
        assert_eq!(late.hits(), 1);
        drop(late);
        leave(rounds).await;
        leave(enter(&clients).await).await;
        close(&server, clients).await;
    });
}
