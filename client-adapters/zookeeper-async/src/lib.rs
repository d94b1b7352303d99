//! A raw client implemented with the crate `zookeeper-async`, for services that must use that
//! crate. With the feature `zookeeper-async` of `zk-curator` it is the module
//! `zk_curator::raw::zookeeper_async`.
//!
//! ```no_run
//! # async fn run() -> Result<(), zk_curator::Error> {
//! use std::sync::Arc;
//! use zk_curator::{CuratorFramework, raw::zookeeper_async::ZookeeperAsyncFactory};
//!
//! let zk = CuratorFramework::builder()
//!     .connect_string("zk1:2181,zk2:2181")
//!     .raw_client(Arc::new(ZookeeperAsyncFactory::default()))
//!     .build()?;
//! zk.start().await?;
//! # Ok(()) }
//! ```
//!
//! # Repaired behaviour
//!
//! The crate loses watches and identities with every connection, continues in a new session
//! silently, reconnects in a tight loop without end, and hangs if there is no listener. So it does
//! not connect to the network: it talks to an address on the loopback interface, and this adapter
//! forwards the frames. The adapter
//!
//! * searches for servers with pauses, deadlines and a new look-up of names;
//! * reads the session's id and granted timeout, notices silent servers after two thirds of it, and
//!   gives the session up when it has passed, like the native client;
//! * arms watches again after a reconnect: it reads again and compares transaction ids, so they
//!   fire for changes in between. Identities are added first;
//! * ends a session permanently when it is over, with the crate's tasks, which never end by
//!   themselves and therefore run in a separate runtime.
//!
//! # Limitations
//!
//! * Transactions, containers, sequential nodes without a name, persistent watches, removal of
//!   watches, and the configuration of the ensemble fail with `Unsupported`. Missing parents are
//!   then created as persistent nodes (as Curator does on servers without containers); fenced
//!   writes need transactions.
//! * TLS, SASL and read-only servers: `CuratorFrameworkBuilder::build` fails for the latter.
//! * The limits of requests, of responses and of what waits are its own.
//! * One request is in flight at a time; reading children takes three.
//! * `sync` is a delete of a node that does not exist: a write goes through the leader, and its
//!   response comes after everything that was committed before it.
//! * A watch that is dropped stays on the server until it fires.
//! * While the crate is connecting, another process of this machine could take its place at the
//!   loopback address. It would gain a connection to the servers, which it could also open itself,
//!   and break this one.
//!
//! Each session has a thread of its own, and works only in real time.

mod actor;
mod convert;
mod link;
mod registry;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;
use zk_curator_client::internal::{OnDrop, bounded};
use zk_curator_client::raw::{
    NativeFactory, RawClient, RawClientFactory, RawFuture, RawStates, SessionSettings,
};
use zk_curator_client::{
    Acl, AclOf, Children, ConnectString, Created, Data, Error, ErrorCode, OneshotWatch, Op,
    OpResult, SessionInfo, Stat, StatePublisher, Version,
};
use zookeeper_async::ZooKeeper;

use actor::{Actor, ActorCommand, ActorRequest, Api, RequestProgress, SessionIdentity, converted};
use link::{LinkState, PacketLink, Reports};
use registry::{AdapterRegistry, ArmingRead};

/// The pause between the crate's attempts to reach this adapter.
const RETRY: Duration = Duration::from_millis(50);
/// The maximum number of listings of a node's children to get a stat that matches.
const LISTINGS: usize = 5;

/// A factory of sessions of the crate `zookeeper-async`; see the [crate](self).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ZookeeperAsyncFactory;

#[async_trait]
impl RawClientFactory for ZookeeperAsyncFactory {
    fn validate(
        &self,
        settings: &SessionSettings,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if settings.read_only {
            return Err(Box::new(Error::Unsupported("a server in read-only mode")));
        }
        if settings.expiration_percent < 100 {
            return Err(Box::new(Error::Unsupported("a session that is given up early")));
        }
        NativeFactory::default().validate(settings)
    }

