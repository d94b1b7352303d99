//! What the Rust clients do when a response is lost, a session ends, and a future is dropped, on the
//! embedded server. Prints the table of the guide's page "Other crates".
//!
//! Run `cargo run --manifest-path benches/peers/clients/Cargo.toml --bin trial`.

#[path = "../trial.rs"]
mod trial;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use trial::{DROPPED, LATE, REPAIR, Result, ended};
use zk_curator_testing::{RuleGuard, RuleRequest, TestServer, Verdict};

/// The session timeout of every client.
const SESSION: Duration = Duration::from_secs(10);

/// What a client can do in the trial.
trait Client: Sized {
    /// The name and the version.
    const NAME: &'static str;
    /// `true` if it has a lock.
    const HAS_LOCK: bool = true;

    async fn open(servers: &str) -> Result<Self>;

    /// Creates a sequential ephemeral node, as contenders of a lock do.
    async fn create(&self, prefix: &str) -> Result<()>;

    /// Asks if the root exists.
    async fn ask(&self) -> Result<()>;

    /// Acquires a lock, and releases it when the future is dropped.
    async fn hold(&self, _path: &str) -> Result<()> {
        Err("it has no lock".into())
    }
}

/// Waits for as long as the future that holds a lock is not dropped.
async fn forever<T>(guard: T) -> Result<()> {
    std::future::pending::<()>().await;
    drop(guard);
    Ok(())
}

struct ZkCurator(zk_curator::CuratorFramework);

impl Client for ZkCurator {
    const NAME: &'static str = "zk-curator";

    async fn open(servers: &str) -> Result<Self> {
        let builder = zk_curator::CuratorFramework::builder();
        let zk = builder.connect_string(servers).session_timeout(SESSION).build()?;
        zk.start().await?;
        Ok(Self(zk))
    }

    async fn create(&self, prefix: &str) -> Result<()> {
        let mode = zk_curator::CreateMode::EphemeralSequential;
        self.0.create(prefix).mode(mode).protected().await?;
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        self.0.exists("/").await?;
        Ok(())
    }

    async fn hold(&self, path: &str) -> Result<()> {
        let lock = zk_curator_recipes::lock::InterProcessMutex::new(&self.0, path);
        forever(lock.acquire().await?).await
    }
}

struct ZookeeperClient(zookeeper_client::Client);

impl Client for ZookeeperClient {
    const NAME: &'static str = "zookeeper-client 0.11.2";

    async fn open(servers: &str) -> Result<Self> {
        let connector = zookeeper_client::Client::connector().with_session_timeout(SESSION);
        Ok(Self(connector.connect(servers).await?))
    }

    async fn create(&self, prefix: &str) -> Result<()> {
        let mode = zookeeper_client::CreateMode::EphemeralSequential;
        let options = mode.with_acls(zookeeper_client::Acls::anyone_all());
        self.0.create(prefix, b"", &options).await?;
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        self.0.check_stat("/").await?;
        Ok(())
    }

    async fn hold(&self, path: &str) -> Result<()> {
        let acls = zookeeper_client::Acls::anyone_all();
        let prefix = zookeeper_client::LockPrefix::new_curator(path, "lock-")?;
        let parents = zookeeper_client::CreateMode::Container.with_acls(acls);
        let options = zookeeper_client::LockOptions::new(acls).with_ancestor_options(parents)?;
        forever(self.0.lock(prefix, b"", options).await?).await
    }
}

struct ZookeeperAsync(Arc<zookeeper_async::ZooKeeper>);

impl Client for ZookeeperAsync {
    const NAME: &'static str = "zookeeper-async 5.0.0";

    async fn open(servers: &str) -> Result<Self> {
        let watcher = |_: zookeeper_async::WatchedEvent| ();
        Ok(Self(Arc::new(zookeeper_async::ZooKeeper::connect(servers, SESSION, watcher).await?)))
    }

    async fn create(&self, prefix: &str) -> Result<()> {
        let acl = zookeeper_async::Acl::open_unsafe().clone();
        let mode = zookeeper_async::CreateMode::EphemeralSequential;
        self.0.create(prefix, Vec::new(), acl, mode).await?;
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        self.0.exists("/", false).await?;
        Ok(())
    }

    async fn hold(&self, path: &str) -> Result<()> {
        let zk = Arc::clone(&self.0);
        forever(zookeeper_async::recipes::shared_lock::lock(zk, path.to_owned()).await?).await
    }
}

struct TokioZookeeper(tokio_zookeeper::ZooKeeper);

impl Client for TokioZookeeper {
    const NAME: &'static str = "tokio-zookeeper 0.4.0";
    const HAS_LOCK: bool = false;

