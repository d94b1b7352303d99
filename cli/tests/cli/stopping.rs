//! Signals to commands, to the programs that they run, and to the shell.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use zk_curator_testing::wait::until;
use zk_curator_testing::{OpCode, Verdict};

use crate::running::{file_with, gone};
use crate::support::{Zkc, end, signal};
use crate::terminal::{PATIENCE, Terminal};

/// A script whose child does not end by itself; it writes the process of that child to a file.
fn script(zkc: &Zkc, rest: &str) -> (String, String) {
    use std::os::unix::fs::PermissionsExt;
    let script = zkc.file("script");
    let text = format!("#!/bin/sh\nsleep 300 &\necho \"child $!\" > child\n{rest}wait\n");
    std::fs::write(&script, text).expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("a mode");
    ("./script".to_owned(), zkc.file("child").display().to_string())
}

async fn child_of(file: &str) -> String {
    let content = file_with(file, "child ").await;
    content.trim_start_matches("child ").trim().to_owned()
}

#[tokio::test]
async fn cron_ends_all_processes_of_its_command() {
    for stop in ["INT", "TERM", "KILL"] {
        let zkc = Zkc::start().await;
        let (script, file) = script(&zkc, "");
        let command = ["cron", "run", "/cron", "--every", "1s", "--", &script];
        let cron = zkc.command(&command).spawn().expect("zkc");
        let child = child_of(&file).await;
        signal(&cron, stop).await;
        gone(&child).await;
        let code = end(cron, "").await.code;
        assert_eq!(code, if stop == "KILL" { -1 } else { 0 }, "{stop}");
    }
}

#[tokio::test]
async fn cron_kills_a_command_that_does_not_end() {
    let zkc = Zkc::start().await;
    let (script, file) = script(&zkc, "trap '' TERM\nsleep 300 &\n");
    let command = ["cron", "run", "/cron", "--every", "1s", "--grace", "100ms", "--", &script];
    let cron = zkc.command(&command).spawn().expect("zkc");
    let child = child_of(&file).await;
    signal(&cron, "TERM").await;
    gone(&child).await;
    assert_eq!(end(cron, "").await.code, 0);
    let slots = zkc.run(&["cron", "ls", "/cron", "-o", "json"]).await.json();
    assert_eq!(slots[0]["state"], "failed");
}

#[tokio::test]
async fn a_backup_that_is_stopped_leaves_no_file() {
    for (stop, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let zkc = Zkc::start().await;
        zkc.run(&["create", "/a", "secret"]).await.ok();
        let rule = zkc.server.rule(|request| {
            let is_acl = request.is(OpCode::GetAcl);
            if is_acl { Verdict::Delay(Duration::from_secs(600)) } else { Verdict::Pass }
        });
        std::fs::create_dir(zkc.file("folder")).expect("a folder");
        let mut backup = zkc.command(&["backup", "/a", "folder/a.zkb"]);
        let backup = backup.spawn().expect("zkc");
        rule.fired().await;
        let files = || std::fs::read_dir(zkc.file("folder")).expect("a folder").count();
        assert_eq!(files(), 1, "the part of the file");
        signal(&backup, stop).await;
        rule.end();
        assert_eq!(end(backup, "").await.code, code, "{stop}");
        assert_eq!(files(), 0, "{stop}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_copy_of_standard_input_is_gone_with_its_process() {
    for command in [&["restore", "-"][..], &["diff", "@-", "/"]] {
        for stop in ["INT", "KILL"] {
            let zkc = Zkc::start().await;
            std::fs::create_dir(zkc.file("folder")).expect("a folder");
            let mut child = zkc.command(command);
            child.env("TMPDIR", zkc.file("folder")).stdin(Stdio::piped());
            let child = child.spawn().expect("zkc");
            let process = child.id().expect("a process");
            let copied = until(async || has_unnamed_file(process));
            tokio::time::timeout(PATIENCE, copied).await.expect("a copy");
            signal(&child, stop).await;
            assert_eq!(end(child, "").await.code, -1, "{command:?} {stop}");
            let files = std::fs::read_dir(zkc.file("folder")).expect("a folder").count();
            assert_eq!(files, 0, "{command:?} {stop}");
        }
    }
}

/// Returns `true` if a process has a file open whose name was removed.
#[cfg(target_os = "linux")]
fn has_unnamed_file(process: u32) -> bool {
    let files = std::fs::read_dir(format!("/proc/{process}/fd"));
    files.is_ok_and(|files| {
        let mut targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets.any(|target| target.to_string_lossy().ends_with(" (deleted)"))
    })
}

#[tokio::test]
async fn a_program_of_watch_ends_with_its_processes() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a"]).await.ok();
    let (script, file) = script(&zkc, "");
    let watch = zkc.command(&["watch", "/a", "--initial", "--exec", &script]);
    let watch = { watch }.spawn().expect("zkc");
    let child = child_of(&file).await;
    signal(&watch, "TERM").await;
    gone(&child).await;
    assert_eq!(end(watch, "").await.code, 0);
}

#[tokio::test]
async fn a_program_of_watch_gets_the_change() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "x"]).await.ok();
    let watch = ["watch", "/a", "--initial", "--count", "1", "--exec", "cat"];
    let change: serde_json::Value = zkc.run(&watch).await.json();
    assert_eq!((&change["change"], &change["path"]), (&"exists".into(), &"/a".into()));
    let watch = ["watch", "/a", "--initial", "--count", "1", "--exec", "false"];
    assert_eq!(zkc.run(&watch).await.fails(2).lines().last(), Some("false: exit code 1"));
}

