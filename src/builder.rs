use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{Acl, Clock, Connector, CredentialsProvider, SessionCredentials, Spawn};

use crate::acl::{AclProvider, OpenAcl};
use crate::compression::{Compression, CompressionProvider};
use crate::core::{Call, Settings};
use crate::ensemble::EnsembleServer;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::{CuratorFramework, HandleOptions};
use crate::namespace::Namespace;
use crate::raw::{NativeFactory, RawClientFactory, SessionSettings};
use crate::retry::{ExponentialBackoffRetry, RetryPolicy};
use crate::schema::SchemaSet;
use crate::state::ConnectionStateErrorPolicy;

/// Settings of a [`CuratorFramework`].
///
/// ```
/// # fn main() -> Result<(), zk_curator::Error> {
/// use std::time::Duration;
/// use zk_curator::{CuratorFramework, retry::ExponentialBackoffRetry};
///
/// let zk = CuratorFramework::builder()
///     .connect_string("zk1:2181,zk2:2181,zk3:2181/app")
///     .namespace("orders")
///     .session_timeout(Duration::from_secs(30))
///     .retry(ExponentialBackoffRetry::new(Duration::from_millis(100), 5))
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use]
pub struct CuratorFrameworkBuilder {
    settings: Settings,
    namespace: String,
    native: NativeFactory,
    /// Replaces the native client.
    raw_client: Option<Arc<dyn RawClientFactory>>,
    deadline: Option<Duration>,
}

impl Default for CuratorFrameworkBuilder {
    fn default() -> Self {
        let settings = Settings {
            session: SessionSettings::default(),
            retry: Arc::new(ExponentialBackoffRetry::new(Duration::from_millis(100), 5)),
            auth: Vec::new(),
            factory: Arc::new(NativeFactory::default()),
            compression: Compression::default(),
            schemas: Arc::default(),
            acl_provider: Arc::new(OpenAcl),
            default_data: Bytes::new(),
            error_policy: ConnectionStateErrorPolicy::Standard,
            ensemble_tracker: false,
            ensemble_addresses: None,
            create_chroot: None,
            name: None,
            circuit_breaker: None,
            spawner: None,
            seed: None,
            resume: None,
        };
        let native = NativeFactory::default();
        Self { settings, namespace: String::new(), native, raw_client: None, deadline: None }
    }
}

impl CuratorFrameworkBuilder {
    /// Sets the servers, and optionally the chroot: `host:port,host:port/chroot`. Required.
    pub fn connect_string(mut self, connect_string: impl Into<String>) -> Self {
        self.settings.session.connect_string = connect_string.into();
        self
    }

    /// Creates the chroot of the connect string, and missing nodes above it, as persistent nodes
    /// with this ACL, when the first server is reached. This uses a session of its own, which is
    /// closed immediately. If the chroot is deleted later, the next create creates it again, at
    /// most once a second, and waits for it, for the connection timeout at most without a deadline.
    /// Default: none, [`CuratorFramework::start`] fails with `NoNode` if the chroot does not exist,
    /// and so does every create while it is missing.
    pub fn create_chroot(mut self, acl: Vec<Acl>) -> Self {
        self.settings.create_chroot = Some(acl);
        self
    }

