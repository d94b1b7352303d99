use zk_curator_testing::OpCode;

use crate::support::Zkc;

#[tokio::test]
async fn lines_run_in_one_session() {
    let zkc = Zkc::start().await;
    let lines = "create /a one\ncd a\npwd\ncreate b two\nls\nget ../a\nget b | tr a-z A-Z\n# end\n";
    let told = zkc.run_with(&["shell", "-f", "-"], lines).await.ok();
    assert_eq!(told, "/a\n/a\n/a/b\nb\none\nTWO\n");
    let sessions = zkc.server.probe().requests(OpCode::CloseSession);
    assert_eq!(sessions, 1);
}

#[tokio::test]
async fn a_script_ends_with_its_first_failure() {
    let zkc = Zkc::start().await;
    let script = zkc.file("script.zkc");
    std::fs::write(&script, "#!/usr/bin/env -S zkc shell -f\nget /none\ncreate /a\n")
        .expect("a file");
    let script = script.display().to_string();
    zkc.run(&["shell", "-f", &script]).await.fails(4);
    assert!(!zkc.server.probe().exists("/a"));
    zkc.run(&["shell", "-k", "-f", &script]).await.fails(4);
    assert!(zkc.server.probe().exists("/a"));
}

#[tokio::test]
async fn a_line_cannot_leave_the_session() {
    let zkc = Zkc::start().await;
    for line in ["cd /none", "no-command", "cd a b"] {
        let outcome = zkc.run_with(&["shell", "-f", "-"], line).await;
        assert!(matches!(outcome.code, 2 | 4), "{line}: {outcome:?}");
    }
    for (option, value) in [
        ("--servers", "other:2181"),
        ("--namespace", "x"),
        ("--context", "x"),
        ("--config", "/none"),
        ("--auth", "digest:@/none"),
        ("--sasl", "ann:@/none"),
        ("--tls-ca", "/none"),
        ("--tls-cert", "/none --tls-key /none"),
        ("--timeout", "5s"),
        ("--session-timeout", "5s"),
    ] {
        for line in [format!("{option} {value} ls /"), format!("ls / {option} {value}")] {
            let told = zkc.run_with(&["shell", "-f", "-"], &line).await.fails(2);
            assert!(told.starts_with(&format!("{option}: the shell")), "{line}: {told}");
        }
    }
    zkc.run_with(&["--read-only", "shell", "-f", "-"], "create /a\n").await.fails(5);
    zkc.run_with(&["shell", "-f", "-"], "--read-only create /a\n").await.fails(5);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_completion_and_history() {
    use crate::terminal::{PATIENCE, Terminal};

    let zkc = Zkc::start().await;
    zkc.run(&["create", "/locks", "one"]).await.ok();
    let mut terminal = Terminal::open();
    let mut shell = terminal.start(&mut zkc.command(&["shell"]));
    terminal.expect_prompt("zkc:/ (connected)> ");
    terminal.press("get /lo\t\r");
    terminal.expect("one");
    terminal.expect_prompt("zkc:/ (connected)> ");
    terminal.press("set /locks secret\r");
    terminal.expect_prompt("zkc:/ (connected)> ");
    terminal.press("cd locks\r");
    terminal.expect_prompt("zkc:/locks (connected)> ");
    // Ctrl-C discards a line, and Ctrl-D ends the shell.
    terminal.press("rm -r /\u{3}");
    terminal.expect_prompt("zkc:/locks (connected)> ");
    terminal.press("\u{4}");
    let ended = tokio::time::timeout(PATIENCE, shell.wait()).await.expect("an end").expect("zkc");
    assert_eq!(ended.code(), Some(0));
    let history = std::fs::read_to_string(zkc.file("history-default")).expect("a history");
    assert!(history.contains("get /locks") && history.contains("cd locks"), "{history}");
    assert!(!history.contains("secret"), "{history}");
}
