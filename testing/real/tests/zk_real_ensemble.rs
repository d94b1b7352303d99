//! `zk-real --ensemble`: its commands, and its ends.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fs};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use zk_curator_real::other_clients::PATIENCE;
use zk_curator_real::{self as real, RealZooKeeper, Session};
use zk_curator_testing::wait::until;

/// The time that the program has to end: less than a start may take.
const END: Duration = Duration::from_secs(60);

/// A session timeout that ends no session of a test.
const SESSION_MS: i32 = 60_000;

/// A `zk-real`, whose processes are known by its files.
struct Program {
    process: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// The start of the name of its directory.
    prefix: String,
}

impl Program {
    /// Starts the program; `None` if the test is skipped.
    fn start(test: &str, options: &[&str]) -> Option<Self> {
        Self::of(env!("CARGO_BIN_EXE_zk-real"), test, options)
    }

    /// Starts a program that has servers; `None` if the test is skipped.
    fn of(program: &str, test: &str, options: &[&str]) -> Option<Self> {
        if !real::runs(test, RealZooKeeper::available()) {
            return None;
        }
        real::default_signals();
        let mut process = Command::new(program)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let prefix = format!("zk-curator-real-{}-", process.id().unwrap());
        Some(Self { process, input, output, prefix })
    }

    /// Returns the next line of standard output.
    async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.output.next_line()).await.expect("a line in time");
        line.unwrap().expect("a line before the end")
    }

    /// Returns the addresses of the members, when they serve.
    async fn addresses(&mut self) -> Vec<SocketAddr> {
        let line = self.line().await;
        let addresses = line.strip_prefix("ZK_CONNECT=").expect(&line).split(',');
        addresses.map(|address| address.parse().expect(&line)).collect()
    }

    /// Sends a command and returns the response.
    async fn ask(&mut self, command: &str) -> String {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        self.line().await
    }

    /// Sends a command for one member, and returns the number of the member.
    async fn member(&mut self, command: &str) -> usize {
        let answer = self.ask(command).await;
        let start = format!("ok {} ", command.split(' ').next().unwrap());
        answer.strip_prefix(&start).and_then(|member| member.parse().ok()).expect(&answer)
    }

    /// Returns the directories of the program.
    fn homes(&self) -> Vec<PathBuf> {
        let directories = fs::read_dir(env::temp_dir()).unwrap();
        let paths = directories.map(|directory| directory.unwrap());
        let ours = paths.filter(|directory| {
            directory.file_name().to_str().is_some_and(|name| name.starts_with(&self.prefix))
        });
        ours.map(|directory| directory.path()).collect()
    }

    /// Returns the processes that would end with the program if it was killed.
    fn processes(&self) -> BTreeSet<u32> {
        let files = self.homes().into_iter().map(|home| fs::read_dir(home.join("processes")));
        let names = files.flatten().flatten().map(|process| process.unwrap().file_name());
        names.map(|name| name.to_str().unwrap().parse().unwrap()).collect()
    }

    /// Returns the number of suspended processes.
    fn suspended(&self) -> usize {
        self.processes().into_iter().filter(|process| state(*process) == Some('T')).count()
    }

    async fn signal(&self, signal: &str) {
        let process = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", signal, &process]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Waits for the end of the program, and until neither its `processes` nor its files are left.
    async fn ended(mut self, processes: BTreeSet<u32>) -> ExitStatus {
        let status = timeout(END, self.process.wait()).await.expect("an end in time").unwrap();
        let gone = until(async || {
            processes.iter().all(|process| matches!(state(*process), None | Some('Z' | 'X')))
                && self.homes().is_empty()
        });
        timeout(PATIENCE, gone).await.expect("no process and no file is left");
        status
    }
}

