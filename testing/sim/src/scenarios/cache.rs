//! [`cache`](zk_curator_recipes::cache): clients write a small tree, and follow it in caches of
//! different kinds. Every shown state must be a former or present state of the servers. After the
//! last fault, all caches must end with the newest state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{sleep, timeout};
use zk_curator::{CreateMode, CuratorFramework, OpResult};
use zk_curator_recipes::cache::{
    CacheBuilder, CacheEvent, CacheEvents, CachedNode, CuratorCache, Freshness, Lookup,
    ServerDiffMode, StaleCause, TreeView,
};

use super::Scenario;
use crate::checkers::CacheViews;
use crate::history::{Cache, CacheStep, Look, Name, News, NodeState, Nodes};
use crate::{Client, Failure};

const ROOT: &str = "/cache";
/// The nodes that clients write, parents before their children.
const PATHS: [&str; 11] = [
    ROOT,
    "/cache/a",
    "/cache/a/x",
    "/cache/a/x/p",
    "/cache/a/y",
    "/cache/b",
    "/cache/b/x",
    "/cache/b/y",
    "/cache/c",
    "/cache/c/x",
    "/cache/d",
];
/// Pairs of nodes that are always written in one transaction.
const PAIRS: [(&str, &str); 2] = [("/cache/a/x", "/cache/a/y"), ("/cache/b/x", "/cache/c/x")];
/// The number of actions in a round.
const ACTS: usize = 4;
/// The time in which every cache catches up after the last fault.
const LAG: Duration = Duration::from_secs(8);
/// The time in which an exact state exists when few clients write.
const EXACT: Duration = Duration::from_secs(2);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "cache",
    "caches show states of the servers, and end with the newest",
    &["cache events", "views"],
    |sim| {
        sim.workload(work)
            .checker(CacheViews::within(LAG))
            .leaves(["/cache", "/cache/**"])
            .common(["/cache/**"])
            .journal(["/cache", "/cache/**"])
            .releases()
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    // A second session: responses to writes come in another session than the events.
    let other = client.connect().await?;
    let writer = Writer { client: client.clone(), zk: zk.clone() };
    loop {
        let of = if client.rng().bool() { &zk } else { &other };
        let reader = Reader::start(&client, of);
        let observed = observe(reader.clone());
        let is_done = tokio::select! {
            biased;
            done = follow(&reader, &writer) => done?,
            () = observed => false,
        };
        if is_done {
            return Ok(());
        }
        if client.rng().bool() {
            client.maybe_cancel(reader.cache.close()).await;
        }
    }
}

