//! The tables of rights in the documentation of the queues: all of them together are enough, and
//! without any one of them something fails with a typed error that names a node of that row.

use std::future::Future;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use zk_curator::acl::AclProvider;
use zk_curator::state::BackgroundErrors;
use zk_curator::{Acl, CuratorFramework, ErrorCode, Permissions};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{Error, LockingQueue};
use zk_curator_testing::rule::path_matches;
use zk_curator_testing::wait::past;
use zk_curator_testing::{TestServer, digest};
use zk_curator_tests::{builder, expire, simulated, start};

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(30);
/// After this time producers delete what dead ones have left.
const COLLECTED_AFTER: Duration = Duration::from_secs(601);
/// The time after which the expired records of jobs are deleted.
const SWEPT_AFTER: Duration = Duration::from_secs(70);
/// The data of a parent of buckets.
const BUCKETS: &str = "buckets 1";

const C: Permissions = Permissions::CREATE;
const D: Permissions = Permissions::DELETE;
const W: Permissions = Permissions::WRITE;
const RIGHTS: [(Permissions, &str); 3] = [(C, "create"), (D, "delete"), (W, "write")];

/// The two kinds of users of a table, and how they prove it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Producer,
    Consumer,
}

impl Role {
    const ALL: [Self; 2] = [Self::Producer, Self::Consumer];

    const fn credentials(self) -> &'static str {
        match self {
            Self::Producer => "producer:p",
            Self::Consumer => "consumer:c",
        }
    }
}

