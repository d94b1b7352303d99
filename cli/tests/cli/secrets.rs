use crate::support::Zkc;

const SECRET: &str = "hunter2-of-the-test";

#[tokio::test]
async fn a_secret_on_the_command_line_is_refused() {
    let zkc = Zkc::start().await;
    let literal = format!("digest:ann:{SECRET}");
    for command in [&["--auth", &literal, "ls"][..], &["ctx", "add", "a", "--auth", &literal]] {
        let outcome = zkc.run(command).await;
        assert_eq!(outcome.code, 2);
        assert!(!format!("{outcome:?}").contains(SECRET), "{outcome:?}");
    }
    assert!(!zkc.file("config.toml").exists());
}

#[tokio::test]
async fn no_output_has_a_secret() {
    let zkc = Zkc::start().await;
    let reference = format!("digest:@{}", zkc.secret("secret", &format!("ann:{SECRET}\n")));
    zkc.run(&["--auth", &reference, "create", "/a", "x", "--acl", "creator"]).await.ok();
    zkc.run(&["get", "/a"]).await.fails(5);
    let mut told = String::new();
    for command in [
        &["-v", "--auth", &reference, "get", "/a", "--stat"][..],
        &["-v", "--auth", &reference, "acl", "/a"],
        &["ctx", "add", "a", "--auth", &reference],
        &["ctx", "show", "a"],
        &["-v", "--auth", &reference, "--timeout", "300ms", "-s", "127.0.0.1:1", "ls"],
        &["--auth", "digest:@/none", "ls"],
        &["--auth", "digest:env:NONE", "ls"],
    ] {
        told.push_str(&format!("{:?}", zkc.run(command).await));
    }
    told.push_str(&std::fs::read_to_string(zkc.file("config.toml")).expect("a file"));
    assert!(!told.contains(SECRET), "{told}");
}

#[tokio::test]
async fn the_environment_has_secrets_too() {
    let zkc = Zkc::start().await;
    let mut command =
        zkc.command(&["--auth", "digest:env:ZK_AUTH", "create", "/a", "x", "--acl", "creator"]);
    let child = command.env("ZK_AUTH", format!("ann:{SECRET}")).spawn().expect("zkc");
    crate::support::end(child, "").await.ok();
    zkc.run(&["get", "/a"]).await.fails(5);
}

/// They are not in the file, and are not extra.
#[tokio::test]
async fn a_restore_spares_nodes_that_the_backup_could_not_read() {
    let zkc = Zkc::start().await;
    let reference = format!("digest:@{}", zkc.secret("secret", &format!("ann:{SECRET}")));
    zkc.run(&["create", "/d"]).await.ok();
    for node in ["/d/secret", "/d/secret/child"] {
        zkc.run(&["--auth", &reference, "create", node, "--acl", "creator"]).await.ok();
    }
    let file = zkc.file("d.zkb").display().to_string();
    zkc.run(&["backup", "/d", &file]).await.fails(8);
    zkc.run(&["create", "/d/extra"]).await.ok();
    let restore = ["--auth", &reference, "--yes", "restore", &file, "--delete-extra"];
    zkc.run(&restore).await.ok();
    let probe = zkc.server.probe();
    assert!(probe.exists("/d/secret/child") && !probe.exists("/d/extra"));
}
