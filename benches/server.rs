//! The cost of the embedded server, compared with Apache ZooKeeper in the same run.
//!
//! `cargo bench --bench server` starts `zk-test-server`, and Apache ZooKeeper where it is
//! installed, each in a process of its own, and sends both the same encoded requests over plain
//! sockets. CPU and memory are the server process's, as the kernel counts them. Each line is the
//! median of the rounds, which take turns, and their spread. `-- starts`, `throughput`, `watches`,
//! `nodes` and `sessions` choose parts; with `--quick` everything is smaller, to check that it
//! works.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to its terminal and ends when it fails"
)]

mod common;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{Spread, Wire, frames, process_cpu, resident};
use tokio::runtime::Runtime;
use zk_curator_proto::Request;
use zk_curator_proto::records::{
    Acl, CreateRequest, ExistsRequest, GetDataRequest, SetDataRequest,
};
use zk_curator_real::RealZooKeeper;
use zk_curator_testing::TestServer;

const PATH: &str = "/bench";
const IN_FLIGHT: usize = 128;

/// The amount of work to measure.
struct Extent {
    rounds: usize,
    round: Duration,
    nodes: usize,
    sessions: usize,
    watches: &'static [usize],
}

const FULL: Extent = Extent {
    rounds: 9,
    round: Duration::from_secs(1),
    nodes: 1_000_000,
    sessions: 10_000,
    watches: &[1, 1_000, 100_000],
};
const QUICK: Extent = Extent {
    rounds: 3,
    round: Duration::from_millis(100),
    nodes: 20_000,
    sessions: 200,
    watches: &[1, 1_000],
};

fn main() {
    let extent = if std::env::args().any(|argument| argument == "--quick") { QUICK } else { FULL };
    raise_file_limit();
    let (program, runtime) = (build(), Runtime::new().unwrap());
    let has_real = match RealZooKeeper::available() {
        Ok(()) => true,
        Err(error) => {
            println!("Apache ZooKeeper is not here: {error}");
            false
        }
    };
    let servers = || {
        let mut servers = vec![Server::embedded(&program)];
        if has_real {
            servers.push(Server::apache(&runtime));
        }
        servers
    };

    let parts: Vec<_> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wanted("starts") {
        starts(&program, &runtime, has_real, &extent);
    }
    if wanted("throughput") {
        throughput(servers(), &extent);
    }
    if wanted("watches") {
        servers().iter().for_each(|server| watch_events(server, &extent));
    }
    println!("\n{:<44} {:>9} {:>14}", "memory of the process, in MB", "total", "bytes each");
    if wanted("nodes") {
        servers().iter().for_each(|server| nodes(server, extent.nodes));
    }
    if wanted("sessions") {
        servers().iter().for_each(|server| idle_sessions(server, extent.sessions));
    }
}

/// From nothing to the response to a first handshake.
fn starts(program: &Path, runtime: &Runtime, has_real: bool, extent: &Extent) {
    println!("{:<44} {:>9} {:>8}", "start to the first session, in ms", "median", "spread");
    let report = |name: &str, rounds: usize, start: &dyn Fn() -> Duration| {
        let spread = Spread::of((0..rounds).map(|_| start().as_secs_f64() * 1e3));
        println!("{name:<44} {:>9.2} {:>7.1}%", spread.median, spread.percent);
    };
    report("embedded, in this process", extent.rounds, &|| {
        let began = Instant::now();
        let server = runtime.block_on(TestServer::start());
        drop(Wire::connect(server.addr().unwrap()));
        began.elapsed()
    });
    let process = |start: &dyn Fn() -> Server| {
        let began = Instant::now();
        let server = start();
        drop(Wire::connect(server.addr));
        began.elapsed()
    };
    report("embedded, as a process", extent.rounds, &|| process(&|| Server::embedded(program)));
    if has_real {
        let rounds = extent.rounds.div_ceil(3);
        report("Apache ZooKeeper, polled every 20 ms", rounds, &|| {
            process(&|| Server::apache(runtime))
        });
    }
}