    async fn open(&self, settings: &SessionSettings) -> Result<Arc<dyn RawClient>, Error> {
        let servers: ConnectString = settings
            .connect_string
            .parse()
            .map_err(|_| Error::InvalidArgument("connect string"))?;
        let failed = |_| Error::InvalidArgument("cannot start a thread or bind a local port");
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("zookeeper-async")
            .enable_all()
            .build();
        let runtime = DetachedRuntime(Some(runtime.map_err(failed)?));
        let reports = Arc::new(Reports {
            states: StatePublisher::default(),
            registry: AdapterRegistry::default(),
            link: watch::Sender::new(LinkState::Down),
        });
        let (commands, queue) = mpsc::unbounded_channel();
        let (settings, told) = (settings.clone(), Arc::clone(&reports));
        let begin = async move {
            let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))
                .await
                .map_err(failed)?;
            let here = listener.local_addr().map_err(failed)?.to_string();
            let asked = settings.session_timeout;
            let link = tokio::spawn(
                PacketLink::new(listener, servers.hosts, asked, Arc::clone(&told)).run(),
            );
            drop(link);
            let zk = ZooKeeper::connect_with_retry_time(&here, asked, |_| {}, RETRY)
                .await
                .map_err(convert::error)?;
            drop(tokio::spawn(Actor::new(Arc::new(Api { zk, reports: told }), queue).run()));
            Ok::<(), Error>(())
        };
        runtime.spawn(begin).await.map_err(|_| Error::Closed { sent: false })??;
        let shared = AdapterShared {
            commands,
            reports,
            chroot: servers.chroot,
            connection_timeout: settings.connection_timeout,
            close_timeout: settings.close_timeout,
            _runtime: runtime,
        };
        Ok(Arc::new(SessionHandle { shared: Arc::new(shared), deadline: None }))
    }
}

/// A runtime that may be dropped anywhere: it ends in the background.
struct DetachedRuntime(Option<Runtime>);

impl std::ops::Deref for DetachedRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("invariant: taken by drop only")
    }
}

impl Drop for DetachedRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A handle of a session.
#[derive(Clone)]
struct SessionHandle {
    shared: Arc<AdapterShared>,
    /// The deadline of every request of this handle.
    deadline: Option<Duration>,
}

struct AdapterShared {
    commands: mpsc::UnboundedSender<ActorCommand>,
    reports: Arc<Reports>,
    /// The chroot, which the crate does not support.
    chroot: String,
    connection_timeout: Duration,
    close_timeout: Duration,
    _runtime: DetachedRuntime,
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ZookeeperAsync").field(&self.shared.reports.states.current()).finish()
    }
}

impl SessionHandle {
    /// Queues a request and waits for its response.
    fn submit<T, F>(&self, send: impl FnOnce(Arc<Api>) -> F + Send + 'static) -> RawFuture<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let progress = Arc::new(RequestProgress::default());
        let run = move |api: Result<Arc<Api>, Error>| -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                let result = match api {
                    Ok(api) => send(api).await,
                    Err(error) => Err(error),
                };
                drop(reply.send(result));
            })
        };
        let now = Instant::now();
        let request = ActorRequest {
            run: Box::new(run),
            progress: Arc::clone(&progress),
            patience: now + bounded(self.shared.connection_timeout),
        };
        let queued = self.shared.commands.send(ActorCommand::Request(request));
        let shared = Arc::clone(&self.shared);
        let deadline = self.deadline.map(|deadline| now + bounded(deadline));
        Box::pin(async move {
            if queued.is_err() {
                return Err(shared.ended(false));
            }
            let answered = match deadline {
                Some(deadline) => match timeout_at(deadline, answer).await {
                    Ok(answered) => answered,
                    Err(_) => return Err(Error::DeadlineExceeded { sent: !progress.give_up() }),
                },
                None => answer.await,
            };
            answered.unwrap_or_else(|_| Err(shared.ended(progress.is_sent())))
        })
    }

    /// Submits a request about one node.
    fn at<T, F>(
        &self,
        path: &str,
        send: impl FnOnce(Arc<Api>, String) -> F + Send + 'static,
    ) -> RawFuture<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zookeeper_async::ZkError>> + Send + 'static,
    {
        match self.absolute(path) {
            Ok(path) => self.submit(async move |api| send(api, path).await.map_err(convert::error)),
            Err(error) => failed(error),
        }
    }

    fn absolute(&self, path: &str) -> Result<String, Error> {
        zk_curator_client::path::validate(path)?;
        Ok(match (self.shared.chroot.as_str(), path) {
            ("", path) => path.to_owned(),
            (chroot, "/") => chroot.to_owned(),
            (chroot, path) => format!("{chroot}{path}"),
        })
    }

    /// Submits a read with a watch. `read` returns the result, the kind of the watch, and the stat.
    fn watched<T, F>(
        &self,
        path: &str,
        kind: ArmingRead,
        read: impl FnOnce(Arc<Api>, String) -> F + Send + 'static,
    ) -> RawFuture<(T, OneshotWatch)>
    where
        T: Send + 'static,
        F: Future<Output = Result<(T, ArmingRead, Option<Stat>), Error>> + Send + 'static,
    {
        let visible = path.to_owned();
        match self.absolute(path) {
            Ok(path) => self.submit(async move |api: Arc<Api>| {
                let (id, watch) = api.reports.registry.insert(&path, &visible, kind);
                // The watch is removed if its read has no response.
                let unarmed = OnDrop::new(|| api.reports.registry.remove(id));
                let (value, kind, stat) = read(Arc::clone(&api), path).await?;
                api.reports.registry.saw(id, kind, stat.as_ref());
                unarmed.disarm();
                Ok((value, watch))
            }),
            Err(error) => failed(error),
        }
    }
}