/// Follows the tree in one cache, for some rounds. Returns `true` if all rounds are done.
#[expect(clippy::too_many_lines, reason = "one scenario")]
async fn follow(reader: &Reader, writer: &Writer) -> Result<bool, Failure> {
    let client = &reader.client;
    let mut rng = client.rng();
    let mut subscribers = vec![Subscriber::with_all(reader)];
    while client.next_round().is_some() {
        for _ in 0..ACTS {
            sleep(client.moment(Duration::from_millis(60))).await;
            match rng.u8(..13) {
                0..=4 => drop(writer.write(reader).await),
                5 => reader.look(),
                6 => drop(reader.catch_up().await),
                7 => drop(reader.exact(client.moment(Duration::from_millis(300))).await?),
                8 => reader.load().await,
                12 => reader.refresh(PATHS[rng.usize(..PATHS.len())]).await,
                9 if subscribers.len() < 3 => subscribers.extend(Subscriber::with_changes(reader)),
                _ => {
                    let nth = rng.usize(..subscribers.len());
                    if rng.bool() {
                        subscribers[nth].listen().await?;
                    } else {
                        subscribers[nth].drain()?;
                    }
                }
            }
        }
        if rng.u8(..8) == 0 {
            return Ok(false);
        }
    }
    client.faults_are_over().await;
    for _ in 0..ACTS {
        sleep(client.moment(Duration::from_millis(200))).await;
        drop(writer.write(reader).await);
    }
    sleep(LAG + Duration::from_millis(500)).await;
    reader.look();
    for subscriber in &mut subscribers {
        subscriber.drain()?;
    }
    while let Err(error) = reader.catch_up().await {
        if !error.is_retryable() {
            return Err(error.into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    // Other clients may still write.
    let mut tries = 0;
    while !reader.exact(EXACT).await? {
        tries += 1;
        if tries == 5 {
            return Err(format!("no exact state: {:?}", reader.cache.freshness()).into());
        }
    }
    for subscriber in &mut subscribers {
        subscriber.drain()?;
    }
    reader.cache.clone().close().await;
    for subscriber in &mut subscribers {
        subscriber.ends().await?;
    }
    Ok(true)
}

/// Reads a cache after every change.
async fn observe(reader: Reader) {
    let mut last = None;
    let looked = reader.cache.wait_for(|view| {
        if matches!(view.freshness(), Freshness::Stale { cause: StaleCause::Closed, .. }) {
            return None;
        }
        let seen = (reader.promise(view), reader.nodes(view));
        if last.as_ref() != Some(&seen) {
            reader.looked(seen.0, seen.1.clone());
            last = Some(seen);
        }
        None::<()>
    });
    drop(looked.await);
    std::future::pending::<()>().await;
}

/// The writer of the tree.
struct Writer {
    client: Client,
    zk: CuratorFramework,
}

impl Writer {
    /// Writes a node, and perhaps waits until a cache shows the write.
    async fn write(&self, reader: &Reader) -> Result<(), Failure> {
        let mut rng = self.client.rng();
        // Draws from few values, so that a new node often has the data of the last one.
        let data = format!("{}", rng.u8(..3));
        let path = PATHS[rng.usize(..PATHS.len())];
        let written = match rng.u8(..10) {
            0..=2 => self.create(path, &data).await,
            3 | 4 => self.set(path, &data).await,
            5 => self.delete(path).await,
            6 => self.replace(path, &data).await,
            7 => self.replace_at_once(path, &data).await,
            _ => self.pair(PAIRS[rng.usize(..PAIRS.len())], &data).await,
        };
        let Some(zxid) = written else { return Ok(()) };
        if rng.u8(..3) == 0
            && let Some(Ok(())) = self.client.maybe_cancel(reader.reflects(zxid)).await
        {
            let nodes = reader.cache.read(|view| reader.nodes(view));
            reader.looked(Look::Reflects(zxid), nodes);
        }
        Ok(())
    }

    /// Records a successful write. Returns the transaction that shows it.
    fn answered(&self, path: &str, stat: Option<(i64, i64)>, data: &str) -> Option<i64> {
        if let Some((czxid, mzxid)) = stat {
            let node = NodeState { czxid, mzxid, data: data.into() };
            self.client.record(Cache::Wrote { path: path.into(), node });
        }
        let zxid = stat.map(|(_, mzxid)| mzxid).or_else(|| self.zk.last_zxid_seen())?;
        self.client.record(Cache::Committed { zxid });
        Some(zxid)
    }

    async fn create(&self, path: &str, data: &str) -> Option<i64> {
        let mut rng = self.client.rng();
        let mode = match rng.u8(..6) {
            0 | 1 => CreateMode::Ephemeral,
            2 => CreateMode::Container,
            _ => CreateMode::Persistent,
        };
        let create = self.zk.create(path).mode(mode).data(data.to_owned());
        let create = if rng.bool() {
            create.creating_parents()
        } else {
            create.creating_parents_as_containers()
        };
        let created = self.client.maybe_cancel(create.into_future()).await?.ok()?;
        self.answered(path, Some((created.stat.czxid, created.stat.mzxid)), data)
    }

    async fn set(&self, path: &str, data: &str) -> Option<i64> {
        let set = self.zk.set_data(path, data.to_owned()).into_future();
        let stat = self.client.maybe_cancel(set).await?.ok()?;
        self.answered(path, Some((stat.czxid, stat.mzxid)), data)
    }

    async fn delete(&self, path: &str) -> Option<i64> {
        let delete = self.zk.delete(path).deleting_children().into_future();
        self.client.maybe_cancel(delete).await?.ok()?;
        self.answered(path, None, "")
    }

    async fn replace(&self, path: &str, data: &str) -> Option<i64> {
        self.delete(path).await?;
        self.create(path, data).await
    }

    /// Deletes a node without children, and creates another one in its place, in one transaction.
    async fn replace_at_once(&self, path: &str, data: &str) -> Option<i64> {
        let replace = self.zk.transaction().delete(path).create(path, data.to_owned()).commit();
        drop(self.client.maybe_cancel(replace).await?.ok()?);
        self.answered(path, None, "")
    }

    async fn pair(&self, (one, other): (&str, &str), data: &str) -> Option<i64> {
        let pair = match self.client.rng().u8(..4) {
            0 => self.zk.transaction().create(one, data.to_owned()).create(other, data.to_owned()),
            1 => self.zk.transaction().delete(one).delete(other),
            _ => self
                .zk
                .transaction()
                .set_data(one, data.to_owned())
                .set_data(other, data.to_owned()),
        };
        let results = self.client.maybe_cancel(pair.commit()).await?.ok()?;
        let stats = results.iter().map(|result| match result {
            OpResult::Created { stat, .. } => stat.as_ref(),
            OpResult::DataSet(stat) => Some(stat),
            _ => None,
        });
        let stats = stats.map(|stat| stat.map(|stat| (stat.czxid, stat.mzxid)));
        let mut newest = None;
        for (path, stat) in [one, other].into_iter().zip(stats) {
            newest = newest.max(self.answered(path, stat, data));
        }
        newest
    }
}

/// A cache and its user.
#[derive(Clone)]
struct Reader {
    client: Client,
    number: u64,
    cache: CuratorCache,
    /// The nodes of [`PATHS`] that it covers.
    covered: Arc<Vec<Name>>,
}

impl Reader {
    fn start(client: &Client, zk: &CuratorFramework) -> Self {
        let mut rng = client.rng();
        let is_left_out = |path: &str| path.starts_with("/cache/b");
        let (builder, covers): (CacheBuilder, &[&str]) = match rng.u8(..8) {
            0 => (CuratorCache::children(zk, ROOT), &["/cache", "/cache/*"]),
            1 => (CuratorCache::node(zk, "/cache/a"), &["/cache/a"]),
            2 => (CuratorCache::tree(zk, "/cache/a"), &["/cache/a", "/cache/a/**"]),
            3 => (CuratorCache::tree(zk, ROOT).max_depth(2), &["/cache", "/cache/*", "/cache/*/*"]),
            4 => (
                CuratorCache::tree(zk, ROOT).filter(move |path| !is_left_out(path)),
                &[
                    "/cache",
                    "/cache/a",
                    "/cache/a/**",
                    "/cache/c",
                    "/cache/c/**",
                    "/cache/d",
                    "/cache/d/**",
                ],
            ),
            _ => (CuratorCache::tree(zk, ROOT), &["/cache", "/cache/**"]),
        };
        let mut builder = builder.parallel(rng.usize(1..5));
        match rng.u8(..4) {
            0 => builder = builder.resync_spread(Duration::ZERO),
            1 => builder = builder.resync_spread(Duration::from_millis(500)),
            _ => {}
        }
        builder = builder.server_diff(match rng.u8(..3) {
            0 => ServerDiffMode::Never,
            1 => ServerDiffMode::Auto,
            _ => ServerDiffMode::Always,
        });
        if rng.u8(..4) == 0 {
            builder = builder.audit_every(Duration::from_secs(1));
        }
        if rng.u8(..4) == 0 {
            // The limit of one byte makes the cache read one node at a time.
            builder = builder.most_bytes(1);
        }
        let is_covered = |path: &&&str| {
            covers.iter().any(|pattern| zk_curator_testing::rule::path_matches(pattern, path))
        };
        let covered = PATHS.iter().filter(is_covered).map(|path| Name::from(*path)).collect();
        let reader = Self {
            client: client.clone(),
            number: client.unique(),
            cache: builder.start(),
            covered: Arc::new(covered),
        };
        reader.record(CacheStep::Began {
            covers: covers.iter().map(|pattern| Name::from(*pattern)).collect(),
        });
        reader
    }

    fn record(&self, step: CacheStep) {
        self.client.record(Cache::Step { cache: self.number, step });
    }

    fn looked(&self, look: Look, nodes: Nodes) {
        self.record(CacheStep::Looked { look, nodes });
    }

    fn promise(&self, view: &TreeView<'_>) -> Look {
        match view.freshness() {
            Freshness::Fresh { zxid, .. } => Look::Fresh(zxid),
            Freshness::Stale { zxid, .. } => Look::Stale(zxid),
            _ => Look::Loading,
        }
    }

    /// Returns every node whose state the cache knows, including absent ones.
    fn nodes(&self, view: &TreeView<'_>) -> Nodes {
        let mut nodes: BTreeMap<Name, Option<NodeState>> =
            view.nodes().map(|node| (Name::from(&*node.path), Some(state(node)))).collect();
        for path in &*self.covered {
            match view.get(path) {
                Lookup::Present(node) => drop(nodes.insert(Name::clone(path), Some(state(node)))),
                Lookup::Absent => drop(nodes.insert(Name::clone(path), None)),
                Lookup::Unknown => {}
            }
        }
        nodes.into_iter().collect()
    }

    fn look(&self) {
        let (look, nodes) = self.cache.read(|view| (self.promise(view), self.nodes(view)));
        self.looked(look, nodes);
    }

    async fn load(&self) {
        let most = self.client.moment(Duration::from_millis(500));
        drop(self.client.maybe_cancel(timeout(most, self.cache.loaded())).await);
    }

    /// Makes the cache read a part of the tree again, unless the call is given up first.
    async fn refresh(&self, path: &str) {
        let most = self.client.moment(Duration::from_millis(500));
        drop(self.client.maybe_cancel(timeout(most, self.cache.refresh(path))).await);
        self.look();
    }

    async fn catch_up(&self) -> Result<(), zk_curator::Error> {
        let call = self.client.unique();
        self.record(CacheStep::Syncing { call });
        let Some(synced) = self.client.maybe_cancel(self.cache.synced()).await else {
            return Ok(());
        };
        let zxid = synced?;
        let nodes = self.cache.read(|view| self.nodes(view));
        self.looked(Look::Synced { call, zxid }, nodes);
        Ok(())
    }

    /// Waits for a transaction, but only briefly, because its ensemble may be unreachable.
    async fn reflects(&self, zxid: i64) -> Result<(), Failure> {
        Ok(timeout(Duration::from_secs(1), self.cache.reflects(zxid)).await??)
    }

    /// Waits for an exact state. Returns `true` if there was one.
    async fn exact(&self, within: Duration) -> Result<bool, Failure> {
        let Some(Ok(Some(exact))) = self.client.maybe_cancel(self.cache.exact(within)).await else {
            return Ok(false);
        };
        if let Some((path, kind)) = exact.unreadable.first() {
            return Err(format!("{path} is unreadable: {kind:?}").into());
        }
        let mut nodes: BTreeMap<Name, Option<NodeState>> =
            self.covered.iter().map(|path| (Name::clone(path), None)).collect();
        nodes.extend(exact.nodes.iter().map(|node| (Name::from(&*node.path), Some(state(node)))));
        self.looked(Look::Exact(exact.zxid), nodes.into_iter().collect());
        Ok(true)
    }
}

fn state(node: &CachedNode) -> NodeState {
    let data = String::from_utf8_lossy(&node.data);
    NodeState { czxid: node.stat.czxid, mzxid: node.stat.mzxid, data: Name::from(&*data) }
}

/// A subscriber of changes.
struct Subscriber {
    reader: Reader,
    number: u64,
    events: CacheEvents,
    has_begun: bool,
}

impl Subscriber {
    fn with_all(reader: &Reader) -> Self {
        let number = reader.client.unique();
        Self { reader: reader.clone(), number, events: reader.cache.events(), has_begun: false }
    }

    /// Subscribes to changes from now on, if the present state is known.
    fn with_changes(reader: &Reader) -> Option<Self> {
        if !reader.cache.freshness().is_fresh() {
            return None;
        }
        let number = reader.client.unique();
        let events = reader.cache.events_from_now();
        let mut subscriber = Self { reader: reader.clone(), number, events, has_begun: false };
        let nodes = reader.cache.read(|view| {
            view.nodes().map(|node| (Name::from(&*node.path), Some(state(node)))).collect::<Nodes>()
        });
        subscriber.told(News::Loaded(nodes));
        Some(subscriber)
    }

    fn told(&mut self, news: News) {
        self.has_begun = true;
        self.reader.record(CacheStep::Told { subscriber: self.number, news });
    }

    /// Waits for one event, for a limited time.
    async fn listen(&mut self) -> Result<(), Failure> {
        let most = self.reader.client.moment(Duration::from_millis(300));
        if let Some(Ok(Some(event))) =
            self.reader.client.maybe_cancel(timeout(most, self.events.next())).await
        {
            self.take(event)?;
        }
        Ok(())
    }

    /// Takes all available events, which add up to the contents.
    fn drain(&mut self) -> Result<(), Failure> {
        while let Some(event) = tokio::task::unconstrained(self.events.next()).now_or_never() {
            let Some(event) = event else { return Ok(()) };
            self.take(event)?;
        }
        if self.has_begun {
            let nodes = self.reader.cache.read(|view| self.reader.nodes(view));
            self.reader.looked(Look::Drained(self.number), nodes);
        }
        Ok(())
    }

    /// Takes the remaining events of a closed cache.
    async fn ends(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.events.next().await {
            self.take(event)?;
        }
        Ok(())
    }

    fn take(&mut self, event: CacheEvent) -> Result<(), Failure> {
        let path = |node: &CachedNode| Name::from(&*node.path);
        let news = match event {
            CacheEvent::Loaded(snapshot) => {
                let nodes = snapshot.nodes.iter().map(|node| (path(node), Some(state(node))));
                News::Loaded(nodes.collect())
            }
            CacheEvent::Created(node) => News::Created(path(&node), state(&node)),
            CacheEvent::Changed { old, new } => News::Changed(path(&new), state(&old), state(&new)),
            CacheEvent::Replaced { old, new } => {
                News::Replaced(path(&new), state(&old), state(&new))
            }
            CacheEvent::Deleted(node) => News::Deleted(path(&node), state(&node)),
            CacheEvent::Stale { .. } => News::Stale,
            CacheEvent::Fresh { zxid, .. } => News::Fresh(zxid),
            other => {
                return Err(
                    format!("{other:?} was notified, although every node can be read").into()
                );
            }
        };
        self.told(news);
        Ok(())
    }
}
