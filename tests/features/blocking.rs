//! The front for programs without async code: `blocking`. These tests are such programs, in real
//! time; only their server has a runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::timeout;
use zk_curator::{CreateMode, Error as FrameworkError, ErrorKind, SessionId};
use zk_curator_proto::OpCode;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::blocking::{CuratorFramework, Guard, Lock};
use zk_curator_recipes::lock::{
    Error, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    always, assert_matches, builder, builder_for, cut_at_next_multi, session_id,
};

/// Longer than any test needs on a busy machine.
const LONG: Duration = Duration::from_secs(300);
/// A wait that times out, because nothing happens.
const SHORT: Duration = Duration::from_millis(50);
const LOCK: &str = "/locks/orders";

/// A server on a runtime of its own.
struct Stage {
    server: TestServer,
    runtime: Runtime,
}

impl Stage {
    fn connect(&self) -> CuratorFramework {
        CuratorFramework::connect(builder(&self.server)).unwrap()
    }

    fn until(&self, condition: impl FnMut(&Probe) -> bool) {
        let reached = async { timeout(LONG, self.server.until(condition)).await };
        self.runtime.block_on(reached).unwrap();
    }

    fn expire(&self, session: SessionId) {
        assert!(self.runtime.block_on(self.server.expire(session)));
    }
}

/// Runs a test in a thread, with a limit of time.
fn program(test: impl FnOnce(Stage) + Send + 'static) {
    let (done, over) = mpsc::channel();
    let running = thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(TestServer::start());
        test(Stage { server, runtime });
        done.send(()).unwrap();
    });
    // The sender is dropped by a panic, too.
    let ended = over.recv_timeout(LONG);
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout), "the test hangs");
    running.join().unwrap();
}

fn mutex(zk: &CuratorFramework) -> Lock {
    Lock::new(zk, |zk| InterProcessMutex::new(zk, LOCK))
}

fn contenders(probe: &Probe) -> usize {
    probe.children(LOCK).len()
}

#[test]
fn operations_wait_for_their_results() {
    program(|stage| {
        let zk = stage.connect();
        assert_eq!(zk.create("/a", "one").unwrap().path, "/a");
        assert_eq!(zk.get_data("/a").unwrap(), "one");
        assert_eq!(zk.set_data("/a", "two").unwrap().version, 1);
        assert_eq!(zk.exists("/a").unwrap().unwrap().version, 1);
        assert!(zk.exists("/b").unwrap().is_none());
        assert_eq!(zk.create("/a", "").unwrap_err().kind(), ErrorKind::NodeExists);
        // Builders with their options, and futures that borrow.
        let created = zk.run(|zk| zk.create("/a/c-").mode(CreateMode::EphemeralSequential));
        assert_eq!(created.unwrap().path, "/a/c-0000000000");
        let (mut read, wanted) = (Vec::new(), ["/a", "/a/c-0000000000"]);
        zk.run(async |zk| {
            for path in &wanted {
                read.push(zk.get_data(*path).await?);
            }
            Ok::<_, FrameworkError>(())
        })
        .unwrap();
        assert_eq!(read, ["two", ""]);
        assert_eq!(zk.children("/a").unwrap(), ["c-0000000000"]);
        assert_eq!(zk.delete("/a").unwrap_err().kind(), ErrorKind::NotEmpty);
        zk.delete("/a/c-0000000000").unwrap();
        zk.delete("/a").unwrap();
        zk.close().unwrap();
        zk.close().unwrap();
        assert_eq!(zk.exists("/a").unwrap_err().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_followed_read_lasts_over_several_calls() {
    program(|stage| {
        let zk = stage.connect();
        zk.create("/flag", "off").unwrap();
        let mut flag = zk.framework().watch_data("/flag");
        let mut next = || zk.run(|_| flag.next()).unwrap().map(|(data, _)| data);
        assert_eq!(next().unwrap(), "off");
        zk.set_data("/flag", "on").unwrap();
        assert_eq!(next().unwrap(), "on");
        zk.delete("/flag").unwrap();
        assert!(next().is_none());
    });
}

#[test]
fn threads_share_a_session_and_exclude_each_other() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 5;
    program(|stage| {
        let zk = stage.connect();
        zk.create("/count", "0").unwrap();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let (zk, lock) = (zk.clone(), mutex(&zk));
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let held = lock.acquire().unwrap();
                        let data = zk.get_data("/count").unwrap();
                        let count: usize = std::str::from_utf8(&data).unwrap().parse().unwrap();
                        zk.set_data("/count", (count + 1).to_string()).unwrap();
                        held.release().unwrap();
                    }
                });
            }
        });
        assert_eq!(zk.get_data("/count").unwrap(), (THREADS * ROUNDS).to_string());
        assert_eq!(stage.server.probe().sessions().len(), 1);
    });
}

