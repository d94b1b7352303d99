//! The layouts of locks, elections, barriers, groups and services.

use super::{assert_recognised, text, tree, written};
use crate::inspect::{Details, recognise, recognise_all};

#[test]
fn mutexes() {
    assert_recognised(
        "_c_{b}-lock-0000000009 @2
         _c_{a}-lock-0000000007 @1
         lock-0000000012 @3
         config",
        "mutex of Curator
         holds exclusive _c_{a}-lock-0000000007
         waits exclusive _c_{b}-lock-0000000009
         waits exclusive lock-0000000012
         ignored config",
    );
    assert_recognised(
        "{A}__lock__0000000001 @1
         {B}__lock__0000000000 @2
         _r_{a} @3",
        "mutex of kazoo
         holds exclusive {B}__lock__0000000000
         waits exclusive {A}__lock__0000000001
         part _r_{a}",
    );
    assert_recognised(
        "{A}__lock__0000000001 @1
         _c_{a}-lock-0000000000 @2",
        "mutex of several libraries
         holds exclusive _c_{a}-lock-0000000000
         waits exclusive {A}__lock__0000000001",
    );
}

/// ZOOKEEPER-4372: the names no longer show the order.
#[test]
fn contenders_beyond_the_last_number_keep_their_order() {
    assert_recognised(
        "_c_{a}-lock-2147483646 @1
         _c_{b}-lock-2147483647 @2
         _c_{c}-lock--2147483648 @3",
        "mutex of Curator
         holds exclusive _c_{a}-lock-2147483646
         waits exclusive _c_{b}-lock-2147483647
         waits exclusive _c_{c}-lock--2147483648",
    );
}

#[test]
fn read_write_locks() {
    assert_recognised(
        "_c_{a}-__READ__0000000001 @1
         _c_{b}-__READ__0000000002 @2
         _c_{c}-__WRIT__0000000003 @3
         _c_{d}-__READ__0000000004 @4
         __READ__000000005 @5",
        "read/write lock of Curator
         holds reader _c_{a}-__READ__0000000001
         holds reader _c_{b}-__READ__0000000002
         waits writer _c_{c}-__WRIT__0000000003
         waits reader _c_{d}-__READ__0000000004
         ignored __READ__000000005",
    );
    assert_recognised(
        "{A}__rlock__0000000001 @1
         {B}__lock__0000000002 @2",
        "read/write lock of kazoo
         holds reader {A}__rlock__0000000001
         waits writer {B}__lock__0000000002",
    );
    assert_recognised(
        "_c_{a}-write-0000000001 @1
         _c_{b}-read-0000000002 @2",
        "read/write lock of ZooKeeper's recipes
         holds writer _c_{a}-write-0000000001
         waits reader _c_{b}-read-0000000002",
    );
}

/// CURATOR-621: for a moment the writer that becomes a reader has two nodes with one number.
#[test]
fn a_downgraded_writer_holds_with_both_nodes() {
    assert_recognised(
        "_c_{a}-__WRIT__0000000001 @1
         _c_{b}-__WRIT__0000000002 @2
         _c_{c}-__READ__0000000001 @1",
        "read/write lock of Curator
         holds writer _c_{a}-__WRIT__0000000001
         holds reader _c_{c}-__READ__0000000001
         waits writer _c_{b}-__WRIT__0000000002",
    );
    let finding = recognise(&tree(
        "/r",
        "_c_{b}-__WRIT__0000000002 @2
         _c_{c}-__READ__0000000001 @1",
    ));
    assert_eq!(finding.waiting[0].waits_on.as_deref(), Some(&*finding.holders[0].path));
}

#[test]
fn elections() {
    // Spark's masters, with Curator 2.13.
    assert_recognised(
        "_c_{a}-latch-0000000003 @1 =spark-1:7077
         _c_{b}-latch-0000000002 @2",
        "leader election of Curator
         holds candidate _c_{b}-latch-0000000002
         waits candidate _c_{a}-latch-0000000003",
    );
    assert_recognised(
        "latch-0000000003 @1",
        "leader election of Curator
         holds candidate latch-0000000003",
    );
    assert_recognised(
        "_c_{a}-election-0000000003 @1",
        "leader election of zk-curator
         holds candidate _c_{a}-election-0000000003",
    );
}

/// Java's Curator has the address of the client in one of its nodes, and its label in the other.
#[test]
fn a_waiter_of_a_semaphore_has_the_label_of_its_lease() {
    let found = recognise(&tree(
        "/r",
        "locks/_c_{b}-lock-0000000009 @2 =10.0.0.7
         leases/_c_{c}-lease-0000000005 @2 =worker-2",
    ));
    let labels: Vec<_> = found.waiting.iter().map(|one| one.label_str().into_owned()).collect();
    assert_eq!((labels, found.holders.len()), (vec!["worker-2".to_owned()], 0));
}

