//! Every future of the framework that changes something, dropped at every await point: nothing is
//! left after `close`, and nodes of other clients are unchanged.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::certain::Receipt;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    assert_clean_after_close, builder, closes_clean, connected, in_memory, once, poll_then_drop,
    real_time, session_id, simulated_drops, simulated_each, simulated_steps, simulated_steps_on,
    simulated_with, until,
};

/// Drops the future of `operation` at each of its await points, on a server and with a framework of
/// its own, as `prepare` leaves them, with `fault` there while it runs. Then `close` has to leave
/// the server clean. Returns when the operation gets through; its output is given to `finish`.
fn cancelled_everywhere<T, Fut: Future<Output = T>>(
    prepare: impl AsyncFn(&TestServer, &CuratorFramework),
    fault: Option<(OpCode, Verdict)>,
    operation: impl Fn(CuratorFramework) -> Fut,
    finish: impl AsyncFn(T),
) {
    simulated_drops(
        2,
        async || {
            let (server, zk) = in_memory().await;
            prepare(&server, &zk).await;
            let fault = fault.map(|(opcode, verdict)| once(&server, opcode, verdict));
            (server, zk, fault)
        },
        async |(_, zk, _)| operation(zk.clone()).await,
        async |(server, zk, fault), output| {
            if let Some(output) = output {
                finish(output).await;
                assert!(fault.is_none_or(|fault| fault.hits() == 1), "the fault did not happen");
            }
            closes_clean(&server, &zk).await;
        },
    );
}

const FAULTS: [Option<(OpCode, Verdict)>; 4] = [
    None,
    Some((OpCode::Create2, Verdict::LoseReply)),
    Some((OpCode::Create2, Verdict::LoseRequest)),
    Some((OpCode::Create2, Verdict::Delay(Duration::from_millis(50)))),
];

/// Leaves the parents of the nodes below there, or not.
async fn parents(zk: &CuratorFramework, exist: bool) {
    if exist {
        let create = zk.create("/p/q").mode(CreateMode::Container).creating_parents_as_containers();
        create.await.expect("the parents");
    }
}

#[test]
fn a_protected_create_leaves_no_node() {
    for mode in [CreateMode::Persistent, CreateMode::EphemeralSequential] {
        for (exist, fault) in FAULTS.into_iter().flat_map(|fault| [(true, fault), (false, fault)]) {
            let prepare = async |_: &TestServer, zk: &CuratorFramework| parents(zk, exist).await;
            let create = |zk: CuratorFramework| {
                zk.create("/p/q/n").mode(mode).creating_parents_as_containers().protected()
            };
            // Plain, the node is the caller's from the response on.
            let plain = |zk: CuratorFramework| async move {
                let created = create(zk.clone()).await.expect("a node");
                (zk, created)
            };
            let delete = async |(zk, created): (CuratorFramework, zk_curator::Created)| {
                zk.delete(created.path).await.expect("deleted");
            };
            cancelled_everywhere(prepare, fault, plain, delete);
            let owned = |zk| create(zk).owned().into_future();
            cancelled_everywhere(prepare, fault, owned, async |node| drop(node));
            let with_siblings = |zk| create(zk).owned_with_siblings().into_future();
            cancelled_everywhere(prepare, fault, with_siblings, async |node| drop(node));
        }
    }
}

#[test]
fn an_owned_create_leaves_no_node_if_its_response_arrives() {
    for mode in [CreateMode::Persistent, CreateMode::Ephemeral, CreateMode::PersistentSequential] {
        for (exist, fault) in [(true, FAULTS[0]), (false, FAULTS[0]), (true, FAULTS[3])] {
            let prepare = async |_: &TestServer, zk: &CuratorFramework| parents(zk, exist).await;
            let create = |zk: CuratorFramework| {
                let create = zk.create("/p/q/n").mode(mode).creating_parents_as_containers();
                create.owned().into_future()
            };
            cancelled_everywhere(prepare, fault, create, async |node| drop(node));
        }
    }
}

#[test]
fn a_create_abandoned_while_disconnected_is_never_sent() {
    simulated_each([None, Some(Duration::from_secs(3))], async |deadline, server, zk| {
        let creates = server.probe().requests(OpCode::Create2);
        let mut states = zk.states();
        server.stop().await;
        states.until(|status| status.state == ConnectionState::Suspended).await;
        for mode in [CreateMode::Persistent, CreateMode::EphemeralSequential] {
            let create = || {
                let create = zk.create("/n").mode(mode);
                match deadline {
                    Some(deadline) => create.deadline(deadline),
                    None => create,
                }
            };
            // Dropped before the client has taken it, and while it waits for a connection.
            for pause in [Duration::ZERO, Duration::from_millis(1)] {
                assert!(timeout(pause, create().into_future()).await.is_err());
                assert!(timeout(pause, create().protected().into_future()).await.is_err());
                assert!(timeout(pause, create().owned().into_future()).await.is_err());
                let siblings = create().protected().owned_with_siblings().into_future();
                assert!(timeout(pause, siblings).await.is_err());
            }
        }
        server.restart().await.expect("restarted");
        zk.wait_connected().await.expect("connected");
        zk.sync("/").await.expect("synced");
        closes_clean(&server, &zk).await;
        let probe = server.probe();
        assert_eq!(probe.requests(OpCode::Create2), creates);
        assert_eq!((probe.requests(OpCode::Delete), probe.requests(OpCode::GetChildren2)), (0, 0));
    });
}

