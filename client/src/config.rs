use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use zk_curator_proto::DEFAULT_MAX_FRAME;

#[cfg(doc)]
use crate::ZooKeeper;
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
    /// It fails at once with [`crate::Error::NotConnected`].
    FailFast,
    /// It waits this long for a connection, then fails with [`crate::Error::NotConnected`].
    Wait(Duration),
}

/// Why a client could not be made. Nothing was sent.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The connect string is not valid.
    #[error(transparent)]
    ConnectString(#[from] ConnectStringError),
    /// The session timeout is zero or above `i32::MAX` milliseconds.
    #[error("session timeout of {0:?} is out of range")]
    SessionTimeout(Duration),
    /// A setting is zero, or otherwise such that no request could be made, or no session could last.
    #[error("{setting} of {value} is out of range, from {least} to {most}")]
    OutOfRange {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: usize,
        /// The least that it can be.
        least: usize,
        /// The most that it can be.
        most: usize,
    },
    /// There is neither a tokio runtime to run on nor a [spawner](ZooKeeperBuilder::spawner).
    #[error("no tokio runtime")]
    NoRuntime,
}

/// The least that a request can be limited to: its header, and a short path. Watches are re-armed in requests of this size.
const LEAST_FRAME: usize = 64;
/// Lengths on the wire are signed numbers of 32 bits.
const MOST_FRAME: usize = i32::MAX as usize;

