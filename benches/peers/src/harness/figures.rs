//! The figures that the pages show: medians with their spread, stored next to the pages.
//!
//! A page is made of its file of figures alone, so that it can be written again without a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::matrix::{Client, Setting};
use super::plan::Workload;
use crate::common::Spread;
use crate::peer::Result;

/// A median, and half of the range in percent of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Value {
    pub(super) median: f64,
    /// `None` if it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) percent: Option<f64>,
}

impl From<Spread> for Value {
    fn from(spread: Spread) -> Self {
        Self { median: spread.median, percent: Some(spread.percent) }
    }
}

impl Value {
    /// The same in another unit.
    pub(super) fn map(self, to: impl Fn(f64) -> f64) -> Self {
        Self { median: to(self.median), ..self }
    }
}

/// A run of the comparison: when and where its figures were measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Its number. Figures name it.
    pub(super) run: usize,
    /// The day, as `YYYY-MM-DD`.
    pub(super) measured: String,
    /// The machine, the server and the load.
    pub(super) about: String,
}

/// The costs of a workload with one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) setting: Setting,
    pub(super) workload: String,
    pub(super) size: usize,
    pub(super) client: Client,
    pub(super) run: usize,
    /// Microseconds an operation, by the measure of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Value>,
    /// Microseconds on the CPU an operation, of the client's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<Value>,
    /// Requests an operation, as the server counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) requests: Option<Value>,
    /// Round trips an operation, in the best round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) round_trips: Option<f64>,
    /// The resident set of the client's process, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Value>,
    /// Bytes of memory for each waiter, session, node or watch that `size` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bytes_each: Option<Value>,
    /// Whatever else the workload counts, by the names that the tables show.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) numbers: BTreeMap<String, Value>,
}

impl Figure {
    fn key(&self) -> (Setting, &str, usize, Client) {
        (self.setting, &self.workload, self.size, self.client)
    }
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Figure(Figure),
    Origin(Origin),
}

/// The figures of a page.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Figures {
    origins: BTreeMap<usize, Origin>,
    figures: Vec<Figure>,
}

impl Figures {
    /// Reads a file. Returns no figures if there is none.
    ///
    /// # Errors
    /// A line that is neither a run nor a figure.
    pub(super) fn load(file: &Path) -> Result<Self> {
        fs::read_to_string(file).map_or_else(|_| Ok(Self::default()), |text| Self::read(&text))
    }

    fn read(text: &str) -> Result<Self> {
        let mut figures = Self::default();
        for line in text.lines() {
            match serde_json::from_str(line)? {
                Line::Figure(figure) => figures.figures.push(figure),
                Line::Origin(origin) => {
                    figures.origins.insert(origin.run, origin);
                }
            }
        }
        Ok(figures)
    }

    /// # Errors
    /// Errors of the file system.
    pub(super) fn save(&self, file: &Path) -> Result<()> {
        Ok(fs::write(file, self.text()?)?)
    }

    fn text(&self) -> Result<String> {
        let mut text = String::new();
        for origin in self.origins.values() {
            writeln!(text, "{}", serde_json::to_string(origin)?)?;
        }
        for figure in &self.figures {
            writeln!(text, "{}", serde_json::to_string(figure)?)?;
        }
        Ok(text)
    }

    /// Adds the figures of a run, which `of_run` makes for its number, in place of earlier ones of
    /// the same workloads and clients. A run of which no figure is left is forgotten.
    pub(super) fn add(
        &mut self,
        of_run: impl FnOnce(usize) -> Vec<Figure>,
        measured: String,
        about: String,
    ) {
        let run = self.origins.keys().next_back().map_or(1, |last| last + 1);
        for figure in of_run(run) {
            match self.figures.iter_mut().find(|earlier| earlier.key() == figure.key()) {
                Some(earlier) => *earlier = figure,
                None => self.figures.push(figure),
            }
        }
        self.origins.insert(run, Origin { run, measured, about });
        let used: BTreeSet<_> = self.figures.iter().map(|figure| figure.run).collect();
        self.origins.retain(|run, _| used.contains(run));
    }