    /// Sets the node below which all paths are, without a leading slash. It is created as a
    /// container when it is first needed. Default: none.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the requested session timeout, from 1 ms to about 24 days. The servers limit it,
    /// usually to 4 to 40 s. Default: 60 s, as in Curator.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.session_timeout = timeout;
        self
    }

    /// Sets the time that [`CuratorFramework::start`] and every operation wait for a connection.
    /// After it, `start` fails with `ConnectionLoss`, and an operation asks its [retry
    /// policy](Self::retry) for a pause before each further check for a connection. Default: 15 s,
    /// as in Curator.
    ///
    /// If a server falls silent while an operation is in flight, the wait begins when the silence
    /// is noticed, after at most two thirds of the session timeout. It begins again if the session
    /// is lost.
    pub const fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.connection_timeout = timeout;
        self
    }

    /// Sets the maximum duration of [`CuratorFramework::close`]: three quarters for the pending
    /// cleanup, and the rest for closing the session. Default: 5 s.
    pub const fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.close_timeout = timeout;
        self
    }

    /// Sets the retry policy of failed operations. Default: [`ExponentialBackoffRetry`] with 100 ms
    /// and 5 retries.
    pub fn retry(mut self, policy: impl RetryPolicy) -> Self {
        self.settings.retry = Arc::new(policy);
        self
    }

    /// Sets the time that one operation may take, with its retries and pauses, unless its builder
    /// sets another one. Default: no limit except that of the retry policy and the [connection
    /// timeout](Self::connection_timeout).
    pub const fn operation_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the access control lists of nodes that are created without an explicit one, parents
    /// included: an [`AclProvider`], or a `Vec<Acl>` for all of them. Default: [`OpenAcl`], which
    /// allows everything.
    pub fn acl_provider(mut self, provider: impl AclProvider) -> Self {
        self.settings.acl_provider = Arc::new(provider);
        self
    }

    /// Sets the data of nodes that are created without data, except parents, which have none.
    /// Default: none.
    ///
    /// Java Curator writes the IP address of the machine into such nodes. For readers that expect
    /// it, use [`default_data_is_local_address`](Self::default_data_is_local_address).
    pub fn default_data(mut self, data: impl Into<Bytes>) -> Self {
        self.settings.default_data = data.into();
        self
    }

    /// Sets the [default data](Self::default_data) as in Java Curator: the IP address of this
    /// machine as ASCII. It is the address that is used for external connections, or the loopback
    /// address without a network.
    pub fn default_data_is_local_address(self) -> Self {
        self.default_data(local_address())
    }

    /// Accepts a read-only server, which has lost its quorum, until a writable one is found:
    /// [`ConnectionState::ReadOnly`](crate::ConnectionState::ReadOnly). Writes fail with `ReadOnly`
    /// until then. Default: `false`.
    pub const fn read_only(mut self, allowed: bool) -> Self {
        self.settings.session.read_only = allowed;
        self
    }

    /// Sets the connection states that recipes treat as errors. Default:
    /// [`Standard`](ConnectionStateErrorPolicy::Standard), as in Curator.
    pub const fn connection_state_error_policy(
        mut self,
        policy: ConnectionStateErrorPolicy,
    ) -> Self {
        self.settings.error_policy = policy;
        self
    }

    /// Suppresses rapid changes of the connection state on an unstable network, for all observers,
    /// including recipes: see [`CircuitBreaker`](crate::state::CircuitBreaker). `policy` determines
    /// how long. Default: off, every change is reported. Curator:
    /// `ConnectionStateListenerManagerFactory.circuitBreaking`.
    ///
    /// SUSPENDED and LOST are reported immediately, so that no leadership or hold lasts longer. The
    /// return of the connection is reported when the circuit closes. Until then no leader begins a
    /// term, [`status`](CuratorFramework::status) stays as last reported, and
    /// [`wait_connected`](CuratorFramework::wait_connected) waits. Operations are still sent, and
    /// guards are lost with their session.
    pub fn circuit_breaker(mut self, policy: impl RetryPolicy) -> Self {
        self.settings.circuit_breaker = Some(Arc::new(policy));
        self
    }

    /// Treats a session as lost after it has been suspended for this part of the negotiated
    /// timeout, from 1 to 100 percent. Default: 100. The client counts from the last request with
    /// a response, so 100 percent is exact.
    ///
    /// A lower value gives the holder of a lock time to stop before the server gives the lock to
    /// another client.
    pub const fn simulated_session_expiration_percent(mut self, percent: u8) -> Self {
        self.settings.session.expiration_percent = percent;
        self
    }

    /// Sets the maximum size of a request in bytes, from 64 to `i32::MAX`: the servers'
    /// `jute.maxbuffer`. Default: [`DEFAULT_MAX_FRAME`](zk_curator_client::DEFAULT_MAX_FRAME), one
    /// below 1 MiB.
    ///
    /// A larger request fails with [`TooLarge`](ErrorKind::TooLarge) and is not sent. Servers with
    /// a lower limit close the connection on a request over theirs. A request over 1 MiB fails with
    /// `TooLarge` then, and a smaller one after the second such connection.
    pub const fn max_frame(mut self, bytes: usize) -> Self {
        self.settings.session.max_frame = Some(bytes);
        self
    }

    /// Sets the maximum size of a response in bytes. A value below [`max_frame`](Self::max_frame)
    /// is raised to it, and zero is refused. Default: 4 times `max_frame`, which is enough to list
    /// about 60,000 protected names.
    ///
    /// A larger response fails only its own request, with
    /// [`ResponseTooLarge`](ErrorKind::ResponseTooLarge). It is not kept in memory.
    pub const fn max_response(mut self, bytes: usize) -> Self {
        self.settings.session.max_response = Some(bytes);
        self
    }

    /// Sets the limits of the requests that wait for a response: their number, from 1, and their
    /// size in bytes, from 64. Default: 65,536 and 256 MiB.
    ///
    /// Above either limit, requests fail with [`Overloaded`](ErrorKind::Overloaded), and are
    /// retried as the retry policy allows.
    pub const fn queue_limits(mut self, requests: usize, bytes: usize) -> Self {
        self.settings.session.queue_limits = Some((requests, bytes));
        self
    }

    /// Follows the configuration of the ensemble (`/zookeeper/config`): its members become the
    /// servers of this framework whenever they change. Default: `false`, unlike Curator.
    ///
    /// The ensemble names its own addresses. If clients use other addresses (through NAT, or
    /// because of names in a certificate), do not follow it, or set [their
    /// addresses](Self::ensemble_tracker_addresses). If no member is reached for the
    /// [connection timeout](Self::connection_timeout), the servers of the connect string are tried,
    /// too, until the configuration changes. It costs one request for each session, and a watch.
    ///
    /// The client ports in the configuration are those without TLS. With an
    /// [encrypted](Connector::is_encrypted) connector, [`build`](Self::build) therefore refuses to
    /// follow them.
    pub const fn ensemble_tracker(mut self, follow: bool) -> Self {
        self.settings.ensemble_tracker = follow;
        self
    }

    /// Does the same as [`ensemble_tracker`](Self::ensemble_tracker), with `address` returning the
    /// address of a member for clients, as `host:port`. Members for which it returns `None` are
    /// left out. Default: the client addresses of the configuration.
    ///
    /// ```
    /// # fn main() -> Result<(), zk_curator::Error> {
    /// // The configuration of an ensemble does not contain the secure client port.
    /// let builder = zk_curator::CuratorFramework::builder()
    ///     .connect_string("zk1:2281,zk2:2281")
    ///     .ensemble_tracker_addresses(|server| Some(format!("{}:2281", server.peers.first()?.host)));
    /// # builder.build()?;
    /// # Ok(()) }
    /// ```
    pub fn ensemble_tracker_addresses(
        mut self,
        address: impl Fn(&EnsembleServer) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.settings.ensemble_addresses = Some(Arc::new(address));
        self.ensemble_tracker(true)
    }

    /// Adds an identity, for example `("digest", "user:password")`, to every connection.
    pub fn authorization(mut self, scheme: impl Into<String>, auth: impl Into<Bytes>) -> Self {
        self.settings.auth.push((scheme.into(), auth.into()));
        self
    }

    /// Sets a provider that is asked for credentials on every connection of the native client, for
    /// tokens that rotate; see [`CredentialsProvider`]. They are added to those of
    /// [`authorization`](Self::authorization). Default: none.
    ///
    /// If servers refuse them twice in a row, [`CuratorFramework::start`] fails with `AuthFailed`.
    /// A failure of the provider counts as a failed connection: [`CuratorFramework::last_failure`]
    /// returns it, and another connection is tried.
    pub fn credentials_provider(mut self, provider: Arc<dyn CredentialsProvider>) -> Self {
        self.native = self.native.credentials_provider(provider);
        self
    }

    /// Resumes a session that another framework has [detached](CuratorFramework::detach), with its
    /// ephemeral nodes, in place of the first new one. Default: a new session.
    ///
    /// If the session has expired, [`CuratorFramework::background_errors`] reports
    /// `SessionExpired`, and a new session is opened. The connect string must have the same chroot
    /// as before, and the session timeout should be the same.
    ///
    /// A session is for one framework. [`zk_curator_client::ZooKeeperBuilder::resume`] describes
    /// what happens with two of them.
    pub fn resume(mut self, credentials: SessionCredentials) -> Self {
        self.settings.resume = Some(credentials);
        self
    }

    /// Sets the compression of data, for operations that ask for it. Default: Curator's gzip with
    /// the feature `gzip`, and else none.
    pub fn compression_provider(mut self, provider: impl CompressionProvider) -> Self {
        self.settings.compression.provider = Some(Arc::new(provider));
        self
    }

    /// Compresses all written data and decompresses all read data, unless an operation is
    /// [`uncompressed`](crate::op::CreateBuilder::uncompressed) or
    /// [`undecompressed`](crate::op::GetDataBuilder::undecompressed). Default: off, each operation
    /// decides.
    ///
    /// Recipes compress your data that have a node of their own: items of queues, jobs and their
    /// results, members of groups, bindings of names, persistent nodes. Recipes never compress
    /// their own protocol data, so clients with and without compression, including Java's, can
    /// share a lock: labels of locks, ids of candidates, requests to release, shared counts, and
    /// all of a `ConfigStore` or a two-phase transaction.
    pub const fn enable_compression(mut self) -> Self {
        self.settings.compression.enabled = true;
        self
    }

    /// Sets the rules for nodes. A forbidden operation fails with `SchemaViolation` and is not
    /// sent. Default: none.
    pub fn schema_set(mut self, schemas: SchemaSet) -> Self {
        self.settings.schemas = Arc::new(schemas);
        self
    }

    /// Sets the connector of the native client to the servers: a `tls::TlsConnector` for TLS
    /// (feature `tls`), or for example the in-memory network of a test server. Default: TCP.
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.native = self.native.connector(connector);
        self
    }

    /// Sets the place where the background tasks run, including those of the sessions of the native
    /// client; see [`Spawn`]. Default: the tokio runtime in which [`CuratorFramework::start`] is
    /// called.
    ///
    /// If the runtime of a service may be busy for longer than a session lasts, give these tasks a
    /// runtime of their own:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::sync::Arc;
    /// # use zk_curator::CuratorFramework;
    /// let sessions = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    /// let builder = CuratorFramework::builder().spawner(Arc::new(sessions.handle().clone()));
    /// # Ok(()) }
    /// ```
    ///
    /// The session then stays alive, and the state of the connection is up to date. A task that is
    /// starved on its own runtime still cannot observe it.
    pub fn spawner(mut self, spawner: Arc<dyn Spawn>) -> Self {
        self.native = self.native.spawner(Arc::clone(&spawner));
        self.settings.spawner = Some(spawner);
        self
    }

    /// Sets the clock of the native client, which reports the time for which the machine was
    /// suspended; that time counts against the session. See [`Clock`]. Default:
    /// [`zk_curator_client::SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.native = self.native.clock(clock);
        self
    }

    /// Sets the name of the framework, for processes with several. It appears in every event that
    /// the framework [logs](crate::observe), in its
    /// [`FrameworkInspection`](crate::observe::FrameworkInspection), and in the label `framework`
    /// of its metrics and those of its recipes. Default: none, which is the empty label.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Makes all random choices a function of `seed` and their order: GUIDs, the order of the
    /// servers, the pauses between attempts, and the pauses of retry policies without a seed of
    /// their own. Default: random choices.
    ///
    /// It is for simulations and tests, **never for production**: two frameworks with one seed give
    /// two protected nodes the same name, and mistake each other's node for their own. These
    /// choices stay random in any case: a [`circuit
    /// breaker`](crate::state::StateWatch::circuit_breaking)'s policy without a seed, SASL nonces,
    /// the order of the addresses of one host name, and raw clients other than the native one.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Authenticates on every connection of the native client with SASL DIGEST-MD5, before anything
    /// else; see [`zk_curator_client::ZooKeeperBuilder::sasl_digest_md5`]. Default: no
    /// authentication.
    ///
    /// If servers refuse, [`CuratorFramework::start`] fails with `AuthFailed`.
    #[cfg(feature = "sasl")]
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.native = self.native.sasl_digest_md5(user, password);
        self
    }

    /// Authenticates every connection of the native client with Kerberos (SASL GSSAPI), before any
    /// other request; see [`zk_curator_client::ZooKeeperBuilder::sasl_kerberos`] and
    /// [`crate::kerberos`]. Default: no authentication.
    ///
    /// If servers refuse, [`CuratorFramework::start`] fails with `AuthFailed`. Without a ticket it
    /// fails with `ConnectionLoss` after the connection timeout, and the framework continues to
    /// try. The cause of the error contains a [`KerberosError`](crate::kerberos::KerberosError).
    #[cfg(feature = "kerberos")]
    #[doc(alias = "gssapi")]
    pub fn sasl_kerberos(mut self, kerberos: crate::kerberos::Kerberos) -> Self {
        self.native = self.native.sasl_kerberos(kerberos);
        self
    }

    /// Sets another raw client, which ignores the settings of the native one. Default:
    /// [`NativeFactory`].
    pub fn raw_client(mut self, factory: Arc<dyn RawClientFactory>) -> Self {
        self.raw_client = Some(factory);
        self
    }

    /// Builds the framework. Nothing is sent before [`CuratorFramework::start`].
    ///
    /// # Errors
    /// `InvalidArgument` if the connect string, a timeout or a limit is invalid, or an ensemble is
    /// followed to ports without TLS. `InvalidPath` if the namespace is invalid.
    pub fn build(mut self) -> Result<CuratorFramework> {
        self.settings.factory = self.raw_client.unwrap_or_else(|| Arc::new(self.native));
        let namespace = Namespace::parse("build", &self.namespace)?;
        validate(&*self.settings.factory, &self.settings)?;
        let follows_ports =
            self.settings.ensemble_tracker && self.settings.ensemble_addresses.is_none();
        if follows_ports && self.settings.factory.is_encrypted() {
            let why = "the client ports of an ensemble are without TLS: say how its members are reached, with \
                       ensemble_tracker_addresses";
            return Err(Error::new(ErrorKind::InvalidArgument, "build", "").with_source(why));
        }
        if !(1..=100).contains(&self.settings.session.expiration_percent) {
            let why = "a session expires after 1 to 100 percent of its timeout";
            return Err(Error::new(ErrorKind::InvalidArgument, "build", "").with_source(why));
        }
        let call = Call { deadline: self.deadline, ..Call::default() };
        Ok(CuratorFramework::new(
            self.settings,
            HandleOptions { namespace, call, ..HandleOptions::default() },
        ))
    }
}

impl CuratorFramework {
    /// Begins to configure a framework.
    pub fn builder() -> CuratorFrameworkBuilder {
        CuratorFrameworkBuilder::default()
    }
}

/// Checks the settings once, when the framework is built.
fn validate(factory: &dyn RawClientFactory, settings: &Settings) -> Result<()> {
    factory
        .validate(&settings.session)
        .map_err(|why| Error::new(ErrorKind::InvalidArgument, "build", "").with_source(why))
}

/// Returns the address that is used for external connections. Nothing is sent: connecting a UDP
/// socket only looks up the route.
fn local_address() -> String {
    let of_route = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    // These addresses are reserved for documentation.
    of_route("0.0.0.0:0", "192.0.2.1:9")
        .or_else(|| of_route("[::]:0", "[2001:db8::1]:9"))
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .to_string()
}
