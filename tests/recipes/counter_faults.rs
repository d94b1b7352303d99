//! The errors that callers get after a write, and the outcome of dropped operations.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use zk_curator::{Acl, ConnectionState, CuratorFramework, ErrorKind, Permissions};
use zk_curator_client::{BackgroundTask, Spawn};
use zk_curator_proto::OpCode;
use zk_curator_recipes::counter::{DistributedAtomicLong, Error};
use zk_curator_recipes::shared::SharedValue;
use zk_curator_testing::wait::spend;
use zk_curator_testing::{RuleGuard, TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, join_all, once_on_write_multi, session_id, simulated_each, simulated_on,
    simulated_with, start, until, until_state,
};

use crate::cache_cost::distant;

const PATH: &str = "/counters/orders";
const LATE: Duration = Duration::from_secs(1);

/// Responses to reads of this client come late, as if they took long.
fn reads_are_late(server: &TestServer, zk: &CuratorFramework) -> RuleGuard {
    let victim = session_id(zk).get();
    server.rule(move |request| {
        let is_read =
            matches!(request.opcode(), OpCode::GetData | OpCode::MultiRead | OpCode::Exists);
        if is_read && request.session_id() == victim { Verdict::Delay(LATE) } else { Verdict::Pass }
    })
}

async fn until_late(server: &TestServer, late: &RuleGuard) {
    until(server, |_| late.hits() > 0).await;
}

/// How a shared value stops to be followed while a write of it waits for the cache.
#[derive(Debug, Clone, Copy)]
enum End {
    Closed,
    Stopped,
    Unreachable,
}

#[test]
fn a_shared_value_that_was_written_says_so() {
    let cases = [End::Closed, End::Stopped, End::Unreachable]
        .into_iter()
        .flat_map(|end| [(end, false), (end, true)]);
    simulated_each(cases, async |(end, is_conditional), server, zk| {
        let value = SharedValue::open(&zk, PATH, &1_i64).await.unwrap();
        value.set(&2).await.unwrap();
        let seen = value.get().unwrap().unwrap();
        let late = reads_are_late(&server, &zk);
        let write = async {
            if is_conditional {
                value.try_set(&seen, &3).await
            } else {
                value.set(&3).await.map(|()| true)
            }
        };
        let (written, ()) = tokio::join!(write, async {
            until_late(&server, &late).await;
            match end {
                End::Closed => zk.close().await.unwrap(),
                End::Stopped => value.cache().clone().close().await,
                End::Unreachable => server.stop().await,
            }
        });
        assert!(written.unwrap(), "{end:?}");
        assert_eq!(server.probe().data(PATH).unwrap()[..], *b"3", "{end:?}");
    });
}

#[test]
fn an_operation_dropped_during_its_read_is_not_applied() {
    simulated_with(async |server, zk| {
        DistributedAtomicLong::new(&connected(&server).await, PATH).set(0).await.unwrap();
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let late = reads_are_late(&server, &zk);
        let add = tokio::spawn({
            let counter = counter.clone();
            async move { counter.add(1).await }
        });
        until_late(&server, &late).await;
        // Another operation continues, in the same write.
        let (other, ()) = tokio::join!(counter.add(10), async { add.abort() });
        assert!(add.await.unwrap_err().is_cancelled());
        assert_eq!(other.unwrap().post, 10);
    });
}

#[test]
fn an_operation_dropped_without_a_connection_is_not_applied() {
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.set(0).await.unwrap();
        server.stop().await;
        // Some are added before the framework knows, and some after.
        let dropped = |delta| timeout(Duration::from_millis(300), counter.add(delta));
        let (first, _) = tokio::join!(dropped(1), until_state(&zk, ConnectionState::Suspended));
        assert!(first.is_err(), "{first:?}");
        assert!(dropped(2).await.is_err());
        let (other, third, ()) = tokio::join!(counter.add(10), dropped(4), async {
            until_state(&zk, ConnectionState::Suspended).await;
            spend(LATE).await;
            server.restart().await.unwrap();
        });
        assert!(third.is_err());
        assert_eq!(other.unwrap().post, 10);
        assert_eq!(counter.get().await.unwrap(), 10);
    });
}

