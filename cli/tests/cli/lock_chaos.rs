//! Two locked writers on Apache ZooKeeper, whose processes and networks fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator_testing::{FaultProxy, Flow, wait};

use crate::running::{Folder, LIMIT, run};

/// A fault of the writer that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Its network loses everything.
    Lost,
    /// Its network is cut, and refuses connections.
    Down,
    /// `zkc` is killed.
    Kill,
    /// `zkc` is stopped, and its command is not.
    Stop,
}

const FAULTS: [Fault; 4] = [Fault::Lost, Fault::Down, Fault::Kill, Fault::Stop];

/// One of the two writers.
struct Writer {
    proxy: FaultProxy,
    /// The signals for the running process.
    signals: mpsc::UnboundedSender<Signal>,
    /// The number of commands that have ended.
    ended: watch::Sender<usize>,
}

impl Writer {
    /// Runs the command again and again.
    async fn run(
        self: Arc<Self>,
        mut signals: mpsc::UnboundedReceiver<Signal>,
        folder: Arc<Folder>,
        script: String,
        done: Arc<AtomicBool>,
    ) {
        while !done.load(Ordering::Acquire) {
            let options = ["--session-timeout", "3s", "--grace", "300ms"];
            let arguments =
                [&["lock", "/locks/a"], &options[..], &["--", "sh", "-c", &script]].concat();
            let running = folder.start(&self.proxy.connect_string(), &arguments);
            running.finish_signalled(&mut signals).await;
            self.ended.send_modify(|ended| *ended += 1);
        }
    }

    fn signal(&self, signal: Signal) {
        // The writer may have ended.
        self.signals.send(signal).ok();
    }

    fn fail(&self, fault: Fault) {
        match fault {
            Fault::Lost => self.proxy.requests(Flow::Lost),
            Fault::Down => self.proxy.down(),
            Fault::Kill => self.signal(Signal::SIGKILL),
            Fault::Stop => self.signal(Signal::SIGSTOP),
        }
    }

    fn heal(&self) {
        self.signal(Signal::SIGCONT);
        self.proxy.cut();
        self.proxy.requests(Flow::Open);
        self.proxy.up();
    }
}

/// Returns the lines of the log: the writer, and its token.
fn read(log: &str) -> Vec<(usize, i64)> {
    let content = std::fs::read_to_string(log).unwrap_or_default();
    let complete = content.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let parse = |line: &str| {
        let (writer, token) = line.split_once(' ')?;
        Some((writer.parse().ok()?, token.parse().ok()?))
    };
    complete.lines().filter_map(parse).collect()
}

/// Waits until the newest token in the log is higher, and returns its line.
async fn after(log: &str, token: i64) -> (usize, i64) {
    let newer = wait::until_some(async || {
        let newest = read(log).into_iter().max_by_key(|(_, token)| *token);
        newest.filter(|(_, newest)| *newest > token)
    });
    timeout(LIMIT, newer).await.expect("the next holder")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn locked_writers_never_overlap_on_apache_zookeeper() {
    locked_writers_never_overlap("locked_writers_never_overlap_on_apache_zookeeper", 1).await;
}

mod night {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "night: scripts/night"]
    async fn locked_writers_never_overlap_for_longer() {
        super::locked_writers_never_overlap("locked_writers_never_overlap_for_longer", 4).await;
    }
}

/// Each fault happens `times` times.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn locked_writers_never_overlap(test: &str, times: usize) {
    let Some(server) = zk_curator_real::or_skip(test).await else { return };
    let servers = server.connect_string();
    run(&servers, &["set", "--create", "/state", "0"]).await;

    let folder = Arc::new(Folder::new());
    let log = folder.file("log");
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    let mut tasks = JoinSet::new();
    for number in 0..2 {
        let proxy = FaultProxy::start(&[server.addr()]).await.expect("a proxy");
        let (signals, received) = mpsc::unbounded_channel();
        let writer = Arc::new(Writer { proxy, signals, ended: watch::Sender::new(0) });
        // The fenced writes bypass the faults.
        let script = format!(
            "t=$ZKC_FENCING_TOKEN
             while ZK_CONNECT={servers} zkc set --fenced /state $t 2>/dev/null; do :; done &
             while :; do echo \"{number} $t\" >> log; sleep 0.002; done"
        );
        let run = Arc::clone(&writer).run(received, Arc::clone(&folder), script, Arc::clone(&done));
        tasks.spawn(run);
        writers.push(writer);
    }
    let (stop_reading, read_state) = (Arc::clone(&done), servers.clone());
    let reader = tokio::spawn(async move {
        let mut states = Vec::new();
        while !stop_reading.load(Ordering::Acquire) {
            let state = run(&read_state, &["get", "/state"]).await;
            states.extend(state.stdout.trim().parse::<i64>());
        }
        states
    });

    let mut token = 0;
    for fault in std::iter::repeat_n(FAULTS, times).flatten() {
        let (holder, held) = after(&log, token).await;
        let writer = &writers[holder];
        let mut ended = writer.ended.subscribe();
        let before = *ended.borrow_and_update();
        writer.fail(fault);
        token = held;
        after(&log, token).await;
        writer.heal();
        timeout(LIMIT, ended.wait_for(|ended| *ended > before))
            .await
            .expect("an end")
            .expect("a writer");
    }
    done.store(true, Ordering::Release);
    // A writer may have started another command before it saw the end.
    let ending = async {
        while !tasks.is_empty() {
            writers.iter().for_each(|writer| writer.signal(Signal::SIGINT));
            drop(timeout(Duration::from_millis(200), tasks.join_next()).await);
        }
    };
    timeout(LIMIT, ending).await.expect("the end of the writers");

    let mut newest = 0;
    for (_, token) in read(&log) {
        assert!(token >= newest, "{token} wrote after {newest}");
        newest = newest.max(token);
    }
    let states = reader.await.expect("a reader");
    assert!(states.is_sorted(), "a fenced write of an earlier holder was applied: {states:?}");
}
