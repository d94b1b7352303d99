//! The cost of writes in the framework and of their certainty, compared with a plain `setData` in
//! one run on one Apache ZooKeeper.
//!
//! `cargo bench -p zk-curator-peers --bench writes` runs each kind of write, interleaved, one at a
//! time and many in flight. CPU is the time of the client's thread and of the server's process, as
//! the kernel counts them. Each line is the median of the rounds and their spread, and the ratio of
//! the median to that of `setData`. With `--quick` the rounds are short, to check that it works.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to its terminal and ends when it fails"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Spread, process_cpu, thread_cpu};
use futures_util::future::{BoxFuture, join_all};
use tokio::runtime::{Builder, Runtime};
use zk_curator::CuratorFramework;
use zk_curator::certain::Receipt;
use zk_curator_real::RealZooKeeper;

const DATA: &[u8] = &[7; 100];

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, length) =
        if quick { (3, Duration::from_millis(50)) } else { (9, Duration::from_secs(1)) };
    let servers = Runtime::new().unwrap();
    let server = servers.block_on(RealZooKeeper::start()).unwrap();
    println!(
        "{rounds} rounds of {length:?} each, interleaved, of {} bytes; client on one thread\n",
        DATA.len()
    );
    println!(
        "{:<44} {:>10} {:>8} {:>10} {:>8} {:>10} {:>8}",
        "", "µs", "spread", "client CPU", "spread", "server CPU", "spread"
    );
    for in_flight in [1, 128] {
        let client = Client::connect(&server, in_flight);
        let mut results: Vec<Vec<Round>> = KINDS.iter().map(|_| Vec::new()).collect();
        // The first ones warm up the client, and the compiler of the server.
        for round in 0..rounds + 2 {
            for (kind, results) in KINDS.iter().zip(&mut results) {
                let result = client.run(*kind, length, server.process_id().unwrap());
                if round >= 2 {
                    results.push(result);
                }
            }
        }
        let base =
            report(&format!("{}, {in_flight} in flight", KINDS[0].name()), &results[0], None);
        for (kind, results) in KINDS.iter().zip(&results).skip(1) {
            report(&format!("{}, {in_flight} in flight", kind.name()), results, Some(&base));
        }
        println!();
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Set,
    TwoSets,
    CreateDelete,
    Transaction,
    Certain,
}

const KINDS: [Kind; 5] =
    [Kind::Set, Kind::Transaction, Kind::Certain, Kind::TwoSets, Kind::CreateDelete];

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Set => "setData",
            Self::TwoSets => "two of setData",
            Self::CreateDelete => "create and delete",
            Self::Transaction => "transaction of one setData",
            Self::Certain => "certain setData",
        }
    }
}

/// Microseconds a write: of time, of CPU of the client, of CPU of the server.
type Round = [f64; 3];

fn report(name: &str, rounds: &[Round], base: Option<&Round>) -> Round {
    let spreads = [0, 1, 2].map(|column| Spread::of(rounds.iter().map(|round| round[column])));
    print!("{name:<44}");
    for spread in &spreads {
        print!(" {:>10.2} {:>7.1}%", spread.median, spread.percent);
    }
    println!();
    let medians = spreads.map(|spread| spread.median);
    if let Some(base) = base {
        print!("{:<44}", "  to setData");
        for (median, base) in medians.iter().zip(base) {
            print!(" {:>9.2}x {:>8}", median / base, "");
        }
        println!();
    }
    medians
}

/// A framework on a runtime of one thread.
struct Client {
    runtime: Runtime,
    zk: CuratorFramework,
    /// One for each write in flight: writes of one receipt wait for each other.
    receipts: Vec<Receipt>,
}

impl Client {
    fn connect(server: &RealZooKeeper, in_flight: usize) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (zk, receipts) = runtime.block_on(async {
            let zk = CuratorFramework::builder()
                .connect_string(server.connect_string())
                .build()
                .unwrap();
            zk.start().await.unwrap();
            let mut receipts = Vec::new();
            for number in 0..in_flight {
                let path = node(number);
                zk.create(path.as_str()).data(DATA).creating_parents().or_set_data().await.unwrap();
                receipts.push(Receipt::new(&zk, path));
            }
            (zk, receipts)
        });
        Self { runtime, zk, receipts }
    }

    fn run(&self, kind: Kind, length: Duration, server: u32) -> Round {
        self.runtime.block_on(async {
            let (began, client_cpu, server_cpu) =
                (Instant::now(), thread_cpu(), process_cpu(server));
            let mut writes = 0_u32;
            // A batch is sent, and all of it awaited.
            while began.elapsed() < length {
                join_all((0..self.receipts.len()).map(|number| self.write(kind, number))).await;
                writes += u32::try_from(self.receipts.len()).unwrap();
            }
            let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(writes);
            [began.elapsed(), thread_cpu() - client_cpu, process_cpu(server) - server_cpu].map(each)
        })
    }

    fn write(&self, kind: Kind, number: usize) -> BoxFuture<'_, ()> {
        let (zk, path) = (&self.zk, node(number));
        Box::pin(async move {
            match kind {
                Kind::Set => zk.set_data(path, DATA).await.map(|_| ()).unwrap(),
                Kind::TwoSets => {
                    zk.set_data(path.as_str(), DATA).await.unwrap();
                    zk.set_data(path, DATA).await.unwrap();
                }
                Kind::CreateDelete => {
                    let child = format!("{path}/child");
                    drop(zk.create(child.as_str()).data(DATA).await.unwrap());
                    zk.delete(child).await.unwrap();
                }
                Kind::Transaction => {
                    drop(zk.transaction().set_data(path, DATA).commit().await.unwrap());
                }
                Kind::Certain => {
                    drop(zk.set_data(path, DATA).certain(&self.receipts[number]).await.unwrap());
                }
            }
        })
    }
}

fn node(number: usize) -> String {
    format!("/bench/{number:04}")
}
