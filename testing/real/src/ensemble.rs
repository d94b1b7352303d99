use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::error::io_error;
use super::launch::{Launch, POLL, PROBE_TIMEOUT, Process, ask, blocking};
use super::ports::free_port;
use super::temp_dir::TempDir;
use super::{RealError, RealZooKeeper, RealZooKeeperBuilder};

/// The number of sets of free ports that are tried when another process takes one of them first.
const PORT_ATTEMPTS: u32 = 4;

/// The number of ticks that a follower may take to catch up with the leader (`initLimit`).
const INIT_LIMIT: u32 = 50;

/// The number of ticks that a follower may be silent, or the leader without followers
/// (`syncLimit`).
const SYNC_LIMIT: u32 = 10;

/// An ensemble of Apache ZooKeeper servers, each in a process of its own, on 127.0.0.1.
///
/// Its servers keep their addresses and their data when they are stopped or killed. Dropping it
/// kills them all and removes their data.
///
/// ```
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_curator_real as real;
///
/// let name = "the_session_survives_the_leader";
/// let Some(mut ensemble) = real::or_skip_ensemble(name, 3).await else { return Ok(()) };
/// // … connect clients to ensemble.connect_string() …
/// let leader = ensemble.leader().await?;
/// ensemble.kill(leader).await?;
/// // … the others elect another one …
/// ensemble.restart(leader).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RealEnsemble {
    servers: Vec<RealZooKeeper>,
    start_timeout: Duration,
}

impl RealEnsemble {
    /// Creates the settings of an ensemble of `servers`.
    pub fn builder(servers: usize) -> RealEnsembleBuilder {
        RealEnsembleBuilder::new(servers)
    }

    /// Starts `servers` with the default settings.
    ///
    /// # Errors
    /// See [`RealEnsembleBuilder::start`].
    ///
    /// # Cancel safety
    /// See [`RealEnsembleBuilder::start`].
    pub async fn start(servers: usize) -> Result<Self, RealError> {
        Self::builder(servers).start().await
    }

    /// Returns all addresses as a connect string, for example `127.0.0.1:20123,127.0.0.1:20456`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.servers.iter().map(RealZooKeeper::connect_string).collect::<Vec<_>>().join(",")
    }

    /// Returns the servers in the order of their ids, including stopped ones.
    #[must_use]
    pub fn servers(&self) -> &[RealZooKeeper] {
        &self.servers
    }

    /// Returns the server with the index `server`, from zero. Its id (`myid`) is one higher.
    ///
    /// # Panics
    /// When there is no such server.
    #[must_use]
    pub fn server(&self, server: usize) -> &RealZooKeeper {
        &self.servers[server]
    }

    /// Kills a server (SIGKILL). Has no effect if it is already stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Panics
    /// When there is no such server.
    ///
    /// # Cancel safety
    /// The server is stopped even if the future is dropped.
    pub async fn kill(&mut self, server: usize) -> Result<(), RealError> {
        self.servers[server].kill().await
    }

    /// Asks a server to end (SIGTERM), and kills it after 30 seconds. Has no effect if it is already
    /// stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Panics
    /// When there is no such server.
    ///
    /// # Cancel safety
    /// The server is stopped even if the future is dropped.
    pub async fn stop(&mut self, server: usize) -> Result<(), RealError> {
        self.servers[server].stop().await
    }

    /// Restarts a server, and waits until it serves. That takes a majority of the servers. A
    /// running server is stopped first.
    ///
    /// # Errors
    /// As [`RealZooKeeperBuilder::start`].
    ///
    /// # Panics
    /// When there is no such server.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server is stopped, and can be restarted.
    pub async fn restart(&mut self, server: usize) -> Result<(), RealError> {
        self.servers[server].restart().await
    }

    /// Suspends a server, see [`RealZooKeeper::pause`].
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Panics
    /// When there is no such server.
    ///
    /// # Cancel safety
    /// The server is suspended even if the future is dropped.
    pub async fn pause(&self, server: usize) -> Result<(), RealError> {
        self.servers[server].pause().await
    }

    /// Resumes a server after [`RealEnsemble::pause`].
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Panics
    /// When there is no such server.
    ///
    /// # Cancel safety
    /// The server is resumed even if the future is dropped.
    pub async fn resume(&self, server: usize) -> Result<(), RealError> {
        self.servers[server].resume().await
    }

    /// Asks the servers (`srvr`) for the leader, and waits until there is exactly one, at most for
    /// the time that a start may take.
    ///
    /// # Errors
    /// [`RealError::NoLeader`] if there is none, or more than one, in this time.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    #[expect(clippy::disallowed_methods, reason = "a thread polls processes")]
    pub async fn leader(&self) -> Result<usize, RealError> {
        let addresses: Vec<_> = self.servers.iter().map(RealZooKeeper::addr).collect();
        let patience = self.start_timeout;
        blocking(move || {
            let started = Instant::now();
            loop {
                let mut leaders = addresses.iter().enumerate().filter(|(_, addr)| {
                    ask(**addr, "srvr", PROBE_TIMEOUT)
                        .is_ok_and(|answer| answer.contains("Mode: leader"))
                });
                if let (Some((leader, _)), None) = (leaders.next(), leaders.next()) {
                    return Ok(leader);
                }
                let after = started.elapsed();
                if after >= patience {
                    return Err(RealError::NoLeader { after });
                }
                thread::sleep(POLL);
            }
        })
        .await
    }
}