/// Starts a shell that reads lines from a pipe.
fn shell(zkc: &Zkc, options: &[&str]) -> Child {
    let mut arguments = vec!["shell", "-f", "-"];
    arguments.extend(options);
    zkc.command(&arguments).stdin(Stdio::piped()).spawn().expect("zkc")
}

async fn write(shell: &mut Child, lines: &str) {
    let stdin = shell.stdin.as_mut().expect("a pipe");
    stdin.write_all(lines.as_bytes()).await.expect("a shell");
}

async fn watched(zkc: &Zkc, path: &str) {
    zkc.server.until(|probe| probe.watches().iter().any(|watch| watch.path == path)).await;
}

#[tokio::test]
async fn a_line_after_one_that_catches_signals_is_ended() {
    for (stop, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let zkc = Zkc::start().await;
        let mut shell = shell(&zkc, &["--keep-going"]);
        write(&mut shell, "create -e /e\nwait /none --exists\ncreate /after\n").await;
        zkc.server.until(|probe| probe.exists("/e")).await;
        // It is for the command that holds the node.
        signal(&shell, "INT").await;
        watched(&zkc, "/none").await;
        assert!(!zkc.server.probe().exists("/e"));
        signal(&shell, stop).await;
        let ended = end(shell, "").await;
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(!zkc.server.probe().exists("/after"), "{stop}");
    }
}

#[tokio::test]
async fn term_ends_the_shell_after_its_command() {
    let zkc = Zkc::start().await;
    let mut shell = shell(&zkc, &["--keep-going"]);
    write(&mut shell, "create -e /e\ncreate /after\n").await;
    zkc.server.until(|probe| probe.exists("/e")).await;
    signal(&shell, "TERM").await;
    assert_eq!(end(shell, "").await.code, 143);
    let probe = zkc.server.probe();
    assert!(!probe.exists("/e") && !probe.exists("/after"));
}

#[tokio::test]
async fn a_shell_that_waits_for_a_line_ends() {
    let zkc = Zkc::start().await;
    let mut shell = shell(&zkc, &[]);
    write(&mut shell, "create /a\n").await;
    zkc.server.until(|probe| probe.exists("/a")).await;
    // Its end would be the end of the shell.
    let _input = shell.stdin.take();
    signal(&shell, "INT").await;
    let ended = tokio::time::timeout(PATIENCE, shell.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_line_and_not_the_terminal() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "one"]).await.ok();
    let mut terminal = Terminal::open();
    let mut shell = terminal.start(&mut zkc.command(&["shell"]));
    terminal.expect_prompt("zkc:/ (connected)> ");
    terminal.press("create -e /e\r");
    terminal.expect("holds the node until Ctrl-C");
    signal(&shell, "INT").await;
    terminal.expect_prompt("zkc:/ (connected)> ");
    terminal.press("wait /none --exists\r");
    watched(&zkc, "/none").await;
    signal(&shell, "INT").await;
    terminal.expect("interrupted");
    terminal.expect_prompt("zkc:/ (connected)> ");
    // The question is given up, and leaves the next line to the shell.
    terminal.press("rm -r /a --matching x*\r");
    terminal.expect_prompt("zkc:/ (connected)> ");
    zkc.run(&["create", "/a/b"]).await.ok();
    terminal.press("rm -r /a\r");
    terminal.expect("delete 2 nodes? [y/N]");
    signal(&shell, "INT").await;
    terminal.expect("interrupted");
    terminal.expect_prompt("zkc:/ (connected)> ");
    terminal.press("get /a\r");
    terminal.expect("one");
    terminal.expect_prompt("zkc:/ (connected)> ");
    signal(&shell, "TERM").await;
    let ended = tokio::time::timeout(PATIENCE, shell.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(143));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_reads_a_terminal_ends() {
    let zkc = Zkc::start().await;
    let mut terminal = Terminal::open();
    let mut member = terminal.start(&mut zkc.command(&["barrier", "enter", "/b", "1"]));
    terminal.expect("entered");
    signal(&member, "INT").await;
    let ended = tokio::time::timeout(PATIENCE, member.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ignored_signals_do_not_end_a_command() {
    let zkc = Zkc::start().await;
    let mut command = zkc.program("sh", &["-c", "trap '' HUP INT; exec zkc create -e /e"]);
    let command = command.spawn().expect("sh");
    zkc.server.until(|probe| probe.exists("/e")).await;
    signal(&command, "HUP").await;
    signal(&command, "INT").await;
    zkc.run(&["create", "/later"]).await.ok();
    assert!(zkc.server.probe().exists("/e"));
    signal(&command, "TERM").await;
    assert_eq!(end(command, "").await.code, 0);
}
