//! `zkc --kerberos`, with MIT's Kerberos server and Apache ZooKeeper.

use std::time::Duration;

use zk_curator_real::{Kdc, RealZooKeeper, TempDir, runs};
use zk_curator_testing::TestServer;

use crate::support::{Outcome, Zkc, end};

const SERVER: &str = "zookeeper/localhost";
const ALICE: &str = "alice";
const BOB: &str = "bob";

/// Runs a command in a realm.
async fn run(zkc: &Zkc, home: &TempDir, arguments: &[&str]) -> Outcome {
    let mut command = zkc.command(arguments);
    end(command.envs(Kdc::environment(home.path())).spawn().expect("zkc"), "").await
}

#[tokio::test]
#[ignore = "slow: scripts/test-all"]
async fn zkc_authenticates_with_kerberos() {
    let name = "kerberos::zkc_authenticates_with_kerberos";
    if !runs(name, Kdc::available()) || !runs(name, RealZooKeeper::available()) {
        return;
    }
    let home = TempDir::new("zk-curator-realm").expect("a folder");
    let kdc = Kdc::start(home.path(), Duration::from_secs(3600)).await.expect("a KDC");
    let keytab = |principal: &str| home.path().join(format!("{}.keytab", principal.len()));
    for principal in [SERVER, ALICE, BOB] {
        kdc.add(principal).await.expect("a principal");
        kdc.export(principal, &keytab(principal)).await.expect("a keytab");
    }
    let server = kdc.secure(RealZooKeeper::builder(), SERVER, &keytab(SERVER)).expect("settings");
    let server = server.quick_start().start().await.expect("a server");
    let mut zkc = Zkc::on(TestServer::start().await);
    // Addresses have no principals.
    zkc.servers = format!("localhost:{}", server.addr().port());

    let without = run(&zkc, &home, &["--kerberos", "--timeout", "2s", "ls", "/"]).await.fails(3);
    assert!(without.contains("Kerberos"), "{without}");
    kdc.kinit(ALICE, &keytab(ALICE)).await.expect("a ticket");
    run(&zkc, &home, &["--kerberos", "create", "/a", "x", "--acl", "creator"]).await.ok();
    let acl = run(&zkc, &home, &["--kerberos", "acl", "/a", "-o", "json"]).await.json();
    assert_eq!((&acl[0]["scheme"], &acl[0]["id"]), (&"sasl".into(), &"alice@EXAMPLE.TEST".into()));
    run(&zkc, &home, &["get", "/a"]).await.fails(5);
    // A context has the same settings.
    let servers = zkc.servers.clone();
    let add = ["ctx", "add", "a", "-s", &servers, "--kerberos", "--kerberos-server", SERVER];
    run(&zkc, &home, &add).await.ok();
    assert_eq!(run(&zkc, &home, &["-c", "a", "get", "/a"]).await.ok(), "x\n");
    let wrong = ["--kerberos", "--kerberos-server", "none/localhost", "--timeout", "2s", "ls", "/"];
    run(&zkc, &home, &wrong).await.fails(3);
    let other = ["--kerberos", "--kerberos-client", BOB, "--timeout", "2s", "ls", "/"];
    run(&zkc, &home, &other).await.fails(3);
    kdc.kinit(BOB, &keytab(BOB)).await.expect("a ticket");
    run(&zkc, &home, &["--kerberos", "--kerberos-client", BOB, "get", "/a"]).await.fails(5);
}
