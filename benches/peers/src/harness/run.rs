//! One run of one client, as `benches/peers/PROTOCOL.md` says.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;
use zk_curator_proto::Request;
use zk_curator_proto::records::{Acl, CreateRequest, GetDataRequest, SetDataRequest};
use zk_curator_real::RealZooKeeper;

use super::check::verify;
use super::matrix::Client;
use super::plan::{Case, reconnect, session_timeout};
use super::programs::Peer;
use super::results::Run;
use crate::common::{Wire, frames, resident};
use crate::peer::Result;

/// Bytes of a node, and of an item.
pub(super) const PAYLOAD: usize = 100;
/// The time limit of a program.
const PATIENCE: Duration = Duration::from_secs(300);
/// The requests in flight to an embedded server.
const IN_FLIGHT: usize = 128;
const BATCHES: usize = 200;
const LOAD: &str = "/load";
const GET: &str = "embedded-get";
const SET: &str = "embedded-set";

/// The last line of a program.
#[derive(Deserialize)]
pub(super) struct Told {
    pub(super) operations: usize,
    seconds: f64,
    cpu_seconds: f64,
    latencies_us: Vec<f64>,
    pub(super) check: String,
    #[serde(default)]
    bytes_each: Option<f64>,
    #[serde(default)]
    pub(super) numbers: BTreeMap<String, f64>,
}

/// A running program.
pub(super) struct Talk {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Talk {
    pub(super) fn begin(
        peer: &Peer,
        case: &Case,
        connect: SocketAddr,
        number: usize,
    ) -> Result<Self> {
        let mut command = peer.command();
        for (option, value) in [
            ("--connect", connect.to_string()),
            ("--workload", case.workload.name.to_owned()),
            ("--size", case.size.to_string()),
            ("--operations", case.operations.to_string()),
            ("--warmup", case.warmup.to_string()),
            ("--path", path(case, number)),
            ("--payload", PAYLOAD.to_string()),
            ("--session-timeout", session_timeout(case).as_millis().to_string()),
        ] {
            command.arg(option).arg(value);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
        Ok(Self { child, input, output })
    }

    /// Returns the next line.
    pub(super) async fn line(&mut self) -> Result<String> {
        Ok(self.output.next_line().await?.ok_or("the program has ended")?)
    }

    pub(super) async fn hear(&mut self, word: &str) -> Result<()> {
        let line = self.line().await?;
        if line == word {
            Ok(())
        } else {
            Err(format!("{word:?} was to come, and {line:?} came").into())
        }
    }

    pub(super) async fn say(&mut self, word: &str) -> Result<()> {
        self.input.write_all(format!("{word}\n").as_bytes()).await?;
        Ok(self.input.flush().await?)
    }

    pub(super) async fn end(mut self) -> Result<()> {
        self.say("end").await?;
        let status = self.child.wait().await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the program ended with {status}").into())
        }
    }

    /// The resident set of the program, in bytes.
    pub(super) fn memory(&self) -> Result<usize> {
        Ok(resident(&self.child.id().ok_or("the program has ended")?.to_string()))
    }
}

/// The path of the nodes of a run.
pub(super) fn path(case: &Case, number: usize) -> String {
    format!("/bench/{}-{number}", case.workload.name)
}

/// The server of a run, and the way to it.
pub(super) struct Place<'a> {
    pub(super) server: &'a RealZooKeeper,
    /// The address for the clients: the server, or a relay in front of it.
    pub(super) connect: SocketAddr,
}

