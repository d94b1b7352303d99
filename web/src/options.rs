//! The settings of an explorer.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::HeaderName;
use zk_curator_ops::ensemble::probe::ProbeOptions;

use crate::history::HistoryLimits;
use crate::impersonation::Impersonation;
use crate::search::SearchLimits;
use crate::security::{Authentication, Network, Redaction, Users};

/// The settings of an explorer.
///
/// The default is a read-only explorer at the root of a server on the loopback address, without
/// users. An explorer on another address needs [users](Self::users) or a
/// [proxy](Self::proxy_user_header) that signs them in: the router does not know the address of its
/// listener.
///
/// ```
/// use zk_curator_web::{Limits, Network, Redaction, Users, WebOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let users = "ann 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
/// let users: Users = users.parse()?;
/// let options = WebOptions::new()
///     .write(true)
///     .host("zk.example.com")
///     .base_path("/admin/zookeeper")?
///     .users(users)
///     .tls(true)
///     .redaction(Redaction::new(["**/password*", "/tokens/**"])?)
///     .limits(Limits::new().streams(64, 8));
/// # drop(options);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct WebOptions {
    pub(crate) write: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) base: String,
    pub(crate) tls: bool,
    pub(crate) authentication: Authentication,
    pub(crate) redaction: Redaction,
    pub(crate) limits: Limits,
    pub(crate) impersonation: Option<Impersonation>,
    pub(crate) probe: Probe,
    /// The pause between two samples; `None` for the default.
    pub(crate) every: Option<Duration>,
    /// The directories of a server; none without a history.
    pub(crate) history: Vec<PathBuf>,
    pub(crate) history_all_data: bool,
}

/// The way in which the servers are asked.
#[derive(Debug, Clone)]
pub(crate) enum Probe {
    Asked(ProbeOptions),
    NotAsked,
}

impl Default for Probe {
    fn default() -> Self {
        Self::Asked(ProbeOptions::default())
    }
}

/// The reason why a setting is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The base path does not begin with one slash, or has other characters than letters, digits,
    /// `-`, `_`, `.` and slashes between names.
    #[error("the base path {0:?} is not of the form /name/name")]
    BasePath(String),
    /// The text is not the name of a header.
    #[error("{0:?} is not the name of a header")]
    Header(String),
}

impl WebOptions {
    /// Returns the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts changes: creates, writes and deletes of nodes. Default: `false`, read-only.
    pub const fn write(mut self, allowed: bool) -> Self {
        self.write = allowed;
        self
    }

    /// Adds a host by which browsers call the server, with or without a port. Requests with another
    /// `Host` are refused, because of DNS rebinding. Default: `localhost`, `127.0.0.1` and `[::1]`
    /// with all ports.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Sets the path below which the router is mounted, such as `/admin/zookeeper`: all links and
    /// the cookie begin with it. Pass the same path to [`axum::Router::nest`]. Default: none.
    ///
    /// # Errors
    /// [`OptionsError::BasePath`]. A slash at the end is removed.
    pub fn base_path(mut self, path: impl Into<String>) -> Result<Self, OptionsError> {
        let path = path.into();
        let base = path.trim_end_matches('/');
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = |name: &str| {
            !name.is_empty() && !matches!(name, "." | "..") && name.chars().all(is_plain)
        };
        let is_path = |rest: &str| rest.split('/').all(is_name);
        if base.is_empty() || base.strip_prefix('/').is_some_and(is_path) {
            self.base = base.to_owned();
            return Ok(self);
        }
        Err(OptionsError::BasePath(path))
    }

    /// States that browsers reach the server through TLS: the cookie is then marked as `Secure`.
    /// Default: `false`.
    pub const fn tls(mut self, is_encrypted: bool) -> Self {
        self.tls = is_encrypted;
        self
    }

    /// Sets the users who may sign in with a token: in the form of the login page, or with the
    /// header `Authorization: Bearer`. Default: nobody has to sign in.
    pub fn users(mut self, users: Users) -> Self {
        self.authentication.users = Some(users);
        self
    }

