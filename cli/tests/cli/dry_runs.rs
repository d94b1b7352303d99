//! A dry run fails as the change would, and changes nothing.

use crate::support::Zkc;

async fn nodes() -> Zkc {
    let zkc = Zkc::start().await;
    let lines = "create /a one\ncreate /a/b\ncreate /c\nset /c x\n\
                 create /m\ncreate /m/a\ncreate /m/a/b\ncreate /m/c\n";
    zkc.run_with(&["txn"], lines).await.ok();
    let zk = zkc.server.framework().build().expect("settings");
    zk.start().await.expect("connected");
    let ephemeral = zk.create("/e").mode(zk_curator::CreateMode::Ephemeral);
    ephemeral.await.expect("a node");
    // The session, and its node, stay as long as the server.
    std::mem::forget(zk);
    zkc
}

#[tokio::test]
async fn a_dry_run_has_the_exit_code_of_the_change() {
    let long = "x".repeat(1_100_000);
    for (code, command) in [
        (0, &["set", "/a", "two"][..]),
        (0, &["set", "/a", "two", "--version", "0"]),
        (6, &["set", "/a", "two", "--version", "1"]),
        (6, &["set", "/a", "two", "--if-data", "other"]),
        (0, &["set", "/a", "two", "--if-data", "one"]),
        (4, &["set", "/none", "two"]),
        (4, &["set", "/none", "two", "--if-data", "one"]),
        (4, &["set", "/none", "two", "--version", "0"]),
        (0, &["set", "/none/below", "two", "--create"]),
        (2, &["set", "/e/below", "two", "--create"]),
        (2, &["set", "/a", "two", "--fenced"]),
        (2, &["set", "/a", "-"]),
        (2, &["set", "/a//b", "two"]),
        (0, &["create", "/new"]),
        (6, &["create", "/a"]),
        (0, &["create", "/a", "--if-exists", "keep"]),
        (0, &["create", "/a", "--if-exists", "set"]),
        (0, &["create", "-S", "/a"]),
        (0, &["create", "--protected", "/a"]),
        (4, &["create", "/none/below"]),
        (4, &["create", "/none/below", "--if-exists", "set"]),
        (4, &["create", "-S", "/none/below-"]),
        (0, &["create", "-p", "/none/below/deep"]),
        (2, &["create", "/e/below"]),
        (2, &["create", "-p", "/e/below/deep"]),
        (2, &["create", "-S", "/new-", "--if-exists", "set"]),
        (2, &["create", "/a//b"]),
        (2, &["create", "/new", "--ttl", "0s"]),
        (0, &["rm", "/a/b"]),
        (6, &["rm", "/a"]),
        (4, &["rm", "/none"]),
        (0, &["rm", "/none", "-f"]),
        (6, &["rm", "/c", "--version", "0"]),
        (0, &["rm", "/c", "--version", "1"]),
        (0, &["rm", "-r", "-y", "/a"]),
        (8, &["rm", "-y", "/m", "--matching", "[ac]"]),
        (6, &["rm", "-y", "/m", "--matching", "a"]),
        (0, &["rm", "-y", "/m", "--empty"]),
        (4, &["acl", "/none", "--set", "read"]),
        (6, &["acl", "/a", "--set", "read", "--version", "5"]),
        (0, &["acl", "/a", "--set", "read", "--version", "0"]),
    ] {
        let zkc = nodes().await;
        let input = if command.last() == Some(&"-") { &long } else { "" };
        let before = zkc.server.writes().len();
        let mut dry = command.to_vec();
        dry.push("--dry-run");
        let dry = zkc.run_with(&dry, input).await;
        assert_eq!(dry.code, code, "{command:?}: {dry:?}");
        assert_eq!(zkc.server.writes().len(), before, "{command:?}");
        let real = zkc.run_with(command, input).await;
        assert_eq!(real.code, code, "{command:?}: {real:?}");
    }
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen() {
    let zkc = nodes().await;
    for (text, command) in [
        ("/a: set version 0 to 3 bytes\n", &["set", "/a", "two"][..]),
        ("/none: create with 3 bytes\n", &["set", "/none", "two", "--create"]),
        ("create /new with 0 bytes\n", &["create", "/new"]),
        ("keep /a\n", &["create", "/a", "--if-exists", "keep"]),
        ("set /a to 1 bytes\n", &["create", "/a", "x", "--if-exists", "set"]),
    ] {
        let mut command = command.to_vec();
        command.push("--dry-run");
        assert_eq!(zkc.run(&command).await.ok(), text, "{command:?}");
    }
    let told = zkc.run(&["set", "/a", "x", "--version", "7", "--dry-run"]).await.fails(6);
    assert_eq!(told, "other version: /a has version 0\n");
    let told = zkc.run(&["create", "/x/y/z", "--dry-run"]).await.fails(4);
    assert_eq!(told, "no node: /x/y/z (deepest that exists: /)\n");
}
