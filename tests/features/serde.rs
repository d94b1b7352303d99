//! Typed values, on the embedded server.

use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use zk_curator::ErrorKind::{BadVersion, Closed, InvalidArgument, NoNode, NodeExists, Undecodable};
use zk_curator::typed::Typed;
use zk_curator::value::{Failure, Json, ToData};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    DistributedQueue, Error, FifoQueue, LockingQueue, SimpleDistributedQueue,
};
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    assert_matches, connected, once, poll_then_drop, simulated_with, until_state,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Job {
    name: String,
    attempt: u32,
}

fn job(name: &str, attempt: u32) -> Json<Job> {
    Json(Job { name: name.to_owned(), attempt })
}

fn jobs(zk: &CuratorFramework) -> Typed<Json<Job>> {
    zk.typed()
}

/// Neither direction requires the trait of the other.
#[test]
fn a_type_may_be_only_read_or_only_written() {
    #[derive(Serialize)]
    struct Written<'a> {
        name: &'a str,
        attempt: u32,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Attempt {
        attempt: u32,
    }

    simulated_with(async |_server, zk| {
        zk.typed().put("/x/a", &Json(Written { name: "a", attempt: 3 })).await.unwrap();
        let read = zk.typed::<Json<Attempt>>();
        assert_eq!(read.get("/x/a").await.unwrap().value, Json(Attempt { attempt: 3 }));
        assert_eq!(read.watched("/x/a").await.unwrap().value.value, Json(Attempt { attempt: 3 }));
        assert_eq!(read.find("/x/b").await.unwrap(), None);
        assert_eq!(read.children("/x").await.unwrap().len(), 1);
    });
}

#[test]
fn values_are_created_read_replaced_and_listed() {
    simulated_with(async |server, zk| {
        let zk = zk.using_namespace("ns").unwrap();
        let jobs = jobs(&zk);
        assert_eq!(jobs.find("/jobs/a").await.unwrap(), None);
        assert_eq!(jobs.get("/jobs/a").await.unwrap_err().kind(), NoNode);
        let created = jobs.create("/jobs/b", &job("b", 1)).await.unwrap();
        assert_eq!(
            (created.path.as_str(), server.probe().data("/ns/jobs/b").unwrap().as_ref()),
            ("/jobs/b", &br#"{"name":"b","attempt":1}"#[..])
        );
        assert_eq!(jobs.create("/jobs/b", &job("b", 2)).await.unwrap_err().kind(), NodeExists);
        assert_eq!(jobs.put("/jobs/a", &job("a", 1)).await.unwrap().version, 0);
        assert_eq!(jobs.put("/jobs/a", &job("a", 2)).await.unwrap().version, 1);
        let node = jobs.find("/jobs/a").await.unwrap().unwrap();
        assert_eq!(
            (node.path.as_str(), &node.value, node.stat.version),
            ("/jobs/a", &job("a", 2), 1)
        );
        assert_eq!(jobs.replace("/jobs/a", &job("a", 3), 0).await.unwrap_err().kind(), BadVersion);
        jobs.replace("/jobs/a", &job("a", 3), node.stat.version).await.unwrap();
        let all: Vec<_> = jobs
            .children("/jobs")
            .await
            .unwrap()
            .into_iter()
            .map(|node| (node.path, node.value))
            .collect();
        assert_eq!(all, [("/jobs/a".to_owned(), job("a", 3)), ("/jobs/b".to_owned(), job("b", 1))]);
    });
}

#[test]
fn a_hundred_children_are_read_in_order_without_deleted_ones() {
    simulated_with(async |server, zk| {
        let jobs = jobs(&zk);
        for n in 0..100 {
            jobs.create(format!("/jobs/{n:03}"), &job("x", n)).await.unwrap();
        }
        // Deleted between the listing and the read.
        let other = connected(&server).await;
        let rule =
            once(&server, OpCode::MultiRead, Verdict::Delay(std::time::Duration::from_secs(1)));
        let reading = tokio::spawn(jobs.children("/jobs"));
        rule.fired().await;
        other.delete("/jobs/099").await.unwrap();
        let values: Vec<_> =
            reading.await.unwrap().unwrap().into_iter().map(|node| node.value.attempt).collect();
        assert_eq!(values, (0..99).collect::<Vec<_>>());
    });
}

#[test]
fn a_value_is_followed() {
    simulated_with(async |_server, zk| {
        let jobs = jobs(&zk);
        let mut watch = jobs.watch("/a");
        assert!(watch.next().await.unwrap().is_none());
        jobs.put("/a", &job("a", 1)).await.unwrap();
        let node = watch.next().await.unwrap().unwrap();
        assert_eq!((node.path.as_str(), node.value.attempt, node.stat.version), ("/a", 1, 0));
        // The error is returned once, and then the call waits for a value.
        zk.set_data("/a", "no job").await.unwrap();
        let error = watch.next().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (Undecodable, "/a"));
        assert!(poll_then_drop(watch.next(), 2).await.is_none());
        jobs.put("/a", &job("a", 2)).await.unwrap();
        let mut states = Box::pin(watch.into_stream());
        assert_eq!(states.next().await.unwrap().unwrap().unwrap().value.attempt, 2);
        zk.close().await.unwrap();
        assert_eq!(states.next().await.unwrap().unwrap_err().kind(), Closed);
        assert!(states.next().await.is_none());
    });
}

