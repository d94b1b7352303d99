//! [`InterProcessReadWriteLock`]: layout, order, cost, turning readers into writers and back.

use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;
use zk_curator::{CuratorFramework, ErrorKind, EventType};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{Error, InterProcessReadWriteLock, ReadGuard, WriteGuard};
use zk_curator_testing::TestServer;
use zk_curator_tests::{closes_clean, expire, simulated_on, simulated_with, two_in_memory, until};

const LOCK: &str = "/locks/catalogue";

fn lock(zk: &CuratorFramework) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(zk, LOCK)
}

/// A task that waits to read, once it watches.
async fn reader(
    server: &TestServer,
    zk: &CuratorFramework,
) -> JoinHandle<Result<ReadGuard, Error>> {
    let lock = lock(zk).read_lock();
    waiting(server, async move { lock.acquire().await }).await
}

/// A task that waits to write, once it watches.
async fn writer(
    server: &TestServer,
    zk: &CuratorFramework,
) -> JoinHandle<Result<WriteGuard, Error>> {
    let lock = lock(zk).write_lock();
    waiting(server, async move { lock.acquire().await }).await
}

async fn waiting<T: Send + 'static>(
    server: &TestServer,
    acquire: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let before = server.probe();
    let task = tokio::spawn(acquire);
    until(server, |probe| {
        probe.requests(OpCode::GetData) > before.requests(OpCode::GetData)
            && probe.children(LOCK).len() > before.children(LOCK).len()
    })
    .await;
    task
}

#[test]
fn the_layout_is_curators() {
    simulated_with(async |server, zk| {
        let lock = lock(&zk).label("me");
        let reader = lock.read_lock().acquire().await.unwrap();
        let name = reader.path().strip_prefix(&format!("{LOCK}/")).unwrap();
        assert_eq!(name.split_at(40).1, "__READ__0000000000");
        assert_eq!(server.probe().data(reader.path()).unwrap(), "me");
        reader.release().await.unwrap();
        let writer = lock.write_lock().acquire().await.unwrap();
        assert!(writer.path().ends_with("-__WRIT__0000000001"), "{}", writer.path());
        let path = writer.path().to_owned();
        let reader = writer.downgrade().await.unwrap();
        // CURATOR-621: with the number of the writer.
        assert!(reader.path().ends_with("-__READ__0000000001"), "{}", reader.path());
        until(&server, |probe| !probe.exists(&path)).await;
        assert!(server.probe().is_container(LOCK));
        drop(reader);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn readers_share_and_cost_a_create_and_a_listing_each() {
    simulated_with(async |server, zk| {
        let first = lock(&zk).read_lock().acquire().await.unwrap();
        let before = server.probe();
        let second = lock(&zk).read_lock().acquire().await.unwrap();
        let after = server.probe();
        assert_eq!(after.total_requests() - before.total_requests(), 2);
        assert_eq!(after.watches(), []);
        assert!(lock(&zk).write_lock().try_acquire().await.unwrap().is_none());
        assert!(second.fencing_token() > first.fencing_token());
    });
}

#[test]
fn readers_and_writers_are_served_in_order_of_arrival() {
    simulated_with(async |server, zk| {
        let order = Arc::new(Mutex::new(String::new()));
        let first = lock(&zk).read_lock().acquire().await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for (count, role) in "wrrwr".chars().enumerate() {
            let (lock, order) = (lock(&zk), Arc::clone(&order));
            tasks.spawn(async move {
                if role == 'r' {
                    let guard = lock.read_lock().acquire().await.unwrap();
                    order.lock().unwrap().push('r');
                    guard.release().await.unwrap();
                } else {
                    let guard = lock.write_lock().acquire().await.unwrap();
                    order.lock().unwrap().push('w');
                    guard.release().await.unwrap();
                }
            });
            until(&server, |probe| probe.requests(OpCode::GetData) > count as u64).await;
        }
        assert!(lock(&zk).read_lock().try_acquire().await.unwrap().is_none());
        assert_eq!(*order.lock().unwrap(), "");
        first.release().await.unwrap();
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), "wrrwr");
    });
}

/// Curator's readers watch the first writer, and wake once for each (defect h); kazoo #649: they
/// wait for a later one.
#[test]
fn a_reader_behind_ten_writers_is_woken_once_by_the_last() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let first = lock(&zk).write_lock().acquire().await.unwrap();
        let mut writers = Vec::new();
        for _ in 0..9 {
            writers.push(writer(&server, &zk).await);
        }
        let reader = reader(&server, &other).await;
        let later = writer(&server, &zk).await;
        let before = server.probe();
        let watched: Vec<_> = before
            .watches()
            .iter()
            .filter(|watch| watch.session == zk_curator_tests::session_id(&other).get())
            .collect();
        assert!(
            watched.len() == 2
                && watched.iter().any(|watch| watch.path.ends_with("__WRIT__0000000009")),
            "{before}"
        );
        first.release().await.unwrap();
        for writer in writers {
            assert!(!reader.is_finished());
            writer.await.unwrap().unwrap().release().await.unwrap();
        }
        let guard = reader.await.unwrap().unwrap();
        // Ten writers released: nine woke one writer each, and the last one woke only the reader.
        // It had waited, and its own session watched it, too.
        assert_eq!(server.probe().notifications() - before.notifications(), 11);
        assert!(!later.is_finished());
        guard.release().await.unwrap();
        drop(later.await.unwrap().unwrap());
    });
}

