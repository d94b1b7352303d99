//! Clients in other languages cannot tell `zk-test-server` from Apache ZooKeeper: each runs the
//! same operations on both, beginning with empty servers, and must print the same output. The
//! programs and scripts are in `clients/`.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use zk_curator_real::TempDir;
use zk_curator_real::java::{self, Program};
use zk_curator_real::other_clients::{
    C_CLIENT, PATIENCE, c_client, c_library, compile_c, python_with_kazoo,
};
use zk_curator_real::{self as real, RealZooKeeper};
use zk_curator_testing::ZooKeeperVersion;

/// A member of an ensemble, for clients that do not need the other members.
const ENSEMBLE: &[&str] = &["--ensemble", "3"];

fn client(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file)
}

/// A server of either kind.
enum Server {
    Real(RealZooKeeper),
    Embedded { process: Child, address: String, options: Vec<String>, _data: TempDir },
}

impl Server {
    /// Starts the program on a port that stays free while it is restarted. An ensemble has ports of
    /// its own choice.
    async fn embedded(test: &str, options: &[&str]) -> Self {
        let data = TempDir::new(test).unwrap();
        let mut all = vec!["--tick-time", "100", "--max-session-timeout", "60000"];
        all.extend(["--data-dir", data.path().to_str().unwrap()].iter().chain(options));
        let options: Vec<_> = all.into_iter().map(str::to_owned).collect();
        let port = if is_ensemble(&options) { 0 } else { real::free_port().unwrap() };
        let (process, address) = Self::run(&port.to_string(), &options).await;
        Self::Embedded { process, address, options, _data: data }
    }

    async fn run(port: &str, options: &[String]) -> (Child, String) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_zk-test-server"))
            .args(["--port", port])
            .args(options)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut address = String::new();
        // Reads one line of each server. The last server of an ensemble is not its leader.
        for _ in 0..if is_ensemble(options) { 3 } else { 1 } {
            let line = lines.next_line().await.unwrap().expect("the server says where it listens");
            line.strip_prefix("listening on ").expect("an address").clone_into(&mut address);
        }
        (process, address)
    }

    fn address(&self) -> String {
        match self {
            Self::Real(server) => server.connect_string(),
            Self::Embedded { address, .. } => address.clone(),
        }
    }

    /// Ends the process cleanly, and starts another one with the same data at the same address.
    async fn restart(&mut self) {
        match self {
            Self::Real(server) => server.restart().await.unwrap(),
            Self::Embedded { process, address, options, .. } => {
                let id = process.id().expect("it runs").to_string();
                assert!(Command::new("kill").arg(id).status().await.unwrap().success());
                assert!(process.wait().await.unwrap().success());
                let port = address.rsplit(':').next().unwrap();
                *process = Self::run(port, options).await.0;
            }
        }
    }
}

fn is_ensemble(options: &[String]) -> bool {
    options.iter().any(|option| option == "--ensemble")
}

/// Asserts that the transcripts of a client are the same on Apache ZooKeeper and on a
/// `zk-test-server` of the same version, with all of these options.
async fn same_at_both(test: &str, options: &[&[&str]], run: impl AsyncFn(&mut Server) -> String) {
    let builder = RealZooKeeper::builder()
        .tick_time(Duration::from_millis(100))
        .jvm_property("znode.container.checkIntervalMs", 1000);
    let Some(real) = real::or_skip_with(test, builder).await else { return };
    let version = match real.version().await.unwrap() {
        ZooKeeperVersion::V3_8 => "3.8",
        _ => "3.9",
    };
    let mut servers = vec![Server::Real(real)];
    for (number, options) in options.iter().enumerate() {
        let options = [&["--zookeeper-version", version], *options].concat();
        servers.push(Server::embedded(&format!("{test}-{number}"), &options).await);
    }
    let all = join_all(servers.iter_mut().map(|server| run(server)));
    let transcripts = tokio::time::timeout(PATIENCE, all).await.expect("the clients end in time");
    let (expected, found) = transcripts.split_first().expect("that of Apache ZooKeeper");
    assert!(expected.ends_with("DONE\n"), "{expected}");
    for (options, found) in options.iter().zip(found) {
        assert_same(expected, found, options);
    }
}

fn assert_same(expected: &str, found: &str, options: &[&str]) {
    let (expected, found): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let most = expected.len().max(found.len());
    if let Some(line) = (0..most).find(|line| expected.get(*line) != found.get(*line)) {
        let around = |lines: &[&str]| {
            let (from, to) = (line.saturating_sub(8).min(lines.len()), lines.len().min(line + 5));
            lines[from..to].join("\n")
        };
        let (expected, found) = (around(&expected), around(&found));
        panic!(
            "line {}\nApache ZooKeeper:\n{expected}\nzk-test-server {options:?}:\n{found}",
            line + 1
        );
    }
}

