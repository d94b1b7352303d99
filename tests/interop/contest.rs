//! Java Curator and we contend for the same things while processes of both are killed.
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_real::java::Program;

use zk_curator_tests::{builder_for, start};

/// A number of rounds that no contender completes.
pub(crate) const ENDLESS: usize = 1_000_000;
/// For a whole contest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A program of `tests/interop/`.
pub(crate) async fn compiled(source: &str) -> Program {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(source);
    Program::compile(source).await.unwrap()
}

/// A framework with the session timeout of the Java programs.
pub(crate) async fn framework(connect_string: &str) -> CuratorFramework {
    start(builder_for(connect_string).session_timeout(Duration::from_secs(4))).await
}

/// Returns `true` if it is a failure of an operation that comes with a session that is lost, where
/// everything is slow.
pub(crate) fn comes_with_a_lost_session(error: &zk_curator::Error) -> bool {
    error.is_session_lost() || error.kind() == ErrorKind::NoNode || error.is_retryable()
}

/// Proves exclusion without trusting the recipe under test: an ephemeral node below `place`, and
/// then a listing. Of two that must not be inside together, the later one sees the earlier one.
pub(crate) async fn enter(
    zk: &CuratorFramework,
    place: &str,
    name: &str,
    is_violated: impl Fn(&[String]) -> bool,
) -> Result<(), zk_curator::Error> {
    let witness = format!("{place}/{name}");
    let created = zk.create(&witness).mode(CreateMode::Ephemeral).await;
    assert!(
        !created.as_ref().is_err_and(|error| error.kind() == ErrorKind::NodeExists),
        "{witness}"
    );
    created?;
    let inside = zk.children(place).await?;
    assert!(!is_violated(&inside), "{witness} among {inside:?}");
    Ok(())
}

pub(crate) async fn leave(
    zk: &CuratorFramework,
    place: &str,
    name: &str,
) -> Result<(), zk_curator::Error> {
    zk.delete(format!("{place}/{name}")).guaranteed().await
}

/// A Java program that contends. It prints "HELD …" for every grant, and at last "DONE".
pub(crate) struct Java {
    pub(crate) child: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
}

impl Java {
    pub(crate) fn start<'a>(
        program: &Program,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut child = program.spawn(arguments).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) async fn says(&mut self, line: &str) {
        assert_eq!(self.lines.next_line().await.unwrap().unwrap(), line);
    }

    /// Reads until the program has held something `count` times.
    async fn held(&mut self, count: usize) {
        for _ in 0..count {
            let line = self.lines.next_line().await.unwrap().unwrap();
            assert!(line.starts_with("HELD "), "{line}");
        }
    }

    /// Reads on until it is done.
    pub(crate) async fn done(mut self) -> usize {
        let mut held = 0;
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if line == "DONE" {
                assert!(self.child.wait().await.unwrap().success());
                return held;
            }
            assert!(line.starts_with("HELD "), "{line}");
            held += 1;
        }
        panic!("it ended before it was done");
    }
}

/// A Rust contender that is killed: it stops between two instructions, and its sockets are closed.
/// It ends when `killed` does.
fn victim(contend: impl Future<Output = ()> + Send + 'static, killed: oneshot::Receiver<()>) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.spawn(contend);
        drop(killed.blocking_recv());
        runtime.shutdown_background();
    });
}

/// A contest of one Java program with this number of rounds, two Rust contenders, and victims of
/// both kinds. `contend` is a Rust contender. It gets its label and its rounds. The last two
/// arguments of `java` are the same. Returns the number of times that the Java program has held the
/// resource.
pub(crate) async fn java_and_rust_contend<F: Future<Output = ()> + Send + 'static>(
    program: &Program,
    java: [&str; 3],
    rounds: usize,
    contend: impl Fn(String, usize) -> F,
) -> usize {
    let started = |rounds: usize, label: &str| {
        Java::start(program, java.iter().copied().chain([rounds.to_string().as_str(), label]))
    };
    let winner = started(rounds, "java");
    let mut ours = JoinSet::new();
    for label in ["rust-1", "rust-2"] {
        ours.spawn(contend(label.to_owned(), rounds));
    }
    for life in 0..2 {
        let (kill, killed) = oneshot::channel();
        victim(contend(format!("rust-victim-{life}"), ENDLESS), killed);
        let mut victim = started(ENDLESS, &format!("java-victim-{life}"));
        victim.held(fastrand::usize(20..60)).await;
        kill.send(()).unwrap();
        victim.child.kill().await.unwrap();
    }
    while let Some(contender) = ours.join_next().await {
        contender.unwrap();
    }
    winner.done().await
}
