use crate::support::Zkc;

#[tokio::test]
async fn a_context_names_servers_and_rules() {
    let zkc = Zkc::start().await;
    let servers = zkc.server.connect_string();
    zkc.run(&["create", "/app"]).await.ok();
    zkc.run(&["create", "/app/a", "x"]).await.ok();
    zkc.run(&["ctx", "add", "prod", "-s", &servers, "--namespace", "app", "--read-only"])
        .await
        .ok();
    zkc.run(&["ctx", "add", "careful", "-s", &servers, "--confirm-changes"]).await.ok();
    assert_eq!(zkc.run(&["ctx", "-o", "name"]).await.ok(), "careful\nprod\n");
    assert_eq!(zkc.run(&["-c", "prod", "get", "/a"]).await.ok(), "x\n");
    // Named servers get neither the namespace nor the identities of the current context, but its
    // rules hold.
    assert_eq!(zkc.run(&["get", "/app/a"]).await.ok(), "x\n");
    let refused = zkc.run(&["set", "/app/a", "y"]).await.fails(5);
    assert!(refused.starts_with("read-only"), "{refused}");
    zkc.run(&["-c", "careful", "set", "/app/a", "y"]).await.fails(2);
    zkc.run(&["-c", "careful", "--confirm", "prod", "set", "/app/a", "y"]).await.fails(2);
    zkc.run(&["-c", "careful", "--confirm", "careful", "set", "/app/a", "y"]).await.ok();
    zkc.run(&["ctx", "add", "it's", "-s", &servers, "--confirm-changes"]).await.ok();
    let told = zkc.run(&["-c", "it's", "set", "/app/a", "y"]).await.fails(2);
    assert!(told.contains(r"(pass --confirm 'it'\''s')"), "{told}");
    zkc.run(&["ctx", "careful"]).await.ok();
    assert_eq!(zkc.run(&["get", "/app/a"]).await.ok(), "y\n");
    zkc.run(&["ctx", "rm", "prod"]).await.ok();
    zkc.run(&["ctx", "show", "prod"]).await.fails(2);
}

#[tokio::test]
async fn an_invalid_file_is_named() {
    let zkc = Zkc::start().await;
    std::fs::write(zkc.file("config.toml"), "[contexts.a]\nserver = 1\n").expect("a file");
    let told = zkc.run(&["ls"]).await.fails(2);
    assert!(told.contains("config.toml") && told.contains("server"), "{told}");
}