/// Starts a client without standard input.
fn spawn(client: &mut Command) -> Child {
    client.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

/// Returns the output of a client until its end, and its exit status if it failed.
async fn transcript(client: Child) -> String {
    let output = client.wait_with_output().await.unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if !output.status.success() {
        text.push_str(&format!("the client ends with {}\n", output.status));
    }
    text
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn kazoo() {
    let python = python_with_kazoo(env!("CARGO_TARGET_TMPDIR")).await;
    if !real::runs("kazoo", python.as_ref().map(|_| ())) {
        return;
    }
    let python = python.unwrap();
    same_at_both("kazoo", &[&[], ENSEMBLE], async |server| {
        let script = client("kazoo_session.py");
        transcript(spawn(
            Command::new(&python).args(["-B", "-W", "ignore"]).arg(script).arg(server.address()),
        ))
        .await
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn java_curator() {
    if !real::runs("java_curator", java::available()) {
        return;
    }
    let program = Program::compile(client("CuratorSession.java")).await.unwrap();
    same_at_both("java_curator", &[&[]], async |server| {
        transcript(program.spawn([server.address()]).unwrap()).await
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn java_command_line() {
    if !real::runs("java_command_line", java::available()) {
        return;
    }
    let program = Program::compile(client("ZooKeeperShell.java")).await.unwrap();
    let script = client("zookeeper_main.script");
    same_at_both("java_command_line", &[&[]], async |server| {
        let address = server.address();
        transcript(program.spawn([address.as_ref(), script.as_os_str()]).unwrap()).await
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn c_programs() {
    let test = "c_programs";
    if !real::runs(test, c_library()) {
        return;
    }
    let directory = TempDir::new(&format!("program-{test}")).unwrap();
    let program = compile_c(&client("c_session.c"), directory.path()).await;
    same_at_both(test, &[&[], ENSEMBLE], async |server| {
        transcript(spawn(Command::new(&program).arg(server.address()))).await
    })
    .await;
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn c_command_line() {
    if !real::runs("c_command_line", c_client()) {
        return;
    }
    let script = std::fs::read_to_string(client("c_client.script")).unwrap();
    same_at_both("c_command_line", &[&[]], async |server| {
        let address = server.address();
        // The file with the id and the password of the session.
        let directory =
            TempDir::new(&format!("c-client-{}", address.rsplit(':').next().unwrap())).unwrap();
        let session = directory.path().join("session");
        let mut client = CClient::start(&address, &session).await;
        let mut transcript = String::new();
        for line in
            script.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        {
            transcript.push_str(&format!("> {line}\n{}", client.say(line).await));
        }
        // Another process continues the session of a killed one, with its watches, over a restart
        // of the server.
        client.process.kill().await.unwrap();
        let mut client = CClient::start(&address, &session).await;
        transcript.push_str(&client.say("ls2 /c").await);
        server.restart().await;
        client.connected().await;
        for line in ["get /c", "exists /c/es-0000000002", "create /c/late", "set /c/late x"] {
            transcript.push_str(&format!("> {line}\n{}", client.say(line).await));
        }
        transcript + "DONE\n"
    })
    .await;
}

/// The command line of the C client. It does not wait for a response before it reads the next
/// command.
struct CClient {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStderr>>,
}

impl CClient {
    async fn start(address: &str, session: &Path) -> Self {
        let mut process = Command::new(C_CLIENT)
            .args(["-h", address, "-m"])
            .arg(session)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut client = Self { process, input, output };
        client.connected().await;
        client
    }

    /// Waits until the client reports that it is connected.
    async fn connected(&mut self) {
        while self.line().await != "Watcher SESSION_EVENT state = CONNECTED_STATE" {}
    }

    async fn line(&mut self) -> String {
        self.output.next_line().await.unwrap().expect("the client continues")
    }

    /// Runs a command. Returns the output of the client up to the end of a `sync` after it, without
    /// times.
    async fn say(&mut self, command: &str) -> String {
        let end = "sync /zookeeper";
        self.input.write_all(format!("{command}\n{end}\n").as_bytes()).await.unwrap();
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            if line == "[/zookeeper]: rc = 0" {
                self.line().await;
                break;
            }
            let passing =
                ["time = ", "\tctime = ", "\tmtime=", "Got a new session id", "writing client id"];
            if !passing.iter().any(|time| line.starts_with(time)) && !line.contains(":ZOO_") {
                lines.push(line);
            }
        }
        // The names of children are sorted, because they have no order.
        for names in lines.chunk_by_mut(|one, two| is_name(one) && is_name(two)) {
            names.sort_unstable();
        }
        lines.iter().map(|line| owner(line) + "\n").collect()
    }
}

fn is_name(line: &str) -> bool {
    line.starts_with('\t') && !line.contains('=')
}

/// Removes the id of the session.
fn owner(line: &str) -> String {
    match line.split_once("ephemeralOwner = ") {
        Some((before, owner)) if owner != "0" => format!("{before}ephemeralOwner = <session>"),
        _ => line.to_owned(),
    }
}