/// One connection, a window of requests always under way.
fn throughput(servers: Vec<Server>, extent: &Extent) {
    let data = || Some(Bytes::from_static(&[7; 100]));
    let get = || Request::GetData(GetDataRequest { path: PATH.to_owned(), watch: false });
    let set =
        || Request::SetData(SetDataRequest { path: PATH.to_owned(), data: data(), version: -1 });
    println!(
        "\n{:<44} {:>14} {:>8} {:>12} {:>8}",
        format!("100 bytes, {IN_FLIGHT} in flight"),
        "requests/s",
        "spread",
        "CPU µs/req",
        "spread"
    );
    let mut wires: Vec<_> = servers.iter().map(|server| Wire::connect(server.addr)).collect();
    for wire in &mut wires {
        wire.exchange(&[create(PATH.to_owned(), 100)]);
    }
    for (name, request) in [("getData", &get as &dyn Fn() -> Request), ("setData", &set)] {
        let batch = frames((0..IN_FLIGHT).map(|_| request()));
        let mut rounds: Vec<Vec<Round>> = servers.iter().map(|_| Vec::new()).collect();
        for (wire, server) in wires.iter_mut().zip(&servers) {
            // Warms up, above all the compiler of the JVM.
            Round::run(wire, server, &batch, extent.round * 4);
        }
        for _ in 0..extent.rounds {
            for ((wire, server), rounds) in wires.iter_mut().zip(&servers).zip(&mut rounds) {
                rounds.push(Round::run(wire, server, &batch, extent.round));
            }
        }
        let results: Vec<_> = servers
            .iter()
            .zip(&rounds)
            .map(|(server, rounds)| report(server, name, rounds))
            .collect();
        if let [embedded, apache] = results[..] {
            println!(
                "{:<44} {:>13.2}x {:>8} {:>11.2}x",
                format!("{name}: ratio"),
                embedded.0 / apache.0,
                "",
                embedded.1 / apache.1
            );
        }
    }
}

/// The median throughput and CPU per request, which it prints.
fn report(server: &Server, name: &str, rounds: &[Round]) -> (f64, f64) {
    let each = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
    let throughput = each(|round| count(round.requests) / round.elapsed.as_secs_f64());
    let cpu = each(|round| round.cpu.as_secs_f64() * 1e6 / count(round.requests));
    println!(
        "{:<44} {:>14.0} {:>7.1}% {:>12.2} {:>7.1}%",
        format!("{name}: {}", server.name),
        throughput.median,
        throughput.percent,
        cpu.median,
        cpu.percent
    );
    (throughput.median, cpu.median)
}

struct Round {
    requests: usize,
    elapsed: Duration,
    cpu: Duration,
}

impl Round {
    fn run(wire: &mut Wire, server: &Server, batch: &[u8], length: Duration) -> Self {
        let (began, cpu) = (Instant::now(), server.cpu());
        let mut requests = 0;
        while began.elapsed() < length {
            wire.write(batch);
            wire.read_frames(IN_FLIGHT, check);
            requests += IN_FLIGHT;
        }
        Self { requests, elapsed: began.elapsed(), cpu: server.cpu() - cpu }
    }
}

/// Measures a watch, a write and its event, while there are watches on other nodes.
fn watch_events(server: &Server, extent: &Extent) {
    println!(
        "\n{:<44} {:>14} {:>8} {:>12} {:>8}",
        "getData with a watch, setData, event", "events/s", "spread", "CPU µs/event", "spread"
    );
    let (mut elsewhere, mut here) = (Wire::connect(server.addr), Wire::connect(server.addr));
    here.exchange(&[create(PATH.to_owned(), 100)]);
    let pairs = IN_FLIGHT / 2;
    let batch = frames((0..pairs).flat_map(|_| {
        let data = Some(Bytes::from_static(&[7; 100]));
        [
            Request::GetData(GetDataRequest { path: PATH.to_owned(), watch: true }),
            Request::SetData(SetDataRequest { path: PATH.to_owned(), data, version: -1 }),
        ]
    }));
    let mut run = |length: Duration| {
        let (began, cpu) = (Instant::now(), server.cpu());
        let mut events = 0;
        while began.elapsed() < length {
            here.write(&batch);
            here.read_frames(pairs * 3, check);
            events += pairs;
        }
        Round { requests: events, elapsed: began.elapsed(), cpu: server.cpu() - cpu }
    };
    run(extent.round * 4);
    let mut set = 0;
    for &watches in extent.watches {
        let more = (set..watches).map(|number| {
            Request::Exists(ExistsRequest { path: format!("/elsewhere/{number:08}"), watch: true })
        });
        // The nodes do not exist, so the responses are errors.
        elsewhere.exchange_unchecked(&more.collect::<Vec<_>>());
        set = watches;
        let rounds: Vec<_> = (0..extent.rounds).map(|_| run(extent.round)).collect();
        report(server, &format!("{watches} watches elsewhere"), &rounds);
    }
}

