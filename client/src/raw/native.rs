use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{
    RawClient, RawClientFactory, RawFuture, RawStates, Revocable, RevocableFuture, SessionSettings,
};
use crate::sasl::SaslMechanism;
use crate::{
    Acl, AclOf, AddWatchMode, ChangesSince, Children, ClientInfo, Clock, Connector, Created,
    CredentialsProvider, Data, DisconnectedPolicy, Error, OneshotWatch, Op, OpResult, Pending,
    PersistentWatch, Read, ReadResponse, Reconfiguration, SessionCredentials, SessionInfo, Spawn,
    Stat, TcpConnector, Version, WatchedEvent, WatcherType, ZooKeeper, ZooKeeperBuilder,
};

/// A factory of [`crate::ZooKeeper`] sessions; the default.
#[derive(Debug, Clone)]
pub struct NativeFactory {
    connector: Arc<dyn Connector>,
    spawner: Option<Arc<dyn Spawn>>,
    credentials: Option<Arc<dyn CredentialsProvider>>,
    clock: Option<Arc<dyn Clock>>,
    /// Shared by the sessions.
    sasl: Option<Arc<dyn SaslMechanism>>,
}

impl NativeFactory {
    /// Returns a factory that reaches servers through `connector`, for example an in-memory
    /// network.
    #[must_use]
    pub const fn new(connector: Arc<dyn Connector>) -> Self {
        Self { connector, spawner: None, credentials: None, clock: None, sasl: None }
    }

    /// Sets the connector that reaches the servers.
    #[must_use]
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// Sets the spawner for the tasks of the sessions. Default: the current tokio runtime.
    #[must_use]
    pub fn spawner(mut self, spawner: Arc<dyn Spawn>) -> Self {
        self.spawner = Some(spawner);
        self
    }

    /// Sets the provider of the credentials of every connection; see
    /// [`crate::CredentialsProvider`]. Default: none.
    #[must_use]
    pub fn credentials_provider(mut self, provider: Arc<dyn CredentialsProvider>) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Sets the clock that reports for how long the machine was suspended. Default:
    /// [`crate::SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Authenticates every connection with SASL DIGEST-MD5, before any other request; see
    /// [`crate::ZooKeeperBuilder::sasl_digest_md5`]. Default: no.
    #[cfg(feature = "sasl")]
    #[must_use]
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.sasl = Some(Arc::new(crate::sasl::DigestMd5::new(user.into(), password.into())));
        self
    }

    /// Authenticates every connection with Kerberos (SASL GSSAPI), before any other request; see
    /// [`crate::ZooKeeperBuilder::sasl_kerberos`]. Default: no.
    #[cfg(feature = "kerberos")]
    #[must_use]
    pub fn sasl_kerberos(mut self, kerberos: crate::kerberos::Kerberos) -> Self {
        self.sasl = Some(Arc::new(kerberos));
        self
    }

    /// Returns the builder for the client of a session.
    fn builder(&self, settings: &SessionSettings) -> ZooKeeperBuilder {
        let builder = ZooKeeper::builder(settings.connect_string.as_str())
            .session_timeout(settings.session_timeout)
            .disconnected(DisconnectedPolicy::Wait(settings.connection_timeout))
            .close_timeout(settings.close_timeout)
            .read_only(settings.read_only)
            .expiration_percent(settings.expiration_percent)
            .last_zxid_seen(settings.last_zxid_seen)
            .connector(Arc::clone(&self.connector));
        let builder = match settings.max_frame {
            Some(bytes) => builder.max_frame(bytes),
            None => builder,
        };
        let builder = match settings.max_response {
            Some(bytes) => builder.max_response(bytes),
            None => builder,
        };
        let builder = match settings.queue_limits {
            Some((requests, bytes)) => builder.queue_limits(requests, bytes),
            None => builder,
        };
        let builder = match &self.spawner {
            Some(spawner) => builder.spawner(Arc::clone(spawner)),
            None => builder,
        };
        let builder = match settings.seed {
            Some(seed) => builder.seed(seed),
            None => builder,
        };
        let builder = match &self.credentials {
            Some(provider) => builder.credentials_provider(Arc::clone(provider)),
            None => builder,
        };
        let builder = match &self.clock {
            Some(clock) => builder.clock(Arc::clone(clock)),
            None => builder,
        };
        let mut builder = match &settings.resume {
            Some(credentials) => builder.resume(credentials.clone()),
            None => builder,
        };
        builder.sasl.clone_from(&self.sasl);
        builder
    }
}

