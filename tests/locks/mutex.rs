//! [`InterProcessMutex`] when all is well: layout, order, cost, contention.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use zk_curator::{CreateMode, ErrorKind};
use zk_curator_client::{Clock, Connector, Transport};
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{Error, InterProcessMutex};
use zk_curator_testing::wait::settled;
use zk_curator_testing::{MemoryConnector, SequenceOverflow, TestServer};
use zk_curator_tests::{
    Contention, all_close_clean, builder, closes_clean, connected, simulated_on, simulated_with,
    start, two_in_memory, until,
};

const LOCK: &str = "/locks/orders";

#[test]
fn the_layout_is_curators() {
    simulated_with(async |server, zk| {
        let guard = InterProcessMutex::new(&zk, LOCK).label("me").acquire().await.unwrap();
        let probe = server.probe();
        assert!(probe.is_container("/locks") && probe.is_container(LOCK), "{probe}");
        let [name] = probe.children(LOCK)[..] else { panic!("{probe}") };
        let (protection, sequence) = name.split_at(40);
        assert!(protection.starts_with("_c_") && protection.ends_with('-'), "{name}");
        assert_eq!(
            protection[3..39].parse::<uuid::Uuid>().unwrap().as_hyphenated().to_string(),
            protection[3..39]
        );
        assert_eq!(sequence, "lock-0000000000");
        assert_eq!(guard.path(), format!("{LOCK}/{name}"));
        assert_eq!(probe.data(guard.path()).unwrap(), "me");
        assert_eq!(probe.stat(guard.path()).unwrap().czxid, guard.fencing_token().get());
        guard.release().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn a_second_acquire_waits_and_tokens_grow() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        let first = lock.acquire().await.unwrap();
        let waiter = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        until(&server, |probe| probe.watches().len() == 2).await;
        assert!(!waiter.is_finished());
        let token = first.fencing_token();
        first.release().await.unwrap();
        let second = waiter.await.unwrap();
        assert!(second.fencing_token() > token);
    });
}

#[test]
fn try_acquire_claims_a_free_lock_and_leaves_no_node_otherwise() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        let guard = lock.try_acquire().await.unwrap().unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        until(&server, |probe| probe.children(LOCK).len() == 1).await;
        assert_eq!(server.probe().watches(), []);
        drop(guard);
        // The delete is ahead of the create in the same session.
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn dropping_the_guard_releases_the_lock() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        drop(lock.acquire().await.unwrap());
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
    });
}

#[test]
fn with_releases_after_the_body_and_after_its_panic() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        let path = lock.with(|held| async move { held.path().to_owned() }).await.unwrap();
        assert!(path.starts_with(LOCK));
        assert_eq!(server.probe().children(LOCK), [""; 0]);

        let panics = lock.clone();
        let task =
            tokio::spawn(async move { panics.with(|_| async { panic!("on purpose") }).await });
        assert!(task.await.unwrap_err().is_panic());
        drop(lock.acquire().await.unwrap());
    });
}

#[test]
fn participants_are_listed_in_their_order_with_labels() {
    simulated_with(async |server, zk| {
        let lock = |label: &str| InterProcessMutex::new(&zk, LOCK).label(label.to_owned());
        assert_eq!(lock("").participants().await.unwrap(), []);
        let holder = lock("a").acquire().await.unwrap();
        let mut waiters = tokio::task::JoinSet::new();
        for (count, label) in ["b", "c"].into_iter().enumerate() {
            let lock = lock(label);
            waiters.spawn(async move { lock.acquire().await });
            until(&server, |probe| probe.watches().len() == count + 2).await;
        }
        let participants = lock("").participants().await.unwrap();
        let labels: Vec<_> = participants.iter().map(|member| &member.label[..]).collect();
        assert_eq!(labels, [b"a", b"b", b"c"]);
        assert_eq!(participants[0].fencing_token, holder.fencing_token());
        assert_eq!(participants[0].path, holder.path());
    });
}

#[test]
fn foreign_children_are_ignored() {
    simulated_with(async |_server, zk| {
        for name in ["config", "lock-", "lock-12", "a-lock-000000000x", "_c_x-latch-0000000000"] {
            zk.create(format!("{LOCK}/{name}")).creating_parents().await.unwrap();
        }
        let lock = InterProcessMutex::new(&zk, LOCK);
        let guard = lock.acquire().await.unwrap();
        assert_eq!(lock.participants().await.unwrap().len(), 1);
        guard.release().await.unwrap();
    });
}

