//! Typed operations of transactions, and specifications of nodes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_curator::model::ModelSpec;
use zk_curator::path::{Escaped, ResolveError};
use zk_curator::schema::SchemaSet;
use zk_curator::value::{Failure, ToData};
use zk_curator::{Acl, CreateMode, ErrorCode, ErrorKind, Permissions, Version};
use zk_curator_proto::OpCode;
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    assert_matches, builder, connected, expire, once, once_on_write_multi, poll_then_drop,
    simulated_with, start,
};

zk_curator::path_template!(OrderPath = "/orders/{region}/{id}": region: &str, id: u64);
zk_curator::path_template! {
    /// Any text is a user.
    UserPath = "/users/{name}": name: Escaped<&str>
}
zk_curator::path_template!(RootPath = "/config");

const ORDERS: ModelSpec<OrderPath, u32> = OrderPath::spec().documentation("pieces");

/// A value that cannot be encoded.
#[derive(Debug)]
struct Broken;

impl ToData for Broken {
    fn to_data(&self) -> Result<Bytes, Failure> {
        Err(Arc::new(std::io::Error::other("broken")))
    }
}

#[test]
fn typed_operations_are_applied_together() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("ns").unwrap();
        let secret = vec![Acl::new(Permissions::READ | Permissions::WRITE, "world", "anyone")];
        let typed = zk.typed::<u32>().mode(CreateMode::Ephemeral).acl(secret.clone());
        zk.create("/a").data("1").creating_parents().await.unwrap();
        zk.create("/b").data("2").await.unwrap();
        zk.create("/c").await.unwrap();
        let all = |version| {
            zk.transaction()
                .with(typed.check_op("/c").version(0))
                .with(typed.create_op("/new", &5))
                .with(typed.replace_op("/a", &10, version))
                .with(typed.put_op("/b", &20))
                .with(typed.delete_op("/c"))
                .commit()
        };
        let refused = all(3).await.unwrap_err();
        let failed = ErrorKind::TransactionFailed { index: 2, code: ErrorCode::BadVersion };
        assert_eq!((refused.kind(), refused.path()), (failed, "/a"));
        assert!(!server.probe().exists("/ns/new"));
        all(0).await.unwrap();
        assert_eq!(
            (typed.get("/a").await.unwrap().value, typed.get("/b").await.unwrap().value),
            (10, 20)
        );
        let new = server.probe().stat("/ns/new").unwrap();
        assert_ne!(new.ephemeral_owner, 0);
        assert_eq!(server.probe().acl("/ns/new"), secret);
        assert!(!server.probe().exists("/ns/c"));
        // An operation of replacement does not create.
        let error = zk.transaction().with(typed.put_op("/none", &1)).commit().await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NoNode));
        // A node that is created has the value, not the default data of the framework.
        let named = start(builder(&server).default_data("default")).await;
        named
            .transaction()
            .with(named.typed::<String>().create_op("/empty", &String::new()))
            .commit()
            .await
            .unwrap();
        assert_eq!(server.probe().data("/empty").unwrap(), "");
    });
}

