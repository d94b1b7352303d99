use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use super::error::io_error;
use super::launch::{Launch, POLL, PROBE_TIMEOUT, Process, ask, blocking};
use super::ports::free_port;
use super::{RealError, RealZooKeeper, RealZooKeeperBuilder, session};

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
/// kills them all, also suspended ones, and removes their data.
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

    /// Asks a server to end (SIGTERM), and kills it after 30 seconds. Has no effect if it is
    /// already stopped.
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

    /// Restarts servers together, and waits until all of them serve: an ensemble without a majority
    /// needs several servers before one of them serves. Running ones are stopped first.
    ///
    /// # Errors
    /// As [`RealZooKeeperBuilder::start`]. All of these servers are stopped then.
    ///
    /// # Panics
    /// When there is no such server.
    ///
    /// # Cancel safety
    /// If the future is dropped, servers that have not been asked to stop still run, and the others
    /// are stopped. All can be restarted.
    pub async fn restart_all(&mut self, servers: &[usize]) -> Result<(), RealError> {
        let servers: BTreeSet<usize> = servers.iter().copied().collect();
        let mut launches = Vec::new();
        for &server in &servers {
            let server = &mut self.servers[server];
            server.stop().await?;
            launches.push(server.launch());
        }
        let processes = blocking(move || run_all(&launches)).await?;
        for (server, process) in servers.into_iter().zip(processes) {
            self.servers[server].set_process(process);
        }
        Ok(())
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
    pub async fn leader(&self) -> Result<usize, RealError> {
        self.first_in_role(Role::Leader).await
    }

    /// Returns the first follower, as soon as there is exactly one leader. Otherwise like
    /// [`RealEnsemble::leader`].
    ///
    /// # Errors
    /// [`RealError::NoLeader`] if there is no leader with a follower, or more than one leader, in
    /// this time.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn follower(&self) -> Result<usize, RealError> {
        self.first_in_role(Role::Follower).await
    }

    /// Returns the present role of each server, without waiting for an election. A server that does
    /// not respond within half a second, such as a suspended one, is [`Role::Unreachable`].
    ///
    /// # Errors
    /// [`RealError::Io`] if the operating system refuses a thread.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn roles(&self) -> Result<Vec<Role>, RealError> {
        let addresses = self.running();
        blocking(move || Ok(roles(&addresses))).await
    }

    /// Waits until all servers that run serve, and have applied what the leader has committed (a
    /// session at each of them sends `sync`), at most for the time that a start may take.
    ///
    /// Call it before each server that is ended, except in tests of what ZooKeeper loses: before
    /// 3.9.4, a server that is not synced may become the leader if others end during an election,
    /// and then acknowledged writes are lost (ZOOKEEPER-4643, 4646, 4785).
    ///
    /// # Errors
    /// [`RealError::NotSynced`] if they are not in this time, for example because one is suspended.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_until_synced(&self) -> Result<(), RealError> {
        let running: Vec<_> = self.running().into_iter().flatten().collect();
        let is_synced = move |roles: &[Role]| {
            single_leader(roles)?;
            let serves = |role: &Role| !matches!(role, Role::Electing | Role::Unreachable);
            let is_synced = |addr: &SocketAddr| session::sync(*addr, PROBE_TIMEOUT).is_ok();
            (roles.iter().all(serves) && running.iter().all(is_synced)).then_some(())
        };
        self.poll(is_synced, |after| RealError::NotSynced { after }).await
    }

    /// Returns the first server in this role, as soon as there is exactly one leader.
    async fn first_in_role(&self, role: Role) -> Result<usize, RealError> {
        let first = move |roles: &[Role]| {
            single_leader(roles)?;
            roles.iter().position(|found| *found == role)
        };
        self.poll(first, |after| RealError::NoLeader { after }).await
    }

    /// Asks all servers for their roles until these are a result.
    #[expect(clippy::disallowed_methods, reason = "a thread polls processes")]
    async fn poll<T: Send + 'static>(
        &self,
        result: impl Fn(&[Role]) -> Option<T> + Send + 'static,
        too_late: fn(Duration) -> RealError,
    ) -> Result<T, RealError> {
        let addresses = self.running();
        let patience = self.start_timeout;
        blocking(move || {
            let started = Instant::now();
            loop {
                if let Some(result) = result(&roles(&addresses)) {
                    return Ok(result);
                }
                let after = started.elapsed();
                if after >= patience {
                    return Err(too_late(after));
                }
                thread::sleep(POLL);
            }
        })
        .await
    }

    /// Returns the addresses of the servers; `None` for stopped ones.
    fn running(&self) -> Vec<Option<SocketAddr>> {
        self.servers.iter().map(|server| server.process_id().map(|_| server.addr())).collect()
    }
}

/// The role of a server in its ensemble, according to its response to `srvr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows a leader.
    Follower,
    /// It responds, but does not serve: it looks for a leader, or catches up with one.
    Electing,
    /// It does not respond.
    Unreachable,
    /// It is stopped or killed.
    Stopped,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Electing => "electing",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
        })
    }
}

/// Asks the servers for their roles. A stopped one has no address.
fn roles(addresses: &[Option<SocketAddr>]) -> Vec<Role> {
    let role = |addr| match ask(addr, "srvr", PROBE_TIMEOUT) {
        Ok(answer) if answer.contains("Mode: leader") => Role::Leader,
        Ok(answer) if answer.contains("Mode: follower") => Role::Follower,
        Ok(_) => Role::Electing,
        Err(_) => Role::Unreachable,
    };
    addresses.iter().map(|addr| addr.map_or(Role::Stopped, role)).collect()
}

/// Returns the index of the leader, if exactly one server leads.
fn single_leader(roles: &[Role]) -> Option<usize> {
    let mut leaders = (0..roles.len()).filter(|server| roles[*server] == Role::Leader);
    let leader = leaders.next()?;
    leaders.next().is_none().then_some(leader)
}

/// Starts servers on their ports, and waits until all serve. Starts all before it waits for one,
/// because no server serves alone.
fn run_all(launches: &[(Launch, u16)]) -> Result<Vec<Process>, RealError> {
    let begin = |(launch, port): &(Launch, u16)| launch.begin(*port);
    let mut processes = launches.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
    for ((launch, port), process) in launches.iter().zip(&mut processes) {
        launch.wait_until_it_serves(process, *port)?;
    }
    Ok(processes)
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
    pub fn jvm_property(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.each = self.each.jvm_property(name, value);
        self
    }

    /// Adds an option of each JVM. The last one wins. Default: `-Xmx128m`.
    pub fn jvm_option(mut self, option: impl Into<String>) -> Self {
        self.each = self.each.jvm_option(option);
        self
    }

    /// Adds a line of each `zoo.cfg`. The last one wins.
    pub fn setting(mut self, name: &str, value: impl fmt::Display) -> Self {
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
        let (mut launches, mut homes) = (Vec::new(), Vec::new());
        for (index, port) in clients.iter().enumerate() {
            let (launch, home) = each.clone().prepare()?;
            let id = launch.data.join("myid");
            fs::write(&id, (index + 1).to_string()).map_err(io_error("write", &id))?;
            launches.push((launch, *port));
            homes.push(home);
        }
        let processes = run_all(&launches)?;
        let parts = processes.into_iter().zip(launches).zip(homes);
        let servers = parts
            .map(|((process, (launch, port)), home)| {
                RealZooKeeper::running(process, launch, port, home)
            })
            .collect();
        Ok(RealEnsemble { servers, start_timeout: self.each.start_timeout })
    }
}