#[test]
fn a_modification_is_repeated_if_another_client_was_faster() {
    simulated_with(async |server, zk| {
        let (ours, theirs) = (jobs(&zk), jobs(&connected(&server).await));
        ours.put("/a", &job("a", 0)).await.unwrap();
        let more = |mut job: Json<Job>| {
            job.attempt += 1;
            job
        };
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                tokio::spawn(if n % 2 == 0 {
                    ours.modify("/a", more)
                } else {
                    theirs.modify("/a", more)
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(ours.get("/a").await.unwrap().value.attempt, 20);

        // The response is lost: the item was ours, but this is unknown.
        let rule = once(&server, OpCode::SetData, Verdict::LoseReply);
        let error = ours.modify("/a", more).await.unwrap_err();
        assert!(error.may_have_applied(), "{error}");
        assert_eq!((rule.hits(), theirs.get("/a").await.unwrap().value.attempt), (1, 21));
    });
}

#[test]
fn data_of_another_type_are_undecodable_and_say_why() {
    simulated_with(async |_server, zk| {
        zk.create("/a").data(r#"{"name":"a"}"#).await.unwrap();
        zk.create("/bytes").data(vec![0xff]).await.unwrap();
        for error in [
            jobs(&zk).get("/a").await.unwrap_err(),
            jobs(&zk).find("/a").await.unwrap_err(),
            jobs(&zk).modify("/a", |job| job).await.unwrap_err(),
            jobs(&zk).watched("/a").await.unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.path()), (Undecodable, "/a"));
            assert!(error.cause().unwrap().to_string().contains("missing field `attempt`"));
        }
        let error = zk.typed::<String>().get("/bytes").await.unwrap_err();
        assert_eq!(error.kind(), Undecodable);
        // A map whose keys are no text has no JSON.
        let odd = std::collections::HashMap::from([((1, 2), 3)]);
        let error = zk.typed().put("/odd", &Json(odd)).await.unwrap_err();
        assert_eq!((error.kind(), error.operation()), (InvalidArgument, "typed_put"));
    });
}

#[test]
fn raw_values_are_the_bytes_and_modes_are_kept() {
    simulated_with(async |server, zk| {
        let texts = zk.typed::<String>().mode(CreateMode::Ephemeral);
        texts.put("/text", &"grün".to_owned()).await.unwrap();
        assert_eq!(server.probe().data("/text").unwrap(), "grün");
        assert_ne!(server.probe().stat("/text").unwrap().ephemeral_owner, 0);
        assert_eq!(zk.typed::<Bytes>().get("/text").await.unwrap().value, "grün");
        assert_eq!(zk.typed::<Vec<u8>>().get("/text").await.unwrap().value, "grün".as_bytes());
        let watched = texts.watched("/text").await.unwrap();
        texts.put("/text", &"rot".to_owned()).await.unwrap();
        assert_eq!(watched.value.value, "grün");
        watched.watch.await.unwrap();
    });
}

/// The response of a readiness probe.
#[test]
fn health_is_json() {
    simulated_with(async |server, zk| {
        let health: serde_json::Value = serde_json::to_value(zk.connection_health()).unwrap();
        let session = zk.session().unwrap();
        assert_eq!(health["state"], "connected");
        assert_eq!(health["server"], server.connect_string());
        assert_eq!(health["session"]["id"], session.id.to_string());
        assert_eq!(health["session"]["timeout"], session.timeout.as_secs_f64());
        assert_eq!(health["last_failure"], serde_json::Value::Null);
        assert!(health["since"].as_f64().unwrap() > 1.7e9);
        assert!(health["lasted"].as_f64().is_some());
        server.stop().await;
        until_state(&zk, ConnectionState::Lost).await;
        let health = serde_json::to_value(zk.connection_health()).unwrap();
        assert_eq!(
            (&health["state"], &health["session"]),
            (&"lost".into(), &serde_json::Value::Null)
        );
        assert!(health["last_failure"].is_string());
    });
}

/// Queues carry values of any type.
#[test]
fn items_of_queues_are_values() {
    simulated_with(async |_server, zk| {
        let (one, two) = (job("one", 1), job("two", 2));

        let queue = DistributedQueue::new(&zk, "/plain");
        queue.put(&one).await.unwrap();
        queue.put_all([&two, &one]).await.unwrap();
        let item = queue.auto_ack_consumer().next().await.unwrap();
        assert_eq!(item.values::<Json<Job>>().unwrap(), std::slice::from_ref(&one));
        let delivery = queue.consumer("/plain-locks").next().await.unwrap();
        assert_eq!(delivery.values::<Json<Job>>().unwrap(), std::slice::from_ref(&two));
        let error = delivery.values::<u32>().unwrap_err();
        assert_matches!(&error, Error::Undecodable { item, .. } if item == delivery.path());

        let queue = LockingQueue::new(&zk, "/locking");
        queue.put(&one).await.unwrap();
        let delivery = queue.consumer().next().await.unwrap();
        assert_eq!(delivery.value::<Json<Job>>().unwrap(), one);
        assert_eq!(delivery.message().value::<Json<Job>>().unwrap(), one);

        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit(&two).await.unwrap();
        let task = jobs.worker("w").next().await.unwrap();
        assert_eq!(task.value::<Json<Job>>().unwrap(), two);
        task.complete_with(&one).await.unwrap();
    });
}

/// A value without data is refused before anything is sent.
#[test]
fn a_value_that_cannot_be_encoded_is_no_item() {
    struct Never;
    impl ToData for Never {
        fn to_data(&self) -> Result<Bytes, Failure> {
            Err(std::sync::Arc::from(Box::<dyn std::error::Error + Send + Sync>::from("never")))
        }
    }
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        let refused = [
            ("/q", DistributedQueue::new(&zk, "/q").put(Never).await.unwrap_err()),
            ("/l", LockingQueue::new(&zk, "/l").put(Never).await.unwrap_err()),
            ("/f", FifoQueue::new(&zk, "/f").put(Never).await.unwrap_err()),
            ("/s", SimpleDistributedQueue::new(&zk, "/s").offer(Never).await.unwrap_err()),
            ("/j", Jobs::new(&zk, "/j").submit(Never).await.unwrap_err()),
        ];
        for (queue, error) in refused {
            assert_matches!(&error, Error::Unencodable { path, .. } if path.starts_with(queue));
            assert!(!error.may_have_applied() && !error.is_retryable());
        }
        assert_eq!(server.probe().total_requests(), before);
    });
}