/// Gives its tasks away, to end them one by one.
#[derive(Debug, Default)]
struct Tasks(Mutex<Vec<AbortHandle>>);

impl Spawn for Tasks {
    fn spawn(&self, mut task: BackgroundTask) {
        let run = poll_fn(move |cx| task.as_mut().poll(cx).map(|()| ()));
        self.0.lock().unwrap().push(tokio::spawn(run).abort_handle());
    }
}

#[test]
fn a_counter_whose_task_ends_says_what_may_be_applied() {
    simulated_on(TestServer::in_memory, async |server| {
        let tasks = Arc::new(Tasks::default());
        let zk = start(builder(&server).spawner(Arc::clone(&tasks) as Arc<dyn Spawn>)).await;
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.set(0).await.unwrap();
        let late = once_on_write_multi(&server, Verdict::Delay(LATE));
        let (sent, waits, ()) = tokio::join!(biased; counter.add(1), async {
            until(&server, |_| late.hits() > 0).await;
            counter.add(2).await
        }, async {
            until(&server, |_| late.hits() > 0).await;
            tokio::task::yield_now().await;
            tasks.0.lock().unwrap().last().unwrap().abort();
        });
        assert!(matches!(sent, Err(Error::Unknown { .. })), "{sent:?}");
        let Err(Error::Framework(waits)) = waits else { panic!("{waits:?}") };
        assert_eq!((waits.kind(), waits.may_have_applied()), (ErrorKind::Closed, false));
        // Another task continues.
        let value = counter.get().await.unwrap();
        assert_eq!(counter.add(10).await.unwrap().post, value + 10);
    });
}

#[test]
fn records_without_a_place_fail_and_are_not_tried_for_ever() {
    simulated_on(TestServer::in_memory, async |server| {
        // The created node has no children.
        let acl = vec![Acl::new(Permissions::READ | Permissions::WRITE, "world", "anyone")];
        let open = connected(&server).await;
        open.create("/counters").await.unwrap();
        let zk = start(builder(&server).acl_provider(acl)).await;
        let counter = DistributedAtomicLong::builder(&zk, PATH).without_receipts().build();
        let before = server.probe().total_requests();
        let (once, plain) = tokio::join!(
            timeout(LATE, counter.add_once("order-1", 1)),
            timeout(LATE, counter.increment())
        );
        let Ok(Err(Error::Framework(error))) = once else { panic!("{once:?}") };
        assert_eq!((error.kind(), plain.unwrap().unwrap()), (ErrorKind::NoAuth, 1));
        assert_eq!((error.operation(), error.path()), ("add_once", "/counters/orders/_o"));
        assert!(server.probe().total_requests() - before < 10);
    });
}

#[test]
fn records_whose_place_is_always_deleted_are_tried_with_pauses() {
    simulated_with(async |server, other| {
        let zk = distant(&server).await;
        let counter = DistributedAtomicLong::new(&zk, PATH);
        counter.increment().await.unwrap();
        // It is nearer to the server.
        let records = format!("{PATH}/_o");
        let deletes = async {
            loop {
                let probe = until(&server, |probe| !probe.children(&records).is_empty()).await;
                let bucket = probe.children(&records)[0].to_owned();
                other.delete(format!("{records}/{bucket}")).await.unwrap();
            }
        };
        let before = server.probe().total_requests();
        let error = tokio::select! {
            added = timeout(Duration::from_secs(60), counter.add_once("order-1", 1)) => added.unwrap().unwrap_err(),
            () = deletes => unreachable!(),
        };
        assert!(matches!(error, Error::Contended { .. }), "{error:?}");
        let requests = server.probe().total_requests() - before;
        assert!(requests < 1000, "{requests}");
    });
}

#[test]
fn callers_of_one_id_get_the_same_result() {
    simulated_with(async |_server, zk| {
        let counter = DistributedAtomicLong::new(&zk, PATH);
        let adds = join_all((0..300).map(|_| counter.add_once("order-1", 5))).await;
        assert!(adds.into_iter().all(|once| once.unwrap().into_inner().post == 5));
    });
}
