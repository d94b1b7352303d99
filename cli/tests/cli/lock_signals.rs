//! Signals to `zkc lock`, and the end of `zkc` itself.

use nix::sys::signal::Signal;
use tokio::time::timeout;
use zk_curator_testing::{TestServer, wait};

use crate::running::{Folder, LIMIT, Running, file_with, gone, is_gone, program};

#[tokio::test]
async fn an_interrupted_waiter_leaves_no_node() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let mut holder = Running::start(&servers, &["lock", "/locks/a"]);
    holder.line().await;
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let waiter = Running::start(&servers, &["lock", "/locks/a", "--", "true"]);
        server.until(|probe| probe.children("/locks/a").len() == 2).await;
        waiter.signal(signal);
        let finished = waiter.finish().await;
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert_eq!(server.probe().children("/locks/a").len(), 1, "{}", server.probe());
    }
}

#[tokio::test]
async fn signals_reach_the_children_of_the_command() {
    let server = TestServer::start().await;
    for signal in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH"] {
        let folder = Folder::new();
        // The command waits for its child, which prints the signal.
        let child = format!(
            "trap 'echo {signal} >> log; exit 5' {signal}; echo ready; while :; do sleep 0.01; done"
        );
        let script = format!("trap : {signal}; sh -c \"$0\"; wait; exit 9");
        let arguments = ["lock", "/locks/a", "--", "sh", "-c", &script, &child];
        let mut holder = folder.start(&server.connect_string(), &arguments);
        assert_eq!(holder.line().await, "ready");
        holder.signal(
            signal.parse::<Signal>().unwrap_or_else(|_| format!("SIG{signal}").parse().unwrap()),
        );
        let finished = holder.finish().await;
        assert_eq!(finished.code, Some(9), "{signal}: {finished:?}");
        file_with(&folder.file("log"), signal).await;
    }
}

#[tokio::test]
async fn the_second_interrupt_kills_the_group() {
    let server = TestServer::start().await;
    let script = "trap '' INT; sh -c 'echo $$; while :; do sleep 0.01; done'; exit 9";
    let arguments = ["lock", "/locks/a", "--", "sh", "-c", script];
    let mut holder = Running::start(&server.connect_string(), &arguments);
    let child = holder.line().await;
    holder.signal(Signal::SIGINT);
    holder.signal(Signal::SIGINT);
    // Two signals that come together count as one.
    let killed = wait::until(async || {
        holder.signal(Signal::SIGINT);
        is_gone(&child)
    });
    timeout(LIMIT, killed).await.unwrap();
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(137), "{finished:?}");
}

#[tokio::test]
async fn a_killed_zkc_takes_the_command_with_it() {
    let server = TestServer::start().await;
    let script = "trap '' INT TERM HUP; echo $$; \
                  sh -c 'echo $$; while :; do sleep 0.01; done'; exit 9";
    let arguments = ["lock", "/locks/a", "--", "sh", "-c", script];
    let mut holder = Running::start(&server.connect_string(), &arguments);
    let (command, child) = (holder.line().await, holder.line().await);
    holder.signal(Signal::SIGKILL);
    gone(&command).await;
    gone(&child).await;
}

/// Starts a command of `zkc` that ignores these signals from its start on.
fn ignoring(signals: &str, server: &TestServer, arguments: &[&str]) -> Running {
    let script = format!("trap '' {signals}; exec zkc \"$@\"");
    let mut command = program("sh", &server.connect_string());
    command.args(["-c", &script, "sh"]).args(arguments).stdin(std::process::Stdio::piped());
    Running::spawn(&mut command)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ignored_signals_stay_ignored() {
    let command =
        ["--", "sh", "-c", "kill -HUP $$; kill -INT $$; kill -QUIT $$; echo ready; read x; exit 4"];
    for under in [
        &["lock", "/locks/a"][..],
        &["elect", "/e", "--id", "a", "--once"],
        &["group", "join", "/g", "a"],
        &["discover", "register", "orders", "--port", "80"],
    ] {
        let server = TestServer::start().await;
        let mut holder = ignoring("HUP INT QUIT", &server, &[under, &command].concat());
        assert_eq!(holder.line().await, "ready", "{under:?}");
        for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
            holder.signal(signal);
        }
        // The command reads on.
        holder.write("\n").await;
        let finished = holder.finish().await;
        assert_eq!(finished.code, Some(4), "{under:?}: {finished:?}");
    }
}

