//! The runs, and what they come to.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plan::{Case, Client, Measure, Setting, Workload};
use crate::common::Spread;
use crate::peer::Result;

/// What one run of one client has given.
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
    /// Memory of each of what the workload has so many of.
    pub(super) bytes_each: Option<f64>,
}

impl Run {
    /// What was done once, and took so long.
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
        }
    }

    /// For the progress.
    pub(super) fn told(&self) -> String {
        let cpu = self.cpu_us.map_or_else(String::new, |cpu| format!(", {cpu:.1} µs CPU"));
        let requests = self.requests.map_or_else(String::new, |requests| format!(", {requests:.2} requests"));
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
    /// Those of a file, a line each; none when there is no file.
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

    /// Those of an earlier invocation, but for what is there anew.
    pub(super) fn add_missing(&mut self, earlier: Self) {
        let missing: Vec<_> =
            earlier.runs.into_iter().filter(|run| !self.runs.iter().any(|other| other.is_of(run))).collect();
        self.runs.extend(missing);
    }

    /// Something of the rounds of a client.
    fn values(
        &self,
        setting: Setting,
        (workload, size): (&str, usize),
        client: Client,
        of: impl Fn(&Run) -> Option<f64>,
    ) -> impl Iterator<Item = f64> {
        let of_case = move |run: &&Run| {
            run.setting == setting && run.workload == workload && run.size == size && run.client == client
        };
        self.runs.iter().filter(of_case).filter_map(of)
    }

    /// The median of something over the rounds of a client, and its spread; `None` where nothing is.
    pub(super) fn spread(
        &self,
        setting: Setting,
        key: (&str, usize),
        client: Client,
        of: impl Fn(&Run) -> Option<f64>,
    ) -> Option<Spread> {
        let mut values = self.values(setting, key, client, of).peekable();
        values.peek().is_some().then(|| Spread::of(values))
    }

    /// The least of something over the rounds of a client.
    pub(super) fn best(
        &self,
        setting: Setting,
        key: (&str, usize),
        client: Client,
        of: impl Fn(&Run) -> Option<f64>,
    ) -> Option<f64> {
        self.values(setting, key, client, of).min_by(f64::total_cmp)
    }

    /// The median of something.
    pub(super) fn median(
        &self,
        setting: Setting,
        key: (&str, usize),
        client: Client,
        of: impl Fn(&Run) -> Option<f64>,
    ) -> Option<f64> {
        self.spread(setting, key, client, of).map(|spread| spread.median)
    }

    /// How long an operation of a workload takes, in microseconds, by its measure.
    pub(super) fn time(&self, setting: Setting, workload: &Workload, client: Client) -> Option<Spread> {
        self.spread(setting, (workload.name, workload.size), client, |run| Self::time_of(workload, run))
    }

    fn time_of(workload: &Workload, run: &Run) -> Option<f64> {
        match workload.measure {
            Measure::Latency => run.p50_us.or(Some(run.per_operation_us)),
            Measure::PerOperation => Some(run.per_operation_us),
        }
    }

    /// How many rounds there were, at least and at most.
    pub(super) fn rounds(&self) -> (usize, usize) {
        let count = |run: &Run| self.runs.iter().filter(|other| other.is_of(run)).count();
        let counts: Vec<usize> = self.runs.iter().map(count).collect();
        (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0))
    }

    pub(super) fn settings(&self) -> BTreeSet<Setting> {
        self.runs.iter().map(|run| run.setting).collect()
    }
}