/// Settings of a [`ZooKeeper`] client.
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
    pub(crate) max_answer: Option<usize>,
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
    /// Who is told all events of nodes, besides the watches.
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
            max_answer: None,
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

    /// The session timeout to ask for; the server may grant another one. Default 30 s.
    ///
    /// A connection without an answer for two thirds of it is given up, and so is an attempt to connect after its
    /// share by the number of hosts, a third at most, though not before a second has passed as long as there is no
    /// session. Requests that [wait for a connection](Self::disconnected) shorten an attempt to the same share of their patience,
    /// but not below a second; after every round over all hosts it may take twice as long again.
    ///
    /// Other hosts are tried meanwhile, one more every 250 ms; the first that is connected is asked for the session, and the other
    /// connections are closed unused (RFC 8305). The session is given up when all of what was granted has passed without an answer, see [`crate::ExpiredBy::Clock`].
    ///
    /// Servers are not judged by a grant that is longer than what was asked for and than a minute, but by the longer of
    /// these two: one that grants weeks may not be silent for weeks.
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Gives the session up, too, when there was no connection for this part of the negotiated timeout, in percent, from
    /// 1 to 100: [`crate::ExpiredBy::Clock`]. Default 100, which is no earlier than the servers do.
    pub const fn expiration_percent(mut self, percent: u8) -> Self {
        self.expiration_percent = percent;
        self
    }

    /// The treatment of requests without a connection. Default: they wait 15 s.
    pub const fn disconnected(mut self, policy: DisconnectedPolicy) -> Self {
        self.disconnected = policy;
        self
    }

    /// How long [`ZooKeeper::close`] tries to tell a server, when there is no connection. Default 5 s.
    pub const fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// How many requests may wait for their answers, from 1, and their size in bytes, from 64. Default 65,536 and 256 MiB.
    /// Above either, a request fails with [`crate::Error::QueueFull`].
    pub const fn queue_limits(mut self, requests: usize, bytes: usize) -> Self {
        self.max_requests = requests;
        self.max_bytes = bytes;
        self
    }

    /// The largest request in bytes, from 64 to `i32::MAX`: the servers' `jute.maxbuffer`. Default [`DEFAULT_MAX_FRAME`], one
    /// below 1 MiB.
    pub const fn max_frame(mut self, bytes: usize) -> Self {
        self.max_frame = bytes;
        self
    }

    /// The largest answer in bytes, from [`max_frame`](Self::max_frame) on, which is taken in place of a smaller one; zero is
    /// refused. Default 4 times that, because a server adds names and stats that were never in one request.
    ///
    /// A longer answer is skipped and not kept in memory: its request fails with [`crate::Error::AnswerTooLarge`], and the
    /// connection goes on. A longer watch event, or an answer of more than 1 GiB, ends the connection.
    pub const fn max_answer(mut self, bytes: usize) -> Self {
        self.max_answer = Some(bytes);
        self
    }

    /// Seeds the order of the hosts and the jitter, for repeatable runs. Default: random.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Takes up a session that another client has [detached](ZooKeeper::detach) from, or is about to lose.
    /// Its watches are not taken over. If the session has expired, or the password is wrong, the client ends in
    /// [`crate::SessionState::Expired`]. Default: a new session.
    ///
    /// The connect string must have the chroot of the one before, and the session timeout should be the same: the
    /// server counts the one that was asked for last.
    ///
    /// A session is for one client. A server cuts off the one before, which takes the session back when it notices,
    /// and so on, some times a second; requests in between fail with [`crate::Error::ConnectionLoss`]. That ends
    /// when one of them closes the session, or is kept out of it for the session timeout and ends it for both.
    /// Another member of an ensemble does not cut the one before off: it goes on to answer reads, until the first
    /// write.
    pub fn resume(mut self, credentials: SessionCredentials) -> Self {
        self.resume = Some(credentials);
        self
    }

    /// Takes a new session only from a server that has this transaction, the last one that an
    /// [earlier session](ZooKeeper::last_zxid_seen) has seen: reads do not go back in time from one session to the next.
    /// Default 0: any server.
    ///
    /// Servers that lag behind refuse the client. When servers were reached for the session timeout and all of them have
    /// refused, their data were restored from an older state: the demand is dropped, with a warning, and
    /// [`ZooKeeper::lost_history`] tells it. Without meaning for a session that is [resumed](Self::resume).
    pub const fn last_zxid_seen(mut self, zxid: i64) -> Self {
        self.last_zxid_seen = zxid;
        self
    }

    /// Is content with a server in read-only mode, which has lost its ensemble, until a writable one is found;
    /// writes fail with `NotReadOnly` meanwhile. Servers must have the system property `readonlymode.enabled`, and
    /// `localSessionsEnabled` in their configuration. Default: no.
    ///
    /// A session that was begun on a read-only server is known to that server alone, and replaced by a new one on
    /// the first other server; watches are kept. A read-only server does not take a session that was begun before,
    /// nor keep it alive: it is lost when the session timeout has passed.
    pub const fn read_only(mut self, allowed: bool) -> Self {
        self.read_only = allowed;
        self
    }

    /// How long the client may look for its first server, before it ends in
    /// [`crate::SessionState::Unreachable`]. Default: without end.
    pub const fn connect_deadline(mut self, deadline: Duration) -> Self {
        self.connect_deadline = Some(deadline);
        self
    }

    /// From which time from sending to answer on a request is reported as slow, in the log. Default 1 s.
    pub const fn slow_request(mut self, threshold: Duration) -> Self {
        self.slow_request = threshold;
        self
    }

    /// How to reach servers. Default: [`TcpConnector`].
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// Where the background task of the client runs; see [`Spawn`]. Default: on the tokio runtime in which
    /// [`connect`](Self::connect) is called.
    pub fn spawner(mut self, spawner: Arc<dyn Spawn>) -> Self {
        self.spawner = Some(spawner);
        self
    }

    /// Proves on every connection who the client is, with SASL DIGEST-MD5, before anything else is sent on it. Default:
    /// not at all.
    ///
    /// The session is [connected](crate::SessionState::Connected) only after that. A server that refuses, that has no
    /// SASL, or that cannot prove in turn that it knows the password, ends the client in
    /// [`crate::SessionState::AuthFailed`]. ACLs name the user by the scheme `sasl`.
    ///
    /// The server has to be told, with `authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider`
    /// in its configuration, and with a file that the system property `java.security.auth.login.config` names:
    ///
    /// ```text
    /// Server {
    ///     org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="her password";
    /// };
    /// ```
    ///
    /// The password does not travel, but whoever listens can guess at it offline, MD5 is fast, and what follows is
    /// neither encrypted nor authenticated: over networks of others use TLS as well. Servers before 3.9.3 let users that
    /// do not exist in with the password of the last one that logged in
    /// ([ZOOKEEPER-4839](https://issues.apache.org/jira/browse/ZOOKEEPER-4839)).
    #[cfg(feature = "sasl")]
    pub fn sasl_digest_md5(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.sasl = Some(Arc::new(crate::sasl::DigestMd5::new(user.into(), password.into())));
        self
    }

    /// Asks for credentials on every connection, before the session handshake; see [`CredentialsProvider`]. They are added to
    /// those of [`ZooKeeper::add_auth`], and take the place of a fixed SASL name and password. Default: none.
    ///
    /// When a server refuses them, the connection is given up and the provider asked once more: they may have been replaced in
    /// between. A second refusal in a row ends the client in [`crate::SessionState::AuthFailed`].
    pub fn credentials_provider(mut self, provider: Arc<dyn CredentialsProvider>) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Tells for how long the machine was suspended, which counts against the session; see [`Clock`]. Default: [`SystemClock`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Refuses what [`connect`](Self::connect) refuses, but for the want of a runtime. Nothing is sent.
    ///
    /// # Errors
    /// A [`ConnectError`] when a setting is not valid.
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
            ("max_answer", self.max_answer.unwrap_or(usize::MAX), 1, usize::MAX),
        ];
        match ranges.into_iter().find(|(_, value, least, most)| !(least..=most).contains(&value)) {
            Some((setting, value, least, most)) => {
                Err(ConnectError::OutOfRange { setting, value, least, most })
            }
            None => Ok(()),
        }
    }
}
