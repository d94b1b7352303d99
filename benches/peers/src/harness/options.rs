//! The command line.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::matrix::{Client, Setting};

const HELP: &str = "\
Compares zk-curator with Apache Curator, kazoo and Rust clients on one Apache ZooKeeper, side by side.

usage: zk-curator-peers [OPTION…]

  --rounds N            the number of rounds, in which everything runs once [3]
  --quick               a tenth of the operations, and of the warm-up before them: compares clients that have just started,
                        so its ratios are not those of a run in full
  --smoke               a few operations of everything, to check the results; writes nothing
  --clients A,B         of rust, java, python, zookeeper-client, zookeeper-async, tokio-zookeeper
                        [all that are installed, or can be compiled]
  --settings A,B        of loopback, fsync, distant [all]
  --workload TEXT       only workloads with this in their names; may be given several times
  --no-scale            without the workloads that grow
  --add                 keep the runs of earlier invocations, except of workloads that are run again
  --report              run nothing: write the page from its stored figures
  --runs FILE           run nothing: take the runs of this file (runs.jsonl; about.txt next to it)
  --docs DIR            the folder of the page, its figures and its pictures [docs]
  --page NAME           of benchmarks; benchmarks-data: counters, caches and service discovery; benchmarks-transactions: transactions,
                        migrations, leases and partitions [benchmarks]
  -h, --help            print this

The runs are kept in peers/runs.jsonl in the folder of the build profile. Their medians and spreads go to DIR/benchmarks/NAME.jsonl,
in place of earlier ones of the same workloads, and the page is written from that file alone. Exit code 1 when a result was wrong or a client failed.";

/// A page of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// Requests and recipes.
    Benchmarks,
    /// Counters, caches and service discovery.
    Data,
    /// Transactions, migrations, leases and partitions.
    Transactions,
}

impl Page {
    /// The name of the file, without its ending.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Benchmarks => "benchmarks",
            Self::Data => "benchmarks-data",
            Self::Transactions => "benchmarks-transactions",
        }
    }

    /// The word for its recipes.
    pub(super) const fn recipes(self) -> &'static str {
        match self {
            Self::Benchmarks => "recipes",
            Self::Data => "counters, caches and discovery",
            Self::Transactions => "transactions, migrations, leases and partitions",
        }
    }

    pub(super) const ALL: [Self; 3] = [Self::Benchmarks, Self::Data, Self::Transactions];

    /// Returns `true` if a workload is published there. The tables of all pages are related to
    /// single writes.
    pub(super) fn has(self, workload: &str) -> bool {
        const DATA: [&str; 4] = ["counter", "cache", "discovery", "registrations"];
        const TRANSACTIONS: [&str; 8] = [
            "children-with-data",
            "lease",
            "migrate",
            "once-per",
            "partition",
            "stm",
            "typed",
            "watch-data",
        ];
        let is_of = |words: &[&str]| words.iter().any(|word| workload.contains(word));
        let page = if is_of(&DATA) {
            Self::Data
        } else if is_of(&TRANSACTIONS) {
            Self::Transactions
        } else {
            Self::Benchmarks
        };
        workload == "raw-set" || page == self
    }
}

impl std::str::FromStr for Page {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|page| page.name() == text);
        found.ok_or_else(|| format!("there is no page {text}"))
    }
}

/// The parsed command line.
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
    /// The runs to take instead of new ones.
    pub(super) runs: Option<PathBuf>,
    pub(super) docs: PathBuf,
    pub(super) page: Page,
}

/// The extent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Full,
    Quick,
    Smoke,
}

impl Options {
    /// Reads the command line. Returns the help text if only that is wanted.
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
            runs: None,
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
                Arg::Long("runs") => options.runs = Some(parser.value()?.into()),
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
