//! Shared by all workloads: the options, the protocol with the harness, the measurement.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use lexopt::{Arg, Parser, ValueExt};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use zk_curator::CuratorFramework;

use crate::common::resident;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The largest number of reported latencies.
const SAMPLES: usize = 10_000;

/// A run: its options, its sessions, and the harness.
pub(crate) struct Stage {
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
    clients: Vec<CuratorFramework>,
    harness: Lines<BufReader<Stdin>>,
}

/// The start of the measurement.
pub(crate) struct Begun {
    at: Instant,
    cpu: Duration,
}

/// The result of the operations.
pub(crate) struct Outcome {
    pub(crate) operations: usize,
    pub(crate) latencies: Samples,
    pub(crate) check: String,
}

/// Numbers of a workload by their names. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Rc<RefCell<BTreeMap<&'static str, f64>>>);

impl Numbers {
    pub(crate) fn set(&self, name: &'static str, value: f64) {
        self.0.borrow_mut().insert(name, value);
    }
}

/// The latency of each operation.
pub(crate) type Samples = Vec<Duration>;

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

impl Stage {
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
            harness: BufReader::new(stdin()).lines(),
        };
        let mut parser = Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                // Selects the client in this program.
                Arg::Value(word) if word == "peer" => {}
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
    pub(crate) async fn client(&mut self) -> Result<CuratorFramework> {
        let zk = CuratorFramework::builder()
            .connect_string(&self.connect)
            .session_timeout(self.session_timeout)
            .build()?;
        zk.start().await?;
        self.clients.push(zk.clone());
        Ok(zk)
    }

    /// Opens `size` sessions.
    pub(crate) async fn contenders(&mut self) -> Result<Vec<CuratorFramework>> {
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
            try_join_all(self.clients[1..].iter().map(CuratorFramework::close)).await?;
            zk.delete(&self.path).deleting_children().quietly().await?;
            zk.close().await?;
        }
        Ok(())
    }

    /// Waits for a word of the harness.
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

/// At most [`SAMPLES`] of the latencies, evenly spaced.
fn thinned(latencies: Samples) -> Vec<f64> {
    let step = latencies.len().div_ceil(SAMPLES).max(1);
    latencies.iter().step_by(step).map(|latency| latency.as_secs_f64() * 1e6).collect()
}

/// The memory that each of `count` takes since `before`.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
pub(crate) fn each(before: usize, count: usize) -> Option<f64> {
    Some(resident("self").saturating_sub(before) as f64 / count as f64)
}

/// The CPU time of all threads, user and system.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Does `operations`, at most `size` at a time. `one` gets their numbers. Returns their latencies.
pub(crate) async fn at_most(
    size: usize,
    operations: usize,
    one: impl AsyncFn(usize) -> Result<()>,
) -> Result<Samples> {
    let next = Cell::new(0);
    let one = &one;
    let worker = async || {
        let mut samples = Samples::new();
        while next.get() < operations {
            let number = next.replace(next.get() + 1);
            let began = Instant::now();
            one(number).await?;
            samples.push(began.elapsed());
        }
        Result::Ok(samples)
    };
    Ok(try_join_all((0..size).map(|_| worker())).await?.concat())
}