    pub(super) fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.origins.values()
    }

    /// The run of which most figures are.
    pub(super) fn main_run(&self) -> usize {
        let count = |run: &usize| self.figures.iter().filter(|figure| figure.run == *run).count();
        self.origins.keys().copied().max_by_key(count).unwrap_or(0)
    }

    /// The title of a workload, with its run if that is not the main one.
    pub(super) fn title(&self, setting: Setting, workload: &Workload) -> String {
        let is_of = |figure: &&Figure| {
            figure.key() == (setting, workload.name, workload.size, Client::Rust)
        };
        let run = self.figures.iter().find(is_of).map(|figure| figure.run);
        match run {
            Some(run) if run != self.main_run() => format!("{} (run {run})", workload.title),
            _ => workload.title.to_owned(),
        }
    }

    pub(super) fn of(
        &self,
        setting: Setting,
        (workload, size): (&str, usize),
        client: Client,
    ) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.key() == (setting, workload, size, client))
    }

    /// Microseconds an operation of a workload.
    pub(super) fn time(
        &self,
        setting: Setting,
        workload: &Workload,
        client: Client,
    ) -> Option<Value> {
        self.of(setting, (workload.name, workload.size), client)?.time
    }

    /// Round trips an operation of a workload, 2 ms away.
    pub(super) fn round_trips(&self, workload: &Workload, client: Client) -> Option<f64> {
        self.of(Setting::Distant, (workload.name, workload.size), client)?.round_trips
    }

    pub(super) fn settings(&self) -> BTreeSet<Setting> {
        self.figures.iter().map(|figure| figure.setting).collect()
    }

    #[cfg(test)]
    pub(super) fn with(figures: Vec<Figure>) -> Self {
        Self { origins: BTreeMap::new(), figures }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::{Case, WORKLOADS};
    use super::super::results::{Results, Run};
    use super::*;

    fn results(workloads: &[usize], micros: &[u64]) -> Results {
        let mut results = Results::default();
        for workload in workloads.iter().map(|index| &WORKLOADS[*index]) {
            let setting = Setting::Loopback;
            let case = Case { workload, setting, size: workload.size, operations: 1, warmup: 0 };
            for micros in micros {
                let took = Duration::from_micros(*micros);
                results.push(Run::once(Client::Rust, &case, workload.name, took));
            }
        }
        results
    }

    #[test]
    fn a_later_run_replaces_its_own_workloads_only() {
        let mut figures = Figures::default();
        figures.add(
            |run| results(&[0, 1, 2], &[90, 100, 120]).figures(run),
            "2026-01-01".into(),
            "first".into(),
        );
        figures.add(|run| results(&[1], &[50]).figures(run), "2026-01-02".into(), "second".into());
        let time = |index: usize| {
            figures.time(Setting::Loopback, &WORKLOADS[index], Client::Rust).unwrap().median
        };
        assert_eq!([time(0), time(1), time(2)].map(f64::round), [100.0, 50.0, 100.0]);
        assert_eq!(figures.title(Setting::Loopback, &WORKLOADS[0]), WORKLOADS[0].title);
        assert_eq!(
            figures.title(Setting::Loopback, &WORKLOADS[1]),
            format!("{} (run 2)", WORKLOADS[1].title)
        );
        figures.add(|run| results(&[0, 2], &[7]).figures(run), "2026-01-03".into(), "third".into());
        assert_eq!(figures.origins().map(|origin| origin.run).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn what_is_saved_is_what_is_read() {
        let mut figures = Figures::default();
        figures.add(
            |run| results(&[0, 1], &[90, 100, 120]).figures(run),
            "2026-01-01".into(),
            "first".into(),
        );
        let text = figures.text().unwrap();
        assert_eq!(Figures::read(&text).unwrap(), figures);
        assert!(Figures::read("{}").is_err());
    }
}
