//! The options of the builders on every kind of server, and the configuration of an ensemble of
//! Apache ZooKeeper.

use std::time::Duration;

use zk_curator::op::{CreateOp, SetDataOp};
use zk_curator::{
    Acl, CreateMode, CuratorFramework, ErrorCode, ErrorKind, EventType, OpResult, Permissions,
    PersistentEvent, WatcherType,
};
use zk_curator_real::{self as real, RealEnsemble, RealZooKeeper};
use zk_curator_testing::wait;
use zk_curator_tests::{Server, builder_for, on_each_server, real_time, start};

on_each_server! {
    every_option_does_the_same
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn every_option_does_the_same(server: Server) {
    let everybody = vec![Acl::new(Permissions::ALL, "world", "anyone")];
    let reads_only = vec![Acl::new(Permissions::READ, "world", "anyone")];
    let zk = server.builder().namespace("ns").acl_provider(everybody.clone());
    let zk = start(zk.default_data("default")).await;

    let created =
        zk.create("/p/a").creating_parents().acl_of_parents(everybody.clone()).idempotent();
    let created = created.await.unwrap();
    assert_eq!(zk.create("/p/a").idempotent().await.unwrap(), created);
    assert_eq!(
        (zk.get_data("/p/a").await.unwrap(), zk.get_data("/p").await.unwrap()),
        ("default".into(), "".into())
    );
    assert_eq!(
        zk.create("/p/a").data("x").idempotent().await.unwrap_err().kind(),
        ErrorKind::NodeExists
    );
    assert_eq!(zk.create("/p/a").data("x").or_set_data_if(0).await.unwrap().stat.version, 1);
    assert_eq!(zk.set_data("/p/a", "y").version(1).idempotent().await.unwrap().version, 2);
    assert_eq!(zk.set_data("/p/a", "y").version(1).idempotent().await.unwrap().version, 2);
    zk.delete("/none").idempotent().await.unwrap();

    assert_eq!(zk.exists("/e/f/g").creating_parents_as_containers().await.unwrap(), None);
    zk.create_containers("/c/d").await.unwrap();
    assert!(
        zk.exists("/e/f").await.unwrap().is_some() && zk.exists("/c/d").await.unwrap().is_some()
    );

    assert_eq!(zk.get_acl("/p").await.unwrap(), everybody);
    assert_eq!(zk.set_acl("/p/a", reads_only.clone()).version(0).await.unwrap().aversion, 1);
    assert_eq!(zk.get_acl("/p/a").with_stat().await.unwrap().0, reads_only);
    assert_eq!(zk.set_acl("/p/a", everybody.clone()).await.unwrap_err().kind(), ErrorKind::NoAuth);

    let mut watch = zk.add_watch("/p").recursive().await.unwrap();
    let results = zk
        .transaction()
        .with(
            CreateOp::new("/p/ttl")
                .mode(CreateMode::PersistentWithTtl)
                .ttl(Duration::from_secs(60)),
        )
        .with(CreateOp::new("/p/s-").mode(CreateMode::PersistentSequential).acl(everybody))
        .with(SetDataOp::new("/p", "z").version(0))
        .commit()
        .await;
    let results = match results {
        Ok(results) => results,
        Err(error) => panic!("{error:?}"),
    };
    assert_eq!(results[1].created_path(), Some("/p/s-0000000002"));
    assert!(matches!(&results[2], OpResult::DataSet(stat) if stat.version == 1), "{results:?}");
    for (event_type, path) in [
        (EventType::NodeCreated, "/p/ttl"),
        (EventType::NodeCreated, "/p/s-0000000002"),
        (EventType::NodeDataChanged, "/p"),
    ] {
        let Some(PersistentEvent::Changed(event)) = watch.next().await else {
            panic!("the watch has ended")
        };
        assert_eq!((event.event_type, event.path.as_str()), (event_type, path));
    }
    drop(watch);
    let watched = zk.get_data("/p").watched().await.unwrap();
    zk.remove_watches("/p").of_type(WatcherType::Data).await.unwrap();
    assert!(watched.watch.await.is_err());
    let error = zk.remove_watches("/p").of_type(WatcherType::Children).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server(ErrorCode::NoWatcher));

    let nodes = (0..300).map(|n| zk.create(format!("/t/{}/{n}", n % 10)).creating_parents());
    assert!(zk_curator::op::fan_out(32, nodes).await.iter().all(Result::is_ok));
    zk.delete("/t").deleting_children().await.unwrap();
    assert_eq!(zk.exists("/t").await.unwrap(), None);
    zk.close().await.unwrap();
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn an_ensemble_is_reconfigured_and_followed() {
    real_time(async {
        let name = "an_ensemble_is_reconfigured_and_followed";
        let ensemble = RealEnsemble::builder(3)
            .setting("reconfigEnabled", true)
            .jvm_property("zookeeper.skipACL", "yes");
        let Some(ensemble) = real::or_skip_ensemble_with(name, ensemble).await else { return };
        let servers: Vec<_> =
            ensemble.servers().iter().map(RealZooKeeper::connect_string).collect();
        let zk = start(builder_for(&ensemble.connect_string())).await;
        let config = zk.get_config().await.unwrap();
        let first = config.version.unwrap();
        assert_eq!(
            (config.servers.len(), config.connect_string()),
            (3, None),
            "no member says where clients reach it"
        );
        let watched = zk.get_config().watched().await.unwrap();
        let port = |server: &str| server.rsplit_once(':').unwrap().1.to_owned();
        let members = config
            .servers
            .iter()
            .zip(&servers)
            .map(|(member, at)| format!("{member};{}", port(at)));
        let config = zk.reconfig().joining(members).from_config(first).await.unwrap();
        assert!(config.version.unwrap() > first);
        assert_eq!(watched.watch.await.unwrap().event_type, EventType::NodeDataChanged);
        let error = zk.reconfig().leaving(["1"]).from_config(first).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadVersion);
        // A client that knows a single server learns of the others.
        let leader = ensemble.leader().await.unwrap();
        let follower = start(builder_for(&servers[leader]).ensemble_tracker(true)).await;
        let mut expected = servers.clone();
        until_servers(&follower, &mut expected).await;
        // And who leaves.
        let leaving = (leader + 1) % 3;
        zk.reconfig().leaving([(leaving + 1).to_string()]).await.unwrap();
        expected.retain(|server| *server != servers[leaving]);
        until_servers(&follower, &mut expected).await;
        follower.wait_connected().await.unwrap();
        follower.create("/a").await.unwrap();
        follower.close().await.unwrap();
        zk.close().await.unwrap();
    });
}

/// Waits until a framework has these servers.
async fn until_servers(zk: &CuratorFramework, servers: &mut [String]) {
    servers.sort();
    wait::until(async || zk.connect_string() == servers.join(",")).await;
}
