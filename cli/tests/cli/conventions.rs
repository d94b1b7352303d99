//! Conventions of all commands: the environment, names, and standard input and output.

use std::process::Stdio;

use zk_curator_testing::TestServer;

use crate::support::{Outcome, Zkc, end};

/// Runs a command without a variable.
async fn without(zkc: &Zkc, variables: &[&str], arguments: &[&str]) -> Outcome {
    let mut command = zkc.command(arguments);
    for variable in variables {
        command.env_remove(variable);
    }
    end(command.spawn().expect("zkc"), "").await
}

#[tokio::test]
async fn no_home_directory_is_needed() {
    let zkc = Zkc::start().await;
    let homeless = ["HOME", "ZKC_CONFIG"];
    without(&zkc, &homeless, &["create", "/a", "x"]).await.ok();
    assert_eq!(without(&zkc, &homeless, &["get", "/a"]).await.ok(), "x\n");
    let script = ["lock", "/l", "--", "zkc", "get", "/a"];
    #[cfg(unix)]
    assert_eq!(without(&zkc, &homeless, &script).await.ok(), "x\n");
    assert_eq!(without(&zkc, &homeless, &["ctx"]).await.code, 2);
    let told = without(&zkc, &homeless, &["-c", "prod", "ls"]).await.fails(2);
    assert!(told.contains("no context prod"), "{told}");
}

#[tokio::test]
async fn ids_of_acls_have_commas() {
    let zkc = Zkc::start().await;
    let list = r"digest:ann\,b:x:cdrwa,world:anyone:ra";
    zkc.run(&["create", "/a", "--acl", list]).await.ok();
    let shown = zkc.run(&["acl", "/a", "-o", "json"]).await.json();
    assert_eq!(shown[0]["id"], "ann,b:x");
    assert_eq!(shown[1]["id"], "anyone");
    // The printed list can be given again.
    let printed = zkc.run(&["-v", "acl", "/a"]).await;
    let line = printed.stderr.lines().find(|line| line.contains("version 0: ")).expect("the list");
    let (_, list) = line.split_once(": ").expect("a list");
    let list: Vec<String> = serde_json::from_str(list).expect("JSON");
    zkc.run(&["acl", "/a", "--set", &list.join(",")]).await.ok();
    assert_eq!(zkc.run(&["acl", "/a", "-o", "json"]).await.json(), shown);
    let told = zkc.run(&["create", "/b", "--acl", "x509:CN=ann,O=a:cdrwa"]).await.fails(2);
    assert!(told.contains(r"a comma in an id is \,"), "{told}");
}

#[tokio::test]
async fn the_dash_is_standard_input_and_output() {
    let zkc = Zkc::start().await;
    zkc.run(&["create", "-p", "/a/b", "x"]).await.ok();
    let written = zkc.run(&["backup", "/a", "-", "--plain"]).await;
    assert!(written.stderr.contains("2 nodes, exact"), "{written:?}");
    let backup = written.ok();
    assert_eq!(backup.lines().count(), 4, "{backup}");
    assert!(!zkc.file("-").exists());
    zkc.run_with(&["restore", "-", "--root", "/c"], &backup).await.ok();
    assert_eq!(zkc.run(&["get", "/c/b"]).await.ok(), "x\n");
    zkc.run_with(&["diff", "@-", "/c"], &backup).await.ok();
    // It is not a backup.
    zkc.run_with(&["restore", "-", "--root", "/d"], "{}\n").await.fails(2);
    let document = zkc.run(&["export", "/a", "-", "-o", "json"]).await.json();
    assert_eq!(document["children"]["b"]["data"]["text"], "x");
    assert!(!zkc.file("-").exists());
}

#[tokio::test]
async fn a_failed_backup_writes_nothing_to_standard_output() {
    let zkc = Zkc::start().await;
    let written = zkc.run(&["backup", "/none", "-", "--plain"]).await;
    assert_eq!((written.code, &*written.stdout), (4, ""), "{written:?}");
}

