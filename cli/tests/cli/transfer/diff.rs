use zk_curator::{Acl, CreateMode};
use zk_curator_testing::TestServer;

use super::{Scratch, connected, create, run, zkc};

#[tokio::test(flavor = "multi_thread")]
async fn differences_are_listed() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "1"), ("/a/b", "2"), ("/a/c", "3"), ("/a/d", "4")]).await;
    let file = scratch.file();
    zkc(&server, &["backup", "/a", &file]).await.code(0);
    assert_eq!(zkc(&server, &["diff", &file, "/a"]).await.code(0).stdout, "");
    zk.set_data("/a/b", "changed").await.unwrap();
    zk.set_acl("/a/b", Acl::read_unsafe()).await.unwrap();
    zk.delete("/a/c").await.unwrap();
    create(&zk, &[("/a/new", "")]).await;
    zk.create("/a/e").mode(CreateMode::Ephemeral).await.unwrap();
    let ran = zkc(&server, &["diff", &file, "/a"]).await.code(1);
    let lines: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines, [vec!["~", "/a/b", "data,", "acl"], vec!["-", "/a/c"], vec!["+", "/a/new"]]);
    let ran = zkc(&server, &["diff", &file, "/a", "--ephemerals", "-o", "json"]).await.code(1);
    assert_eq!(ran.json().as_array().unwrap().len(), 4);
    zkc(&server, &["diff", "/a", "/none"]).await.code(4);
    zkc(&server, &["diff", "/a", "@/none"]).await.code(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ensembles_are_compared() {
    let (here, there, scratch) =
        (TestServer::start().await, TestServer::start().await, Scratch::new());
    create(&connected(&here).await, &[("/a", "1")]).await;
    create(&connected(&there).await, &[("/b", "1"), ("/b/c", "2")]).await;
    let config = scratch.path("config.toml");
    let text = format!("[contexts.there]\nservers = '{}'\n", there.connect_string());
    std::fs::write(&config, text).unwrap();
    let mut command = super::command(&here.connect_string(), &["diff", "/a", "there:/b"]);
    command.env("ZKC_CONFIG", config);
    let ran = run(command).await.code(1);
    assert_eq!(ran.stdout.split_whitespace().collect::<Vec<_>>(), ["+", "/b/c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subtree_is_a_document_or_directories() {
    let (server, scratch) = (TestServer::start().await, Scratch::new());
    let zk = connected(&server).await;
    create(&zk, &[("/a", "1"), ("/a/..x", "2"), ("/a/b/c", "3")]).await;
    let ran = zkc(&server, &["export", "/a", "-o", "json"]).await.code(0);
    assert_eq!(ran.json()["children"]["b"]["children"]["c"]["data"]["text"], "3");
    zkc(&server, &["export", "/a", "-o", "yaml"]).await.code(0).prints("text: '3'");
    let folder = scratch.path("out");
    zkc(&server, &["export", "/a", &folder]).await.code(0).prints("4 nodes");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}/_data")).unwrap();
    assert_eq!(
        (read(""), read("%2e.x"), read("b"), read("b/c")),
        ("1".into(), "2".into(), String::new(), "3".into())
    );
    zkc(&server, &["export", "/a", &folder]).await.code(2).says("out");
}
