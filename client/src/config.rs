use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use zk_curator_proto::DEFAULT_MAX_FRAME;

use crate::clock::{Clock, SystemClock};
use crate::connector::{Connector, TcpConnector};
use crate::credentials::CredentialsProvider;
use crate::sasl::SaslMechanism;
use crate::spawn::Spawn;
use crate::{ConnectString, ConnectStringError, SessionCredentials, WatchedEvent};

/// The treatment of a request without a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectedPolicy {
    /// Fails immediately with [`crate::Error::NotConnected`].
    FailFast,
    /// Waits this long for a connection, then fails with [`crate::Error::NotConnected`].
    Wait(Duration),
}

/// The reason why a client could not be created. Nothing was sent.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The connect string is not valid.
    #[error(transparent)]
    ConnectString(#[from] ConnectStringError),
    /// The session timeout is zero or above `i32::MAX` milliseconds.
    #[error("session timeout of {0:?} is out of range")]
    SessionTimeout(Duration),
    /// A setting is out of range: with it, no request could be made or no session could last.
    #[error("{setting} of {value} is out of range, from {least} to {most}")]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// The smallest value allowed.
        least: usize,
        /// The largest value allowed.
        most: usize,
    },
    /// There is neither a tokio runtime nor a [spawner](ZooKeeperBuilder::spawner).
    #[error("no tokio runtime")]
    NoRuntime,
}

/// The smallest limit of a request: its header and a short path. Requests that re-arm watches have
/// this size at least.
const LEAST_FRAME: usize = 64;
/// Lengths on the wire are signed numbers of 32 bits.
const MOST_FRAME: usize = i32::MAX as usize;

/// Settings of a [`ZooKeeper`](crate::ZooKeeper) client.
#[derive(Debug, Clone)]
#[must_use]
pub struct ZooKeeperBuilder {
    pub(crate) connect_string: String,
    pub(crate) session_timeout: Duration,
    pub(crate) expiration_percent: u8,
    pub(crate) disconnected: DisconnectedPolicy,
    pub(crate) close_timeout: Duration,
    pub(crate) max_requests: usize,
    pub(crate) max_bytes: usize,
    pub(crate) max_frame: usize,
    pub(crate) max_response: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) resume: Option<SessionCredentials>,
    pub(crate) last_zxid_seen: i64,
    pub(crate) read_only: bool,
    pub(crate) connect_deadline: Option<Duration>,
    pub(crate) slow_request: Duration,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) spawner: Option<Arc<dyn Spawn>>,
    pub(crate) sasl: Option<Arc<dyn SaslMechanism>>,
    pub(crate) credentials: Option<Arc<dyn CredentialsProvider>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Receives every node event, in addition to the watches.
    pub(crate) events: Option<mpsc::UnboundedSender<WatchedEvent>>,
}

impl ZooKeeperBuilder {
    pub(crate) fn new(connect_string: String) -> Self {
        Self {
            connect_string,
            session_timeout: Duration::from_secs(30),
            expiration_percent: 100,
            disconnected: DisconnectedPolicy::Wait(Duration::from_secs(15)),
            close_timeout: Duration::from_secs(5),
            max_requests: 65_536,
            max_bytes: 256 << 20,
            max_frame: DEFAULT_MAX_FRAME,
            max_response: None,
            seed: None,
            resume: None,
            last_zxid_seen: 0,
            read_only: false,
            connect_deadline: None,
            slow_request: Duration::from_secs(1),
            connector: Arc::new(TcpConnector),
            spawner: None,
            sasl: None,
            credentials: None,
            clock: Arc::new(SystemClock),
            events: None,
        }
    }

    /// The session timeout to request; the server may grant another one. Default: 30 s.
    ///
    /// The client derives these limits from the granted timeout *T*:
    ///
    /// | limit | value |
    /// |---|---|
    /// | silence after which a connection is closed | ⅔ *T* |
    /// | one attempt to connect | *T* divided by the number of hosts, at most ⅓ *T*; at least 1 s while there is no session |
    /// | pause before the next host is tried in parallel | 250 ms |
    /// | silence after which the session is considered expired | *T*: see [`crate::ExpiredBy::Clock`] |
    ///
    /// If requests [wait for a connection](Self::disconnected), the time that they wait replaces
    /// *T* for one attempt to connect if it is shorter, but an attempt has at least 1 s. After
    /// every round over all hosts an attempt may take twice as long. The first host that is
    /// connected is asked for the session, and the other connections are closed unused (RFC 8305).
    ///
    /// A server may grant more than the requested timeout. The silence of a server is then measured
    /// by the requested timeout or one minute, whichever is longer.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// The part of the granted timeout, in percent from 1 to 100, after which a client without a
    /// connection gives the session up: [`crate::ExpiredBy::Clock`]. Default: 100, which is never
    /// later than the servers expire the session.
    pub const fn expiration_percent(mut self, percent: u8) -> Self {
        self.expiration_percent = percent;
        self
    }