    /// Accepts the users whom a proxy names in a header. The header counts only in connections from
    /// [trusted proxies](Self::trusted_proxies), and a request without it needs
    /// [`users`](Self::users). The proxy has to remove the header from the requests of its clients.
    /// Default: none.
    ///
    /// # Errors
    /// [`OptionsError::Header`].
    pub fn proxy_user_header(mut self, header: &str) -> Result<Self, OptionsError> {
        let name = HeaderName::from_bytes(header.as_bytes());
        let header = name.map_err(|_| OptionsError::Header(header.to_owned()))?;
        self.authentication.proxy_header = Some(header);
        Ok(self)
    }

    /// Adds networks of the proxies in front of the server. Attempts to sign in, and requests
    /// without a user, are counted by the address that such a proxy has appended to
    /// `X-Forwarded-For`, and otherwise by that of the connection.
    ///
    /// The router takes the address of the connection from
    /// [`ConnectInfo`](axum::extract::ConnectInfo): serve it with
    /// [`into_make_service_with_connect_info`](axum::Router::into_make_service_with_connect_info).
    /// Without that, no proxy is trusted. Default: none.
    pub fn trusted_proxies(mut self, networks: impl IntoIterator<Item = Network>) -> Self {
        self.authentication.trusted.extend(networks);
        self
    }

    /// Sends the requests of each user in a session with the digest that the user has entered. It
    /// needs [`users`](Self::users), who sign in with the form: requests with a bearer token and
    /// those of a proxy have no digest, and are refused. Passwords are sent to the explorer, so use
    /// TLS unless it is on a loopback address. Default: all requests have the rights of the
    /// framework.
    pub fn impersonate(mut self, impersonation: Impersonation) -> Self {
        self.impersonation = Some(impersonation);
        self
    }

    /// Sets the nodes whose data are not shown. Default: [`Redaction::DEFAULT`].
    pub fn redaction(mut self, redaction: Redaction) -> Self {
        self.redaction = redaction;
        self
    }

    /// Sets how the servers are asked: the time limit, the admin servers, and the connector for
    /// servers with TLS. The framework does not know them. Default: [`ProbeOptions::new`],
    /// four-letter words on the client ports without TLS, for at most a second, and no admin
    /// server.
    ///
    /// The servers are asked in the background, and only for pages that are open. The page of the
    /// ensemble [samples](Self::sample_every) them. Pages of recipes, services and ephemeral nodes
    /// show the address of the client that owns a node, and the server that it is connected to;
    /// for these, the servers are asked at most every 5 seconds.
    ///
    /// Without a [connector](ProbeOptions::connector), an admin server over HTTPS is not asked, and
    /// the page of the ensemble shows the reason.
    ///
    /// ```
    /// use zk_curator_ops::ensemble::probe::ProbeOptions;
    /// use zk_curator_web::WebOptions;
    ///
    /// let within = std::time::Duration::from_millis(500);
    /// let options = WebOptions::new().probe(ProbeOptions::new().within(within));
    /// # drop(options);
    /// ```
    pub fn probe(mut self, options: ProbeOptions) -> Self {
        self.probe = Probe::Asked(options);
        self
    }

    /// Does not ask the servers: the explorer then opens no connections of its own. It has no page
    /// of the ensemble, and its other pages say that the addresses of clients are not known.
    pub fn without_probe(mut self) -> Self {
        self.probe = Probe::NotAsked;
        self
    }

    /// Sets the pause between two samples of the servers, from 1 s to an hour. The servers are
    /// sampled while the page of the ensemble is viewed, and for 60 s after the last viewer has
    /// left. Every sixth sample also asks for the findings and the sessions. Default: 5 s.
    pub fn sample_every(mut self, pause: Duration) -> Self {
        self.every = Some(pause.clamp(Duration::from_secs(1), Duration::from_secs(3_600)));
        self
    }