#[test]
fn a_released_writer_admits_all_its_waiting_readers() {
    simulated_with(async |server, zk| {
        let holder = lock(&zk).write_lock().acquire().await.unwrap();
        let mut readers = Vec::new();
        for _ in 0..5 {
            readers.push(reader(&server, &zk).await);
        }
        let before = server.probe().total_requests();
        holder.release().await.unwrap();
        let mut guards = Vec::new();
        for reader in readers {
            guards.push(reader.await.unwrap().unwrap());
        }
        assert_eq!(server.probe().total_requests() - before, 1, "the delete");
        drop(guards);
    });
}

/// CURATOR-621, CURATOR-276: a waiting writer must not get the lock when the writer before it is
/// downgraded.
#[test]
fn curator_621_a_downgrade_lets_readers_in_and_no_writer() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).write_lock().acquire().await.unwrap();
        let token = holder.fencing_token();
        let behind = writer(&server, &other).await;
        let reading = holder.downgrade().await.unwrap();
        assert_eq!(reading.fencing_token(), token);
        // The writer is woken, looks, and waits for the reader.
        until(&server, |probe| probe.watches().iter().any(|watch| watch.path == reading.path()))
            .await;
        assert!(!behind.is_finished());
        reading.fenced().create("/written", "").commit().await.unwrap();
        // The node was not deleted: its token does not decide.
        assert!(futures_util::poll!(Box::pin(reading.lost())).is_pending());
        reading.release().await.unwrap();
        let behind = behind.await.unwrap().unwrap();
        // Its node is older than the reader's.
        assert!(behind.fencing_token() > token);
    });
}

#[test]
fn a_downgrade_without_writers_in_the_queue_shares_at_once() {
    simulated_with(async |server, zk| {
        let holder = lock(&zk).write_lock().acquire().await.unwrap();
        let waiting = reader(&server, &zk).await;
        let reading = holder.downgrade().await.unwrap();
        let shared = waiting.await.unwrap().unwrap();
        let writer = reading.try_upgrade().await.unwrap_err();
        assert!(matches!(writer.why, Error::Busy { .. }), "{writer}");
        shared.release().await.unwrap();
        let writer = writer.guard.try_upgrade().await.unwrap();
        until(&server, |probe| probe.children(LOCK).len() == 1).await;
        assert!(writer.path().contains("__WRIT__"));
    });
}

#[test]
fn an_upgrade_stays_behind_waiting_writers_and_keeps_reading() {
    simulated_with(async |server, zk| {
        let reading = lock(&zk).read_lock().acquire().await.unwrap();
        let waiting = writer(&server, &zk).await;
        let unchanged = reading.try_upgrade().await.unwrap_err();
        assert!(matches!(unchanged.why, Error::Busy { .. }));
        until(&server, |probe| probe.children(LOCK).len() == 2).await;
        unchanged.guard.fenced().create("/read", "").commit().await.unwrap();
        unchanged.guard.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
    });
}

/// A contender that was removed by force does not get its old place back.
#[test]
fn a_lock_that_is_gone_is_neither_upgraded_nor_downgraded() {
    simulated_with(async |server, zk| {
        let writing = lock(&zk).write_lock().acquire().await.unwrap();
        let next = writer(&server, &zk).await;
        zk.delete(writing.path()).await.unwrap();
        let next = next.await.unwrap().unwrap();
        let unchanged = writing.downgrade().await.unwrap_err();
        assert!(matches!(unchanged.why, Error::Lost { .. }), "{unchanged}");
        drop(unchanged);
        until(&server, |probe| probe.children(LOCK).len() == 1).await;
        next.release().await.unwrap();

        let reading = lock(&zk).read_lock().acquire().await.unwrap();
        zk.delete(reading.path()).await.unwrap();
        let unchanged = reading.try_upgrade().await.unwrap_err();
        assert!(matches!(unchanged.why, Error::Lost { .. }), "{unchanged}");

        let writing = lock(&zk).write_lock().acquire().await.unwrap();
        expire(&server, &zk).await;
        writing.lost().await;
        zk.wait_connected().await.unwrap();
        assert!(matches!(writing.downgrade().await.unwrap_err().why, Error::Lost { .. }));
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
    });
}

