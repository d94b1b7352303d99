//! The runs of the clients, and the figures made of them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figures::{Figure, Value};
use super::matrix::{Client, Setting};
use super::plan::{Case, Measure, WORKLOADS};
use crate::common::Spread;
use crate::peer::Result;

/// The results of one run of one client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) setting: Setting,
    pub(super) workload: String,
    pub(super) size: usize,
    pub(super) client: Client,
    pub(super) per_operation_us: f64,
    pub(super) cpu_us: Option<f64>,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// Requests an operation, as the server counts them.
    pub(super) requests: Option<f64>,
    /// Of the process, in bytes.
    pub(super) memory: Option<usize>,
    /// The memory of each of the objects, of which the workload has this number.
    pub(super) bytes_each: Option<f64>,
    /// Whatever else the workload counts, by the names that the tables show.
    #[serde(default)]
    pub(super) numbers: BTreeMap<String, f64>,
}

impl Run {
    /// A run of a single operation.
    pub(super) fn once(client: Client, case: &Case, workload: &str, took: Duration) -> Self {
        Self {
            setting: case.setting,
            workload: workload.to_owned(),
            size: case.size,
            client,
            per_operation_us: took.as_secs_f64() * 1e6,
            cpu_us: None,
            p50_us: Some(took.as_secs_f64() * 1e6),
            p99_us: None,
            requests: None,
            memory: None,
            bytes_each: None,
            numbers: BTreeMap::new(),
        }
    }

    /// The text that reports the progress.
    pub(super) fn summary(&self) -> String {
        let cpu = self.cpu_us.map_or_else(String::new, |cpu| format!(", {cpu:.1} µs CPU"));
        let requests =
            self.requests.map_or_else(String::new, |requests| format!(", {requests:.2} requests"));
        format!("{:.1} µs{cpu}{requests}", self.per_operation_us)
    }

    fn is_of(&self, other: &Self) -> bool {
        let key = |run: &Self| (run.setting, run.client, run.size, run.workload.clone());
        key(self) == key(other)
    }
}

/// All runs there are.
#[derive(Debug, Default)]
pub(super) struct Results {
    runs: Vec<Run>,
}

impl Results {
    /// Reads a file of one run a line. Returns no runs if there is no file.
    pub(super) fn load(file: &Path) -> Result<Self> {
        let Ok(text) = fs::read_to_string(file) else { return Ok(Self::default()) };
        let runs = text.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?;
        Ok(Self { runs })
    }

    pub(super) fn save(&self, file: &Path) -> Result<()> {
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut out = OpenOptions::new().write(true).create(true).truncate(true).open(file)?;
        for run in &self.runs {
            writeln!(out, "{}", serde_json::to_string(run)?)?;
        }
        Ok(())
    }

    pub(super) fn push(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// Adds the runs of an earlier invocation, except for workloads that were run again.
    pub(super) fn add_missing(&mut self, earlier: &Self) {
        let is_missing = |run: &&Run| !self.runs.iter().any(|other| other.is_of(run));
        let missing: Vec<_> = earlier.runs.iter().filter(is_missing).cloned().collect();
        self.runs.extend(missing);
    }

    /// The figures of all runs: one of each workload, setting and client.
    pub(super) fn figures(&self, run: usize) -> Vec<Figure> {
        let mut firsts: Vec<&Run> = Vec::new();
        for run in &self.runs {
            if !firsts.iter().any(|first| first.is_of(run)) {
                firsts.push(run);
            }
        }
        firsts.into_iter().map(|first| self.figure(first, run)).collect()
    }

    fn figure(&self, of: &Run, run: usize) -> Figure {
        let workload = WORKLOADS
            .iter()
            .find(|workload| (workload.name, workload.size) == (&*of.workload, of.size));
        let is_per_operation =
            workload.is_some_and(|workload| workload.measure == Measure::PerOperation);
        let time =
            |run: &Run| run.p50_us.filter(|_| !is_per_operation).or(Some(run.per_operation_us));
        // Where operations follow each other, the median is not disturbed by the few that something
        // has held up.
        let alone = of.size == 1 || !is_per_operation;
        let alone = |run: &Run| run.p50_us.filter(|_| alone).or(Some(run.per_operation_us));
        let best = (of.setting == Setting::Distant && workload.is_some())
            .then(|| self.values(of, alone).min_by(f64::total_cmp))
            .flatten();
        Figure {
            setting: of.setting,
            workload: of.workload.clone(),
            size: of.size,
            client: of.client,
            run,
            time: self.value(of, time),
            cpu: self.value(of, |run| run.cpu_us),
            requests: self.value(of, |run| run.requests),
            round_trips: best.zip(self.one_request()).map(|(best, one)| best / one),
            memory: self.value(of, |run| run.memory.map(bytes)),
            bytes_each: self.value(of, |run| run.bytes_each),
            numbers: self.numbers(of),
        }
    }

    fn numbers(&self, of: &Run) -> BTreeMap<String, Value> {
        let value = |name: &String| {
            let value = self.value(of, |run| run.numbers.get(name).copied());
            Some((name.clone(), value?))
        };
        of.numbers.keys().filter_map(value).collect()
    }

    /// One request to a distant server that writes, in the best round, in microseconds.
    fn one_request(&self) -> Option<f64> {
        let is_one = |run: &&Run| {
            (run.setting, run.client, run.size) == (Setting::Distant, Client::Rust, 1)
                && run.workload == "raw-set"
        };
        self.runs.iter().filter(is_one).filter_map(|run| run.p50_us).min_by(f64::total_cmp)
    }

    /// Something of the rounds of a workload and client.
    fn values(&self, first: &Run, of: impl Fn(&Run) -> Option<f64>) -> impl Iterator<Item = f64> {
        self.runs.iter().filter(|run| run.is_of(first)).filter_map(of)
    }

    fn value(&self, first: &Run, of: impl Fn(&Run) -> Option<f64>) -> Option<Value> {
        let mut values = self.values(first, of).peekable();
        values.peek().is_some().then(|| Spread::of(values).into())
    }

    /// The fewest and the most rounds of a workload.
    pub(super) fn rounds(&self) -> (usize, usize) {
        let count = |run: &Run| self.runs.iter().filter(|other| other.is_of(run)).count();
        let counts: Vec<usize> = self.runs.iter().map(count).collect();
        (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0))
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
fn bytes(memory: usize) -> f64 {
    memory as f64
}