/// Returns the state of a process, such as `T` if it is suspended; `None` if there is none.
fn state(process: u32) -> Option<char> {
    let stat =
        fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns the response to `srvr`.
fn srvr(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"srvr")?;
    io::read_to_string(stream)
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn members_are_killed_paused_and_started_again() {
    let test = "members_are_killed_paused_and_started_again";
    let Some(mut zk) = Program::start(test, &["--ensemble", "3"]) else { return };
    let addresses = zk.addresses().await;
    assert_eq!(addresses.len(), 3);
    let status = zk.ask("status").await;
    assert_eq!((status.matches("=leader").count(), status.matches("=follower").count()), (1, 2));

    let killed = zk.member("kill leader").await;
    assert!(TcpStream::connect(addresses[killed - 1]).is_err());
    let leader = zk.member("leader").await;
    assert_ne!(leader, killed);
    let status = zk.ask("status").await;
    assert!(status.contains(&format!("{killed}=stopped")), "{status}");
    let mut session = Session::open(addresses[leader - 1], SESSION_MS);
    session.create("/orders", b"7");
    session.close();
    assert_eq!(zk.member(&format!("start {killed}")).await, killed);
    let mut session = Session::open(addresses[killed - 1], SESSION_MS);
    assert_eq!(session.get_data("/orders").as_deref(), Some(&b"7"[..]));
    session.close();

    let paused = zk.member("pause follower").await;
    assert_ne!(paused, leader);
    assert_eq!(zk.suspended(), 1);
    let status = zk.ask("status").await;
    assert!(status.contains(&format!("{paused}=paused")), "{status}");
    assert_eq!(zk.member(&format!("resume {paused}")).await, paused);
    assert_eq!(zk.suspended(), 0);
    // The others are synced, and this one follows again.
    assert_eq!(zk.ask("synced").await, "ok synced");
    let status = zk.ask("status").await;
    assert_eq!((status.matches("=leader").count(), status.matches("=follower").count()), (1, 2));
    // A suspended process cannot end by itself.
    assert_eq!(zk.ask("pause 1").await, "ok pause 1");
    assert_eq!(zk.ask("stop 1").await, "ok stop 1");
    assert!(TcpStream::connect(addresses[0]).is_err());

    let before = zk.processes();
    assert_eq!(before.len(), 2);
    assert_eq!(zk.ask("restart all").await, "ok restart 1 2 3");
    assert!(zk.processes().is_disjoint(&before));
    zk.member("leader").await;
    let processes = zk.processes();
    assert_eq!((zk.ask("quit").await.as_str(), processes.len()), ("ok quit", 3));
    assert_eq!(zk.ended(processes).await.code(), Some(0));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn errors_name_the_command_and_change_nothing() {
    let test = "errors_name_the_command_and_change_nothing";
    let Some(mut zk) = Program::start(test, &["--ensemble", "3"]) else { return };
    zk.addresses().await;
    let majority = "no member serves without a majority: 1 of 3 run";
    for (command, answer) in [
        ("pause 1", "ok pause 1"),
        ("synced", "error synced: member 1 is paused"),
        ("synced 1", "error synced 1: synced takes no members"),
        ("resume all", "ok resume 1"),
        ("synced", "ok synced"),
        ("kill 4", "error kill 4: there is no member 4; the members are 1 to 3"),
        ("crash 1", "error crash 1: there is no such command; `help` lists them"),
        ("start 1", "error start 1: member 1 runs"),
        ("resume 1", "error resume 1: member 1 is not paused"),
        ("resume all", "error resume all: it applies to no member"),
        ("kill 1 2", "ok kill 1 2"),
        ("kill 3 2", "error kill 3 2: member 2 is stopped"),
        ("pause   3", "ok pause 3"),
        ("pause 3", "error pause 3: member 3 is paused already"),
        ("status", "ok status 1=stopped 2=stopped 3=paused"),
        ("start 1", &format!("error start 1: {majority}")),
        ("resume 3", "ok resume 3"),
        ("leader", &format!("error leader: {majority}")),
        ("synced", &format!("error synced: {majority}")),
        ("kill follower", &format!("error kill follower: {majority}")),
        // An empty line is no command, so it has no response.
        ("\n \nstart 1 2", "ok start 1 2"),
    ] {
        assert_eq!(zk.ask(command).await, answer);
    }
    let processes = zk.processes();
    zk.ask("quit").await;
    assert_eq!(zk.ended(processes).await.code(), Some(0));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn the_end_of_input_ends_nothing_and_a_signal_all() {
    let test = "the_end_of_input_ends_nothing_and_a_signal_all";
    let Some(mut zk) = Program::start(test, &["--ensemble", "2"]) else { return };
    let addresses = zk.addresses().await;
    zk.input = None;
    for round in 0..20 {
        let mut session = Session::open(addresses[round % 2], SESSION_MS);
        session.create(&format!("/{round}"), b"");
        session.close();
    }
    let processes = zk.processes();
    zk.signal("INT").await;
    assert_eq!(zk.ended(processes).await.code(), Some(130));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn until_eof_ends_paused_members() {
    let test = "until_eof_ends_paused_members";
    let Some(mut zk) = Program::start(test, &["--ensemble", "2", "--until-eof"]) else { return };
    zk.addresses().await;
    assert_eq!(zk.ask("pause all").await, "ok pause 1 2");
    let processes = zk.processes();
    assert_eq!(zk.suspended(), 2);
    zk.input = None;
    assert_eq!(zk.ended(processes).await.code(), Some(0));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn paused_members_end_with_a_killed_program() {
    let test = "paused_members_end_with_a_killed_program";
    let Some(mut zk) = Program::start(test, &["--ensemble", "2"]) else { return };
    zk.addresses().await;
    assert_eq!(zk.ask("pause 1").await, "ok pause 1");
    let processes = zk.processes();
    assert_eq!((processes.len(), zk.suspended()), (2, 1));
    zk.signal("KILL").await;
    assert_eq!(zk.ended(processes).await.code(), None);
}

/// A member that waits for a majority would otherwise keep the program for two minutes.
#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_signal_ends_a_start_that_waits_for_a_majority() {
    let test = "a_signal_ends_a_start_that_waits_for_a_majority";
    let Some(mut zk) = Program::start(test, &["--ensemble", "2"]) else { return };
    let addresses = zk.addresses().await;
    assert_eq!(zk.ask("stop 2").await, "ok stop 2");
    let before = zk.processes();
    // Without the program's knowledge: the first member cannot serve, and the second waits for it.
    for process in &before {
        let sent = Command::new("kill").args(["-s", "STOP", &process.to_string()]).status().await;
        assert!(sent.unwrap().success());
    }
    zk.input.as_mut().unwrap().write_all(b"start 2\n").await.unwrap();
    // Before it takes part in elections, it ends when its files are removed.
    let elects = until(async || srvr(addresses[1]).is_ok_and(|answer| answer.contains("not")));
    timeout(PATIENCE, elects).await.expect("the second member looks for a leader");
    let processes = zk.processes();
    assert_eq!(processes.len(), 2);
    zk.signal("TERM").await;
    assert_eq!(zk.ended(processes).await.code(), Some(130));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_signal_ends_a_start_of_chaos() {
    let test = "a_signal_ends_a_start_of_chaos";
    let Some(chaos) = Program::of(env!("CARGO_BIN_EXE_zk-chaos"), test, &[]) else { return };
    let begins = until(async || chaos.processes().len() == 3);
    timeout(PATIENCE, begins).await.expect("three servers begin");
    let processes = chaos.processes();
    // They never serve.
    for process in &processes {
        let sent = Command::new("kill").args(["-s", "STOP", &process.to_string()]).status().await;
        assert!(sent.unwrap().success());
    }
    chaos.signal("TERM").await;
    assert_eq!(chaos.ended(processes).await.code(), Some(130));
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn a_command_has_the_input_and_all_addresses() {
    let test = "a_command_has_the_input_and_all_addresses";
    let script = [
        "--ensemble",
        "2",
        "--exec",
        "sh",
        "-c",
        "cat; echo \"$ZK_CONNECT\"; echo \"$ZK_DATA_DIRS\"; exit 5",
    ];
    let Some(mut zk) = Program::start(test, &script) else { return };
    zk.input.take().unwrap().write_all(b"quit\n").await.unwrap();
    assert_eq!(zk.line().await, "quit");
    let addresses = zk.line().await;
    assert!(addresses.split(',').all(|address| address.parse::<SocketAddr>().is_ok()));
    assert_eq!(addresses.split(',').count(), 2);
    let directories = zk.line().await;
    assert!(
        directories.split(':').all(|directory| Path::new(directory).join("version-2").is_dir())
    );
    assert_eq!(directories.split(':').count(), 2);
    let processes = zk.processes();
    assert_eq!(zk.ended(processes).await.code(), Some(5));
}