/// A name that Curator's own sorter would count, is counted.
#[test]
fn an_unprotected_lock_node_is_a_contender() {
    simulated_with(async |_server, zk| {
        let other = zk
            .create(format!("{LOCK}/lock-"))
            .mode(CreateMode::EphemeralSequential)
            .creating_parents_as_containers()
            .await
            .unwrap();
        let lock = InterProcessMutex::new(&zk, LOCK);
        assert!(lock.try_acquire().await.unwrap().is_none());
        zk.delete(other.path).await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

/// Waiters, one after the other, with the numbers that `prepare` makes the server give: they get
/// the lock in the order of arrival.
fn in_the_order_of_arrival_after(prepare: impl Fn(&TestServer), ending: &str) {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        lock.acquire().await.unwrap().release().await.unwrap();
        server.set_sequence(LOCK, i32::MAX - 1).unwrap();

        let order = Arc::new(Mutex::new(Vec::new()));
        let holder = lock.acquire().await.unwrap();
        let mut waiters = tokio::task::JoinSet::new();
        for number in 0..6_usize {
            prepare(&server);
            let (lock, order) = (lock.clone(), Arc::clone(&order));
            waiters.spawn(async move {
                let guard = lock.acquire().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            });
            until(&server, |probe| probe.watches().len() == number + 2).await;
        }
        let names = server.probe();
        assert!(names.children(LOCK).iter().any(|name| name.ends_with(ending)), "{names}");
        let participants = lock.participants().await.unwrap();
        assert!(participants.is_sorted_by_key(|participant| participant.fencing_token));
        assert_eq!((participants.len(), participants[0].path.as_str()), (7, holder.path()));
        holder.release().await.unwrap();
        while let Some(done) = waiters.join_next().await {
            done.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    });
}

/// ZOOKEEPER-4372, kazoo #606: the counter turns negative after 2^31 - 1.
#[test]
fn the_order_survives_a_counter_that_wraps_around() {
    let wrap = |server: &TestServer| server.set_sequence_overflow(SequenceOverflow::WrapsAround);
    in_the_order_of_arrival_after(wrap, "lock--2147483648");
}

/// ZooKeeper 3.8 gives the last number again and again.
#[test]
fn the_order_survives_a_counter_that_sticks() {
    in_the_order_of_arrival_after(
        |server| server.set_sequence(LOCK, i32::MAX).unwrap(),
        "lock-2147483647",
    );
}

#[test]
fn a_bad_path_is_refused_by_name_before_anything_is_sent() {
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        for path in ["", "locks", "/a//b", "/a/./b", "/a/..", "/a\0", "/a/"] {
            let error = InterProcessMutex::new(&zk, path).acquire().await.unwrap_err();
            let Error::Framework(error) = error else { panic!("{error}") };
            assert_eq!(
                (error.kind(), error.operation(), error.path()),
                (ErrorKind::InvalidPath, "acquire", path)
            );
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}

#[test]
fn a_label_over_the_limit_is_refused_and_leaves_nothing() {
    simulated_with(async |server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK).label(vec![0; 1 << 20]);
        let Err(Error::Framework(error)) = lock.acquire().await else { panic!("acquired") };
        assert_eq!((error.kind(), error.operation()), (ErrorKind::TooLarge, "create"));
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn the_lock_at_the_root_and_in_a_namespace() {
    simulated_with(async |server, zk| {
        drop(InterProcessMutex::new(&zk, "/").acquire().await.unwrap());
        let spaced = zk.using_namespace("space").unwrap();
        let guard = InterProcessMutex::new(&spaced, "/l").acquire().await.unwrap();
        assert!(guard.path().starts_with("/l/_c_"), "{}", guard.path());
        assert!(server.probe().exists(&format!("/space{}", guard.path())));
        assert!(InterProcessMutex::new(&zk, "/space/l").try_acquire().await.unwrap().is_none());
    });
}

/// Counts the changes of a connection from reading to writing: each is one wait for the network.
#[derive(Debug)]
struct Counting {
    inner: MemoryConnector,
    round_trips: Arc<AtomicUsize>,
}

struct CountingTransport {
    inner: Box<dyn Transport>,
    round_trips: Arc<AtomicUsize>,
    reading: AtomicBool,
}

#[async_trait]
impl Connector for Counting {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let inner = self.inner.connect(host, port).await?;
        let reading = AtomicBool::new(true);
        Ok(Box::new(CountingTransport {
            inner,
            round_trips: Arc::clone(&self.round_trips),
            reading,
        }))
    }
}

impl AsyncRead for CountingTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buf));
        self.reading.store(true, Ordering::Relaxed);
        Poll::Ready(result)
    }
}

