use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_real as real;

use super::{Scratch, command, fill, run};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: scripts/test-all"]
async fn on_apache_zookeeper_a_restored_tree_is_the_same() {
    let name = "on_apache_zookeeper_a_restored_tree_is_the_same";
    let Some(server) = real::or_skip(name).await else { return };
    let scratch = Scratch::new();
    let servers = server.connect_string();
    let zk = CuratorFramework::builder().connect_string(&servers).build().unwrap();
    zk.start().await.unwrap();
    fill(&zk, "/a", 20, 100).await;
    zk.create("/a/q").await.unwrap();
    for _ in 0..5 {
        let node = zk.create("/a/q/n-").mode(CreateMode::PersistentSequential).await.unwrap();
        if !node.path.ends_with('4') {
            zk.delete(&node.path).await.unwrap();
        }
    }
    let file = scratch.file();
    let zkc = |arguments: &[&str]| run(command(&servers, arguments));
    zkc(&["backup", "/a", &file]).await.code(0).prints("2023 nodes, exact");
    zkc(&["restore", &file, "--root", "/b"]).await.code(2).says("would count from 1");
    zkc(&["restore", &file, "--root", "/b", "--burn-sequences"]).await.code(0);
    zkc(&["diff", &file, "/b"]).await.code(0);
    let next = zk.create("/b/q/n-").mode(CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(next.path, "/b/q/n-0000000005");
    zkc(&["mv", "-r", "/b", "/c", "--burn-sequences"]).await.code(0);
    assert!(zk.exists("/b").await.unwrap().is_none());
    zkc(&["backup", "/", &file]).await.code(0).prints("exact");
    super::null_data::create(&zk, "/n").await;
    zkc(&["cp", "-r", "/n", "/m"]).await.code(0);
    zkc(&["diff", "/n", "/m"]).await.code(0);
    zkc(&["backup", "/n", &file]).await.code(0);
    zkc(&["restore", &file, "--root", "/o"]).await.code(0);
    zkc(&["diff", "/n", "/o"]).await.code(0);
    zk.set_data("/o/null", "").await.unwrap();
    zkc(&["diff", "/n", "/o"]).await.code(1).prints("data from null");
    zk.close().await.unwrap();
}