#[test]
fn each_kind_of_lock_waits_in_the_thread() {
    program(|stage| {
        let (zk, other) = (stage.connect(), stage.connect());
        let held = mutex(&zk).acquire().unwrap();
        assert!(held.fencing_token().get() > 0 && !held.is_over());
        assert!(mutex(&other).try_acquire().unwrap().is_none());
        assert!(mutex(&other).acquire_within(Duration::ZERO).unwrap().is_none());
        held.release().unwrap();
        mutex(&other).acquire_within(Duration::ZERO).unwrap().unwrap().release().unwrap();

        let sides = |zk: &CuratorFramework| {
            let lock = InterProcessReadWriteLock::new(zk.framework(), "/locks/catalogue");
            (Lock::new(zk, |_| lock.read_lock()), Lock::new(zk, |_| lock.write_lock()))
        };
        let ((reads, _), (also_reads, writes)) = (sides(&zk), sides(&other));
        let readers = [reads.acquire().unwrap(), also_reads.acquire().unwrap()];
        assert!(writes.acquire_within(SHORT).unwrap().is_none());
        readers.into_iter().for_each(|reader| reader.release().unwrap());
        writes.acquire_within(LONG).unwrap().unwrap().release().unwrap();

        let printers = |zk: &CuratorFramework| {
            Lock::permit_of(zk, |zk| InterProcessSemaphore::new(zk, "/locks/printers", 2))
        };
        let leases = [printers(&zk).acquire().unwrap(), printers(&zk).acquire().unwrap()];
        assert!(printers(&other).acquire_within(SHORT).unwrap().is_none());
        assert!(printers(&other).try_acquire().unwrap().is_none());
        drop(leases);
        printers(&other).acquire().unwrap().release().unwrap();
    });
}

#[test]
fn a_timed_out_wait_leaves_no_node() {
    program(|stage| {
        let (zk, other) = (stage.connect(), stage.connect());
        let held = mutex(&zk).acquire().unwrap();
        assert!(mutex(&other).acquire_within(SHORT).unwrap().is_none());
        stage.until(|probe| contenders(probe) == 1);
        held.release().unwrap();
        // The thread was not left in the queue.
        mutex(&zk).acquire().unwrap().release().unwrap();
        other.close().unwrap();
        zk.close().unwrap();
        assert_eq!(contenders(&stage.server.probe()), 0);
    });
}

#[test]
fn a_lost_response_and_a_timeout_leave_no_node() {
    program(|stage| {
        let zk = stage.connect();
        mutex(&zk).acquire().unwrap().release().unwrap();
        let cut = cut_at_next_multi(&stage.server, zk.framework(), Verdict::LoseReply);
        // Until a create was applied, and its response lost.
        while contenders(&stage.server.probe()) == 0 {
            assert!(mutex(&zk).acquire_within(SHORT).unwrap().is_none());
        }
        drop(cut);
        stage.until(|probe| contenders(probe) == 0);
        assert!(zk.exists("/").unwrap().is_some());
    });
}