impl Default for NativeFactory {
    fn default() -> Self {
        Self::new(Arc::new(TcpConnector::default()))
    }
}

#[async_trait]
impl RawClientFactory for NativeFactory {
    fn validate(
        &self,
        settings: &SessionSettings,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.builder(settings).validate()?;
        Ok(())
    }

    async fn open(&self, settings: &SessionSettings) -> Result<Arc<dyn RawClient>, Error> {
        let connected = self.builder(settings).connect();
        let client = connected
            .map_err(|_| Error::InvalidArgument("settings that do not allow a session"))?;
        Ok(Arc::new(client))
    }

    fn is_encrypted(&self) -> bool {
        self.connector.is_encrypted()
    }

    fn has_credentials(&self) -> bool {
        self.sasl.is_some() || self.credentials.is_some()
    }
}

impl<T> Revocable<T> for Pending<T> {
    fn withdraw(self: Pin<&mut Self>) -> bool {
        Self::withdraw(self.get_mut())
    }
}

/// Returns a client that knows for each request if it was sent. Only requests with a deadline are
/// tracked, so this sets one, as far away as possible.
fn revocable(zk: &ZooKeeper) -> ZooKeeper {
    if zk.has_deadline() { zk.clone() } else { zk.with_deadline(Duration::MAX) }
}

#[async_trait]
impl RawClient for ZooKeeper {
    fn with_deadline(&self, deadline: Duration) -> Arc<dyn RawClient> {
        Arc::new(Self::with_deadline(self, deadline))
    }

    fn states(&self) -> RawStates {
        Box::pin(Self::states(self))
    }

    fn session(&self) -> Option<SessionInfo> {
        Self::session(self)
    }

    fn server(&self) -> Option<Arc<str>> {
        Self::server(self).map(|server| server.to_string().into())
    }

    fn last_failure(&self) -> Option<Arc<io::Error>> {
        Self::last_failure(self)
    }

    fn create(&self, op: &Op) -> RawFuture<Created> {
        Box::pin(self.create_op(op))
    }

    fn create_revocable(&self, op: &Op) -> RevocableFuture<Created> {
        Box::pin(revocable(self).create_op(op))
    }

    fn multi_revocable(&self, ops: &[Op]) -> RevocableFuture<Vec<OpResult>> {
        Box::pin(Self::multi(&revocable(self), ops))
    }

    fn delete(&self, path: &str, version: Version) -> RawFuture<()> {
        Box::pin(Self::delete(self, path, version))
    }

    fn exists(&self, path: &str) -> RawFuture<Option<Stat>> {
        Box::pin(Self::exists(self, path))
    }

    fn exists_watched(&self, path: &str) -> RawFuture<(Option<Stat>, OneshotWatch)> {
        Box::pin(Self::exists_watched(self, path))
    }

    fn get_data(&self, path: &str) -> RawFuture<Data> {
        Box::pin(Self::get_data(self, path))
    }

    fn get_data_watched(&self, path: &str) -> RawFuture<(Data, OneshotWatch)> {
        Box::pin(Self::get_data_watched(self, path))
    }

    fn set_data(&self, path: &str, data: &[u8], version: Version) -> RawFuture<Stat> {
        Box::pin(Self::set_data(self, path, data, version))
    }

