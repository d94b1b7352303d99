//! The cost of a request in the raw client, with a stub server that responds immediately and with
//! Apache ZooKeeper.
//!
//! `cargo bench --bench ops` measures `getData` through [`ZooKeeper`], interleaved with a lower
//! bound (`floor`): a loop on a plain socket that writes encoded requests and only counts the
//! responses. CPU is the time of the client's thread alone, as the kernel counts it. Each line is
//! the median of the rounds and their spread. With `--quick` the rounds are short, to check that it
//! works.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to its terminal and ends when it fails"
)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use common::{Spread, Wire, frames, resident, thread_cpu};
use zk_curator_client::{Acl, CreateMode, ZooKeeper};
use zk_curator_proto::records::{ConnectResponse, DataResponse, GetDataRequest, ReplyHeader, Stat};
use zk_curator_proto::{Encoder, OpCode, Record, Request, Response, frame};
use zk_curator_real::RealZooKeeper;

const PATH: &str = "/bench";
const DATA: &[u8] = &[7; 100];

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, length) =
        if quick { (3, Duration::from_millis(50)) } else { (9, Duration::from_secs(1)) };
    let stub = start_stub();
    println!(
        "getData of {} bytes; {rounds} rounds of {length:?} each, interleaved; client on one thread\n",
        DATA.len()
    );
    println!(
        "{:<42} {:>14} {:>8} {:>12} {:>8} {:>9} {:>9}",
        "", "requests/s", "spread", "CPU µs/req", "spread", "p50 µs", "p99 µs"
    );
    for in_flight in [1, 16, 128, 1024] {
        compare(&format!("stub, {in_flight} in flight"), stub, in_flight, rounds, length);
    }
    watches(stub, if quick { 20_000 } else { 200_000 });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(RealZooKeeper::start()) {
        Err(error) => println!("\nApache ZooKeeper is not here: {error}"),
        Ok(zookeeper) => {
            println!();
            for in_flight in [1, 128] {
                compare(
                    &format!("Apache ZooKeeper, {in_flight} in flight"),
                    zookeeper.addr(),
                    in_flight,
                    rounds,
                    length,
                );
            }
        }
    }
}

/// Measures the memory of an idle watch, with its handle and everything the client keeps for it.
fn watches(server: SocketAddr, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let zk = ZooKeeper::builder(server.to_string()).connect().unwrap();
        zk.connected().await.unwrap();
        let path = |number: usize| format!("/{}/{number:08}", "x".repeat(50));
        let before = resident("self");
        let mut handles = Vec::with_capacity(count);
        for first in (0..count).step_by(500) {
            let pending: Vec<_> =
                (first..first + 500).map(|number| zk.get_data_watched(&path(number))).collect();
            for answer in pending {
                handles.push(answer.await.unwrap().1);
            }
        }
        let each = (resident("self") - before) / count;
        println!(
            "\n{count} idle watches on paths of {} bytes: {each} bytes of memory each, path included",
            path(0).len()
        );
    });
}

/// One round: the number of requests, the time, the CPU time of the thread, and the latency of each
/// request.
struct Round {
    requests: usize,
    elapsed: Duration,
    cpu: Duration,
    latencies: Vec<Duration>,
}

fn compare(name: &str, server: SocketAddr, in_flight: usize, rounds: usize, length: Duration) {
    let mut floor = Floor::connect(server, in_flight);
    let client = Client::connect(server, in_flight);
    let (mut floors, mut clients) = (Vec::new(), Vec::new());
    // The first of each warms up.
    for round in 0..=rounds {
        let results = (floor.run(length), client.run(length));
        if round > 0 {
            floors.push(results.0);
            clients.push(results.1);
        }
    }
    let floor = report(&format!("{name}: floor"), &mut floors);
    let client = report(&format!("{name}: client"), &mut clients);
    println!(
        "{:<42} {:>13.2}x {:>8} {:>11.2}x {:>8} {:>8.2}x",
        format!("{name}: ratio"),
        client.0 / floor.0,
        "",
        client.1 / floor.1,
        "",
        client.2 / floor.2
    );
}

/// Throughput, CPU per request, median latency: medians over the rounds.
fn report(name: &str, rounds: &mut [Round]) -> (f64, f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
    let count = |round: &Round| round.requests as f64;
    let throughput =
        Spread::of(rounds.iter().map(|round| count(round) / round.elapsed.as_secs_f64()));
    let cpu = Spread::of(rounds.iter().map(|round| round.cpu.as_secs_f64() * 1e6 / count(round)));
    let percentile = |rounds: &mut [Round], percent: usize| {
        let of_round = |round: &mut Round| {
            round.latencies.sort_unstable();
            round.latencies[(round.latencies.len() - 1) * percent / 100].as_secs_f64() * 1e6
        };
        Spread::of(rounds.iter_mut().map(of_round))
    };
    let (p50, p99) = (percentile(rounds, 50), percentile(rounds, 99));
    println!(
        "{name:<42} {:>14.0} {:>7.1}% {:>12.3} {:>7.1}% {:>9.1} {:>9.1}",
        throughput.median, throughput.percent, cpu.median, cpu.percent, p50.median, p99.median
    );
    (throughput.median, cpu.median, p50.median)
}