#[tokio::test]
async fn term_ends_a_command_that_was_started_to_ignore_it() {
    let server = TestServer::start().await;
    let arguments = ["lock", "/locks/a", "--", "sh", "-c", "echo ready; sleep 60"];
    let mut holder = ignoring("TERM", &server, &arguments);
    assert_eq!(holder.line().await, "ready");
    holder.signal(Signal::SIGTERM);
    let finished = holder.finish().await;
    assert_eq!(finished.code, Some(143), "{finished:?}");
}

/// The runtime of Rust ignores PIPE in `zkc` itself, however that was started.
#[tokio::test]
async fn the_command_has_the_default_of_pipe() {
    let server = TestServer::start().await;
    let arguments = ["lock", "/locks/a", "--", "sh", "-c", "kill -PIPE $$; exit 4"];
    let finished = ignoring("PIPE", &server, &arguments).finish().await;
    assert_eq!(finished.code, Some(141), "{finished:?}");
}

/// Starts a command line of `sh` with a terminal.
#[cfg(target_os = "linux")]
fn with_terminal(server: &TestServer, line: &str) -> Running {
    let mut command = program("script", &server.connect_string());
    command.args(["-qec", line, "/dev/null"]).stdin(std::process::Stdio::piped());
    Running::spawn(&mut command)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_command_has_the_terminal_and_gives_it_back() {
    let server = TestServer::start().await;
    let line = "zkc lock /locks/a -- sh -c 'echo one; read x; echo \"read $x\"'; \
                echo two; read y; echo \"read $y\"; exit 6";
    let mut shell = with_terminal(&server, line);
    for (prompt, input) in [("one", "hello"), ("two", "there")] {
        assert_eq!(shell.line().await, prompt);
        shell.write(&format!("{input}\n")).await;
        assert_eq!(shell.line().await, input, "the echo of the terminal");
        assert_eq!(shell.line().await, format!("read {input}"));
    }
    assert_eq!(shell.finish().await.code, Some(6));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ctrl_c_on_a_terminal_reaches_the_command() {
    let server = TestServer::start().await;
    let line = "zkc lock /locks/a -- sh -c \"trap 'echo caught; exit 7' INT; echo ready; \
                while :; do sleep 0.01; done\"";
    let mut shell = with_terminal(&server, line);
    assert_eq!(shell.line().await, "ready");
    shell.write("\u{3}").await;
    assert!(shell.line().await.ends_with("caught"));
    assert_eq!(shell.finish().await.code, Some(7));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ctrl_z_does_not_suspend_the_command() {
    let server = TestServer::start().await;
    let line = "zkc lock /locks/a -- sh -c 'echo ready; read x; exit 4'";
    let mut shell = with_terminal(&server, line);
    assert_eq!(shell.line().await, "ready");
    shell.write("\u{1a}").await;
    assert!(shell.line().await.ends_with("cannot be suspended while it holds a lock"));
    shell.write("\n").await;
    assert_eq!(shell.finish().await.code, Some(4));
}

/// Waits until a process is stopped.
#[cfg(target_os = "linux")]
async fn stopped(process: &str) {
    let is_stopped = async || {
        std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|stat| stat.contains(") T "))
    };
    timeout(LIMIT, wait::until(is_stopped)).await.expect("a stopped process");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn signals_that_end_reach_a_stopped_command() {
    let server = TestServer::start().await;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let script = "trap 'exit 5' TERM INT HUP QUIT; echo $$; kill -STOP $$; exit 9";
        let arguments = ["lock", "/locks/a", "--", "sh", "-c", script];
        let mut holder = Running::start(&server.connect_string(), &arguments);
        stopped(&holder.line().await).await;
        holder.signal(signal);
        let finished = holder.finish().await;
        assert_eq!(finished.code, Some(5), "{signal}: {finished:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stopped_command_can_end_before_its_lock_does() {
    let server = TestServer::start().await;
    let servers = server.connect_string();
    let script = "trap 'echo stopped; exit 5' TERM; echo $$; kill -STOP $$; exit 9";
    let mut holder = Running::start(&servers, &["lock", "/locks/a", "--", "sh", "-c", script]);
    stopped(&holder.line().await).await;
    assert_eq!(crate::running::run(&servers, &["revoke", "/locks/a"]).await.code, Some(0));
    let finished = holder.finish().await;
    assert_eq!((finished.code, &*finished.stdout), (Some(123), "stopped\n"), "{finished:?}");
}

/// A shell starts the command in the background, and then asks on the terminal whether to go on.
#[cfg(target_os = "linux")]
fn in_background(server: &TestServer, folder: &Folder, then: &str) -> Running {
    let command = "sh -c 'echo $$ > pid; read x; echo \"read $x\"; exit 4'";
    on_terminal(server, folder, &format!("set -m; zkc lock /locks/a -- {command} & {then}"))
}

/// Starts a shell with a terminal.
#[cfg(target_os = "linux")]
fn on_terminal(server: &TestServer, folder: &Folder, line: &str) -> Running {
    std::fs::write(folder.file("script"), line).expect("a script");
    let mut command = program("script", &server.connect_string());
    command.args(["-qec", "bash script", "/dev/null"]).stdin(std::process::Stdio::piped());
    Running::spawn(command.current_dir(folder.file("")))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_in_the_background_waits_for_fg() {
    let (server, folder) = (TestServer::start().await, Folder::new());
    let mut shell = in_background(&server, &folder, "read go; fg %1; exit $?");
    assert!(shell.line().await.contains("gets it in the foreground (fg)"));
    shell.write("\n").await;
    while !shell.line().await.starts_with("zkc lock") {}
    shell.write("hello\n").await;
    while shell.line().await != "read hello" {}
    assert_eq!(shell.finish().await.code, Some(4));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stopped_command_ends_with_its_terminal() {
    let (server, folder) = (TestServer::start().await, Folder::new());
    let mut shell = in_background(&server, &folder, "wait");
    assert!(shell.line().await.contains("gets it in the foreground (fg)"));
    let command = file_with(&folder.file("pid"), "\n").await;
    shell.signal(Signal::SIGKILL);
    gone(command.trim()).await;
    server.until(|probe| probe.sessions().is_empty()).await;
}

/// The shell does not end with its terminal, so the kernel sends nothing to the command.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_with_the_terminal_ends_with_it() {
    let (server, folder) = (TestServer::start().await, Folder::new());
    let command = "sh -c 'echo $$ > pid; echo ready; exec sleep 600'";
    let line = format!("trap : HUP; zkc lock /locks/a -- {command}; echo \"code $?\" > code");
    let mut shell = on_terminal(&server, &folder, &line);
    assert_eq!(shell.line().await, "ready");
    let command = file_with(&folder.file("pid"), "\n").await;
    shell.signal(Signal::SIGKILL);
    gone(command.trim()).await;
    assert_eq!(file_with(&folder.file("code"), "\n").await, "code 129\n");
}

/// It reads the terminal, although standard input is none.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_without_standard_input_gets_the_terminal() {
    let server = TestServer::start().await;
    let line = "zkc lock /locks/a --no-stdin -- \
                sh -c 'echo one; read x < /dev/tty; echo \"read $x\"'; read y; exit 6";
    let mut shell = with_terminal(&server, line);
    assert_eq!(shell.line().await, "one");
    shell.write("hello\n").await;
    while shell.line().await != "read hello" {}
    shell.write("there\n").await;
    assert_eq!(shell.finish().await.code, Some(6));
}