#[test]
fn semaphores() {
    assert_recognised(
        "leases/_c_{a}-lease-0000000004 @1
         locks/_c_{b}-lock-0000000009 @2
         leases/_c_{c}-lease-0000000005 @2
         locks/_c_{d}-lock-0000000010 @3
         leases/note",
        "semaphore of Curator
         holds permit leases/_c_{a}-lease-0000000004
         waits acquirer locks/_c_{b}-lock-0000000009
         waits acquirer locks/_c_{d}-lock-0000000010
         part leases
         part leases/_c_{c}-lease-0000000005
         part locks
         ignored leases/note",
    );
    assert_recognised(
        "locks
         leases",
        "semaphore of Curator
         part leases
         part locks",
    );
    assert_recognised("leases", "unknown of unknown\nignored leases");
    assert_recognised(
        "_c_{a}-lease-0000000004 @1",
        "semaphore of Curator
         holds permit _c_{a}-lease-0000000004",
    );
    let kazoos = ". =2
         {B} @1 =holder
         {A} @2";
    assert_recognised(
        kazoos,
        "semaphore of kazoo
         holds permit {B}
         holds permit {A}",
    );
    let finding = recognise(&tree("/r", kazoos));
    assert_eq!(finding.details, Details::Semaphore { limit: Some(2) });
}

/// kazoo's waiters are in a lock next to the semaphore.
#[test]
fn waiters_of_kazoos_semaphore_are_found() {
    let root = tree(
        "/",
        "s =1
         s/{A} @1
         s-__lock__/{B}__lock__0000000000 @2",
    );
    let [semaphore] = &recognise_all(&root)[..] else { panic!("one") };
    assert_eq!(semaphore.waiting[0].path, text("/s-__lock__/{B}__lock__0000000000"));
}

#[test]
fn timed_leases() {
    let lines =
        "lease_holder ={\"version\": 1, \"holder\": \"one\", \"end\": \"2026-11-26T11:00:00\"}
         {A}__lock__0000000001 @1";
    assert_recognised(
        lines,
        "lease with an end of kazoo
         holds lease lease_holder
         waits acquirer {A}__lock__0000000001",
    );
}

#[test]
fn double_barriers() {
    assert_recognised(
        "_c_{a}-member-0000000001 @1
         _c_{b}-member-0000000002 @2
         ready =members of the round:\\n_c_{a}-member-0000000001\\n_c_{c}-member-0000000000
         _c_{d}-member-0000000003 @3",
        "double barrier of zk-curator
         holds member _c_{a}-member-0000000001
         waits member _c_{b}-member-0000000002
         waits member _c_{d}-member-0000000003
         part ready",
    );
    assert_recognised(
        "{a} @1
         {b} @2
         ready
         {c} @3",
        "double barrier of Curator
         holds member {a}
         holds member {b}
         waits member {c}
         part ready",
    );
    assert_recognised(
        "{A} @1",
        "double barrier of kazoo, perhaps
         waits member {A}",
    );
}

#[test]
fn an_empty_node_may_be_a_barrier() {
    assert_recognised("", "barrier of Curator, perhaps");
    assert_recognised(". =10.0.0.7", "barrier of Curator, perhaps");
    assert_recognised(". =a value", "unknown of unknown");
}

#[test]
fn groups_and_services() {
    assert_recognised(
        "worker-2 @2
         worker-1 @1
         _r_{a} @1",
        "group of Curator, perhaps
         holds member worker-1
         holds member worker-2
         part _r_{a}",
    );
    assert_recognised(
        "{A}__party__ @1 =one
         other",
        "group of kazoo
         holds member {A}__party__
         ignored other",
    );
    assert_recognised("{A}-one @1", "group of kazoo\nholds member {A}-one");
    assert_recognised(
        "{a} @1 ={\"name\":\"s\",\"id\":\"x\",\"registrationTimeUTC\":1,\"serviceType\":\"DYNAMIC\"}
         {b} @1 ={}",
        "service of Curator
         holds member {a}
         ignored {b}",
    );
    assert_recognised(
        "party/{A}-one @1
         locks",
        "partitioner of kazoo
         holds member party/{A}-one
         part locks
         part party",
    );
    assert_recognised(
        "members/one @1 =member 1
         members/two @2 =member 1
         members/other =none of ours
         parts/s0/_c_{a}-lock-0000000000 @1",
        "partitioner of zk-curator
         holds member members/one
         holds member members/two
         part members
         part parts
         ignored members/other",
    );
}

#[test]
fn other_nodes_are_unknown() {
    for lines in ["a\nb", "lock-17", "thread-0000000001", "ready", "_c_x-lock-0000000001", ". =1"] {
        let finding = recognise(&tree("/r", lines));
        assert!(written(&finding).starts_with("unknown"), "{lines}: {finding:?}");
    }
}

#[test]
fn a_search_finds_recipes_and_not_their_parts() {
    let root = tree(
        "/",
        "locks/orders/_c_{a}-lock-0000000001 @1
         locks/orders/nested/lock-0000000000 @4
         printers/locks/_c_{b}-lock-0000000000 @2
         printers/leases/_c_{c}-lease-0000000000 @3
         queue/items =buckets 1
         queue/items/b-100000000|0000000000/item-100000000|x|0|0000000001
         queue/dead/items =buckets 1
         workers/one @1
         flag",
    );
    let found = recognise_all(&root);
    let paths: Vec<_> = found.iter().map(|finding| &*finding.path).collect();
    assert_eq!(
        paths,
        ["/locks/orders", "/locks/orders/nested", "/printers", "/queue", "/queue/dead", "/workers"]
    );
}