impl Place<'_> {
    /// The number of packets that the server has received, without this question.
    pub(super) async fn packets(&self) -> Result<u64> {
        self.counted("Received: ").await
    }

    /// A number of the server's `srvr`.
    pub(super) async fn counted(&self, name: &str) -> Result<u64> {
        let answer = self.server.four_letter_word("srvr").await?;
        let told = answer.lines().find_map(|line| line.strip_prefix(name));
        Ok(told.ok_or_else(|| format!("srvr does not tell {name:?}"))?.trim().parse()?)
    }

    /// Runs a case. An embedded server has more than one result.
    ///
    /// # Errors
    /// A program that fails or takes too long, and a wrong result.
    pub(super) async fn run(&self, peer: &Peer, case: &Case, number: usize) -> Result<Vec<Run>> {
        let run = async {
            if let Some(length) = case.workload.outage() {
                return self.outage(peer, case, number, length).await;
            }
            match case.workload.name {
                "startup" => self.startup(peer, case, number).await,
                "embedded-server" => self.embedded(peer, case, number).await,
                _ if reconnect(case).is_some() => self.reconnect(peer, case, number).await,
                _ => self.workload(peer, case, number).await,
            }
        };
        timeout(PATIENCE, run).await.map_err(|_| format!("not done within {PATIENCE:?}"))?
    }

    async fn workload(&self, peer: &Peer, case: &Case, number: usize) -> Result<Vec<Run>> {
        let mut talk = Talk::begin(peer, case, self.connect, number)?;
        talk.hear("ready").await?;
        // The packets of a question are measured first.
        let (once, before) = (self.packets().await?, self.packets().await?);
        talk.say("go").await?;
        let told: Told = serde_json::from_str(&talk.line().await?)?;
        let packets = (self.packets().await? - before).saturating_sub(before - once);
        let memory = talk.memory()?;
        talk.end().await?;
        verify(case, PAYLOAD, told.operations, &told.check)?;
        let requests = Some(ratio(packets, told.operations));
        Ok(vec![Run { requests, memory: Some(memory), ..result(peer.client, case, &told) }])
    }

    async fn startup(&self, peer: &Peer, case: &Case, number: usize) -> Result<Vec<Run>> {
        let began = Instant::now();
        drop(first_response(self.connect));
        let floor = began.elapsed();
        let began = Instant::now();
        let mut talk = Talk::begin(peer, case, self.connect, number)?;
        talk.hear("first").await?;
        let seconds = began.elapsed();
        let memory = Some(talk.memory()?);
        talk.end().await?;
        Ok(vec![
            Run { memory, ..Run::once(peer.client, case, "startup", seconds) },
            Run::once(Client::Socket, case, "startup", floor),
        ])
    }

    /// Measures the client's server with requests of the harness.
    async fn embedded(&self, peer: &Peer, case: &Case, number: usize) -> Result<Vec<Run>> {
        let began = Instant::now();
        let mut talk = Talk::begin(peer, case, self.connect, number)?;
        let line = talk.line().await?;
        let listening =
            line.strip_prefix("listening ").ok_or("the program does not listen")?.parse()?;
        let mut wire = first_response(listening);
        let seconds = began.elapsed();
        talk.hear("ready").await?;
        let memory = Some(talk.memory()?);
        let mut runs =
            vec![Run { memory, ..Run::once(peer.client, case, "embedded-start", seconds) }];
        wire.write(&frames([Request::Create(CreateRequest {
            path: LOAD.to_owned(),
            data: Some(Bytes::from_static(&[7; PAYLOAD])),
            acl: Acl::open_unsafe(),
            flags: 0,
        })]));
        wire.read_frames(1, drop);
        for name in [GET, SET] {
            let batch = frames((0..IN_FLIGHT).map(|_| ask(name)));
            // The first half warms up.
            let mut began = Instant::now();
            for batches in 0..2 * BATCHES {
                if batches == BATCHES {
                    began = Instant::now();
                }
                wire.write(&batch);
                wire.read_frames(IN_FLIGHT, drop);
            }
            let each = began.elapsed() / u32::try_from(BATCHES * IN_FLIGHT)?;
            runs.push(Run::once(peer.client, case, name, each));
        }
        talk.say("go").await?;
        let told: Told = serde_json::from_str(&talk.line().await?)?;
        talk.end().await?;
        verify(case, PAYLOAD, told.operations, &told.check)?;
        runs.push(Run {
            workload: "embedded-again".to_owned(),
            ..result(peer.client, case, &told)
        });
        Ok(runs)
    }
}

pub(super) fn result(client: Client, case: &Case, told: &Told) -> Run {
    let mut latencies = told.latencies_us.clone();
    latencies.sort_by(f64::total_cmp);
    let percentile =
        |percent: usize| latencies.get((latencies.len().max(1) - 1) * percent / 100).copied();
    let operations = ratio(told.operations as u64, 1);
    Run {
        setting: case.setting,
        workload: case.workload.name.to_owned(),
        size: case.size,
        client,
        per_operation_us: told.seconds * 1e6 / operations,
        cpu_us: Some(told.cpu_seconds * 1e6 / operations),
        p50_us: percentile(50),
        p99_us: percentile(99),
        requests: None,
        memory: None,
        bytes_each: told.bytes_each,
        numbers: told.numbers.clone(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn ratio(count: u64, by: usize) -> f64 {
    count as f64 / by as f64
}

/// A session on a plain socket, and the response to its first request.
pub(super) fn first_response(server: SocketAddr) -> Wire {
    let mut wire = Wire::connect(server);
    let root = Request::GetData(GetDataRequest { path: "/".to_owned(), watch: false });
    wire.write(&frames([root]));
    wire.read_frames(1, drop);
    wire
}

/// The request that an embedded server is measured with.
fn ask(name: &str) -> Request {
    let (path, data) = (LOAD.to_owned(), Some(Bytes::from_static(&[7; PAYLOAD])));
    match name {
        SET => Request::SetData(SetDataRequest { path, data, version: -1 }),
        _ => Request::GetData(GetDataRequest { path, watch: false }),
    }
}