    /// The treatment of requests without a connection. Default: they wait 15 s.
    pub const fn disconnected(mut self, policy: DisconnectedPolicy) -> Self {
        self.disconnected = policy;
        self
    }

    /// The time for which [`ZooKeeper::close`](crate::ZooKeeper::close) tries to reach a server if
    /// there is no connection. Default: 5 s.
    pub const fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// The maximum number of requests that wait for responses, from 1, and their total size in
    /// bytes, from 64. Defaults: 65,536 and 256 MiB. Above either, a request fails with
    /// [`crate::Error::QueueFull`].
    pub const fn queue_limits(mut self, requests: usize, bytes: usize) -> Self {
        self.max_requests = requests;
        self.max_bytes = bytes;
        self
    }

    /// The largest request in bytes, from 64 to `i32::MAX`: the servers' `jute.maxbuffer`. Default:
    /// [`DEFAULT_MAX_FRAME`], one byte less than 1 MiB.
    pub const fn max_frame(mut self, bytes: usize) -> Self {
        self.max_frame = bytes;
        self
    }

    /// The largest response in bytes. A value below [`max_frame`](Self::max_frame) is raised to it;
    /// zero is refused. Default: four times `max_frame`, because a response contains names and
    /// stats that were never in one request.
    ///
    /// A larger response is skipped without being kept in memory. Its request fails with
    /// [`crate::Error::ResponseTooLarge`], and the connection stays open. A larger watch event, or
    /// a response of more than 1 GiB, ends the connection.
    pub const fn max_response(mut self, bytes: usize) -> Self {
        self.max_response = Some(bytes);
        self
    }

    /// Seeds the order of the hosts and the jitter, for reproducible runs. Default: random.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Resumes a session from which another client has [detached](crate::ZooKeeper::detach), or
    /// that another client is about to lose. The watches of that client are not transferred. If the
    /// session has expired, or the password is wrong, the client ends in
    /// [`crate::SessionState::Expired`]. Default: a new session.
    ///
    /// The connect string must have the same chroot as the previous client's, and the session
    /// timeout should be the same: the server applies the timeout that was requested last.
    ///
    /// Use a session in one client only. If two clients use it, the server closes the connection of
    /// the previous client, which resumes the session when it notices, and so on, several times per
    /// second. Requests fail with [`crate::Error::ConnectionLoss`] in the meantime. This ends when
    /// one client closes the session, or when one is kept out for the session timeout and ends the
    /// session for both. Another member of an ensemble does not close the previous connection: it
    /// continues to respond to reads until the first write.
    pub fn resume(mut self, credentials: SessionCredentials) -> Self {
        self.resume = Some(credentials);
        self
    }

    /// Takes a new session only from a server that has this transaction, the last one that an
    /// [earlier session](crate::ZooKeeper::last_zxid_seen) has seen. So reads do not go back in
    /// time from one session to the next. Default: 0, any server.
    ///
    /// Servers that lag behind refuse the client. If servers were reached for the session timeout
    /// and all of them have refused, their data were restored from an older state. The condition is
    /// then dropped with a warning, and [`ZooKeeper::lost_history`](crate::ZooKeeper::lost_history)
    /// returns the transaction. A session that is [resumed](Self::resume) ignores this setting.
    pub const fn last_zxid_seen(mut self, zxid: i64) -> Self {
        self.last_zxid_seen = zxid;
        self
    }

    /// Allows read-only servers: servers without a quorum. The client uses one until it finds a
    /// writable server; writes fail with `NotReadOnly` until then. Servers must have the system
    /// property `readonlymode.enabled`, and `localSessionsEnabled` in their configuration. Default:
    /// no.
    ///
    /// A session that was begun on a read-only server is known only to that server. On the first
    /// other server it is replaced by a new session; watches are kept. A read-only server neither
    /// accepts nor keeps alive a session that was begun before: it is lost after the session
    /// timeout.
    pub const fn read_only(mut self, allowed: bool) -> Self {
        self.read_only = allowed;
        self
    }

