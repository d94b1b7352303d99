//! The rights that clients of queues need where ACLs are used.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{Acl, CuratorFramework, ErrorCode, ErrorKind, Permissions};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, Error, LockingQueue, SimpleDistributedQueue};
use zk_curator_tests::{connected, simulated_with};

const QUEUE: &str = "/queue";

async fn allow(zk: &CuratorFramework, path: &str, rights: Permissions) {
    zk.set_acl(
        path,
        vec![Acl::new(rights, "world", "anyone"), Acl::new(Permissions::ADMIN, "world", "anyone")],
    )
    .await
    .unwrap();
}

/// The error names the node that cannot be created.
fn assert_refused(settled: Result<(), Error>, receipt: &str) {
    let Err(Error::Framework(error)) = settled else { panic!("{settled:?}") };
    assert_eq!((error.kind(), error.may_have_applied()), (ErrorKind::NoAuth, false), "{error}");
    assert!(error.path().starts_with(receipt), "{error}");
}

#[test]
fn acknowledging_needs_create_permission_on_the_queue() {
    simulated_with(async |server, zk| {
        let queue = LockingQueue::new(&zk, QUEUE);
        for item in ["one", "two"] {
            queue.put(item).await.unwrap();
        }
        let other = connected(&server).await;
        let mut consumer = LockingQueue::new(&other, QUEUE).consumer();
        let (one, two) = (consumer.next().await.unwrap(), consumer.next().await.unwrap());
        allow(&zk, QUEUE, Permissions::READ | Permissions::DELETE).await;
        assert_refused(one.ack().await, "/queue/_r_");
        assert_refused(two.reject("no").await, "/queue/dead");
        // A redelivery is counted in the same way.
        assert_refused(consumer.next().await.map(drop), "/queue/_r_");
        allow(&zk, QUEUE, Permissions::READ | Permissions::CREATE | Permissions::DELETE).await;
        // It is delivered again.
        let one = consumer.next().await.unwrap();
        assert_eq!((one.data(), one.attempt() > 1), (&"one".into(), true));
        one.ack().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 1);
    });
}

#[test]
fn ending_a_job_needs_create_permission_on_the_jobs() {
    simulated_with(async |_server, zk| {
        let jobs = Jobs::new(&zk, QUEUE);
        for id in ["a", "b"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let mut worker = jobs.worker("w");
        let (a, b) = (worker.next().await.unwrap(), worker.next().await.unwrap());
        allow(&zk, QUEUE, Permissions::READ | Permissions::DELETE).await;
        assert_refused(a.complete().await, "/queue/_r_");
        assert_refused(b.fail("no").await, "/queue/_r_");
        allow(&zk, QUEUE, Permissions::READ | Permissions::CREATE | Permissions::DELETE).await;
        // They are executed again.
        for id in ["a", "b"] {
            let again = worker.next().await.unwrap();
            assert_eq!((again.id(), again.attempt()), (id, 2));
            again.complete().await.unwrap();
        }
        assert!(jobs.list().all().await.unwrap().is_empty());
    });
}

/// The receipt of Curator's queues is at the lock path, like the claims.
#[test]
fn acknowledging_under_a_lock_path_needs_only_rights_of_claims() {
    simulated_with(async |_server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("one").await.unwrap();
        zk.create("/locks").await.unwrap();
        allow(&zk, QUEUE, Permissions::READ | Permissions::DELETE).await;
        allow(&zk, "/locks", Permissions::READ | Permissions::CREATE | Permissions::DELETE).await;
        let mut consumer = queue.consumer("/locks");
        consumer.next().await.unwrap().ack().await.unwrap();
        assert!(zk.children(QUEUE).await.unwrap().is_empty());
    });
}

/// An item that the client must not delete ends the wait, instead of being tried again for ever.
#[test]
fn taking_an_item_needs_delete_permission_on_the_queue() {
    simulated_with(async |_server, zk| {
        let queue = SimpleDistributedQueue::new(&zk, QUEUE);
        queue.offer("one").await.unwrap();
        allow(&zk, QUEUE, Permissions::READ | Permissions::CREATE).await;
        let taken = timeout(Duration::from_secs(60), queue.take()).await.expect("hangs");
        let Err(Error::Framework(error)) = taken else { panic!("{taken:?}") };
        assert_eq!((error.code(), error.may_have_applied()), (Some(ErrorCode::NoAuth), false));
        allow(&zk, QUEUE, Permissions::ALL).await;
        assert_eq!(queue.take().await.unwrap(), "one");
    });
}