    /// Adds the pages of the past, from the transaction logs and snapshots of **one** server: its
    /// data directory and, if it is another one, its log directory. They are in place or copied.
    /// Default: none.
    ///
    /// Nothing is read now. Each page finds the files again, and opens them for reading only. If a
    /// directory is missing, if the files are of several servers, or if one is damaged, the page is
    /// a problem, which names the file and not its directory. To check a directory beforehand, use
    /// [`Files::find`](zk_curator_ops::history::Files::find).
    ///
    /// The files know the rights of nodes, and nothing of users. Names, versions, sizes, times and
    /// sessions of **all** nodes are shown to all users. A value is shown if the rights of that
    /// time let everyone read it (`world:anyone`): see
    /// [`history_all_data`](Self::history_all_data).
    ///
    /// ```
    /// use zk_curator_web::WebOptions;
    ///
    /// let directories = ["/var/lib/zookeeper", "/var/log/zookeeper"];
    /// let options = WebOptions::new().history(directories);
    /// # drop(options);
    /// ```
    pub fn history<P: Into<PathBuf>>(mut self, directories: impl IntoIterator<Item = P>) -> Self {
        self.history.extend(directories.into_iter().map(Into::into));
        self
    }

    /// Shows the values of the past whatever their rights were, to all users, also with
    /// [`impersonate`](Self::impersonate). Data that [`redaction`](Self::redaction) hides stay
    /// hidden. Default: `false`.
    pub const fn history_all_data(mut self, shown: bool) -> Self {
        self.history_all_data = shown;
        self
    }

    /// Sets the limits. Default: those of [`Limits::new`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// The limits of an explorer. A request above one of them fails, and costs ZooKeeper nothing.
///
/// Bodies of requests are limited by the framework:
/// [`max_frame`](zk_curator::CuratorFramework::max_frame), the `jute.maxbuffer` of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Limits {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
    pub(crate) streams: usize,
    pub(crate) streams_of_one: usize,
    pub(crate) watches: usize,
    pub(crate) attempts: u32,
    pub(crate) sessions: usize,
    pub(crate) session_time: Duration,
    pub(crate) searches: usize,
    pub(crate) search: SearchLimits,
    pub(crate) transfers: usize,
    pub(crate) upload: u64,
    pub(crate) journals: usize,
    pub(crate) history: HistoryLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

impl Limits {
    /// Returns the default limits.
    pub const fn new() -> Self {
        Self {
            per_second: 50,
            burst: 200,
            streams: 256,
            streams_of_one: 32,
            watches: 128,
            attempts: 5,
            sessions: 1_024,
            session_time: Duration::from_secs(12 * 3_600),
            searches: 4,
            search: SearchLimits {
                nodes: 100_000,
                bytes: 64 << 20,
                time: Duration::from_secs(30),
                hits: 1_000,
            },
            transfers: 4,
            upload: 64 << 20,
            journals: 8,
            history: HistoryLimits {
                bytes: 8 << 30,
                time: Duration::from_secs(30),
                memory: 256 << 20,
            },
        }
    }

    /// Sets the number of requests of a user per second, and the number that may come at once; each
    /// from 1, and 0 counts as 1. Without users, they are counted by address. Default: 50 and 200.
    pub const fn requests(mut self, per_second: u32, burst: u32) -> Self {
        self.per_second = per_second;
        self.burst = burst;
        self
    }

    /// Sets the number of live pages of all users, and of each. With 0, pages are not live.
    /// Default: 256 and 32.
    pub const fn streams(mut self, of_all: usize, of_one: usize) -> Self {
        self.streams = of_all;
        self.streams_of_one = of_one;
        self
    }

    /// Sets the number of paths that are watched on the servers at the same time. All viewers of a
    /// path share one watch. With 0, pages are not live. Default: 128.
    pub const fn watches(mut self, paths: usize) -> Self {
        self.watches = paths;
        self
    }

    /// Sets the number of attempts to sign in with the form before a pause, from one address, or
    /// from one network of IPv6 of 64 bits. The pause begins with 1 second, doubles with every
    /// further failure up to 60 seconds, and is forgotten after 10 minutes. Unknown tokens in the
    /// header `Authorization` count as requests. Default: 5.
    pub const fn login_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the number of sessions of users who have signed in, from 1, and the time that each of
    /// them lasts, at most 400 days. Above the number, the oldest session of the user with the most
    /// sessions ends. Default: 1,024 and 12 hours.
    pub const fn sessions(mut self, open: usize, time: Duration) -> Self {
        const LONGEST: Duration = Duration::from_secs(400 * 86_400);
        self.sessions = open;
        self.session_time = if time.as_secs() < LONGEST.as_secs() { time } else { LONGEST };
        self
    }