/// Nodes of 100 bytes, a thousand to a parent.
fn nodes(server: &Server, count: usize) {
    let mut wire = Wire::connect(server.addr);
    let before = resident(&server.process.to_string());
    wire.exchange(&[create("/load".to_owned(), 0)]);
    for first in (0..count).step_by(1000) {
        let parent = format!("/load/{:05}", first / 1000);
        let children =
            (first..count.min(first + 1000)).map(|n| create(format!("{parent}/node-{n:08}"), 100));
        let requests: Vec<_> = std::iter::once(create(parent.clone(), 0)).chain(children).collect();
        wire.exchange(&requests);
    }
    report_memory(server, &format!("{count} nodes of 100 bytes"), before, count);
}

fn idle_sessions(server: &Server, count: usize) {
    let before = resident(&server.process.to_string());
    let sessions: Vec<_> = (0..count).map(|_| Wire::connect(server.addr)).collect();
    report_memory(server, &format!("{count} idle sessions"), before, sessions.len());
}

fn report_memory(server: &Server, name: &str, before: usize, things: usize) {
    let now = resident(&server.process.to_string());
    let each = now.saturating_sub(before) / things;
    println!("{:<44} {:>9.1} {each:>14}", format!("{name}: {}", server.name), count(now) / 1e6);
}

impl Wire {
    /// Sends requests, and waits for the responses, which are no errors.
    fn exchange(&mut self, requests: &[Request]) {
        self.exchange_each(requests, check);
    }

    fn exchange_unchecked(&mut self, requests: &[Request]) {
        self.exchange_each(requests, drop);
    }

    fn exchange_each(&mut self, requests: &[Request], each: fn(Bytes)) {
        for requests in requests.chunks(1000) {
            self.write(&frames(requests.iter().cloned()));
            self.read_frames(requests.len(), each);
        }
    }
}

/// A response, or an event, without an error.
fn check(answer: Bytes) {
    assert_eq!(answer[12..16], [0; 4], "an error");
}

fn create(path: String, length: usize) -> Request {
    Request::Create(CreateRequest {
        path,
        data: Some(Bytes::from(vec![7; length])),
        acl: Acl::open_unsafe(),
        flags: 0,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(count: usize) -> f64 {
    count as f64
}

/// A server in a process of its own, which ends when this is dropped.
struct Server {
    name: &'static str,
    addr: SocketAddr,
    process: u32,
    /// Ends the process when it is dropped.
    _guard: Box<dyn std::any::Any>,
}

struct Embedded(Child);

impl Drop for Embedded {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Server {
    fn embedded(program: &Path) -> Self {
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        // The address is the last word of the line that says that the server is ready.
        let addr = line.split_whitespace().next_back().unwrap().parse().unwrap();
        let process = child.id();
        Self { name: "embedded", addr, process, _guard: Box::new(Embedded(child)) }
    }

    fn apache(runtime: &Runtime) -> Self {
        let builder = RealZooKeeper::builder().jvm_option("-Xmx3g");
        let zookeeper = runtime.block_on(builder.start()).unwrap();
        let (addr, process) = (zookeeper.addr(), zookeeper.process_id().unwrap());
        Self { name: "Apache ZooKeeper", addr, process, _guard: Box::new(zookeeper) }
    }

    fn cpu(&self) -> Duration {
        process_cpu(self.process)
    }
}

/// Builds the server's program, with the profile of this one, and says where it is.
fn build() -> PathBuf {
    let arguments = ["build", "--quiet", "--release", "-p", "zk-test-server"];
    assert!(Command::new(env!("CARGO")).args(arguments).status().unwrap().success());
    // This program is in `release/deps`.
    std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("zk-test-server")
}

/// Thousands of connections need as many files, more than most shells allow.
fn raise_file_limit() {
    let own = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &own, "--nofile=20000:20000"]).status();
    if !raised.is_ok_and(|status| status.success()) {
        println!("the limit of open files is as it was");
    }
}
