//! Shared by all workloads: the options, and the protocol with the harness.
#![expect(clippy::print_stdout, reason = "the harness listens")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use lexopt::{Arg, Parser, ValueExt};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use tokio::time::timeout;

use super::measure::{Outcome, Result, cpu_time, thinned};
use super::session::Session;

/// The time limit of the sessions' ends.
const CLOSING: Duration = Duration::from_secs(5);

/// A run: its options, its sessions, and the harness.
pub(crate) struct Stage<S> {
    connect: String,
    pub(crate) workload: String,
    pub(crate) size: usize,
    pub(crate) operations: usize,
    pub(crate) warmup: usize,
    pub(crate) path: String,
    pub(crate) payload: usize,
    /// The numbers that the last round has counted, by the names that the tables show.
    pub(crate) numbers: Numbers,
    session_timeout: Duration,
    clients: Vec<S>,
    /// The ends of all sessions.
    closed: Vec<Pin<Box<dyn Future<Output = ()>>>>,
    harness: Lines<BufReader<Stdin>>,
}

/// The start of the measurement.
pub(crate) struct Begun {
    at: Instant,
    cpu: Duration,
}

/// Numbers of a workload by their names. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Rc<RefCell<BTreeMap<&'static str, f64>>>);

impl Numbers {
    pub(crate) fn set(&self, name: &'static str, value: f64) {
        self.0.borrow_mut().insert(name, value);
    }
}

/// The line for the harness.
#[derive(Serialize)]
struct Report {
    operations: usize,
    seconds: f64,
    cpu_seconds: f64,
    latencies_us: Vec<f64>,
    check: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_each: Option<f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    numbers: BTreeMap<&'static str, f64>,
}

impl<S: Session> Stage<S> {
    /// Reads the command line; `None` for `--list`.
    pub(crate) fn from_arguments() -> Result<Option<Self>> {
        let mut stage = Self {
            connect: String::new(),
            workload: String::new(),
            size: 1,
            operations: 1,
            warmup: 0,
            path: String::new(),
            payload: 100,
            numbers: Numbers::default(),
            session_timeout: Duration::from_secs(60),
            clients: Vec::new(),
            closed: Vec::new(),
            harness: BufReader::new(stdin()).lines(),
        };
        let mut parser = Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                // Selects the client in this program.
                Arg::Value(_) => {}
                Arg::Long("list") => return Ok(None),
                Arg::Long("connect") => stage.connect = parser.value()?.string()?,
                Arg::Long("workload") => stage.workload = parser.value()?.string()?,
                Arg::Long("size") => stage.size = parser.value()?.parse()?,
                Arg::Long("operations") => stage.operations = parser.value()?.parse()?,
                Arg::Long("warmup") => stage.warmup = parser.value()?.parse()?,
                Arg::Long("path") => stage.path = parser.value()?.string()?,
                Arg::Long("payload") => stage.payload = parser.value()?.parse()?,
                Arg::Long("session-timeout") => {
                    stage.session_timeout = Duration::from_millis(parser.value()?.parse()?);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Some(stage))
    }

    /// The path of a node of this run.
    pub(crate) fn below(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        vec![7; self.payload]
    }

    /// Opens a session.
    pub(crate) async fn client(&mut self) -> Result<S> {
        let zk = S::open(&self.connect, self.session_timeout).await?;
        self.closed.push(zk.closed());
        self.clients.push(zk.clone());
        Ok(zk)
    }

    /// Opens `size` sessions.
    pub(crate) async fn contenders(&mut self) -> Result<Vec<S>> {
        let mut clients = Vec::with_capacity(self.size);
        for _ in 0..self.size {
            clients.push(self.client().await?);
        }
        Ok(clients)
    }

    /// Warms up, waits for the harness, runs and reports, and then removes everything. `prepare`
    /// creates the nodes for the operations, before the warm-up and before the run.
    pub(crate) async fn run(
        &mut self,
        mut prepare: impl AsyncFnMut(usize) -> Result<()>,
        mut run: impl AsyncFnMut(usize) -> Result<Outcome>,
    ) -> Result<()> {
        if self.warmup > 0 {
            prepare(self.warmup).await?;
            run(self.warmup).await?;
        }
        prepare(self.operations).await?;
        self.measure(None, async |operations| run(operations).await).await?;
        self.clear().await
    }

    /// [`run`](Self::run) without preparation.
    pub(crate) async fn run_plain(
        &mut self,
        run: impl AsyncFnMut(usize) -> Result<Outcome>,
    ) -> Result<()> {
        self.run(async |_| Ok(()), run).await
    }

    /// Runs the prepared operations, from `go` to `end`.
    pub(crate) async fn measure(
        &mut self,
        bytes_each: Option<f64>,
        mut run: impl AsyncFnMut(usize) -> Result<Outcome>,
    ) -> Result<()> {
        let begun = self.begin().await?;
        let outcome = run(self.operations).await?;
        self.report(&begun, bytes_each, outcome).await
    }

    /// Waits for `go`.
    pub(crate) async fn begin(&mut self) -> Result<Begun> {
        say("ready");
        self.hear("go").await?;
        Ok(Begun { at: Instant::now(), cpu: cpu_time() })
    }

    /// Reports the result to the harness, and waits for `end`.
    pub(crate) async fn report(
        &mut self,
        begun: &Begun,
        bytes_each: Option<f64>,
        outcome: Outcome,
    ) -> Result<()> {
        let report = Report {
            operations: outcome.operations,
            seconds: begun.at.elapsed().as_secs_f64(),
            cpu_seconds: (cpu_time() - begun.cpu).as_secs_f64(),
            latencies_us: thinned(outcome.latencies),
            check: outcome.check,
            bytes_each,
            numbers: self.numbers.0.borrow().clone(),
        };
        say(&serde_json::to_string(&report)?);
        self.hear("end").await
    }

    /// Removes all nodes and ends all sessions.
    pub(crate) async fn clear(&self) -> Result<()> {
        if let Some(zk) = self.clients.first() {
            // Their ephemeral nodes would prevent the deletion.
            try_join_all(self.clients[1..].iter().map(S::close)).await?;
            zk.remove(&self.path).await?;
            zk.close().await?;
        }
        Ok(())
    }

    /// Removes all nodes with a new session, because the others may be over.
    pub(crate) async fn clear_anew(&mut self) -> Result<()> {
        self.clients.clear();
        let zk = self.client().await?;
        zk.remove(&self.path).await?;
        zk.close().await
    }

    /// Waits until all sessions are closed, which their servers would wait for otherwise.
    pub(crate) async fn end(self) {
        drop(self.clients);
        // A client whose session is over may never close.
        drop(timeout(CLOSING, join_all(self.closed)).await);
    }

    /// Waits for a word of the harness.
    ///
    /// # Cancel safety
    /// No word is lost.
    pub(crate) async fn hear(&mut self, word: &str) -> Result<()> {
        match self.harness.next_line().await? {
            Some(line) if line == word => Ok(()),
            other => Err(format!("the harness was to say {word:?}, and said {other:?}").into()),
        }
    }
}

/// Prints a line for the harness.
pub(crate) fn say(line: &str) {
    println!("{line}");
}