#[test]
fn a_value_without_data_is_refused_before_it_is_sent() {
    simulated_with(async |server, zk| {
        let typed = zk.typed::<Broken>();
        let before = server.probe().total_requests();
        for op in [typed.create_op("/a", &Broken), typed.put_op("/a", &Broken)] {
            let error = zk.transaction().create("/x", "").with(op).commit().await.unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidArgument, "/a"));
            assert!(error.to_string().contains("broken"), "{error}");
            assert!(!error.may_have_applied());
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}

#[test]
fn typed_operations_with_a_lost_reply_are_unknown() {
    simulated_with(async |server, zk| {
        let typed = zk.typed::<u32>();
        typed.create("/a", &1).await.unwrap();
        let lost = once_on_write_multi(&server, Verdict::LoseReply);
        let transfer = || zk.transaction().with(typed.replace_op("/a", &2, 0));
        let error = transfer().commit().await.unwrap_err();
        assert!(error.may_have_applied() && lost.hits() == 1, "{error}");
        assert_eq!(typed.get("/a").await.unwrap().value, 2);
        // A receipt settles it, with the operations unchanged.
        let receipt = zk_curator::certain::Receipt::new(&zk, "/");
        let lost = once_on_write_multi(&server, Verdict::LoseReply);
        let op = typed.replace_op("/a", &3, 1);
        zk.transaction().with(op).certain(&receipt).await.unwrap();
        assert_eq!((lost.hits(), typed.get("/a").await.unwrap().value), (1, 3));
    });
}

#[test]
fn operations_keep_the_compression_of_their_view() {
    simulated_with(async |server, zk| {
        let packed = zk.model(RootPath::spec::<String>().compressed());
        let text = "x".repeat(500);
        let op = packed.at(()).create_op(&text);
        zk.transaction().with(op).commit().await.unwrap();
        assert!(server.probe().data("/config").unwrap().len() < 100);
        assert_eq!(packed.at(()).get().await.unwrap().value, text);
        let plain = zk.model(RootPath::spec::<String>().uncompressed());
        let packing = start(builder(&server).enable_compression()).await;
        let op = plain.at(()).replace_op(&text, 0);
        packing.transaction().with(op).commit().await.unwrap();
        assert_eq!(server.probe().data("/config").unwrap(), text);
        assert_eq!(packed.at(()).get().await.unwrap_err().kind(), ErrorKind::Undecodable);
    });
}

#[test]
fn a_model_reads_and_writes_its_nodes() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("shop").unwrap();
        let orders = zk.model(ORDERS);
        let order = orders.at(("eu", 7));
        assert_eq!(order.path().unwrap(), "/orders/eu/7");
        assert_eq!((order.find().await.unwrap(), order.exists().await.unwrap()), (None, None));
        assert_eq!(order.create(&3).await.unwrap().path, "/orders/eu/7");
        assert!(server.probe().exists("/shop/orders/eu/7"));
        let mut watch = order.watch();
        assert_eq!(watch.next().await.unwrap().unwrap().value, 3);
        let watched = order.watched().await.unwrap();
        order.put(&4).await.unwrap();
        watched.watch.await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().value, 4);
        assert_eq!(order.replace(&5, 0).await.unwrap_err().kind(), ErrorKind::BadVersion);
        let modified = order.modify(|pieces| pieces * 10).await.unwrap();
        assert_eq!((modified.value, modified.stat.version), (40, 2));
        orders.at(("eu", 12)).put(&1).await.unwrap();
        let nodes = orders.under("eu").children().await.unwrap();
        let read: Vec<_> = nodes.iter().map(|node| (node.path.as_str(), node.value)).collect();
        assert_eq!(read, [("/orders/eu/12", 1), ("/orders/eu/7", 40)]);
        assert_eq!(orders.under(("eu",)).path().unwrap(), "/orders/eu");
        assert_eq!(orders.under("us").children().await.unwrap_err().kind(), ErrorKind::NoNode);
        zk.transaction()
            .with(order.check_op(2))
            .with(orders.at(("eu", 12)).put_op(&2))
            .with(order.delete_op(Version::Any))
            .commit()
            .await
            .unwrap();
        assert_eq!(order.delete_if(0).await.unwrap_err().kind(), ErrorKind::NoNode);
        orders.at(("eu", 12)).delete().await.unwrap();
        assert!(orders.under("eu").children().await.unwrap().is_empty());
    });
}

