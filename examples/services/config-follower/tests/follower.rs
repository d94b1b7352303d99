//! The service always gets the current configuration, in spite of outages.

use services_support::Service;
use zk_curator_recipes::config::ConfigStore;
use zk_curator_testing::TestServer;

const PROGRAM: &str = env!("CARGO_BIN_EXE_config-follower");

#[tokio::test]
async fn it_starts_without_a_server_and_follows_through_an_outage() {
    let server = TestServer::start().await;
    server.stop().await;
    let mut service = Service::start(PROGRAM, &server, &[]);
    service.line("serves").await;
    server.restart().await.expect("its port is free");
    assert_eq!(service.line("limits ").await, "100 10", "there is no store yet");
    service.line("flag is not set").await;

    let zk = server.framework().build().expect("settings");
    zk.start().await.expect("a server");
    let store = ConfigStore::new(&zk, "/config/limits");
    store.update().set("requests", 200).set("burst", 20).commit().await.expect("an update");
    assert_eq!(service.line("limits ").await, "200 20", "both at once");
    zk.create("/flags/checkout").creating_parents().data("on").await.expect("a write");
    assert_eq!(service.line("flag ").await, "on");

    // It learns of changes during an outage after it, and ignores invalid values.
    server.stop().await;
    server.restart().await.expect("its port is free");
    store.update().set("requests", "many").commit().await.expect("an update");
    store.update().set("requests", 300).commit().await.expect("an update");
    zk.set_data("/flags/checkout", "off").await.expect("a write");
    let mut wanted = vec!["limits 300 20", "flag off"];
    while !wanted.is_empty() {
        let line = service.next_line().await.expect("it keeps running");
        wanted.retain(|wanted| *wanted != line);
    }
    service.signal("TERM").await;
    assert!(service.ended().await.success());
    zk.close().await.expect("the end");
}