#[tokio::test]
async fn a_closed_pipe_is_no_failure() {
    let zkc = Zkc::start().await;
    // More than a pipe has room for.
    zkc.run_with(&["create", "/a", "-"], &"x\n".repeat(100_000)).await.ok();
    for format in ["table", "wide", "json", "jsonl", "yaml", "raw"] {
        let outcome = zkc.run_with_closed_pipe(&["get", "/a", "-o", format]).await;
        assert_eq!((outcome.code, &*outcome.stderr), (0, ""), "{format}: {outcome:?}");
    }
}

#[tokio::test]
async fn help_is_a_command() {
    let zkc = Zkc::start().await;
    for word in ["help", "--help", "-h"] {
        let told = zkc.run(&[word]).await.ok();
        for text in ["Usage: zkc", "\nRead:\n  get ", "\n  backup ", "\nExit codes:\n"] {
            assert!(told.contains(text), "{word}: {text:?}: {told}");
        }
    }
    for words in [&["help", "backup"][..], &["help", "queue", "put"], &["queue", "help", "put"]] {
        let told = zkc.run(words).await.ok();
        let command = words.join(" ").replace("help ", "");
        assert!(told.contains(&format!("Usage: zkc {command}")), "{told}");
        assert!(told.contains("\nExamples:\n  # "), "{told}");
    }
    zkc.run(&["help", "none"]).await.fails(2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_command_that_is_empty_is_refused() {
    let zkc = Zkc::start().await;
    for line in [
        &["lock", "/l", "--"][..],
        &["semaphore", "/s", "-n", "2", "--"],
        &["elect", "/e", "--id", "a", "--"],
        &["group", "join", "/g", "a", "--"],
        &["discover", "register", "orders", "--port", "80", "--"],
    ] {
        zkc.run(line).await.fails(2);
    }
    assert_eq!(zkc.server.probe().children("/"), ["zookeeper"]);
    // Elsewhere, it ends the options.
    zkc.run(&["ls", "/", "--"]).await.ok();
    let told = zkc.run_with(&["shell", "-f", "-"], "lock /l --\n").await.fails(2);
    assert!(told.contains("no command after"), "{told}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_secret_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let zkc = Zkc::start().await;
    let file = zkc.file("secret");
    std::fs::write(&file, "ann:secret").expect("a file");
    let reference = format!("digest:@{}", file.display());
    for (mode, code) in [(0o644, 2), (0o640, 2), (0o604, 2), (0o600, 0), (0o400, 0)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&file, permissions).expect("a mode");
        let outcome = zkc.run(&["--auth", &reference, "ls", "/"]).await;
        assert_eq!(outcome.code, code, "{mode:o}: {outcome:?}");
        assert!(code == 0 || outcome.stderr.contains("chmod 600"), "{outcome:?}");
    }
    let named = zkc.file("it's secret");
    std::fs::rename(&file, &named).expect("another name");
    std::fs::set_permissions(&named, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let told = zkc.run(&["--auth", "digest:@it's secret", "ls", "/"]).await.fails(2);
    assert!(told.contains(r"(chmod 600 'it'\''s secret')"), "{told}");
}

#[tokio::test]
async fn names_cannot_change_the_order_of_text() {
    let zkc = Zkc::start().await;
    let name = "/gpj.\u{202e}exe";
    let created = zkc.run(&["create", name, "x"]).await.ok();
    let mut told = created;
    for command in [&["ls", "/"][..], &["tree", "/"], &["stat", name], &["find", "/"]] {
        told.push_str(&zkc.run(command).await.ok());
    }
    told.push_str(&zkc.run(&["create", name]).await.fails(6));
    told.push_str(&zkc.run(&["set", name, "x", "--version", "7"]).await.fails(6));
    told.push_str(&zkc.run(&["why", name]).await.ok());
    assert!(told.contains("gpj.") && !told.contains('\u{202e}'), "{told}");
    // The output for programs is unchanged, and so are data.
    assert_eq!(zkc.run(&["ls", "/", "-o", "name"]).await.ok(), "gpj.\u{202e}exe\nzookeeper\n");
    zkc.run(&["set", name, "\u{202e}data"]).await.ok();
    assert_eq!(zkc.run(&["get", name]).await.ok(), "\u{202e}data\n");
}

#[tokio::test]
async fn requests_have_the_size_that_servers_accept() {
    let server = TestServer::builder().max_frame(2 << 20).start().await.expect("a server");
    let zkc = Zkc::on(server);
    let data = "x".repeat(1_500_000);
    zkc.run_with(&["create", "/large", "-"], &data).await.fails(2);
    let large = ["--jute-maxbuffer", "0x200000"];
    zkc.run_with(&[&large[..], &["create", "/large", "-"]].concat(), &data).await.ok();
    // The context has it, too, and so has the environment.
    let servers = zkc.servers.clone();
    zkc.run(&[&large[..], &["ctx", "add", "big", "-s", &servers]].concat()).await.ok();
    let shown = zkc.run(&["ctx", "show", "big"]).await.ok();
    assert!(shown.contains("jute_maxbuffer = 2097152"), "{shown}");
    zkc.run_with(&["-c", "big", "set", "/large", "-"], &data).await.ok();
    let mut command = zkc.command(&["set", "/large", "-"]);
    let child = command.env("ZKC_JUTE_MAXBUFFER", "2000000").stdin(Stdio::piped());
    end(child.spawn().expect("zkc"), &data).await.ok();
    for wrong in ["0", "1023", "x", "-1", "0x80000000"] {
        zkc.run(&[&format!("--jute-maxbuffer={wrong}"), "ls"]).await.fails(2);
    }
}

/// A request for the usual number of nodes would be larger than servers accept.
#[tokio::test]
async fn long_names_are_read_and_changed_in_smaller_requests() {
    let zkc = Zkc::start().await;
    let zk = zk_curator::CuratorFramework::builder().connect_string(zkc.server.connect_string());
    let zk = zk.build().expect("settings");
    zk.start().await.expect("a connection");
    zk.create("/d").await.expect("a node");
    let names: Vec<_> = (0..1_300).map(|n| format!("/d/{n:0>1100}")).collect();
    let creates = names.iter().map(|name| zk.create(name).data("x"));
    for created in zk_curator::op::fan_out(256, creates).await {
        created.expect("a node");
    }
    zk.close().await.expect("an end");
    assert!(zkc.run(&["tree", "/d"]).await.ok().ends_with("1301 nodes\n"));
    assert_eq!(zkc.run(&["find", "/d", "-o", "name"]).await.ok().lines().count(), 1_301);
    assert_eq!(zkc.run(&["ls", "-l", "/d", "-o", "jsonl"]).await.ok().lines().count(), 1_300);
    assert!(zkc.run(&["grep", "x", "/d"]).await.ok().lines().count() == 1_300);
    zkc.run(&["inspect", "/d"]).await.ok();
    zkc.run(&["du", "--summary", "/d"]).await.ok();
    zkc.run(&["doctor", "--tree", "/d"]).await.ok();
    zkc.run(&["backup", "/d", "d.zkb"]).await.ok();
    zkc.run(&["diff", "d.zkb", "/d"]).await.ok();
    zkc.run(&["cp", "-r", "/d", "/e"]).await.ok();
    zkc.run(&["mv", "-r", "/e", "/f"]).await.ok();
    zkc.run(&["--yes", "rm", "-r", "/f"]).await.ok();
    zkc.run(&["restore", "d.zkb", "--root", "/g"]).await.ok();
    zkc.run(&["--jute-maxbuffer", "20000", "restore", "d.zkb", "--root", "/h"]).await.ok();
    assert_eq!(zkc.server.probe().children("/h").len(), 1_300);
    zkc.run(&["export", "/d", "folder"]).await.ok();
    assert_eq!(std::fs::read_dir(zkc.file("folder")).expect("a folder").count(), 2);
}