    fn get_children(&self, path: &str) -> RawFuture<Children> {
        Box::pin(Self::get_children(self, path))
    }

    fn get_children_watched(&self, path: &str) -> RawFuture<(Children, OneshotWatch)> {
        Box::pin(Self::get_children_watched(self, path))
    }

    fn multi_read(&self, reads: &[Read]) -> RawFuture<Vec<Result<ReadResponse, Error>>> {
        Box::pin(Self::multi_read(self, reads))
    }

    fn changes_since(&self, question: &Arc<ChangesSince>) -> RawFuture<Vec<WatchedEvent>> {
        let (zk, question) = (self.clone(), Arc::clone(question));
        Box::pin(async move { Self::changes_since(&zk, &question).await })
    }

    fn sync(&self, path: &str) -> RawFuture<()> {
        Box::pin(Self::sync(self, path))
    }

    fn multi(&self, ops: &[Op]) -> RawFuture<Vec<OpResult>> {
        Box::pin(Self::multi(self, ops))
    }

    fn check_size(&self, ops: &[Op]) -> Result<(), Error> {
        Self::check_size(self, ops)
    }

    fn add_auth(&self, scheme: &str, auth: &[u8]) -> RawFuture<()> {
        Box::pin(Self::add_auth(self, scheme, auth))
    }

    fn get_acl(&self, path: &str) -> RawFuture<AclOf> {
        Box::pin(Self::get_acl(self, path))
    }

    fn set_acl(&self, path: &str, acl: &[Acl], version: Version) -> RawFuture<Stat> {
        Box::pin(Self::set_acl(self, path, acl, version))
    }

    fn add_watch(&self, path: &str, mode: AddWatchMode) -> RawFuture<PersistentWatch> {
        let added = Self::add_watch(self, path, mode);
        Box::pin(async move { added.await.map(|((), watch)| watch) })
    }

    fn remove_watches(&self, path: &str, watcher_type: WatcherType) -> RawFuture<()> {
        Box::pin(Self::remove_watches(self, path, watcher_type))
    }

    fn get_ephemerals(&self, prefix: &str) -> RawFuture<Vec<String>> {
        Box::pin(Self::get_ephemerals(self, prefix))
    }

    fn get_all_children_number(&self, path: &str) -> RawFuture<u32> {
        Box::pin(Self::get_all_children_number(self, path))
    }

    fn who_am_i(&self) -> RawFuture<Vec<ClientInfo>> {
        Box::pin(Self::who_am_i(self))
    }

    fn get_config(&self) -> RawFuture<Data> {
        Box::pin(Self::get_config(self))
    }

    fn get_config_watched(&self) -> RawFuture<(Data, OneshotWatch)> {
        Box::pin(Self::get_config_watched(self))
    }

    fn reconfig(&self, change: &Reconfiguration) -> RawFuture<Data> {
        Box::pin(Self::reconfig(self, change))
    }

    fn update_server_list(&self, connect_string: &str) -> Result<(), Error> {
        Self::update_server_list(self, connect_string).map_err(|_| {
            Error::InvalidArgument("a connect string that is not valid, or of another chroot")
        })
    }

    fn credentials(&self) -> Option<SessionCredentials> {
        Self::credentials(self)
    }

    fn valid_until(&self) -> Option<Instant> {
        Self::valid_until(self)
    }

    fn suspended(&self) -> Option<Duration> {
        Some(Self::suspended(self))
    }

    fn last_zxid_seen(&self) -> i64 {
        Self::last_zxid_seen(self)
    }

    fn lost_history(&self) -> Option<i64> {
        Self::lost_history(self)
    }

    async fn detach(&self) -> Result<SessionCredentials, Error> {
        Self::detach(self).await
    }

    async fn end_session(&self, credentials: SessionCredentials) -> Result<(), Error> {
        Self::end_session(self, credentials).await
    }

    async fn close(&self) -> Result<(), Error> {
        Self::close(self).await
    }
}
