//! The rights that clients of queues need where ACLs are used.

use zk_curator::{Acl, CuratorFramework, ErrorKind, Permissions};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, Error, LockingQueue};
use zk_curator_tests::{connected, in_memory, simulated};

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
fn an_acknowledgement_needs_the_right_to_create_children_of_the_queue() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
        // It is handed out again.
        let one = consumer.next().await.unwrap();
        assert_eq!((one.data(), one.attempt() > 1), (&"one".into(), true));
        one.ack().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 1);
    });
}

#[test]
fn the_end_of_a_job_needs_the_right_to_create_children_of_the_jobs() {
    simulated(async {
        let (_server, zk) = in_memory().await;
        let jobs = Jobs::new(&zk, QUEUE);
        for id in ["a", "b"] {
            jobs.submit_as(id, "").await.unwrap();
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
        assert!(jobs.inspect().await.unwrap().is_empty());
    });
}

/// That of Curator's family is at the lock path, where the claims are as well.
#[test]
fn an_acknowledgement_with_a_lock_path_needs_no_rights_beyond_those_of_claims() {
    simulated(async {
        let (_server, zk) = in_memory().await;
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