/// Beyond 2^31 numbers the order of the creates counts, but a reader cannot keep a writer's place.
#[test]
fn past_the_last_number_order_holds_and_downgrades_are_refused() {
    simulated_with(async |server, zk| {
        lock(&zk).read_lock().acquire().await.unwrap().release().await.unwrap();
        server.set_sequence(LOCK, i32::MAX - 1).unwrap();
        let first = lock(&zk).write_lock().acquire().await.unwrap();
        let readers = [reader(&server, &zk).await, reader(&server, &zk).await];
        let last = writer(&server, &zk).await;
        let unchanged = first.downgrade().await.unwrap_err();
        assert!(matches!(unchanged.why, Error::SequenceExhausted { .. }), "{unchanged}");
        unchanged.guard.release().await.unwrap();
        for reader in readers {
            assert!(!last.is_finished());
            reader.await.unwrap().unwrap().release().await.unwrap();
        }
        drop(last.await.unwrap().unwrap());
    });
}

/// CURATOR-307, CURATOR-211: Curator read beyond its list.
#[test]
fn curator_307_a_reader_with_a_lost_session_queues_again() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = lock(&zk).write_lock().acquire().await.unwrap();
        let waiting = reader(&server, &other).await;
        expire(&server, &other).await;
        until(&server, |probe| {
            probe.children(LOCK).iter().any(|name| name.ends_with("__READ__0000000002"))
        })
        .await;
        holder.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
    });
}

/// The node of a writer that has become a reader is younger than its number.
#[test]
fn a_downgraded_writer_comes_first_among_the_participants() {
    simulated_with(async |server, zk| {
        let holder = lock(&zk).write_lock().acquire().await.unwrap();
        let _writer = writer(&server, &zk).await;
        let _reader = reader(&server, &zk).await;
        let reading = holder.downgrade().await.unwrap();
        let readers = lock(&zk).read_lock().participants().await.unwrap();
        assert_eq!(readers.len(), 2);
        assert_eq!(readers[0].path, reading.path());
    });
}

#[test]
fn participants_are_those_of_one_side_in_their_order() {
    simulated_with(async |server, zk| {
        let reading = lock(&zk).label("reads").read_lock().acquire().await.unwrap();
        let writing = writer(&server, &zk).await;
        let readers = lock(&zk).read_lock().participants().await.unwrap();
        assert_eq!(
            readers.iter().map(|reader| reader.path.as_str()).collect::<Vec<_>>(),
            [reading.path()]
        );
        assert_eq!(&readers[0].label[..], b"reads");
        assert_eq!(lock(&zk).write_lock().participants().await.unwrap().len(), 1);
        writing.abort();
    });
}

#[test]
fn children_that_are_not_ours_do_not_count() {
    simulated_with(async |_server, zk| {
        for name in ["__WRIT__", "__WRIT__12", "lock-0000000000", "x__READ__000000000y"] {
            zk.create(format!("{LOCK}/{name}")).creating_parents().await.unwrap();
        }
        lock(&zk).write_lock().acquire().await.unwrap().release().await.unwrap();
        lock(&zk).read_lock().acquire().await.unwrap().release().await.unwrap();
        // But whatever has a name that Curator counts, does.
        zk.create(format!("{LOCK}/__WRIT__0000000000")).await.unwrap();
        assert!(lock(&zk).read_lock().try_acquire().await.unwrap().is_none());
    });
}

#[test]
fn a_bad_path_names_the_operation() {
    simulated_with(async |_server, zk| {
        let lock = InterProcessReadWriteLock::new(&zk, "locks");
        let Err(Error::Framework(error)) = lock.write_lock().acquire().await else {
            panic!("acquired")
        };
        assert_eq!(
            (error.kind(), error.operation(), error.path()),
            (ErrorKind::InvalidPath, "acquire", "locks")
        );
    });
}

/// The watch of a waiter fires when another client only writes to its predecessor: it keeps
/// waiting.
#[test]
fn a_waiter_does_not_mind_data_that_change() {
    simulated_with(async |server, zk| {
        let holder = lock(&zk).write_lock().acquire().await.unwrap();
        let waiting = reader(&server, &zk).await;
        let watch = zk.get_data(holder.path()).watched().await.unwrap().watch;
        zk.set_data(holder.path(), "new").await.unwrap();
        assert_eq!(watch.await.unwrap().event_type, EventType::NodeDataChanged);
        until(&server, |probe| probe.watches().iter().any(|watch| watch.path == holder.path()))
            .await;
        assert!(!waiting.is_finished());
        holder.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
    });
}
