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
    /// Instead of it.
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
    /// The servers, and optionally the chroot: `host:port,host:port/chroot`. Required.
    pub fn connect_string(mut self, connect_string: impl Into<String>) -> Self {
        self.settings.session.connect_string = connect_string.into();
        self
    }

    /// Creates the chroot of the connect string, and what is missing above it, as persistent nodes with this ACL, when the
    /// first server is reached; in a session of its own, which is closed at once. Default: no;
    /// [`CuratorFramework::start`] fails with `NoNode` if the chroot does not exist.
    pub fn create_chroot(mut self, acl: Vec<Acl>) -> Self {
        self.settings.create_chroot = Some(acl);
        self
    }

    /// The node below which all paths are, without a leading slash. It is created, as a container, when it
    /// is first needed. Default: none.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The session timeout to ask for, from 1 ms to about 24 days; the servers grant what they allow, usually
    /// from 4 to 40 s. Default 60 s, as Curator's.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.session_timeout = timeout;
        self
    }

    /// How long [`CuratorFramework::start`] waits for a connection before it fails with `ConnectionLoss`, and every
    /// operation before it does what the [retry policy](Self::retry) says, which is asked how long to pause before each
    /// further look. Default 15 s, as Curator's.
    ///
    /// An operation that was in flight when the server fell silent waits this long once that is noticed, after
    /// at most two thirds of the session timeout, or anew once the session is lost by it.
    pub const fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.connection_timeout = timeout;
        self
    }

    /// How long [`CuratorFramework::close`] takes at most: three quarters for the cleanup that is still owed, and the rest
    /// for telling a server. Default 5 s.
    pub const fn close_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session.close_timeout = timeout;
        self
    }

    /// When failed operations are tried again. Default [`ExponentialBackoffRetry`] with 100 ms and 5 retries.
    pub fn retry(mut self, policy: impl RetryPolicy) -> Self {
        self.settings.retry = Arc::new(policy);
        self
    }

    /// How long one operation may take, its retries and pauses included, unless its builder says otherwise. Default:
    /// no limit but what the retry policy and the [connection timeout](Self::connection_timeout) make of it.
    pub const fn operation_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The access control lists of nodes that are created without one, parents included: an [`AclProvider`], or a
    /// `Vec<Acl>` for all of them. Default: [`OpenAcl`], everybody may do everything.
    pub fn acl_provider(mut self, provider: impl AclProvider) -> Self {
        self.settings.acl_provider = Arc::new(provider);
        self
    }

    /// The data of nodes that are created without any, but not of parents, which have none. Default: none.
    ///
    /// Java Curator writes the IP address of the machine in such nodes. Readers that expect it are served by
    /// [`default_data_is_local_address`](Self::default_data_is_local_address).
    pub fn default_data(mut self, data: impl Into<Bytes>) -> Self {
        self.settings.default_data = data.into();
        self
    }

    /// Makes the [default data](Self::default_data) what they are in Java Curator: the IP address of this machine as
    /// ASCII. It is the one from which the network outside is reached, and without a network the loopback address.
    pub fn default_data_is_local_address(self) -> Self {
        self.default_data(local_address())
    }

    /// Is content with a server in read-only mode, which has lost its ensemble, until a writable one is found:
    /// [`ConnectionState::ReadOnly`](crate::ConnectionState::ReadOnly). Writes fail with `ReadOnly` meanwhile.
    /// Default: no.
    pub const fn read_only(mut self, allowed: bool) -> Self {
        self.settings.session.read_only = allowed;
        self
    }

    /// Which states of the connection recipes take for an error. Default
    /// [`Standard`](ConnectionStateErrorPolicy::Standard), as Curator's.
    pub const fn connection_state_error_policy(mut self, policy: ConnectionStateErrorPolicy) -> Self {
        self.settings.error_policy = policy;
        self
    }

    /// Spares everybody who follows the state of the connection, recipes included, the flapping of a bad network: see
    /// [`CircuitBreaker`](crate::state::CircuitBreaker). `policy` says how long it lasts. Default: every change is told. Curator:
    /// `ConnectionStateListenerManagerFactory.circuitBreaking`.
    ///
    /// SUSPENDED and LOST are told at once, so that nobody leads or holds on for longer. That the connection is back is told
    /// when the circuit closes: until then no leader begins a term, [`status`](CuratorFramework::status) stays as it was told,
    /// and [`wait_connected`](CuratorFramework::wait_connected) waits. Operations are sent all the same, and guards are lost
    /// with their session.
    pub fn circuit_breaker(mut self, policy: impl RetryPolicy) -> Self {
        self.settings.circuit_breaker = Some(Arc::new(policy));
        self
    }

    /// Gives a session up when it has been suspended for this part of the negotiated timeout, from 1 to 100 percent.
    /// Default 100, where the client counts from the last request that was answered, and thereby exactly.
    ///
    /// Less leaves the holder of a lock time to stop before the server gives it to another.
    pub const fn simulated_session_expiration_percent(mut self, percent: u8) -> Self {
        self.settings.session.expiration_percent = percent;
        self
    }

    /// The largest request in bytes, from 64 to `i32::MAX`: the servers' `jute.maxbuffer`. Default
    /// [`DEFAULT_MAX_FRAME`](zk_curator_client::DEFAULT_MAX_FRAME), one below 1 MiB.
    ///
    /// A larger request fails with [`TooLarge`](ErrorKind::TooLarge) and is not sent.
    pub const fn max_frame(mut self, bytes: usize) -> Self {
        self.settings.session.max_frame = Some(bytes);
        self
    }

    /// The largest answer in bytes, from [`max_frame`](Self::max_frame) on, which is taken in place of a smaller one; zero is
    /// refused. Default 4 times that: a listing of about 60,000 protected names.
    ///
    /// A larger answer fails its request alone, with [`AnswerTooLarge`](ErrorKind::AnswerTooLarge). It is not kept in memory.
    pub const fn max_answer(mut self, bytes: usize) -> Self {
        self.settings.session.max_answer = Some(bytes);
        self
    }

    /// The limits of requests that wait for their answers: number, from 1, and size in bytes, from 64. Default 65,536 and
    /// 256 MiB.
    ///
    /// Above either, requests fail with [`Overloaded`](ErrorKind::Overloaded), and are tried again as the retry policy says.
    pub const fn queue_limits(mut self, requests: usize, bytes: usize) -> Self {
        self.settings.session.queue_limits = Some((requests, bytes));
        self
    }

    /// Follows the configuration of the ensemble (`/zookeeper/config`): when members come and go, they become the
    /// servers of this framework. Default: no, unlike Curator.
    ///
    /// The ensemble names the addresses that it knows itself by. Where clients reach it by others (through NAT, or
    /// names in a certificate), it must not be followed, or by [their addresses](Self::ensemble_tracker_addresses). It costs
    /// one request for each session, and a watch.
    ///
    /// The client ports that it names are those without TLS. With an [encrypted](Connector::is_encrypted) connector,
    /// [`build`](Self::build) therefore refuses to follow them.
    pub const fn ensemble_tracker(mut self, follow: bool) -> Self {
        self.settings.ensemble_tracker = follow;
        self
    }

    /// [`ensemble_tracker`](Self::ensemble_tracker), where `address` says how clients reach a member, as `host:port`; members
    /// of which it does not are left out. Default: by their client addresses.
    ///
    /// ```
    /// # fn main() -> Result<(), zk_curator::Error> {
    /// // The secure client port is in no configuration of an ensemble.
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

    /// Asks for credentials on every connection of the native client, for tokens that rotate; see [`CredentialsProvider`]. They
    /// are added to those of [`authorization`](Self::authorization). Default: none.
    ///
    /// Servers that refuse them twice in a row make [`CuratorFramework::start`] fail with `AuthFailed`. A failure of the provider
    /// is a failed connection: [`CuratorFramework::last_failure`] has it, and another connection is tried.
    pub fn credentials_provider(mut self, provider: Arc<dyn CredentialsProvider>) -> Self {
        self.native = self.native.credentials_provider(provider);
        self
    }

    /// Takes up a session that another framework has [left](CuratorFramework::detach), with its ephemeral nodes, in place of the
    /// first new one. Default: a new session.
    ///
    /// If it has expired, [`CuratorFramework::background_errors`] tells `SessionExpired`, and a new session is opened. The
    /// connect string must have the chroot of the one before, and the session timeout should be the same.
    ///
    /// A session is for one framework: see [`zk_curator_client::ZooKeeperBuilder::resume`] for what two of them with the same
    /// session do to each other.
    pub fn resume(mut self, credentials: SessionCredentials) -> Self {
        self.settings.resume = Some(credentials);
        self
    }

    /// How data are compressed and decompressed where that is asked for. Default: Curator's gzip, with the feature
    /// `gzip`; else none.
    pub fn compression_provider(mut self, provider: impl CompressionProvider) -> Self {
        self.settings.compression.provider = Some(Arc::new(provider));
        self
    }

    /// Compresses what all operations write and decompresses what they read, unless they say
    /// [`uncompressed`](crate::op::CreateBuilder::uncompressed) or
    /// [`undecompressed`](crate::op::GetDataBuilder::undecompressed). Default: only what an operation says.
    ///
    /// Recipes compress the data of yours that have a node of their own: items of queues, jobs and their results, members
    /// of groups, bindings of names, nodes that are kept. What recipes write of their own they never compress, so that
    /// clients with and without compression, Java's among them, can be in one lock: labels of locks, ids of candidates,
    /// requests to let go, shared counts, and all of a `ConfigStore` or a two-phase transaction.
    pub const fn enable_compression(mut self) -> Self {
        self.settings.compression.enabled = true;
        self
    }

    /// The rules for nodes; what they forbid fails with `SchemaViolation` and is not sent. Default: none.
    pub fn schema_set(mut self, schemas: SchemaSet) -> Self {
        self.settings.schemas = Arc::new(schemas);
        self
    }

    /// How the native client reaches servers: with TLS, by a `tls::TlsConnector` (feature `tls`), or for example
    /// through the in-memory network of a test server. Default: TCP.
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.native = self.native.connector(connector);
        self
    }

    /// Where the background tasks run, those of the sessions of the native client included; see [`Spawn`]. Default: on
    /// the tokio runtime in which [`CuratorFramework::start`] is called.
    ///
    /// A service whose runtime may be kept busy for longer than a session lasts gives them a runtime of their own:
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
    /// The session then lives on, and the state of the connection is known in time to whoever asks. But whoever does
    /// not get to run cannot ask.
    pub fn spawner(mut self, spawner: Arc<dyn Spawn>) -> Self {
        self.native = self.native.spawner(Arc::clone(&spawner));
        self.settings.spawner = Some(spawner);
        self
    }

    /// Tells the native client for how long the machine was suspended, which counts against its session; see [`Clock`]. Default:
    /// [`zk_curator_client::SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.native = self.native.clock(clock);
        self
    }

    /// Names the framework, in every event that it [tells](crate::observe) and in its [`FrameworkInspection`](crate::observe::FrameworkInspection):
    /// for processes that have several. Default: none.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// Makes all random choices a function of `seed` and of the order in which they are made: GUIDs, the order of the
    /// servers, the pauses between attempts and those of retry policies that have no seed of their own. Default: they
    /// are random.
    ///
    /// For simulations and tests, **never in production**: two frameworks with one seed give two protected nodes one
    /// name, and take the node of the other for their own. What stays random all the same: a
    /// [`circuit breaker`](crate::state::StateWatch::circuit_breaking)'s policy without a seed, SASL nonces, the order
    /// of the addresses of one host name, and raw clients other than the native one.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Proves on every connection of the native client, with SASL DIGEST-MD5 and before anything else, who the client
    /// is; see [`zk_curator_client::ZooKeeperBuilder::sasl_digest_md5`]. Default: not at all.
    ///
    /// Servers that refuse make [`CuratorFramework::start`] fail with `AuthFailed`.
    #[cfg(feature = "sasl")]
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.native = self.native.sasl_digest_md5(user, password);
        self
    }

    /// Uses another raw client, which knows nothing of the settings of the native one. Default: [`NativeFactory`].
    pub fn raw_client(mut self, factory: Arc<dyn RawClientFactory>) -> Self {
        self.raw_client = Some(factory);
        self
    }

    /// Builds the framework. Nothing is sent before [`CuratorFramework::start`].
    ///
    /// # Errors
    /// `InvalidArgument` when the connect string, a timeout or a limit is not valid, or an ensemble is followed to ports without TLS;
    /// `InvalidPath` when the namespace
    /// is not.
    pub fn build(mut self) -> Result<CuratorFramework> {
        self.settings.factory = self.raw_client.unwrap_or_else(|| Arc::new(self.native));
        let namespace = Namespace::parse("build", &self.namespace)?;
        validate(&*self.settings.factory, &self.settings)?;
        let follows_ports = self.settings.ensemble_tracker && self.settings.ensemble_addresses.is_none();
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

/// Checked once, when the framework is built.
fn validate(factory: &dyn RawClientFactory, settings: &Settings) -> Result<()> {
    factory
        .validate(&settings.session)
        .map_err(|why| Error::new(ErrorKind::InvalidArgument, "build", "").with_source(why))
}

/// The address from which the network outside is reached. Nothing is sent: connecting a UDP socket only looks up the
/// route.
fn local_address() -> String {
    let of_route = |from: &str, to: &str| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    // Addresses that are reserved for documentation.
    of_route("0.0.0.0:0", "192.0.2.1:9")
        .or_else(|| of_route("[::]:0", "[2001:db8::1]:9"))
        .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .to_string()
}