/// A row: the nodes, their contents, if an operator creates them, and the rights of either role.
type Row = (&'static str, Option<&'static str>, [&'static [Permissions]; 2]);

const LOCKING_QUEUE: &[Row] = &[
    ("/queue", Some(""), [&[], &[C, D]]),
    ("/queue/items", Some(BUCKETS), [&[C, W], &[C, D, W]]),
    ("/queue/items/b-*", None, [&[C, W], &[C, D, W]]),
    ("/queue/items/b-*/*", None, [&[], &[C, D, W]]),
    ("/queue/ids", Some(""), [&[C, D, W], &[]]),
    ("/queue/line", Some(""), [&[], &[C, D]]),
    ("/queue/dead", None, [&[], &[C]]),
    ("/queue/dead/items", None, [&[], &[C, W]]),
    ("/queue/dead/items/b-*", None, [&[], &[C, W]]),
];

const JOBS: &[Row] = &[
    ("/jobs", Some(""), [&[], &[C, D]]),
    ("/jobs/all", Some(""), [&[C, D], &[D]]),
    ("/jobs/pending", Some(BUCKETS), [&[C, W], &[C, D]]),
    ("/jobs/pending/b-*", None, [&[C, D, W], &[C, D, W]]),
    ("/jobs/executing", Some(""), [&[], &[C, D]]),
    ("/jobs/leases", Some(""), [&[], &[C, D]]),
    ("/jobs/later", Some(""), [&[D], &[C, D]]),
    ("/jobs/done", Some(BUCKETS), [&[], &[C]]),
    ("/jobs/done/b|*", None, [&[D], &[C, D]]),
    ("/jobs/failed", Some(BUCKETS), [&[], &[C]]),
    ("/jobs/failed/b|*", None, [&[D], &[C, D]]),
    ("/jobs/ids", Some(""), [&[C, D, W], &[]]),
    ("/jobs/line", Some(""), [&[], &[C, D]]),
    ("/jobs/cleaner", Some(""), [&[], &[C, D]]),
];

/// The ACLs of a table, but for one right.
#[derive(Debug, Clone, Copy)]
struct Rights {
    table: &'static [Row],
    missing: Option<(&'static str, Role, Permissions)>,
}

impl AclProvider for Rights {
    fn acl(&self, path: &str) -> Vec<Acl> {
        let row = self.table.iter().find(|(nodes, ..)| path_matches(nodes, path));
        let rights = |role: Role| {
            // Nodes that are in no row have no children, and are written by their owners.
            let Some((nodes, _, rights)) = row else { return Permissions::READ | W };
            let granted = rights[role as usize].iter();
            let granted = granted.filter(|right| self.missing != Some((*nodes, role, **right)));
            granted.fold(Permissions::READ, |all, right| all | *right)
        };
        Role::ALL.map(|role| Acl::new(rights(role), "digest", digest(role.credentials()))).to_vec()
    }
}

/// A failure: its step, and its error.
#[derive(Debug, Default)]
struct Failed(Vec<(&'static str, Option<ErrorCode>, String)>);

impl Failed {
    async fn note<T>(
        &mut self,
        step: &'static str,
        result: impl IntoFuture<Output = Result<T, Error>>,
    ) -> Option<T> {
        match timeout(LONG, result.into_future()).await {
            Ok(Ok(output)) => return Some(output),
            Ok(Err(Error::Framework(error))) => self.add(step, &error),
            Ok(Err(error)) => panic!("{step}: {error}"),
            Err(_) => self.0.push((step, Some(ErrorCode::OperationTimeout), String::new())),
        }
        None
    }

    fn add(&mut self, step: &'static str, error: &zk_curator::Error) {
        self.0.push((step, error.code(), error.path().to_owned()));
    }

    fn background(&mut self, errors: &mut BackgroundErrors) {
        while let Some(Some(error)) = errors.next().now_or_never() {
            self.add("in the background", &error);
        }
    }

    /// Returns `true` if a right to these nodes was missing, by a typed error.
    fn names(&self, nodes: &str) -> bool {
        let is_of = |path: &str| {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            path_matches(nodes, path) || path_matches(nodes, parent)
        };
        self.0.iter().any(|(_, code, path)| *code == Some(ErrorCode::NoAuth) && is_of(path))
    }
}

/// A server with the nodes that an operator creates.
async fn server(rights: Rights) -> TestServer {
    let server =
        TestServer::builder().tcp(false).super_digest(digest("root:toor")).start().await.unwrap();
    let operator =
        start(builder(&server).authorization("digest", "root:toor").acl_provider(rights)).await;
    for (nodes, data, _) in rights.table {
        if let Some(data) = data {
            operator.create(*nodes).data(*data).await.unwrap();
        }
    }
    operator.close().await.unwrap();
    server
}

async fn user(server: &TestServer, role: Role, rights: Rights) -> CuratorFramework {
    let zk = builder(server).authorization("digest", role.credentials()).acl_provider(rights);
    start(zk).await
}

/// All that can be done with a [`LockingQueue`], and what of it fails.
async fn use_locking_queue(rights: Rights) -> Failed {
    let server = server(rights).await;
    let mut failed = Failed::default();
    let queue = |zk| LockingQueue::new(zk, "/queue").bucket_size(2);
    let dead = user(&server, Role::Producer, rights).await;
    failed.note("put", queue(&dead).put("a")).await;
    leave_behind(&server, &dead).await;
    let [producer, consumer] =
        [user(&server, Role::Producer, rights).await, user(&server, Role::Consumer, rights).await];
    let mut background = [producer.background_errors(), consumer.background_errors()];
    let (items, mut taken) = (queue(&producer), queue(&consumer).consumer());
    for item in ["b", "c", "d", "e", "f", "g", "h", "i"] {
        failed.note("put", items.put(item)).await;
    }
    failed.note("flush", items.flush()).await;
    // This many of each that a bucket becomes full.
    for step in ["ack", "let go", "reject", "reject", "reject", "requeue", "requeue", "requeue"] {
        let Some(item) = failed.note("next", taken.next()).await else { break };
        match step {
            "let go" => drop(item),
            "reject" => drop(failed.note("reject", item.reject("no")).await),
            "requeue" => drop(failed.note("requeue", item.requeue()).await),
            _ => drop(failed.note("ack", item.ack()).await),
        }
    }
    // Until there are none; the last is waited for.
    while let Some(Some(item)) = failed.note("try_next", taken.try_next()).await {
        if failed.note("ack", item.ack()).await.is_none() {
            break;
        }
    }
    if failed.0.is_empty() {
        let waiting = tokio::spawn(async move { taken.next().await });
        past(LONG / 4).await;
        failed.note("put", items.put("j")).await;
        if let Some(item) = failed.note("next in line", async { waiting.await.unwrap() }).await {
            failed.note("ack", item.ack()).await;
        }
        failed.note("flush", items.flush()).await;
    }
    end(&mut failed, &mut background, [producer, consumer]).await;
    failed
}

/// All that can be done with [`Jobs`], and what of it fails.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn use_jobs(rights: Rights) -> Failed {
    let server = server(rights).await;
    let mut failed = Failed::default();
    let (wall, since) = (SystemTime::now(), Instant::now());
    let jobs = |zk| {
        let jobs = Jobs::new(zk, "/jobs").bucket_size(2).keep_done(1).keep_failed(1);
        jobs.clock(move || wall + since.elapsed())
    };
    let dead = user(&server, Role::Producer, rights).await;
    failed.note("submit", jobs(&dead).submit("").id("a")).await;
    leave_behind(&server, &dead).await;
    let [producer, consumer] =
        [user(&server, Role::Producer, rights).await, user(&server, Role::Consumer, rights).await];
    let mut background = [producer.background_errors(), consumer.background_errors()];
    let (submitted, executed) = (jobs(&producer), jobs(&consumer));
    let mut worker = executed.worker("w");
    for id in ["b", "c", "d", "e"] {
        failed.note("submit", submitted.submit("").id(id)).await;
    }
    failed.note("cancel", submitted.cancel("e")).await;
    failed.note("flush", submitted.flush()).await;
    for step in ["complete", "keep", "fail", "reject", "let go", "complete"] {
        let Some(job) = failed.note("next", worker.next()).await else { break };
        match step {
            "keep" => drop(failed.note("complete_with", job.complete_with("result")).await),
            "fail" => drop(failed.note("fail", job.fail("no")).await),
            "reject" => drop(failed.note("reject", job.reject("no")).await),
            "let go" => drop(job),
            _ => drop(failed.note("complete", job.complete()).await),
        }
    }
    for id in ["a", "b", "c", "d"] {
        failed.note("forget", submitted.forget(id)).await;
    }
    for id in ["g", "h"] {
        failed.note("submit", submitted.submit("").id(id)).await;
        if let Some(job) = failed.note("next", worker.next()).await {
            failed.note("retry_after", job.retry_after("later", LONG / 4)).await;
        }
    }
    failed.note("cancel", submitted.cancel("g")).await;
    if let Some(job) = failed.note("next", worker.next()).await {
        failed.note("complete", job.complete()).await;
    }
    failed.note("submit", submitted.submit("").id("f")).await;
    if let Some(job) = failed.note("next", worker.next()).await {
        failed.note("reject", job.reject("no")).await;
    }
    failed.note("retry", submitted.retry("f")).await;
    if failed.0.is_empty() {
        // A worker dies, and the other one waits for its job.
        let dead = user(&server, Role::Consumer, rights).await;
        let mut theirs = jobs(&dead).worker("dead");
        let job = failed.note("next", theirs.next()).await;
        assert!(job.is_some_and(|job| job.id() == "f"));
        expire(&server, &dead).await;
        if let Some(job) = failed.note("next in line", worker.next()).await {
            failed.note("complete", job.complete()).await;
        }
        drop(theirs);
        dead.close().await.unwrap();
    }
    // More than are kept.
    for id in ["i", "j", "k", "l"] {
        failed.note("submit", submitted.submit("").id(id)).await;
        match failed.note("next", worker.next()).await {
            Some(job) if ["i", "j"].contains(&id) => {
                failed.note("complete_with", job.complete_with("result")).await;
            }
            Some(job) => drop(failed.note("reject", job.reject("no")).await),
            None => break,
        }
    }
    past(SWEPT_AFTER).await;
    drop(worker);
    end(&mut failed, &mut background, [producer, consumer]).await;
    failed
}

/// A producer dies, and leaves the ids of its puts.
async fn leave_behind(server: &TestServer, dead: &CuratorFramework) {
    expire(server, dead).await;
    dead.close().await.unwrap();
    past(COLLECTED_AFTER).await;
}

async fn end(
    failed: &mut Failed,
    background: &mut [BackgroundErrors; 2],
    zks: [CuratorFramework; 2],
) {
    for zk in zks {
        if let Err(error) = zk.close().await {
            failed.add("close", &error);
        }
    }
    background.iter_mut().for_each(|errors| failed.background(errors));
}

/// Every right of a table, and the operation that fails without it.
async fn check<F: Future<Output = Failed>>(table: &'static [Row], play: impl Fn(Rights) -> F) {
    let all = play(Rights { table, missing: None }).await;
    assert!(all.0.is_empty(), "the rights of the table are not enough: {all:#?}");
    let mut unneeded = Vec::new();
    for (nodes, _, rights) in table {
        for role in Role::ALL {
            for right in rights[role as usize] {
                let failed = play(Rights { table, missing: Some((nodes, role, *right)) }).await;
                if !failed.names(nodes) {
                    let name = RIGHTS.iter().find(|(other, _)| other == right).unwrap().1;
                    unneeded.push(format!("{role:?} without {name} at {nodes}: {:?}", failed.0));
                }
            }
        }
    }
    assert!(unneeded.is_empty(), "{unneeded:#?}");
}

#[test]
fn locking_queue_needs_every_right_of_its_table() {
    simulated(check(LOCKING_QUEUE, use_locking_queue));
}

#[test]
fn jobs_need_every_right_of_their_table() {
    simulated(check(JOBS, use_jobs));
}
