//! Many reads in one request, and children with their data.

use std::time::Duration;

use zk_curator::ErrorKind;
use zk_curator::op::{ChildData, CreateOp, ReadResult, SetDataOp};
use zk_curator::schema::{Allowance, Schema, SchemaSet};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_testing::{RuleGuard, TestServer, Verdict};
use zk_curator_tests::{
    assert_matches, builder, expire, in_memory, once, rule_if, session_id, simulated_drops,
    simulated_on, simulated_with, start, two_in_memory,
};

/// Responds as servers before 3.6 do, if `is_old`.
fn old_server(server: &TestServer, is_old: bool) -> RuleGuard {
    rule_if(
        server,
        move |request| is_old && request.is(OpCode::MultiRead),
        Verdict::Refuse(ErrorCode::Unimplemented),
    )
}

fn names(children: &[ChildData]) -> Vec<&str> {
    children.iter().map(|child| child.name.as_str()).collect()
}

#[test]
fn each_read_has_its_own_result() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("app").unwrap();
        zk.create("/a").creating_parents().data("1").await.unwrap();
        zk.create("/a/x").await.unwrap();
        for is_old in [false, true] {
            let old = old_server(&server, is_old);
            let refused = rule_if(
                &server,
                |request| request.is(OpCode::GetData) && request.is_about("/app/a/x"),
                Verdict::Refuse(ErrorCode::NoAuth),
            );
            let before = server.probe().requests(OpCode::MultiRead);
            let reads =
                zk.multi_read().get_data("/a").children("/a").get_data("/none").children("/none");
            let mut answers = reads.get_data("/a/x").await.unwrap().into_iter();
            assert_eq!(server.probe().requests(OpCode::MultiRead) - before, 1);
            let (data, stat) = answers.next().unwrap().unwrap().into_data().unwrap();
            assert_eq!((&data[..], stat.num_children), (&b"1"[..], 1));
            let children = answers.next().unwrap().unwrap();
            assert_eq!(children, children.clone());
            assert_matches!(&children, ReadResult::Children { names } if names == &["x"]);
            assert_eq!(children.clone().into_data(), None);
            assert_eq!(children.into_children().unwrap(), ["x"]);
            for path in ["/none", "/none"] {
                let error = answers.next().unwrap().unwrap_err();
                let about = (error.kind(), error.operation(), error.path());
                assert_eq!(about, (ErrorKind::NoNode, "multi_read", path), "{is_old}");
            }
            let last = answers.next().unwrap();
            match is_old {
                true => assert_eq!(last.unwrap_err().kind(), ErrorKind::NoAuth),
                false => assert!(last.is_ok()),
            }
            drop((old, refused));
        }
        assert_eq!(zk.multi_read().await.unwrap().len(), 0);
        let invalid = zk.multi_read().get_data("/a").get_data("b").await.unwrap_err();
        assert_eq!((invalid.kind(), invalid.path()), (ErrorKind::InvalidPath, "b"));
    });
}

#[test]
fn the_options_of_reads_apply() {
    simulated_with(async |server, plain| {
        let secret = Schema::exact("secret", "/secret").watched(Allowance::Must);
        let zk =
            builder(&server).schema_set(SchemaSet::new([secret]).unwrap()).enable_compression();
        let zk = start(zk).await;
        zk.create("/a").data("packed").await.unwrap();
        plain.create("/b").data("plain").await.unwrap();
        let forbidden = zk.multi_read().get_data("/a").children("/secret").await.unwrap_err();
        assert_eq!((forbidden.kind(), forbidden.path()), (ErrorKind::SchemaViolation, "/secret"));
        let answers = zk.multi_read().get_data("/a").get_data("/b").await.unwrap();
        assert_eq!(answers[0].clone().unwrap().into_data().unwrap().0, "packed");
        let broken = answers[1].as_ref().unwrap_err();
        assert_eq!((broken.kind(), broken.path()), (ErrorKind::Undecodable, "/b"));
        let raw = zk.multi_read().get_data("/a").get_data("/b").undecompressed().await.unwrap();
        assert_ne!(raw[0].clone().unwrap().into_data().unwrap().0, "packed");
        assert_eq!(raw[1].clone().unwrap().into_data().unwrap().0, "plain");
        let unpacked = plain.multi_read().get_data("/a").decompressed().await.unwrap();
        assert_eq!(unpacked[0].clone().unwrap().into_data().unwrap().0, "packed");
        let slow = once(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(60)));
        let late =
            plain.multi_read().get_data("/a").deadline(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!((late.kind(), late.path(), slow.hits()), (ErrorKind::OperationTimeout, "/a", 1));
    });
}