impl AsyncWrite for CountingTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.reading.swap(false, Ordering::Relaxed) {
            self.round_trips.fetch_add(1, Ordering::Relaxed);
        }
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[test]
fn an_uncontended_acquire_or_release_is_one_round_trip() {
    simulated_on(TestServer::in_memory, async |server| {
        let round_trips = Arc::new(AtomicUsize::new(0));
        let connector =
            Counting { inner: server.connector(), round_trips: Arc::clone(&round_trips) };
        let zk = start(builder(&server).connector(Arc::new(connector))).await;
        let lock = InterProcessMutex::new(&zk, LOCK);
        // The first time the parents are made.
        lock.acquire().await.unwrap().release().await.unwrap();

        let requests = server.probe();
        round_trips.store(0, Ordering::Relaxed);
        let guard = lock.acquire().await.unwrap();
        assert_eq!(round_trips.load(Ordering::Relaxed), 1);
        guard.release().await.unwrap();
        assert_eq!(round_trips.load(Ordering::Relaxed), 2);
        let after = server.probe();
        assert_eq!(after.total_requests() - requests.total_requests(), 3);
        for opcode in [OpCode::Create2, OpCode::GetChildren2, OpCode::Delete] {
            assert_eq!(after.requests(opcode) - requests.requests(opcode), 1, "{opcode:?}");
        }
    });
}

/// The waiter behind the holder lists once and watches once, and is granted by the notification
/// alone.
#[test]
fn a_hand_over_to_the_next_in_line_costs_no_listing() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let holder = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let before = server.probe();
        let waiter = InterProcessMutex::new(&other, LOCK);
        let waiter = tokio::spawn(async move { waiter.acquire().await.unwrap() });
        until(&server, |probe| probe.watches().len() == 2).await;
        holder.release().await.unwrap();
        let guard = waiter.await.unwrap();
        let after = server.probe();
        // The waiter has read and watched its own node, too.
        for (opcode, count) in [
            (OpCode::Create2, 1),
            (OpCode::GetChildren2, 1),
            (OpCode::GetData, 2),
            (OpCode::Delete, 1),
        ] {
            assert_eq!(after.requests(opcode) - before.requests(opcode), count, "{opcode:?}");
        }
        assert_eq!(after.notifications() - before.notifications(), 1);
        drop(guard);
    });
}

#[test]
fn a_thousand_tasks_get_the_lock_in_order_without_a_herd() {
    const SESSIONS: usize = 50;
    const TASKS: usize = 1000;
    simulated_on(TestServer::in_memory, async |server| {
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(connected(&server).await);
        }
        let gate = InterProcessMutex::new(&sessions[0], LOCK).acquire().await.unwrap();
        let before = server.probe();
        let contention = Contention::start(&sessions, LOCK, TASKS);
        until(&server, |probe| probe.children(LOCK).len() == TASKS + 1).await;
        gate.release().await.unwrap();
        contention.ends_in_order().await;
        let after = server.probe();
        let new = |count: fn(&zk_curator_testing::Probe) -> u64| count(&after) - count(&before);
        // At most three notifications for each hand-over, to the next, to the next but one and to
        // the one that leaves, and one listing and watch for each entry and hand-over, and one
        // watch of its own node.
        assert!(
            new(|probe| probe.notifications()) <= 3 * TASKS as u64,
            "{}",
            new(|probe| probe.notifications())
        );
        assert_eq!(new(|probe| probe.requests(OpCode::Create2)), TASKS as u64);
        assert_eq!(new(|probe| probe.requests(OpCode::Delete)), TASKS as u64 + 1);
        assert!(new(|probe| probe.requests(OpCode::GetChildren2)) <= 2 * TASKS as u64);
        assert!(new(|probe| probe.requests(OpCode::GetData)) <= 3 * TASKS as u64);
        all_close_clean(&server, sessions).await;
    });
}

/// A clock that reports to the client that the machine was suspended.
#[derive(Debug, Default)]
struct Asleep(AtomicU64);

impl Clock for Asleep {
    fn suspended(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// The notification came before the machine slept for longer than the session, and the waiter runs
/// first when it wakes up.
#[test]
fn a_lock_is_not_granted_by_a_session_that_is_over_by_the_clock() {
    simulated_with(async |server, other| {
        let clock = Arc::new(Asleep::default());
        let zk = start(builder(&server).clock(Arc::<Asleep>::clone(&clock))).await;
        let holder = InterProcessMutex::new(&other, LOCK).acquire().await.unwrap();
        let waiting_lock = InterProcessMutex::new(&zk, LOCK);
        let mut waiting = Box::pin(waiting_lock.acquire());
        assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
        holder.release().await.unwrap();
        settled().await;
        clock.0.store(3600, Ordering::Relaxed);
        if let Poll::Ready(granted) = futures_util::poll!(&mut waiting) {
            panic!("granted, and over: {}", granted.unwrap().is_over());
        }
        let guard = waiting.await.unwrap();
        assert!(!guard.is_over());
        assert!(server.probe().exists(guard.path()));
    });
}
