//! Deletions of nodes that change meanwhile.

use zk_curator_testing::Verdict;

use crate::support::{Zkc, end};

async fn old_nodes() -> Zkc {
    let zkc = Zkc::start().await;
    let lines = "create /d\ncreate /d/a\ncreate /d/a/below\ncreate /d/b\n";
    zkc.run_with(&["txn"], lines).await.ok();
    zkc
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_changes_after_the_question_is_kept() {
    use crate::terminal::{PATIENCE, Terminal};

    for change in [
        &["set /d/a x"][..],
        // A new node in its place has the same version.
        &["rm /d/a/below", "rm /d/a", "create /d/a new", "create /d/a/below"],
    ] {
        let zkc = old_nodes().await;
        let mut terminal = Terminal::open();
        let command = ["rm", "-r", "/d", "--older-than", "1ms"];
        let mut rm = terminal.start(&mut zkc.command(&command));
        terminal.expect("delete 3 nodes? [y/N]");
        zkc.run_with(&["txn"], &change.join("\n")).await.ok();
        terminal.press("y\n");
        terminal.expect("kept: changed since it was read: /d/a\r\n");
        let ended = tokio::time::timeout(PATIENCE, rm.wait()).await.expect("an end").expect("zkc");
        assert_eq!(ended.code(), Some(8), "{change:?}");
        let probe = zkc.server.probe();
        assert!(probe.exists("/d/a/below") && !probe.exists("/d/b"), "{change:?}");
    }
}

#[tokio::test]
async fn a_node_that_changes_before_its_deletion_is_kept() {
    let zkc = old_nodes().await;
    let late = zkc.server.rule(|request| {
        let deletes = request.is_delete() && request.is_about("/d/b");
        if deletes { Verdict::Delay(std::time::Duration::from_secs(1)) } else { Verdict::Pass }
    });
    let arguments = ["rm", "/d", "--matching", "b", "--older-than", "1ms"];
    let rm = zkc.command(&arguments).spawn().expect("zkc");
    late.fired().await;
    zkc.run(&["set", "/d/b", "x"]).await.ok();
    assert_eq!(end(rm, "").await.fails(6), "changed since it was read: /d/b\n");
    assert!(zkc.server.probe().exists("/d/b"));
}

#[tokio::test]
async fn an_empty_node_that_gets_a_child_is_kept() {
    let zkc = old_nodes().await;
    let late = zkc.server.rule(|request| {
        let deletes = request.is_delete() && request.is_about("/d/b");
        if deletes { Verdict::Delay(std::time::Duration::from_secs(1)) } else { Verdict::Pass }
    });
    let rm = zkc.command(&["rm", "-r", "/d", "--empty"]).spawn().expect("zkc");
    late.fired().await;
    zkc.run(&["create", "/d/b/new"]).await.ok();
    assert_eq!(end(rm, "").await.fails(6), "not empty: /d/b\n");
    assert!(zkc.server.probe().exists("/d/b/new"));
}

#[tokio::test]
async fn a_deletion_that_fails_half_way_says_so() {
    let zkc = old_nodes().await;
    let _refused = zkc.server.rule(|request| {
        let deletes = request.is_delete() && request.is_about("/d");
        let code = zk_curator_testing::ErrorCode::MarshallingError;
        if deletes { Verdict::Refuse(code) } else { Verdict::Pass }
    });
    let told = zkc.run(&["rm", "-r", "-y", "/d"]).await.fails(8);
    assert!(told.starts_with("deleted 3 of 4 nodes; then "), "{told}");
}

#[tokio::test]
async fn a_selected_node_that_vanishes_is_no_failure() {
    let zkc = old_nodes().await;
    zkc.run(&["create", "/d/c"]).await.ok();
    let late = zkc.server.rule(|request| {
        let deletes = request.is_delete() && request.is_about("/d/b");
        if deletes { Verdict::Delay(std::time::Duration::from_secs(1)) } else { Verdict::Pass }
    });
    let rm = zkc.command(&["rm", "-y", "/d", "--matching", "[bc]"]).spawn().expect("zkc");
    late.fired().await;
    zkc.server.remove("/d/b").expect("a node");
    end(rm, "").await.ok();
    assert!(!zkc.server.probe().exists("/d/c"));
}

#[tokio::test]
async fn a_lost_response_is_no_failure_of_a_selected_node() {
    for options in [&["--matching", "b"][..], &["--matching", "b", "--older-than", "1ms"]] {
        let zkc = old_nodes().await;
        let lost = zkc.server.rule(|request| {
            let deletes = request.is_delete() && request.is_about("/d/b");
            if deletes { Verdict::LoseReply } else { Verdict::Pass }
        });
        let lost = lost.times(1);
        zkc.run(&[&["rm", "/d"], options].concat()).await.ok();
        assert_eq!(lost.hits(), 1, "{options:?}");
        assert!(!zkc.server.probe().exists("/d/b"));
    }
}

#[tokio::test]
async fn nodes_after_a_failed_one_are_counted_and_named() {
    let zkc = old_nodes().await;
    let told = zkc.run(&["rm", "-y", "/d/missing", "/d/b", "/d/a"]).await.fails(8);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines[0], "kept: not empty: /d/a", "{told}");
    assert!(lines[1].starts_with("deleted 1 of 3 nodes; then no node: /d/missing"), "{told}");
    assert!(!zkc.server.probe().exists("/d/b"));
}

#[tokio::test]
async fn no_path_to_the_nodes_of_the_servers_is_accepted() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "/quota"]).await.ok();
    let backup = zkc.file("quota.zkb").display().to_string();
    zkc.run(&["backup", "/quota", &backup]).await.ok();
    let chroot = format!("{}/zookeeper", zkc.servers);
    for above in [["--namespace", "/zookeeper"], ["--namespace", "zookeeper"], ["-s", &chroot]] {
        for command in [
            &["rm", "-r", "-y", "/quota"][..],
            &["rm", "-r", "-y", "/"],
            &["rm", "-y", "/", "--matching", "*"],
            &["acl", "/quota", "-r", "-y", "--set", "read"],
            &["cp", "-r", "/quota", "/copy"],
            &["mv", "-r", "/quota", "/copy"],
            &["quota", "/config", "--nodes", "5"],
            &["restore", &backup],
            &["restore", &backup, "--root", "/copy"],
        ] {
            let mut all = above.to_vec();
            all.extend(command);
            let told = zkc.run(&all).await.fails(2);
            assert!(told.starts_with("refused: "), "{all:?}: {told}");
        }
    }
    assert!(zkc.server.probe().exists("/quota"));
}

#[tokio::test]
async fn a_node_of_a_namespace_is_not_one_of_the_servers() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "-p", "/app/zookeeper/a", "x"]).await.ok();
    let backup = zkc.file("app.zkb").display().to_string();
    let run = async |command: &[&str]| {
        let mut all = vec!["--namespace", "app"];
        all.extend(command);
        zkc.run(&all).await.ok()
    };
    run(&["backup", "/", &backup]).await;
    let exported = run(&["export", "/", "-o", "json"]).await;
    assert!(exported.contains("\"zookeeper\""), "{exported}");
    run(&["rm", "-r", "-y", "/zookeeper"]).await;
    run(&["restore", &backup]).await;
    assert!(zkc.server.probe().exists("/app/zookeeper/a"));
}