#[test]
fn an_owned_node_that_is_being_deleted_is_deleted() {
    for mode in [CreateMode::Persistent, CreateMode::Ephemeral] {
        for fault in [
            None,
            Some((OpCode::Delete, Verdict::LoseReply)),
            Some((OpCode::Delete, Verdict::LoseRequest)),
        ] {
            let nothing = async |_: &TestServer, _: &CuratorFramework| {};
            let delete = |zk: CuratorFramework| async move {
                let node = zk.create("/n").mode(mode).owned().await.expect("a node");
                node.delete().await.expect("deleted");
            };
            cancelled_everywhere(nothing, fault, delete, async |()| {});
        }
    }
}

#[test]
fn a_guaranteed_delete_is_done_once_polled() {
    for fault in [
        None,
        Some((OpCode::Delete, Verdict::LoseReply)),
        Some((OpCode::Delete, Verdict::LoseRequest)),
        Some((OpCode::Delete, Verdict::Refuse(zk_curator::ErrorCode::OperationTimeout))),
    ] {
        simulated_steps(0, async |step, server, zk| {
            // Steps 0 and 1 would drop it before it was polled, when there is nothing to
            // guarantee.
            let step = step + 2;
            zk.create("/p/a/b").creating_parents().await.unwrap();
            zk.create("/p/c").await.unwrap();
            let _fault = fault.map(|(opcode, verdict)| once(&server, opcode, verdict));
            let delete = zk.delete("/p").guaranteed().deleting_children();
            let done = poll_then_drop(delete.into_future(), step).await.is_some();
            closes_clean(&server, &zk).await;
            done
        });
    }
}

#[test]
fn a_guaranteed_delete_that_is_dropped_sends_no_second_request() {
    simulated_with(async |server, zk| {
        zk.create("/n").await.unwrap();
        let delayed = once(&server, OpCode::Delete, Verdict::Delay(Duration::from_secs(1)));
        assert!(poll_then_drop(zk.delete("/n").guaranteed().into_future(), 2).await.is_none());
        delayed.fired().await;
        // A second delete would hit the node of another client.
        until(&server, |probe| !probe.exists("/n")).await;
        zk.close().await.unwrap();
        assert_eq!(server.probe().requests(OpCode::Delete), 1);
    });
}

/// A certain transaction, dropped at every step while another one waits for its turn, is applied
/// once or not at all, the next one is certain too, and no receipt stays.
#[test]
fn a_dropped_certain_transaction_frees_its_receipt_and_turn() {
    for (verdict, earlier) in [
        (None, false),
        (Some(Verdict::LoseReply), false),
        (Some(Verdict::LoseRequest), true),
        (Some(Verdict::LoseReply), true),
        (Some(Verdict::Delay(Duration::from_millis(50))), true),
    ] {
        simulated_steps(2, async |step, server, zk| {
            zk.create("/n").await.unwrap();
            let receipt = Receipt::new(&zk, "/n");
            if earlier {
                zk.transaction().set_data("/n", "0").certain(&receipt).await.unwrap();
            }
            let before = server.probe().stat("/n").unwrap().version;
            let fault = verdict.map(|verdict| once(&server, OpCode::Multi, verdict));
            let transaction = zk.transaction().set_data("/n", "1").certain(&receipt).into_future();
            let done = poll_then_drop(transaction, step).await;
            let waiting = zk.transaction().set_data("/n", "2").certain(&receipt).into_future();
            assert!(poll_then_drop(waiting, 2).await.is_none());
            drop(fault);
            let written = || server.probe().stat("/n").unwrap().version - before;
            let so_far = zk.transaction().certain(&receipt).await.map(|_| written()).unwrap();
            assert!(so_far <= 2 && (done.is_none() || so_far >= 1), "{verdict:?} {step}: {so_far}");
            let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
            zk.transaction().set_data("/n", "3").certain(&receipt).await.unwrap();
            assert_eq!((lost.hits(), written()), (1, so_far + 1), "{verdict:?} {step}");
            drop(receipt);
            until(&server, |probe| probe.children("/n").is_empty()).await;
            zk.delete("/n").await.unwrap();
            closes_clean(&server, &zk).await;
            done.map(Result::unwrap).is_some()
        });
    }
}