#[test]
fn close_waits_for_the_cleanup_of_dropped_operations() {
    program(|stage| {
        let zk = stage.connect();
        zk.create("/parent", "").unwrap();
        // The nodes are persistent, so they would outlive the session.
        let late = always(&stage.server, OpCode::Create2, Verdict::Delay(LONG));
        while late.hits() == 0 {
            let created = zk.run_within(SHORT, |zk| zk.create("/parent/n-").protected());
            assert!(created.is_none());
        }
        late.end();
        zk.close().unwrap();
        assert!(stage.server.probe().children("/parent").is_empty());
    });
}

#[test]
fn a_guard_keeps_the_session_and_its_drop_ends_it() {
    program(|stage| {
        let held: Guard = mutex(&stage.connect()).acquire().unwrap();
        let other = stage.connect();
        assert!(mutex(&other).try_acquire().unwrap().is_none());
        assert!(!held.is_over());
        drop(held);
        // The drop of the last handle has waited for the end of its session.
        assert_eq!(stage.server.probe().sessions().len(), 1);
        mutex(&other).try_acquire().unwrap().unwrap().release().unwrap();
        drop(other);
        assert!(stage.server.probe().sessions().is_empty());
    });
}

#[test]
fn a_panic_releases_the_lock() {
    program(|stage| {
        let zk = stage.connect();
        let lock = mutex(&zk);
        let panicked = thread::spawn(move || {
            let _held = lock.acquire().unwrap();
            panic!("as the test wants it");
        });
        panicked.join().unwrap_err();
        mutex(&zk).acquire().unwrap().release().unwrap();
        // A panic in an operation reaches the thread, and only that.
        let operation = || zk.run(async |_| -> () { panic!("as the test wants it") });
        catch_unwind(AssertUnwindSafe(operation)).unwrap_err();
        assert!(zk.exists("/").unwrap().is_some());
    });
}

#[test]
fn a_lost_session_is_noticed_by_its_guard() {
    program(|stage| {
        let zk = stage.connect();
        let held = mutex(&zk).acquire().unwrap();
        assert!(zk.run_within(SHORT, |_| held.ownership().lost()).is_none());
        thread::scope(|scope| {
            let lost = scope.spawn(|| held.lost());
            stage.expire(session_id(zk.framework()));
            lost.join().unwrap();
        });
        assert!(held.is_over());
        assert_matches!(held.release(), Err(Error::Lost { .. }));
        // The next session can acquire it.
        mutex(&zk).acquire().unwrap().release().unwrap();
    });
}

#[test]
fn close_ends_the_waits_of_other_threads() {
    program(|stage| {
        let (zk, other) = (stage.connect(), stage.connect());
        let held = mutex(&other).acquire().unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| mutex(&zk).acquire());
            stage.until(|probe| contenders(probe) == 2);
            zk.close().unwrap();
            let error = waiter.join().unwrap().unwrap_err();
            assert_matches!(error, Error::Framework(error) if error.kind() == ErrorKind::Closed);
        });
        held.release().unwrap();
    });
}

#[test]
fn without_a_server_connect_fails() {
    program(|stage| {
        stage.runtime.block_on(stage.server.stop());
        let builder = builder_for(&stage.server.connect_string()).connection_timeout(SHORT);
        let error = CuratorFramework::connect(builder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss);
        let error = CuratorFramework::connect(builder_for("")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    });
}

/// The message of the panic.
fn panic_of<T>(call: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(call)) else { panic!("it has waited") };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap()
}