impl AdapterShared {
    /// Returns the reason why there is no response.
    fn ended(&self, sent: bool) -> Error {
        match self.reports.states.current().end() {
            Some(Error::SessionExpired { .. }) => Error::SessionExpired { sent },
            Some(Error::AuthFailed { .. }) => Error::AuthFailed { sent },
            Some(Error::Closed { .. }) => Error::Closed { sent },
            _ => Error::ConnectionLoss { sent },
        }
    }
}

fn failed<T>(error: Error) -> RawFuture<T> {
    Box::pin(async { Err(error) })
}

fn converted_data((data, stat): (Vec<u8>, zookeeper_async::Stat)) -> Data {
    Data::new(data.into(), convert::stat(&stat))
}

/// Returns the names of the children, and the stat of the parent. The crate returns no stat with
/// the names. So the stat is read before and after, until nothing has changed in between. If that
/// fails, the earlier stat is returned, with which a watch reports too much rather than too little.
async fn list(api: &Api, path: &str, watch: bool) -> Result<(Children, Stat), Error> {
    let stat = async || {
        let stat = api.zk.exists(path, false).await.map_err(convert::error)?;
        converted(stat).ok_or(Error::Refused(ErrorCode::NoNode))
    };
    let mut before = stat().await?;
    let mut rounds = 0;
    loop {
        let names = api.zk.get_children(path, watch).await.map_err(convert::error)?;
        let after = stat().await?;
        rounds += 1;
        if (before.czxid, before.pzxid) == (after.czxid, after.pzxid) || rounds == LISTINGS {
            return Ok((Children::new(names, before), before));
        }
        before = after;
    }
}

#[async_trait]
impl RawClient for SessionHandle {
    fn with_deadline(&self, deadline: Duration) -> Arc<dyn RawClient> {
        Arc::new(Self { shared: Arc::clone(&self.shared), deadline: Some(deadline) })
    }

    fn states(&self) -> RawStates {
        Box::pin(self.shared.reports.states.states())
    }

    fn session(&self) -> Option<SessionInfo> {
        self.shared.reports.states.session()
    }

    fn last_failure(&self) -> Option<Arc<std::io::Error>> {
        self.shared.reports.states.last_failure()
    }

    fn create(&self, op: &Op) -> RawFuture<Created> {
        let &Op::Create { ref path, ref data, ref acl, mode, ttl } = op else {
            return failed(Error::InvalidArgument("not a create operation"));
        };
        let Some(data) = data else {
            return failed(Error::Unsupported("writing null data"));
        };
        let Some(crate_mode) = convert::mode(mode) else {
            return failed(Error::Unsupported("creating containers"));
        };
        if mode.is_ttl() != ttl.is_some() {
            return failed(Error::InvalidArgument("time to live and kind of node do not fit"));
        }
        if mode.is_sequential() && path.ends_with('/') {
            return failed(Error::Unsupported("a sequential node without a name"));
        }
        let (path, chroot) = match self.absolute(path) {
            Ok(path) => (path, self.shared.chroot.clone()),
            Err(error) => return failed(error),
        };
        let (data, acl) = (data.to_vec(), convert::acl_to_crate(acl));
        self.submit(async move |api| {
            let created = match ttl {
                Some(ttl) => api.zk.create2_ttl(&path, data, acl, crate_mode, ttl).await,
                None => api.zk.create2(&path, data, acl, crate_mode).await,
            };
            let (path, stat) = created.map_err(convert::error)?;
            let visible = zk_curator_client::path::visible(&chroot, &path).to_owned();
            Ok(Created::new(visible, convert::stat(&stat)))
        })
    }