/// Settings of a [`RealEnsemble`], the same for each server.
#[derive(Debug, Clone)]
#[must_use = "nothing is started before `start`"]
pub struct RealEnsembleBuilder {
    servers: usize,
    each: RealZooKeeperBuilder,
}

impl RealEnsembleBuilder {
    fn new(servers: usize) -> Self {
        // A small heap for several servers, and a quick start, because none of them runs long.
        let each = RealZooKeeper::builder()
            .tick_time(Duration::from_millis(200))
            .quick_start()
            .jvm_option("-Xmx128m")
            .setting("initLimit", INIT_LIMIT)
            .setting("syncLimit", SYNC_LIMIT);
        Self { servers, each }
    }

    /// Sets `tickTime`: sessions expire at multiples of it, and a follower is dropped after ten
    /// ticks of silence. Default: 200 ms.
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.each = self.each.tick_time(tick_time);
        self
    }

    /// Sets `minSessionTimeout`. Default: two ticks.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.each = self.each.min_session_timeout(timeout);
        self
    }

    /// Sets `maxSessionTimeout`. Default: 60 s.
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.each = self.each.max_session_timeout(timeout);
        self
    }

    /// Sets a system property of each JVM. The last value wins.
    pub fn jvm_property(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.each = self.each.jvm_property(name, value);
        self
    }

    /// Adds an option of each JVM. The last one wins. Default: `-Xmx128m`.
    pub fn jvm_option(mut self, option: impl Into<String>) -> Self {
        self.each = self.each.jvm_option(option);
        self
    }

    /// Adds a line of each `zoo.cfg`. The last one wins.
    pub fn setting(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.each = self.each.setting(name, value);
        self
    }

    /// Sets the time that each server may take until it serves. Default: 120 s.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.each = self.each.start_timeout(timeout);
        self
    }

    /// Returns `true` if servers with these settings can be started here.
    ///
    /// # Errors
    /// [`RealError::JavaMissing`] or [`RealError::JarMissing`], naming what is missing.
    pub fn available(&self) -> Result<(), RealError> {
        self.each.available()
    }

    /// Starts the servers on free ports, and returns when they have elected a leader and all serve.
    ///
    /// # Errors
    /// As [`RealZooKeeperBuilder::start`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the servers are started and then killed.
    pub async fn start(self) -> Result<RealEnsemble, RealError> {
        blocking(move || {
            let mut attempts = 0;
            loop {
                attempts += 1;
                match self.start_blocking() {
                    Err(RealError::PortTaken { .. }) if attempts < PORT_ATTEMPTS => {}
                    result => return result,
                }
            }
        })
        .await
    }

    fn start_blocking(&self) -> Result<RealEnsemble, RealError> {
        let ports = (0..3 * self.servers).map(|_| free_port()).collect::<Result<Vec<_>, _>>()?;
        let (clients, peers) = ports.split_at(self.servers);
        let mut each = self.each.clone();
        for (index, ports) in peers.chunks_exact(2).enumerate() {
            let name = format!("server.{}", index + 1);
            each = each.setting(&name, format_args!("127.0.0.1:{}:{}", ports[0], ports[1]));
        }
        // Starts all servers before it waits for one, because no server serves alone.
        let mut begun: Vec<(Process, Launch, u16, TempDir)> = Vec::new();
        for (index, port) in clients.iter().enumerate() {
            let (launch, home) = each.clone().prepare()?;
            let id = launch.data.join("myid");
            fs::write(&id, (index + 1).to_string()).map_err(io_error("write", &id))?;
            begun.push((launch.begin(*port)?, launch, *port, home));
        }
        let mut servers = Vec::new();
        for (mut process, launch, port, home) in begun {
            launch.wait_until_it_serves(&mut process, port)?;
            servers.push(RealZooKeeper::running(process, launch, port, home));
        }
        Ok(RealEnsemble { servers, start_timeout: self.each.start_timeout })
    }
}