#[test]
fn waits_in_async_code_panic() {
    const WITHIN: &str = "Cannot start a runtime from within a runtime";
    program(|stage| {
        let zk = stage.connect();
        let held = mutex(&zk).acquire().unwrap();
        stage.runtime.block_on(async {
            for message in [
                panic_of(|| zk.exists("/")),
                panic_of(|| mutex(&zk).acquire_within(SHORT)),
                panic_of(|| CuratorFramework::connect(builder(&stage.server))),
                panic_of(|| held.release()),
                panic_of(|| zk.close()),
            ] {
                assert!(message.starts_with(WITHIN), "{message}");
            }
            // The guard was dropped; the framework that did not connect was closed.
            let is_left = |probe: &Probe| contenders(probe) > 0 || probe.sessions().len() > 1;
            timeout(LONG, stage.server.until(|probe| !is_left(probe))).await.unwrap();
            // Threads for blocking code may wait.
            let other = zk.clone();
            let seen = tokio::task::spawn_blocking(move || other.exists("/")).await.unwrap();
            assert!(seen.unwrap().is_some());
        });
    });
}

#[test]
fn a_drop_in_async_code_does_not_wait() {
    program(|_stage| {
        // The server is on the thread that drops: it can respond only afterwards.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = TestServer::start().await;
            let builder = builder(&server);
            let connect = move || CuratorFramework::connect(builder).unwrap();
            let zk = tokio::task::spawn_blocking(connect).await.unwrap();
            let framework = zk.framework().clone();
            drop(zk);
            framework.close().await.unwrap();
            assert!(server.probe().sessions().is_empty());
        });
    });
}

#[test]
fn the_last_handle_may_be_dropped_by_the_thread_itself() {
    program(|stage| {
        let zk = stage.connect();
        let (framework, mut errors) = (zk.framework().clone(), zk.framework().background_errors());
        let (let_go, told) = oneshot::channel();
        let last = zk.clone();
        framework.spawn(async move {
            told.await.unwrap();
            drop(last);
        });
        drop(zk);
        let_go.send(()).unwrap();
        stage.runtime.block_on(async {
            framework.close().await.unwrap();
            assert!(errors.next().await.is_none());
        });
        assert!(stage.server.probe().sessions().is_empty());
    });
}

#[cfg(unix)]
#[test]
fn an_exit_leaves_the_lock_until_the_session_expires() {
    use crate::child::{self, Child};

    if let Some(servers) = child::value() {
        let builder = builder_for(&servers).session_timeout(Duration::from_secs(40));
        let zk = CuratorFramework::connect(builder).unwrap();
        let held = mutex(&zk).acquire().unwrap();
        println!("holds {}", held.path());
        std::process::exit(3);
    }
    program(|stage| {
        stage.runtime.block_on(async {
            let test = "blocking::an_exit_leaves_the_lock_until_the_session_expires";
            let child = Child::start(test, &stage.server.connect_string());
            assert_eq!(child.ended().await.code(), Some(3));
        });
        let zk = stage.connect();
        assert!(mutex(&zk).try_acquire().unwrap().is_none());
        let own = session_id(zk.framework());
        let probe = stage.server.probe();
        let sessions = probe.sessions().iter().map(|session| SessionId::new(session.id));
        sessions.filter(|session| *session != own).for_each(|left| stage.expire(left));
        mutex(&zk).acquire().unwrap().release().unwrap();
    });
}

#[cfg(unix)]
#[test]
fn a_signal_stops_a_program_between_two_steps() {
    use crate::child::{self, Child};

    if let Some(servers) = child::value() {
        let zk = CuratorFramework::connect(builder_for(&servers)).unwrap();
        let shutdown = zk.run(async |_| Shutdown::on_signals()).unwrap();
        let _held = mutex(&zk).acquire().unwrap();
        assert!(!shutdown.has_begun());
        println!("ready");
        zk.run(|_| shutdown.begun());
        assert!(shutdown.has_begun());
        return;
    }
    program(|stage| {
        stage.runtime.block_on(async {
            let test = "blocking::a_signal_stops_a_program_between_two_steps";
            let mut child = Child::start(test, &stage.server.connect_string());
            child.line("ready").await;
            child.signal("INT").await;
            assert!(child.ended().await.success());
        });
        assert!(stage.server.probe().sessions().is_empty());
    });
}