    /// Sets the number of searches that run at the same time, of which each user has at most one.
    /// With 0, nothing is searched. Default: 4.
    pub const fn searches(mut self, at_once: usize) -> Self {
        self.searches = at_once;
        self
    }

    /// Sets the nodes that a search finds, from 1, the bytes of data that it reads, and its time, at
    /// most a day. The last response may exceed the bytes. A search also ends after 1,000 results,
    /// or 512 KiB of them. Default: 100,000 nodes, 64 MiB and 30 s.
    pub const fn search(mut self, nodes: usize, bytes: u64, time: Duration) -> Self {
        const LONGEST: Duration = Duration::from_secs(86_400);
        let nodes = if nodes == 0 { 1 } else { nodes };
        let time = if time.as_secs() < LONGEST.as_secs() { time } else { LONGEST };
        self.search = SearchLimits { nodes, bytes, time, hits: self.search.hits };
        self
    }

    /// Sets the number of backups, comparisons, restores and pages of the past at the same time,
    /// and the size of an uploaded file in bytes. No user takes all of several places. Opened, a
    /// file may have 16 times that size. At most 8 uploaded files are kept, 4 of a user, each for
    /// 10 minutes. With 0, there are none. Default: 4 and 64 MiB.
    pub const fn transfers(mut self, at_once: usize, upload: u64) -> Self {
        self.transfers = at_once;
        self.upload = upload;
        self
    }

    /// Returns the number of transfers of one user: at least one, if there are any.
    pub(crate) const fn transfers_of_one(&self) -> usize {
        match self.transfers {
            0 | 1 => self.transfers,
            more => more - 1,
        }
    }

    /// Sets the number of paths whose changes are recorded at the same time. Each takes at most
    /// 4 MiB of memory for values. With 0, no changes are recorded. Default: 8.
    pub const fn journals(mut self, paths: usize) -> Self {
        self.journals = paths;
        self
    }

    /// Sets the limits of a page of the past: the bytes of logs and of uncompressed snapshots that
    /// it reads, the time that it takes, and the memory of the nodes in bytes. A page says what it
    /// has not read. Pages of the past are counted with the [transfers](Self::transfers). Default:
    /// 8 GiB, 30 s and 256 MiB.
    pub const fn history(mut self, bytes: u64, time: Duration, memory: usize) -> Self {
        self.history = HistoryLimits { bytes, time, memory };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_cannot_lead_elsewhere() {
        for (path, base) in
            [("", ""), ("/", ""), ("/admin", "/admin"), ("/a/b-c_d.e/", "/a/b-c_d.e")]
        {
            assert_eq!(WebOptions::new().base_path(path).unwrap().base, base);
        }
        for path in [
            "admin",
            "//evil.com",
            "/a//b",
            "/a/../b",
            "/a b",
            "/a?b",
            "/a;b",
            "/\\evil.com",
            "https://a",
        ] {
            let error = WebOptions::new().base_path(path).unwrap_err();
            assert_eq!(error, OptionsError::BasePath(path.to_owned()));
        }
    }

    #[test]
    fn times_are_ones_that_the_clock_can_add() {
        let limits = Limits::new().sessions(1, Duration::MAX).search(1, 1, Duration::MAX);
        assert_eq!(limits.session_time, Duration::from_secs(400 * 86_400));
        assert_eq!(limits.search.time, Duration::from_secs(86_400));
        assert_eq!(Limits::new().sessions(1, Duration::ZERO).session_time, Duration::ZERO);
    }

    #[test]
    fn a_header_has_a_name() {
        assert!(WebOptions::new().proxy_user_header("x-user").is_ok());
        let error = WebOptions::new().proxy_user_header("x user").unwrap_err();
        assert_eq!(error, OptionsError::Header("x user".to_owned()));
    }
}