/// The client under test, on a runtime of one thread.
struct Client {
    runtime: tokio::runtime::Runtime,
    zk: ZooKeeper,
    in_flight: usize,
}

impl Client {
    fn connect(server: SocketAddr, in_flight: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let zk = runtime.block_on(async {
            let zk = ZooKeeper::builder(server.to_string()).connect().unwrap();
            zk.connected().await.unwrap();
            // The stub sends something that is no response to a create.
            drop(zk.create(PATH, DATA, &Acl::open_unsafe(), CreateMode::Persistent).await);
            zk
        });
        Self { runtime, zk, in_flight }
    }

    fn run(&self, length: Duration) -> Round {
        let (zk, in_flight) = (&self.zk, self.in_flight);
        self.runtime.block_on(async {
            let (began, cpu) = (Instant::now(), thread_cpu());
            let mut latencies = Vec::new();
            let mut window = std::collections::VecDeque::with_capacity(in_flight);
            let mut requests = 0;
            // A batch is sent and then awaited as a whole, as in the lower bound. Latencies are
            // those of whole batches.
            while began.elapsed() < length {
                let sent = Instant::now();
                for _ in 0..in_flight {
                    window.push_back(zk.get_data(PATH));
                }
                while let Some(answer) = window.pop_front() {
                    assert_eq!(answer.await.unwrap().data.len(), DATA.len());
                    requests += 1;
                }
                latencies.push(sent.elapsed());
            }
            Round { requests, elapsed: began.elapsed(), cpu: thread_cpu() - cpu, latencies }
        })
    }
}

/// The least that any client can do: one write for all requests of a batch, reads until all have
/// responses.
struct Floor {
    wire: Wire,
    batch: Vec<u8>,
    in_flight: usize,
}

impl Floor {
    fn connect(server: SocketAddr, in_flight: usize) -> Self {
        let request = || Request::GetData(GetDataRequest { path: PATH.to_owned(), watch: false });
        let batch = frames((0..in_flight).map(|_| request()));
        Self { wire: Wire::connect(server), batch, in_flight }
    }

    fn run(&mut self, length: Duration) -> Round {
        let (began, cpu) = (Instant::now(), thread_cpu());
        let mut latencies = Vec::new();
        let mut requests = 0;
        while began.elapsed() < length {
            let sent = Instant::now();
            self.wire.write(&self.batch);
            self.wire.read_frames(self.in_flight, drop);
            latencies.push(sent.elapsed());
            requests += self.in_flight;
        }
        Round { requests, elapsed: began.elapsed(), cpu: thread_cpu() - cpu, latencies }
    }
}

/// A server that responds to every request with the same data, as fast as it can.
fn start_stub() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve_stub(stream));
        }
    });
    addr
}

fn serve_stub(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut body = Encoder::new();
    Response::Data(DataResponse { data: Some(Bytes::from_static(DATA)), stat: Stat::default() })
        .encode_body(&mut body);
    let body = body.finish();
    let (mut input, mut output, mut chunk) = (BytesMut::new(), BytesMut::new(), vec![0; 64 * 1024]);
    let mut connected = false;
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        input.extend_from_slice(&chunk[..read]);
        while let Some(request) = frame::take(&mut input, 1 << 20).unwrap() {
            if !std::mem::replace(&mut connected, true) {
                let response = ConnectResponse {
                    timeout: 30_000,
                    session_id: 1,
                    password: Some(Bytes::from_static(&[0; 16])),
                    ..ConnectResponse::default()
                };
                frame::put(&mut output, |body| response.encode(body));
                continue;
            }
            let xid = i32::from_be_bytes(request[..4].try_into().unwrap());
            let mut header = Encoder::with_capacity(16);
            ReplyHeader { xid, zxid: 1, err: 0 }.encode(&mut header);
            let pong = i32::from_be_bytes(request[4..8].try_into().unwrap()) == OpCode::Ping.code();
            frame::put_parts(&mut output, &[&header.finish(), if pong { &[] } else { &body }]);
        }
        if stream.write_all(&output).is_err() {
            return;
        }
        output.clear();
    }
}
