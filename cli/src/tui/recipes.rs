//! The screen of the recipes: locks, elections, queues and others in the whole tree.

use std::time::Duration;

use zk_curator_recipes::inspect::{Finding, Found, Sessions, verdicts};

use super::table::{CellValue, Table, TableColumn, left, right};
use crate::output::{data, time};
use crate::who;

/// The column of the longest wait.
pub(crate) const WAITING: usize = 4;
/// The tree is read again after this time. That takes many requests.
const OLD: Duration = Duration::from_secs(10);

pub(crate) const COLUMNS: &[TableColumn] = &[
    left("PATH", 0),
    left("RECIPE", 26),
    left("HOLDER", 22),
    right("WAITING", 8),
    right("LONGEST", 11),
    left("VERDICT", 50),
];

/// The recipes that were found.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recipes {
    findings: Vec<Finding>,
    /// Why there are none, or not all.
    trouble: Option<String>,
    /// The time of the sample at which they were found.
    at: Option<Duration>,
}

/// Returns what a search has not read.
pub(crate) fn missing(found: &Found) -> Option<String> {
    let mut missing = Vec::new();
    if !found.is_complete {
        missing.push(format!("only {} nodes were read: recipes are missing", found.nodes));
    }
    if !found.unreadable.is_empty() {
        missing.push(format!("{} nodes could not be read", found.unreadable.len()));
    }
    let partial = found.findings.iter().filter(|finding| finding.is_partial).count();
    if partial > 0 {
        missing.push(format!("{partial} recipes were read in part"));
    }
    (!missing.is_empty()).then(|| missing.join("; "))
}

impl Recipes {
    /// Returns `true` if it is time to look again.
    pub(crate) fn are_old(&self, now: Duration) -> bool {
        self.at.is_some_and(|at| now.saturating_sub(at) >= OLD)
    }

    pub(crate) fn inspected(
        &mut self,
        at: Duration,
        answer: Result<(Vec<Finding>, Option<String>), String>,
    ) {
        self.at = Some(at);
        match answer {
            Ok(found) => (self.findings, self.trouble) = found,
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// Returns the table at a time in milliseconds since 1970.
    pub(crate) fn table(&self, now: i64) -> Table {
        let mut table = Table::new(COLUMNS);
        for finding in &self.findings {
            let holder = finding.holders.first().map(|holder| match holder.label.as_ref() {
                [] => holder.name.clone(),
                label => data::line(label, 40),
            });
            let created = finding.waiting.iter().filter_map(|waiter| waiter.created_ms()).min();
            let longest = created.map(|created| time::since(created, now));
            let longest =
                longest.map(|wait| CellValue::Number(wait.as_secs_f64(), time::duration(wait)));
            // The sessions are asked only for one recipe, by Enter.
            let verdict = verdicts(finding, &Sessions::new()).first().map(ToString::to_string);
            table.push(
                finding.path.as_str(),
                vec![
                    finding.path.as_str().into(),
                    who::kind(finding).into(),
                    holder.into(),
                    finding.waiting.len().into(),
                    longest.into(),
                    verdict.into(),
                ],
            );
        }
        let reading = || self.at.is_none().then(|| "reading the tree …".to_owned());
        table.note = self.trouble.clone().or_else(reading);
        table
    }
}