#[test]
fn a_read_with_too_large_a_response_is_halved() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).max_frame(5_000).max_response(10_000)).await;
        for number in 0..20 {
            zk.create(format!("/n{number:02}")).data(vec![0; 3_000]).await.unwrap();
        }
        let huge = zk_curator_tests::connected(&server).await;
        huge.create("/huge").data(vec![0; 20_000]).await.unwrap();
        let reads =
            (0..20).fold(zk.multi_read(), |reads, number| reads.get_data(format!("/n{number:02}")));
        let answers = reads.get_data("/huge").await.unwrap();
        assert_eq!(answers.len(), 21);
        assert!(server.probe().requests(OpCode::MultiRead) > 5);
        assert!(answers[..20].iter().all(|answer| {
            answer
                .clone()
                .is_ok_and(|answer| answer.into_data().is_some_and(|(data, _)| data.len() == 3_000))
        }));
        let error = answers[20].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::ResponseTooLarge, "/huge"));
    });
}

#[test]
fn a_request_that_is_too_large_is_sent_in_halves() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).max_frame(5_000).max_response(1 << 20)).await;
        let path = |number: usize| format!("/p/{number:0>1000}");
        zk.create("/p").await.unwrap();
        for number in 0..20 {
            zk.create(path(number)).data(number.to_string()).await.unwrap();
        }
        let children = zk.children_with_data("/p").await.unwrap();
        let data: Vec<_> = children.iter().map(|child| child.data.clone()).collect();
        assert_eq!(data, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(zk.children_of_each((0..20).map(path)).await.unwrap().len(), 20);
        assert_eq!(zk.tree("/p").await.unwrap().len(), 21);
        // One path is too long by itself.
        let long = format!("/{}", "x".repeat(6_000));
        for is_old in [false, true] {
            let old = old_server(&server, is_old);
            let reads = (0..20).fold(zk.multi_read(), |reads, number| reads.get_data(path(number)));
            let mut answers = reads.get_data(&long).await.unwrap();
            let error = answers.pop().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::TooLarge, &*long), "{is_old}");
            assert!(answers.iter().all(Result::is_ok), "{is_old}");
            drop(old);
        }
        let all = (0..20).fold(zk.multi_read(), |reads, number| reads.get_data(path(number)));
        assert_eq!(all.in_one_request().await.unwrap_err().kind(), ErrorKind::TooLarge);
        assert_eq!(zk.max_frame(), 5_000);
    });
}