#[test]
fn a_parameter_that_is_no_name_sends_nothing() {
    simulated_with(async |server, zk| {
        let orders = zk.model(ORDERS);
        let before = server.probe().total_requests();
        for region in ["eu/7", "", "..", "a\0"] {
            let order = orders.at((region, 7));
            let errors = [
                order.path().unwrap_err(),
                order.get().await.unwrap_err(),
                order.find().await.unwrap_err(),
                order.watched().await.unwrap_err(),
                order.watch().next().await.unwrap_err(),
                order.create(&1).await.unwrap_err(),
                order.put(&1).await.unwrap_err(),
                order.replace(&1, 0).await.unwrap_err(),
                order.modify(|n| n).await.unwrap_err(),
                order.delete().await.unwrap_err(),
                order.exists().await.unwrap_err(),
                zk.transaction().with(order.create_op(&1)).commit().await.unwrap_err(),
                zk.transaction().with(order.delete_op(Version::Any)).commit().await.unwrap_err(),
                orders.under(region).children().await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::InvalidPath, "{error}");
                let cause = error.cause().unwrap().downcast_ref().unwrap();
                assert_matches!(cause, ResolveError::Refused { name, .. } if name == "region");
            }
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}

#[test]
fn the_options_of_a_specification_apply() {
    simulated_with(async |server, zk| {
        let read = vec![Acl::new(Permissions::READ, "world", "anyone")];
        let spec =
            ORDERS.mode(CreateMode::PersistentWithTtl).ttl(Duration::from_secs(60)).acl(read);
        let order = zk.model(spec.clone()).at(("eu", 1));
        order.create(&1).await.unwrap();
        assert_eq!(server.probe().ttl("/orders/eu/1"), Some(Duration::from_secs(60)));
        assert_eq!(order.put(&2).await.unwrap_err().kind(), ErrorKind::NoAuth);
        assert!(server.probe().is_container("/orders/eu"));
        let text = spec.to_string();
        for line in ["Path: /orders/{region}/{id}", "Doc: pieces", "Value: u32", "TTL: 60s"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        zk.model(OrderPath::spec::<u32>().mode(CreateMode::Ephemeral))
            .at(("eu", 2))
            .put(&1)
            .await
            .unwrap();
        assert_ne!(server.probe().stat("/orders/eu/2").unwrap().ephemeral_owner, 0);
    });
}

#[test]
fn the_schema_of_a_specification_is_enforced() {
    simulated_with(async |server, _| {
        let users = UserPath::spec::<u32>().mode(CreateMode::Ephemeral);
        let set = SchemaSet::new([ORDERS.schema(), users.schema()]).unwrap().closed();
        assert_eq!(set.named("/users/{name}").unwrap().raw_path(), "/users/{name}");
        let zk = start(builder(&server).schema_set(set.clone())).await;
        zk.model(ORDERS).at(("eu", 7)).put(&3).await.unwrap();
        zk.model(users).at(Escaped("a/b")).create(&3).await.unwrap();
        assert!(server.probe().exists("/users/a%2Fb"));
        for forbidden in [
            zk.set_data("/orders/eu/7", "no number").await.map(drop),
            zk.create("/orders/eu/8").data("1").mode(CreateMode::Ephemeral).await.map(drop),
            zk.create("/users/c").data("1").await.map(drop),
            zk.create("/orders/eu/7/deeper").data("1").await.map(drop),
            zk.create("/other").data("1").await.map(drop),
        ] {
            assert_eq!(forbidden.unwrap_err().kind(), ErrorKind::SchemaViolation);
        }
        let secret = vec![Acl::new(Permissions::ALL, "ip", "127.0.0.1")];
        let guarded = ORDERS.acl(secret.clone());
        let set_of_one = SchemaSet::new([guarded.schema()]).unwrap();
        let zk = start(builder(&server).schema_set(set_of_one)).await;
        zk.model(guarded).at(("us", 1)).create(&1).await.unwrap();
        let open = zk.model(ORDERS).at(("us", 2)).create(&1).await.unwrap_err();
        assert_eq!(open.kind(), ErrorKind::SchemaViolation);
        let open = zk.set_acl("/orders/us/1", Acl::open_unsafe()).await.unwrap_err();
        assert_eq!(open.kind(), ErrorKind::SchemaViolation);
        let doc = set.to_string();
        assert!(doc.contains("Path: /orders/{region}/{id}\nDoc: pieces\nValidated: yes"), "{doc}");
    });
}

#[test]
fn a_modification_from_memory_takes_one_request() {
    simulated_with(async |server, zk| {
        let typed = zk.typed::<u32>();
        typed.put("/n", &1).await.unwrap();
        let node = typed.get("/n").await.unwrap();
        let before = server.probe().total_requests();
        let node = typed.modify_from(node, |n| n + 1).await.unwrap();
        assert_eq!((node.value, server.probe().total_requests() - before), (2, 1));
        // An old node costs a read, and loses nothing.
        let other = connected(&server).await.typed::<u32>();
        other.modify("/n", |n| n + 10).await.unwrap();
        assert_eq!(typed.modify_from(node.clone(), |n| n + 1).await.unwrap().value, 13);
        // A lost request is repeated. After a lost reply nothing is known.
        let node = typed.get("/n").await.unwrap();
        let lost = once(&server, OpCode::SetData, Verdict::LoseRequest);
        let node = typed.modify_from(node, |n| n + 1).await.unwrap();
        assert_eq!((node.value, lost.hits()), (14, 1));
        let lost = once(&server, OpCode::SetData, Verdict::LoseReply);
        let error = typed.modify_from(node.clone(), |n| n + 1).await.unwrap_err();
        assert!(error.may_have_applied() && lost.hits() == 1, "{error}");
        assert_eq!(typed.get("/n").await.unwrap().value, 15);
        expire(&server, &zk).await;
        assert_eq!(typed.modify_from(node, |n| n + 1).await.unwrap().value, 16);
        // A node that is gone is read again, and then missing.
        let node = typed.get("/n").await.unwrap();
        zk.delete("/n").await.unwrap();
        let error = typed.modify_from(node, |n| n + 1).await.unwrap_err();
        assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::NoNode, false));
    });
}

/// The version of a node that is created again begins at zero again.
#[test]
fn a_modification_reports_that_it_hit_another_node() {
    simulated_with(async |server, zk| {
        let typed = zk.typed::<u32>();
        typed.create("/n", &1).await.unwrap();
        let node = typed.get("/n").await.unwrap();
        zk.delete("/n").await.unwrap();
        typed.create("/n", &100).await.unwrap();
        let error = typed.modify_from(node, |n| n + 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadVersion);
        assert!(
            error.may_have_applied() && error.to_string().contains("re-created after it was read"),
            "{error}"
        );
        assert_eq!(server.probe().data("/n").unwrap(), "2");
    });
}

#[test]
fn a_dropped_modification_is_applied_or_not() {
    for step in 0..20 {
        simulated_with(async |server, zk| {
            let typed = zk.typed::<u32>();
            typed.create("/n", &1).await.unwrap();
            let done = poll_then_drop(typed.modify("/n", |n| n + 1), step).await;
            zk.sync("/n").await.unwrap();
            let data = server.probe().data("/n").unwrap();
            assert!(data == "2" || (data == "1" && done.is_none()), "{data:?}");
        });
    }
}