    /// The time within which the client must find its first server. After it, the client ends in
    /// [`crate::SessionState::Unreachable`]. Default: no limit.
    pub const fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.connect_deadline = Some(deadline);
        self
    }

    /// Requests that take at least this long from sending to the response are logged as slow.
    /// Default: 1 s.
    pub const fn slow_request(mut self, threshold: Duration) -> Self {
        self.slow_request = threshold;
        self
    }

    /// The connector that opens connections to servers. Default: [`TcpConnector`].
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// The spawner for the background task of the client; see [`Spawn`]. Default: the tokio runtime
    /// in which [`connect`](Self::connect) is called.
    pub fn spawner(mut self, spawner: Arc<dyn Spawn>) -> Self {
        self.spawner = Some(spawner);
        self
    }

    /// Authenticates every connection with SASL DIGEST-MD5, before any other request. Default: no.
    ///
    /// The session is [connected](crate::SessionState::Connected) only after that. The client ends
    /// in [`crate::SessionState::AuthFailed`] if a server refuses, has no SASL, or cannot prove
    /// that it knows the password itself. ACLs name the user by the scheme `sasl`.
    ///
    /// Configure the server with
    /// `authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider`, and with a
    /// file that the system property `java.security.auth.login.config` names:
    ///
    /// ```text
    /// Server {
    ///     org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="her password";
    /// };
    /// ```
    ///
    /// The password is not sent. But an eavesdropper can guess it offline, because MD5 is fast, and
    /// the rest of the connection is neither encrypted nor authenticated. Use TLS too on a network
    /// that you do not control. Servers before 3.9.3 accept a user that does not exist with the
    /// password of the user that logged in last
    /// ([ZOOKEEPER-4839](https://issues.apache.org/jira/browse/ZOOKEEPER-4839)).
    #[cfg(feature = "sasl")]
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.sasl = Some(Arc::new(crate::sasl::DigestMd5::new(user.into(), password.into())));
        self
    }

    /// Authenticates every connection with Kerberos (SASL GSSAPI), before any other request.
    /// Default: no.
    ///
    /// The session is [connected](crate::SessionState::Connected) only after that. The client ends
    /// in [`crate::SessionState::AuthFailed`] if a server refuses, or cannot prove its identity.
    /// Without a ticket, an attempt to connect fails, and the client continues to try. See
    /// [`crate::kerberos`]. ACLs name the principal by the scheme `sasl`, for example
    /// `orders@EXAMPLE.COM`.
    ///
    /// Configure the server with
    /// `authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider`, and with a
    /// file that the system property `java.security.auth.login.config` names:
    ///
    /// ```text
    /// Server {
    ///     com.sun.security.auth.module.Krb5LoginModule required
    ///     useKeyTab=true storeKey=true useTicketCache=false
    ///     keyTab="/etc/zookeeper/zk1.keytab" principal="zookeeper/zk1.example.com@EXAMPLE.COM";
    /// };
    /// ```
    #[cfg(feature = "kerberos")]
    #[doc(alias = "gssapi")]
    pub fn sasl_kerberos(mut self, kerberos: crate::kerberos::Kerberos) -> Self {
        self.sasl = Some(Arc::new(kerberos));
        self
    }

    /// Requests credentials on every connection, before the session handshake; see
    /// [`CredentialsProvider`]. They are added to those of
    /// [`ZooKeeper::add_auth`](crate::ZooKeeper::add_auth), and replace a fixed SASL mechanism.
    /// Default: none.
    ///
    /// When a server refuses them, the connection is closed and the provider called again, because
    /// the credentials may have been replaced. A second refusal in a row ends the client in
    /// [`crate::SessionState::AuthFailed`].
    pub fn credentials_provider(mut self, provider: Arc<dyn CredentialsProvider>) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// The clock that reports for how long the machine was suspended; this time counts against the
    /// session. See [`Clock`]. Default: [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Checks the settings as [`connect`](Self::connect) does, but does not need a runtime. Nothing
    /// is sent.
    ///
    /// # Errors
    /// A [`ConnectError`] if a setting is not valid.
    pub fn validate(&self) -> Result<(), ConnectError> {
        self.connect_string.parse::<ConnectString>()?;
        self.validate_numbers()
    }

    /// Checks all settings but the connect string.
    pub(crate) fn validate_numbers(&self) -> Result<(), ConnectError> {
        let millis = self.session_timeout.as_millis();
        if millis == 0 || i32::try_from(millis).is_err() {
            return Err(ConnectError::SessionTimeout(self.session_timeout));
        }
        let ranges = [
            ("expiration_percent", usize::from(self.expiration_percent), 1, 100),
            ("queue_limits: number of requests", self.max_requests, 1, usize::MAX),
            ("queue_limits: number of bytes", self.max_bytes, LEAST_FRAME, usize::MAX),
            ("max_frame", self.max_frame, LEAST_FRAME, MOST_FRAME),
            ("max_response", self.max_response.unwrap_or(usize::MAX), 1, usize::MAX),
        ];
        match ranges.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some((setting, value, least, most)) => {
                Err(ConnectError::OutOfRange { setting, value, least, most })
            }
            None => Ok(()),
        }
    }
}