#[test]
fn children_come_with_their_data_in_two_flights() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        assert_eq!(zk.children_with_data("/p").await.unwrap_err().kind(), ErrorKind::NoNode);
        zk.create("/p").await.unwrap();
        assert!(zk.children_with_data("/p").await.unwrap().is_empty());
        for name in ["c", "a", "b"] {
            zk.create(format!("/p/{name}")).data(name).await.unwrap();
        }
        for is_old in [false, true] {
            let old = old_server(&server, is_old);
            let before = server.probe();
            let children = zk.children_with_data("/p").await.unwrap();
            assert_eq!(names(&children), ["a", "b", "c"]);
            assert!(
                children.iter().all(|child| child.data == child.name && child.stat.version == 0)
            );
            let of = |kind| server.probe().requests(kind) - before.requests(kind);
            assert_eq!((of(OpCode::GetChildren2), of(OpCode::MultiRead)), (1, 1));
            drop(old);
        }
        // A child that is deleted between the two round trips is not returned.
        let late = once(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(1)));
        let meanwhile = async {
            late.fired().await;
            other.delete("/p/b").await.unwrap();
        };
        let (children, ()) = tokio::join!(zk.children_with_data("/p").into_future(), meanwhile);
        assert_eq!(names(&children.unwrap()), ["a", "c"]);
        // The session ends between the two: both are read in the next one.
        let before = server.probe().requests(OpCode::GetChildren2);
        let us = session_id(&zk).get();
        let lost = once(&server, OpCode::MultiRead, Verdict::LoseRequest);
        let ended = async {
            lost.fired().await;
            server.expire(us).await;
        };
        let (children, ()) = tokio::join!(zk.children_with_data("/p").into_future(), ended);
        assert_eq!(names(&children.unwrap()), ["a", "c"]);
        assert_eq!(server.probe().requests(OpCode::GetChildren2) - before, 2);
        expire(&server, &zk).await;
        assert_eq!(names(&zk.children_with_data("/").await.unwrap()), ["p", "zookeeper"]);
    });
}

#[test]
fn a_dropped_read_of_children_leaves_nothing() {
    simulated_drops(
        3,
        async || {
            let (server, zk) = in_memory().await;
            zk.create("/p").await.unwrap();
            zk.create("/p/a").await.unwrap();
            (server, zk)
        },
        async |(_, zk)| zk.children_with_data("/p").await.unwrap(),
        async |(server, zk), read| {
            assert!(read.is_none_or(|children| names(&children) == ["a"]));
            zk.close().await.unwrap();
            assert!(server.probe().watches().is_empty() && server.probe().sessions().is_empty());
        },
    );
}

#[test]
fn null_data_are_written_and_read_as_such() {
    simulated_with(async |server, zk| {
        let packing = zk.compressed();
        let creates = packing
            .transaction()
            .with(CreateOp::new("/null").null_data())
            .with(CreateOp::new("/empty").data("").uncompressed());
        creates.commit().await.unwrap();
        let is_null = async |path: &str| {
            let read = zk.multi_read().get_data(path).await.unwrap().swap_remove(0).unwrap();
            let ReadResult::Data { data, is_null, .. } = read else { panic!("{read:?}") };
            assert_eq!(data, "", "{path}");
            is_null
        };
        assert!(is_null("/null").await && !is_null("/empty").await);
        assert_eq!(server.probe().data("/null"), None);
        // Ordinary reads see empty data, and nothing to decompress.
        assert_eq!(packing.get_data("/null").await.unwrap(), "");
        let sets = packing.transaction().with(SetDataOp::null("/empty").version(0));
        sets.commit().await.unwrap();
        zk.set_data("/null", "").await.unwrap();
        assert!(!is_null("/null").await && is_null("/empty").await);
    });
}

#[test]
fn the_error_of_a_large_node_names_it() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).max_frame(5_000).max_response(10_000)).await;
        let huge = zk_curator_tests::connected(&server).await;
        huge.create("/app/b").creating_parents().data(vec![0; 20_000]).await.unwrap();
        zk.create("/app/a").await.unwrap();
        for is_old in [false, true] {
            let _old = old_server(&server, is_old);
            for (zk, root) in [(zk.clone(), "/app"), (zk.using_namespace("app").unwrap(), "")] {
                let (a, b) = (format!("{root}/a"), format!("{root}/b"));
                let answers = zk.multi_read().get_data(&a).get_data(&b).await.unwrap();
                assert!(answers[0].is_ok(), "{is_old}");
                let error = answers[1].as_ref().unwrap_err();
                let about = (error.kind(), error.path());
                assert_eq!(about, (ErrorKind::ResponseTooLarge, &*b), "{is_old}");
                let parent = if root.is_empty() { "/" } else { root };
                let error = zk.tree(parent).await.unwrap_err();
                assert_eq!((error.kind(), error.path()), (ErrorKind::ResponseTooLarge, &*b));
            }
        }
    });
}