#[test]
fn waiting_for_the_loss_leaves_nothing() {
    simulated_each(0..12, async |step, server, zk| {
        let node = zk.create("/n").mode(CreateMode::Ephemeral).owned().await.unwrap();
        // It is woken by each change of the data, and never ready.
        let writer = tokio::spawn({
            let zk = zk.clone();
            async move {
                loop {
                    zk.set_data("/n", "x").await.map(drop).unwrap_or_default();
                }
            }
        });
        assert!(poll_then_drop(node.ownership().lost(), step).await.is_none());
        writer.abort();
        node.delete().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_start_that_is_dropped_goes_on_and_can_be_closed() {
    simulated_steps_on(3, TestServer::in_memory, async |step, server| {
        let zk = builder(&server).authorization("digest", "me:secret").build().unwrap();
        let done = poll_then_drop(zk.start(), step).await.is_some();
        if step > 1 {
            zk.wait_connected().await.unwrap();
            zk.create("/n").mode(CreateMode::Ephemeral).await.unwrap();
        }
        closes_clean(&server, &zk).await;
        done
    });
}

#[test]
fn a_close_that_is_dropped_goes_on() {
    simulated_steps(0, async |step, server, zk| {
        // Steps 0 and 1 would drop it before it was polled.
        let step = step + 2;
        drop(zk.create("/n").owned().await.unwrap());
        let done = poll_then_drop(zk.close(), step).await.is_some();
        let closed =
            |status: &zk_curator::ConnectionStatus| status.state == ConnectionState::Closed;
        zk.states().until(closed).await.unwrap();
        assert_clean_after_close(&server);
        done
    });
}

#[test]
fn plain_requests_that_are_dropped_do_not_disturb_the_next_ones() {
    simulated_with(async |server, zk| {
        zk.create("/n").data("0").await.unwrap();
        let session = session_id(&zk);
        for step in 0..20 {
            poll_then_drop(zk.get_data("/n").watched().into_future(), step).await;
            poll_then_drop(zk.children("/").into_future(), step).await;
            poll_then_drop(zk.exists("/none").watched().into_future(), step).await;
            poll_then_drop(zk.set_data("/n", step.to_string()).into_future(), step).await;
            poll_then_drop(zk.transaction().check("/n", None).commit(), step).await;
            poll_then_drop(zk.sync("/").into_future(), step).await;
            poll_then_drop(zk.wait_connected(), step).await;
        }
        assert_eq!(zk.get_data("/n").await.unwrap(), "19");
        assert_eq!(session_id(&zk), session, "on the same connection\n{}", server.probe());
        assert_eq!(server.probe().connections(), 1);
    });
}

/// The tasks are aborted anywhere, not only at await points, because two threads run them.
#[test]
fn tasks_that_are_aborted_leave_nothing() {
    real_time(async {
        let server = TestServer::start().await;
        let zk = connected(&server).await;
        for round in 0..200 {
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let create = zk.create("/p/n-").mode(CreateMode::PersistentSequential);
                    let create = create.creating_parents_as_containers().protected().owned();
                    tokio::spawn(async move {
                        create.await.map(|node| async { node.delete().await })?.await
                    })
                })
                .collect();
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            for task in tasks {
                task.abort();
                // The task has ended or was cancelled; its future is gone in both cases.
                drop(task.await);
            }
        }
        closes_clean(&server, &zk).await;
    });
}

/// A tree that is being deleted is deleted altogether once the delete is guaranteed, however many
/// requests are in flight when it is dropped; parents that a create has made may stay, here as
/// containers.
#[test]
fn trees_and_parents_may_be_dropped_half_way() {
    for in_flight in [1, 3] {
        cancelled_everywhere(
            async |_, zk| {
                for path in ["/t", "/t/a", "/t/b", "/t/a/c"] {
                    zk.create(path).await.expect("a node");
                }
                // Before its first poll a delete owes nothing.
                drop(zk.delete("/t").guaranteed().deleting_children());
                let delete = zk.delete("/t").guaranteed().deleting_children().into_future();
                assert!(poll_then_drop(delete, 2).await.is_none());
            },
            None,
            |zk| {
                zk.delete("/t").quietly().deleting_children().max_in_flight(in_flight).into_future()
            },
            async |deleted| deleted.expect("a delete"),
        );
    }
    for fault in FAULTS {
        let fault = fault.map(|(_, verdict)| (OpCode::CreateContainer, verdict));
        let operation = |zk: CuratorFramework| async move {
            zk.exists("/p/q/r").creating_parents_as_containers().await?;
            zk.create_containers("/s/t").await
        };
        cancelled_everywhere(
            async |_, _| {},
            fault,
            operation,
            async |done| done.expect("containers"),
        );
    }
}
