//! The screen of the hot paths: the nodes that change most often.
//!
//! A persistent watch of the whole tree tells every change, so it is set only while this screen is
//! shown. Reads of nodes are not told to anybody.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_curator::{EventType, PersistentEvent};

use super::table::{CellValue, Table, TableColumn, left, rate, right};

/// The column of the rate.
pub(crate) const RATE: usize = 1;

/// The most nodes that are counted each for itself, in a window and on the screen.
const MOST: usize = 5_000;

pub(crate) const COLUMNS: &[TableColumn] =
    &[left("PATH", 0), right("EVENTS/s", 9), right("EVENTS", 9), left("LAST", 8)];

/// The changes of a time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Window {
    pub(crate) passed: Duration,
    /// The number of changes, and the last one, by path.
    changes: BTreeMap<String, (u64, &'static str)>,
    /// Changes of further nodes.
    others: u64,
    /// Why changes are missing.
    pub(crate) trouble: Option<String>,
}

impl Window {
    pub(crate) fn note(&mut self, event: PersistentEvent) {
        match event {
            PersistentEvent::Changed(event) => {
                let kind = match event.event_type {
                    EventType::NodeCreated => "created",
                    EventType::NodeDeleted => "deleted",
                    EventType::NodeDataChanged => "data",
                    _ => return,
                };
                if self.changes.len() < MOST || self.changes.contains_key(&event.path) {
                    let change = self.changes.entry(event.path).or_default();
                    *change = (change.0 + 1, kind);
                } else {
                    self.others += 1;
                }
            }
            PersistentEvent::Rearmed { unchanged: false } => self.miss("the connection was lost"),
            PersistentEvent::Ended(_) => self.miss("the session was lost"),
            _ => {}
        }
    }

    fn miss(&mut self, why: &str) {
        self.trouble = Some(format!("{why}: changes are missing"));
    }
}

/// The nodes that have changed since the screen was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Hot {
    nodes: BTreeMap<String, Heat>,
    windows: u64,
    note: Option<String>,
    /// Nodes were left out that had not changed for a while.
    forgets: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Heat {
    rate: f64,
    events: u64,
    last: &'static str,
}

impl Hot {
    /// Takes the changes of the last time.
    pub(crate) fn take(&mut self, window: Window) {
        let Window { passed, changes, others, trouble } = window;
        self.windows += 1;
        self.note = trouble.or_else(|| {
            (others > 0).then(|| format!("{others} changes of further nodes are not shown"))
        });
        let seconds = passed.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate is not exact")]
        let rate = |events: u64| if seconds > 0.0 { events as f64 / seconds } else { 0.0 };
        for heat in self.nodes.values_mut() {
            heat.rate = 0.0;
        }
        for (path, (events, last)) in changes {
            let heat = self.nodes.entry(path).or_insert(Heat { rate: 0.0, events: 0, last });
            *heat = Heat { rate: rate(events), events: heat.events + events, last };
        }
        if self.nodes.len() > MOST {
            self.nodes.retain(|_, heat| heat.rate > 0.0);
            self.forgets = true;
        }
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(COLUMNS);
        for (path, heat) in &self.nodes {
            let cells: Vec<CellValue> =
                vec![path.as_str().into(), rate(heat.rate), heat.events.into(), heat.last.into()];
            table.push(path.as_str(), cells);
        }
        let waiting = || (self.windows == 0).then(|| "waiting for changes …".to_owned());
        let forgets = || {
            self.forgets.then(|| "nodes that had not changed for a while are left out".to_owned())
        };
        table.note = self.note.clone().or_else(forgets).or_else(waiting);
        table
    }
}
