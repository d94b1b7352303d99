//! The command line.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::plan::{Client, Setting};

const HELP: &str = "\
Compares zk-curator with Apache Curator and kazoo on one Apache ZooKeeper, side by side.

usage: zk-curator-peers [OPTION…]

  --rounds N            how often everything is run, by turns [3]
  --quick               a tenth of the operations
  --smoke               next to nothing of everything, and only whether the results are right; writes nothing
  --clients A,B         of rust, java, python [all that are installed]
  --settings A,B        of loopback, fsync, distant [all]
  --workload TEXT       only workloads with this in their names; may be given several times
  --no-scale            without the workloads that grow
  --add                 keep the runs of earlier invocations in the tables, but for what is run again
  --report              run nothing: write the tables of the runs there are
  --docs DIR            where the page is, and the plots go [docs]
  --page NAME           of benchmarks and benchmarks-data, which has the counters and caches [benchmarks]
  -h, --help            print this

The runs are kept in target/peers/runs.jsonl. Exit code 1 when a result was wrong or a client failed.";

/// Where results are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// Requests and recipes.
    Benchmarks,
    /// Counters and caches.
    Data,
}

impl Page {
    /// The name of the file, without its ending.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Benchmarks => "benchmarks",
            Self::Data => "benchmarks-data",
        }
    }

    /// Whether a workload is published there. The tables of both pages are related to single writes.
    pub(super) fn has(self, workload: &str) -> bool {
        let is_data = workload.contains("counter") || workload.contains("cache");
        workload == "raw-set" || is_data == (self == Self::Data)
    }
}

impl std::str::FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Benchmarks, Self::Data].into_iter().find(|page| page.name() == text);
        found.ok_or_else(|| format!("there is no page {text}"))
    }
}

/// What to do.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) rounds: usize,
    pub(super) extent: Extent,
    pub(super) clients: Vec<Client>,
    pub(super) settings: Vec<Setting>,
    pub(super) workloads: Vec<String>,
    pub(super) scale: bool,
    pub(super) add: bool,
    pub(super) run: bool,
    pub(super) docs: PathBuf,
    pub(super) page: Page,
}

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Full,
    Quick,
    Smoke,
}

impl Options {
    /// Reads the command line; the text to print when that is all.
    pub(super) fn parse(mut parser: Parser) -> Result<Result<Self, &'static str>, lexopt::Error> {
        let mut options = Self {
            rounds: 3,
            extent: Extent::Full,
            clients: Client::ALL.to_vec(),
            settings: Setting::ALL.to_vec(),
            workloads: Vec::new(),
            scale: true,
            add: false,
            run: true,
            docs: "docs".into(),
            page: Page::Benchmarks,
        };
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Long("rounds") => options.rounds = parser.value()?.parse::<usize>()?.max(1),
                Arg::Long("quick") => options.extent = Extent::Quick,
                Arg::Long("smoke") => (options.extent, options.rounds) = (Extent::Smoke, 1),
                Arg::Long("clients") => options.clients = list(&parser.value()?.string()?)?,
                Arg::Long("settings") => options.settings = list(&parser.value()?.string()?)?,
                Arg::Long("workload") => options.workloads.push(parser.value()?.string()?),
                Arg::Long("no-scale") => options.scale = false,
                Arg::Long("add") => options.add = true,
                Arg::Long("report") => options.run = false,
                Arg::Long("docs") => options.docs = parser.value()?.into(),
                Arg::Long("page") => options.page = parser.value()?.parse()?,
                Arg::Short('h') | Arg::Long("help") => return Ok(Err(HELP)),
                other => return Err(other.unexpected()),
            }
        }
        Ok(Ok(options))
    }
}

fn list<T: std::str::FromStr<Err = String>>(text: &str) -> Result<Vec<T>, lexopt::Error> {
    text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(lexopt::Error::from)
}
