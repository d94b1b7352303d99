use zk_curator_testing::Verdict;

use crate::support::Zkc;

/// Each line of the table of exit codes in the guide.
#[tokio::test]
async fn every_outcome_has_its_exit_code() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a", "x"]).await.ok();
    zkc.run(&["create", "/a/b"]).await.ok();
    zkc.run(&["create", "/private", "--acl", "digest:ann:none:r"]).await.ok();
    for (code, command) in [
        (0, &["exists", "/a"][..]),
        (1, &["exists", "/b"]),
        (1, &["grep", "y", "/a"]),
        (1, &["wait", "/b", "--exists", "--for", "50ms"]),
        (2, &["no-command"]),
        (2, &["ls", "--no-option"]),
        (2, &["ls", "/a//b"]),
        (2, &["-c", "none", "ls"]),
        (2, &["watch", "/a", "--count", "0"]),
        (3, &["-s", "127.0.0.1:1", "--timeout", "300ms", "ls"]),
        (
            3,
            &["-s", "127.0.0.1:1", "--timeout", "300ms", "wait", "/a", "--exists", "--for", "50ms"],
        ),
        (4, &["get", "/b"]),
        (4, &["set", "/b", "x"]),
        (4, &["ls", "/b"]),
        (4, &["stat", "/b"]),
        (4, &["tree", "/b"]),
        (4, &["rm", "/b"]),
        (4, &["acl", "/b"]),
        (4, &["create", "/b/c"]),
        (5, &["get", "/private"]),
        (5, &["set", "/private", "x"]),
        (5, &["--read-only", "set", "/a", "x"]),
        (6, &["create", "/a"]),
        (6, &["set", "/a", "x", "--version", "3"]),
        (6, &["rm", "/a"]),
        (0, &["--help"]),
        (0, &["--version"]),
    ] {
        let outcome = zkc.run(command).await;
        assert_eq!(outcome.code, code, "{command:?}: {outcome:?}");
        if code > 2 {
            assert_eq!(outcome.stderr.lines().count(), 1, "{command:?}: {outcome:?}");
            assert_eq!(outcome.stdout, "", "{command:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_node_comes_with_its_deepest_ancestor() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a"]).await.ok();
    let told = zkc.run(&["get", "/a/b/c"]).await.fails(4);
    assert_eq!(told, "no node: /a/b/c (deepest that exists: /a)\n");
}

#[tokio::test]
async fn an_unknown_outcome_is_reported() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/a"]).await.ok();
    let _lost = zkc.server.rule(|request| {
        if request.path() == Some("/a/x") { Verdict::LoseReply } else { Verdict::Pass }
    });
    // The response is lost at each attempt, until the time is over.
    let told = zkc.run(&["--timeout", "2s", "create", "-S", "/a/x"]).await.fails(7);
    assert!(told.starts_with("unknown outcome: "), "{told}");
}

#[tokio::test]
async fn a_wait_without_a_connection_has_no_result() {
    let zkc = Zkc::start().await;
    let wait = ["wait", "/none", "--exists", "--for", "5s"];
    let wait = zkc.command(&wait).spawn().expect("zkc");
    zkc.server.until(|probe| probe.watches().iter().any(|watch| watch.path == "/none")).await;
    zkc.server.stop().await;
    let told = crate::support::end(wait, "").await.fails(3);
    assert!(told.starts_with("no connection: "), "{told}");
}
