//! The file of an exploration that can be continued.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use zk_curator_client::internal::Locked;

use super::unit::{ExplorationUnit, PlayedPlan};

/// What was played: a line of text for each unit, which is complete if it ends with a dot.
///
/// The first line is the title of the exploration. A unit is `FAULTS NUMBER RUNS`, then the traces
/// as hexadecimal numbers, and `PLAN=EXTENSIONS` for each plan that may be extended. Units with
/// violations are not written: they are played again.
#[derive(Debug)]
pub(super) struct ExplorationRecord {
    units: BTreeMap<(usize, usize), ExplorationUnit>,
    file: Option<Locked<File>>,
}

impl ExplorationRecord {
    /// Returns a ledger without a file.
    pub(super) const fn none() -> Self {
        Self { units: BTreeMap::new(), file: None }
    }

    /// Reads a file, or creates it.
    pub(super) fn open(path: &Path, title: &str) -> io::Result<Self> {
        let mut units = BTreeMap::new();
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut lines = BufReader::new(&file).lines();
        match lines.next().transpose()? {
            None => writeln!(file, "{title}")?,
            Some(first) if first == title => {
                for line in lines {
                    // The last line may be cut off.
                    units.extend(unit_of(&line?));
                }
                writeln!(file)?;
            }
            Some(first) => {
                let text = format!(
                    "{}: is of other runs: \"{first}\", not \"{title}\". Remove it, or name another file",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(Self { units, file: Some(Locked::new(file)) })
    }

    /// Returns the unit with this number, of the plans with this number of faults, if it was
    /// played.
    pub(super) fn unit(&self, faults: usize, number: usize) -> Option<ExplorationUnit> {
        self.units.get(&(faults, number)).cloned()
    }

    /// Adds a unit.
    pub(super) fn write(
        &self,
        faults: usize,
        number: usize,
        unit: &ExplorationUnit,
    ) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut line = format!("{faults} {number} {}", unit.runs);
        for trace in &unit.traces {
            line += &format!(" {trace:x}");
        }
        for PlayedPlan { plan, extensions } in &unit.played {
            line += &format!(" {plan}={extensions}");
        }
        line += " .\n";
        file.lock().write_all(line.as_bytes())
    }
}

/// Parses a line; `None` if it is not complete.
fn unit_of(line: &str) -> Option<((usize, usize), ExplorationUnit)> {
    let mut words = line.strip_suffix(" .")?.split(' ');
    let place = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut unit =
        ExplorationUnit { runs: words.next()?.parse().ok()?, ..ExplorationUnit::default() };
    for word in words {
        match word.split_once('=') {
            Some((plan, extensions)) => unit.played.push(PlayedPlan {
                plan: plan.parse().ok()?,
                extensions: extensions.parse().ok()?,
            }),
            None => unit.traces.push(u64::from_str_radix(word, 16).ok()?),
        }
    }
    Some((place, unit))
}
