//! The recipes of the shop, with clients that hold them and wait for them.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use serde_json::{Value, json};
use zk_curator::CuratorFramework;
use zk_curator_browser::BrowserError;
use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
use zk_curator_recipes::barrier::DistributedDoubleBarrier;
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::lease::TimedLease;
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphore};
use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_recipes::queue::DistributedPriorityQueue;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_testing::{TestServer, wait};

use super::clients::{LOCK, OLD, World, ago, made};

const BARRIER: &str = "/barriers/import";
const ELECTION: &str = "/elections/scheduler";
const SHARDS: &str = "/shards/orders";
const SERVICES: &str = "/services";
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The time in which the members of a partition set wait for others.
const SETTLES: Duration = Duration::from_millis(50);

impl World {
    /// Waits for the lock as another client, until it is at this place of the line.
    pub(super) async fn contend(
        &mut self,
        server: &TestServer,
        label: &'static str,
        place: usize,
    ) -> Result<(), BrowserError> {
        let lock = InterProcessMutex::new(&self.client(server).await?, LOCK).label(label);
        self.tasks.spawn(async move {
            let held = lock.acquire().await;
            pending::<()>().await;
            drop(held);
        });
        server.until(|probe| probe.children(LOCK).len() == place).await;
        Ok(())
    }

    /// Elects the first of two candidates.
    pub(super) async fn election(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        let leader = LeaderLatch::new(&self.client(server).await?, ELECTION).id("scheduler-a");
        let leader = leader.join();
        made(leader.await_leadership().await);
        let other = LeaderLatch::new(&self.client(server).await?, ELECTION).id("scheduler-b");
        self.hold((leader, other.join()));
        server.until(|probe| probe.children(ELECTION).len() == 2).await;
        Ok(())
    }

    /// Takes all permits of a semaphore.
    pub(super) async fn permits(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        for label in ["export-1", "export-2"] {
            let zk = self.client(server).await?;
            let permits = InterProcessSemaphore::new(&zk, "/permits/exports", 2).label(label);
            let permit = made(permits.acquire().await);
            self.hold(permit);
        }
        Ok(())
    }

    /// Enters a barrier for three with two clients, which wait for the third.
    pub(super) async fn barrier(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        for label in ["import-1", "import-2"] {
            let zk = self.client(server).await?;
            let barrier = DistributedDoubleBarrier::new(&zk, BARRIER, 3).label(label);
            self.tasks.spawn(async move {
                let entered = barrier.enter().await;
                pending::<()>().await;
                drop(entered);
            });
        }
        server.until(|probe| probe.children(BARRIER).len() >= 2).await;
        Ok(())
    }

    /// Takes a lease for a day.
    pub(super) async fn lease(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        let lease = TimedLease::new(&self.client(server).await?, "/leases/report", "report-host-1");
        let taken = made(lease.try_take(DAY).await).expect("no other client takes it");
        self.hold(taken);
        Ok(())
    }

    /// Submits three jobs, of which a worker executes the first.
    pub(super) async fn jobs(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        let jobs = Jobs::new(&self.client(server).await?, "/jobs/thumbnails");
        for picture in ["cat.png", "dog.png", "fox.png"] {
            made(jobs.submit(format!("resize {picture}")).await);
        }
        let mut worker = jobs.worker("thumbnails-1");
        let job = made(worker.next().await);
        self.hold((job, worker));
        Ok(())
    }

    /// Divides six shards among two members, and waits until they work on all of them.
    pub(super) async fn shards(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        let of = |zk: &CuratorFramework, id: &str| {
            let names = (0..6).map(|shard| format!("shard-{shard}"));
            SetPartitioner::new(zk, SHARDS, names).id(id).settle(SETTLES)
        };
        for id in ["node-a", "node-b"] {
            let shards = of(&self.client(server).await?, id);
            self.tasks.spawn(serve(shards));
        }
        let overview = of(&self.client(server).await?, "overview");
        wait::until(async || {
            let Ok(view) = overview.view().await else { return false };
            let mut parts = view.parts.values();
            view.members.len() == 2
                && view.parts.len() == 6
                && parts.all(|part| part.owner.is_some() && part.owner == part.assigned_to)
        })
        .await;
        Ok(())
    }

    /// Registers two services. One of their instances is drained, and another program has written
    /// a node that is not an instance.
    pub(super) async fn services(&mut self, server: &TestServer) -> Result<(), BrowserError> {
        for (service, id, address, is_drained) in [
            ("orders", "orders-1", "10.0.0.11", false),
            ("orders", "orders-2", "10.0.0.12", true),
            ("billing", "billing-1", "10.0.0.21", false),
        ] {
            let zk = self.client(server).await?;
            let instance = ServiceInstance::builder(service).id(id).address(address).port(8040);
            let instance = instance.uri_spec("http://{address}:{port}");
            let instance = instance.registration_time_utc(ago(OLD));
            let instance = instance.payload(json!({ "zone": "a", "version": "4.2.0" }));
            let instance = if is_drained { instance.drained() } else { instance };
            let discovery = ServiceDiscovery::<Value>::new(&zk, SERVICES);
            let registration = discovery.register(made(instance.build())).await;
            self.hold(made(registration));
        }
        let zk = self.client(server).await?;
        zk.create("/services/orders/orders-legacy").data("orders@10.0.0.9:8040").await?;
        Ok(())
    }
}

/// Works on the parts of a member, without an end.
async fn serve(shards: SetPartitioner) {
    let body = async |part: Partition| {
        part.revoked().await;
        Ok::<_, Infallible>(())
    };
    drop(shards.run(body).await);
}

/// Puts mails into a priority queue that nobody consumes.
pub(super) async fn queue(zk: &CuratorFramework) {
    let queue = DistributedPriorityQueue::new(zk, "/queues/mails");
    for (mail, priority) in [("invoice 7", 5), ("password reset", 1), ("newsletter", 9)] {
        made(queue.put(mail, priority).await);
    }
}

/// Applies two migrations of a set.
pub(super) async fn migrate(zk: &CuratorFramework) {
    let set = MigrationSet::builder("shop")
        .migration("create roots", |to| to.create("/shop", "").create("/shop/orders", ""))
        .migration("limit", |to| to.create("/shop/limit", "10"))
        .build();
    let manager = MigrationManager::new(zk, "/migrations/locks", "/migrations/meta");
    made(manager.migrate(&made(set)).await);
}