    fn delete(&self, path: &str, version: Version) -> RawFuture<()> {
        match version.to_wire() {
            // Without the chroot, whose node must not be deleted: the server refuses the request.
            Ok(version) if path == "/" => self.submit(async move |api| {
                api.zk.delete("/", Some(version)).await.map_err(convert::error)
            }),
            Ok(version) => {
                self.at(path, async move |api, path| api.zk.delete(&path, Some(version)).await)
            }
            Err(error) => failed(error),
        }
    }

    fn exists(&self, path: &str) -> RawFuture<Option<Stat>> {
        self.at(path, async |api, path| api.zk.exists(&path, false).await.map(converted))
    }

    fn exists_watched(&self, path: &str) -> RawFuture<(Option<Stat>, OneshotWatch)> {
        self.watched(path, ArmingRead::Absent, async |api, path| {
            let stat = converted(api.zk.exists(&path, true).await.map_err(convert::error)?);
            let kind = if stat.is_some() { ArmingRead::Data } else { ArmingRead::Absent };
            Ok((stat, kind, stat))
        })
    }

    fn get_data(&self, path: &str) -> RawFuture<Data> {
        self.at(path, async |api, path| api.zk.get_data(&path, false).await.map(converted_data))
    }

    fn get_data_watched(&self, path: &str) -> RawFuture<(Data, OneshotWatch)> {
        self.watched(path, ArmingRead::Data, async |api, path| {
            let data = converted_data(api.zk.get_data(&path, true).await.map_err(convert::error)?);
            let stat = data.stat;
            Ok((data, ArmingRead::Data, Some(stat)))
        })
    }

    fn set_data(&self, path: &str, data: &[u8], version: Version) -> RawFuture<Stat> {
        let data = data.to_vec();
        match version.to_wire() {
            Ok(version) => self.at(path, async move |api, path| {
                api.zk.set_data(&path, data, Some(version)).await.map(|stat| convert::stat(&stat))
            }),
            Err(error) => failed(error),
        }
    }

    fn get_children(&self, path: &str) -> RawFuture<Children> {
        match self.absolute(path) {
            Ok(path) => self.submit(async move |api| {
                list(&api, &path, false).await.map(|(children, _)| children)
            }),
            Err(error) => failed(error),
        }
    }

    fn get_children_watched(&self, path: &str) -> RawFuture<(Children, OneshotWatch)> {
        self.watched(path, ArmingRead::Children, async |api, path| {
            let (children, stat) = list(&api, &path, true).await?;
            Ok((children, ArmingRead::Children, Some(stat)))
        })
    }

    fn sync(&self, path: &str) -> RawFuture<()> {
        let nothing = format!(
            "{}/_zk_curator_sync_{}",
            path.trim_end_matches('/'),
            Uuid::new_v4().as_hyphenated()
        );
        let refused = self.delete(&nothing, Version::Any);
        Box::pin(async move {
            match refused.await {
                // The leader refuses it, after everything that a sync waits for.
                Ok(()) | Err(Error::Refused(ErrorCode::NoNode | ErrorCode::NoAuth)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn multi(&self, _ops: &[Op]) -> RawFuture<Vec<OpResult>> {
        failed(Error::Unsupported("a transaction"))
    }

    fn add_auth(&self, scheme: &str, auth: &[u8]) -> RawFuture<()> {
        let (reply, answer) = oneshot::channel();
        let identity = SessionIdentity { scheme: scheme.to_owned(), auth: auth.to_vec() };
        let queued = self.shared.commands.send(ActorCommand::AddAuth { identity, reply });
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            if queued.is_err() {
                return Err(shared.ended(false));
            }
            answer.await.unwrap_or_else(|_| Err(shared.ended(true)))
        })
    }

    fn get_acl(&self, path: &str) -> RawFuture<AclOf> {
        self.at(path, async |api, path| {
            let (acl, stat) = api.zk.get_acl(&path).await?;
            Ok(AclOf::new(convert::acl_from_crate(acl), convert::stat(&stat)))
        })
    }

    fn set_acl(&self, path: &str, acl: &[Acl], version: Version) -> RawFuture<Stat> {
        let acl = convert::acl_to_crate(acl);
        match version.to_wire() {
            Ok(version) => self.at(path, async move |api, path| {
                api.zk.set_acl(&path, acl, Some(version)).await.map(|stat| convert::stat(&stat))
            }),
            Err(error) => failed(error),
        }
    }

    async fn close(&self) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        let within = self.shared.close_timeout;
        if self.shared.commands.send(ActorCommand::Close { within, reply }).is_err() {
            return Ok(());
        }
        answer.await.unwrap_or(Ok(()))
    }
}