    async fn open(servers: &str) -> Result<Self> {
        let mut builder = tokio_zookeeper::ZooKeeperBuilder::default();
        builder.set_timeout(SESSION);
        let (zk, events) = builder.connect(&servers.parse()?).await?;
        // It ends when nobody listens to its events.
        std::mem::forget(events);
        Ok(Self(zk))
    }

    async fn create(&self, prefix: &str) -> Result<()> {
        let acl = tokio_zookeeper::Acl::open_unsafe();
        let mode = tokio_zookeeper::CreateMode::EphemeralSequential;
        self.0.create(prefix, Vec::new(), acl, mode).await??;
        Ok(())
    }

    async fn ask(&self) -> Result<()> {
        self.0.exists("/").await?;
        Ok(())
    }
}

fn is_create_under(parent: &'static str, verdict: Verdict) -> impl Fn(&RuleRequest<'_>) -> Verdict {
    move |request| if request.is_create_under(parent) { verdict } else { Verdict::Pass }
}

fn nodes(server: &TestServer, parent: &str) -> String {
    match server.probe().children(parent).len() {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    }
}

/// A server with the parents of the nodes, and a client.
async fn pair<C: Client>() -> Result<(TestServer, C)> {
    let server = TestServer::start().await;
    let zk = server.framework().build()?;
    zk.start().await?;
    for parent in ["/nodes", "/lock"] {
        zk.create(parent).await?;
    }
    zk.close().await?;
    let client = C::open(&server.connect_string()).await?;
    client.ask().await?;
    Ok((server, client))
}

async fn lost_response<C: Client>() -> Result<String> {
    let (server, client) = pair::<C>().await?;
    let rule: RuleGuard = server.rule(is_create_under("/nodes", Verdict::LoseReply)).times(1);
    let ended = ended(client.create("/nodes/x-")).await;
    sleep(REPAIR).await;
    assert_eq!(rule.hits(), 1, "{}", C::NAME);
    Ok(format!("{ended}; {} on the server", nodes(&server, "/nodes")))
}

async fn ended_session<C: Client>() -> Result<String> {
    let (server, client) = pair::<C>().await?;
    let session = server.probe().sessions().first().ok_or("no session")?.id;
    server.expire(session).await;
    let first = ended(client.ask()).await;
    sleep(REPAIR).await;
    let later = ended(client.ask()).await;
    Ok(format!("the next read {first}; one {} s later {later}", REPAIR.as_secs()))
}

async fn dropped_create<C: Client>() -> Result<String> {
    let (server, client) = pair::<C>().await?;
    let rule: RuleGuard = server.rule(is_create_under("/nodes", Verdict::Delay(LATE))).times(1);
    let dropped = timeout(DROPPED, client.create("/nodes/x-")).await;
    assert!(dropped.is_err(), "{}: {dropped:?}", C::NAME);
    sleep(REPAIR).await;
    let sent = if rule.hits() == 0 { "; it was not sent" } else { "" };
    // The client is alive, and so is its session.
    let answer = format!("{} left{sent}", nodes(&server, "/nodes"));
    drop(client);
    Ok(answer)
}

async fn dropped_acquire<C: Client>() -> Result<String> {
    if !C::HAS_LOCK {
        return Ok("no lock".to_owned());
    }
    let (server, client) = pair::<C>().await?;
    let other = C::open(&server.connect_string()).await?;
    let local = async {
        let held = other.hold("/lock");
        tokio::pin!(held);
        // The other client holds the lock from here on.
        assert!(timeout(LATE, &mut held).await.is_err(), "{}", C::NAME);
        let waited = timeout(LATE, client.hold("/lock")).await;
        assert!(waited.is_err(), "{}: {waited:?}", C::NAME);
        assert!(timeout(REPAIR, &mut held).await.is_err(), "{}", C::NAME);
        let queue = server.probe().children("/lock").len();
        Ok(if queue == 1 {
            "nothing left".to_owned()
        } else {
            format!("{} of the waiter left, which the lock goes to next", queue - 1)
        })
    };
    local.await
}

async fn row<C: Client>() -> Result<()> {
    println!(
        "| `{}` | {} | {} | {} | {} |",
        C::NAME,
        lost_response::<C>().await?,
        ended_session::<C>().await?,
        dropped_create::<C>().await?,
        dropped_acquire::<C>().await?
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    println!(
        "| client | a sequential ephemeral create whose response is lost | the session has ended | a create whose future is dropped | a waiting `acquire` whose future is dropped |"
    );
    println!("|---|---|---|---|---|");
    row::<ZkCurator>().await?;
    row::<ZookeeperClient>().await?;
    row::<ZookeeperAsync>().await?;
    row::<TokioZookeeper>().await
}
