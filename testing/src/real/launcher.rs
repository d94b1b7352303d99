use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::temp_dir::TempDir;
use super::{RealError, java};

/// How often a server that starts or ends is asked whether it has. There is nothing to wait on: the process
/// is not ours, and says neither.
const POLL: Duration = Duration::from_millis(20);

/// How long a server may take to end by itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may take to answer a four-letter word.
const WORD_TIMEOUT: Duration = Duration::from_secs(5);

/// The same while it starts, when it is asked again anyway.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// How many free ports are tried when another process takes them first.
const PORT_ATTEMPTS: u32 = 8;

/// Ports below those that Linux gives to outgoing connections, so that nobody is given the port of a
/// stopped server before its restart.
const PORTS: std::ops::Range<u16> = 20_000..32_768;

/// How much of the log goes into an error, in bytes.
const LOG_TAIL: u64 = 4096;

/// A standalone Apache ZooKeeper in a process of its own, on 127.0.0.1.
///
/// Dropping it kills the process and removes its data.
#[derive(Debug)]
pub struct RealZooKeeper {
    // Before `home`: the process ends before its directory is removed.
    process: Option<Process>,
    launch: Launch,
    port: u16,
    _home: TempDir,
}

impl RealZooKeeper {
    /// Settings that can be changed before the start.
    pub fn builder() -> RealZooKeeperBuilder {
        RealZooKeeperBuilder::default()
    }

    /// Starts a server with the default settings.
    ///
    /// # Errors
    /// See [`RealZooKeeperBuilder::start`].
    ///
    /// # Cancel safety
    /// See [`RealZooKeeperBuilder::start`].
    pub async fn start() -> Result<Self, RealError> {
        Self::builder().start().await
    }

    /// Whether a server with the default settings can be started here.
    ///
    /// # Errors
    /// [`RealError::JavaMissing`] or [`RealError::JarMissing`], naming what is missing.
    pub fn available() -> Result<(), RealError> {
        Self::builder().available()
    }

    /// The address for clients. Stays the same over [`RealZooKeeper::restart`].
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// [`RealZooKeeper::addr`] as clients want it, for example `127.0.0.1:20123`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.addr().to_string()
    }

    /// The id of the server's process; `None` while it is stopped.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// The end of the server's log: warnings and errors, unless the JVM was given another level.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.launch.log_tail()
    }

    /// The answer to a four-letter word such as `ruok`, `srvr` or `dump`. All of them are allowed.
    ///
    /// # Errors
    /// [`RealError::NoAnswer`].
    ///
    /// # Cancel safety
    /// Nothing is lost; the answer is read and dropped.
    pub async fn four_letter_word(&self, word: &'static str) -> Result<String, RealError> {
        let addr = self.addr();
        blocking(move || {
            ask(addr, word, WORD_TIMEOUT).map_err(|source| RealError::NoAnswer {
                word,
                port: addr.port(),
                source,
            })
        })
        .await
    }

    /// Kills the process (SIGKILL) and waits for its end. Nothing happens when it is stopped already.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is stopped all the same.
    pub async fn kill(&mut self) -> Result<(), RealError> {
        match self.process.take() {
            None => Ok(()),
            Some(process) => blocking(move || process.kill()).await,
        }
    }

    /// Asks the process to end (SIGTERM) and waits for its end; kills it after 5 seconds. Nothing happens
    /// when it is stopped already.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is stopped all the same.
    pub async fn stop(&mut self) -> Result<(), RealError> {
        match self.process.take() {
            None => Ok(()),
            Some(process) => blocking(move || process.stop()).await,
        }
    }

    /// Starts the server again on the same data and port; stops it first if it runs.
    ///
    /// # Errors
    /// See [`RealZooKeeperBuilder::start`]; [`RealError::PortTaken`] when somebody else has the port now.
    ///
    /// # Cancel safety
    /// The server is stopped, and can be restarted.
    pub async fn restart(&mut self) -> Result<(), RealError> {
        self.stop().await?;
        let (launch, port) = (self.launch.clone(), self.port);
        self.process = Some(blocking(move || launch.run(port)).await?);
        Ok(())
    }
}

/// Settings of a [`RealZooKeeper`].
#[derive(Debug, Clone)]
#[must_use = "nothing is started before `start`"]
pub struct RealZooKeeperBuilder {
    tick_time: Duration,
    min_session_timeout: Option<Duration>,
    max_session_timeout: Duration,
    jar_directories: Vec<PathBuf>,
    data_directory: Option<PathBuf>,
    jvm_options: Vec<String>,
    settings: Vec<(String, String)>,
    start_timeout: Duration,
}

impl Default for RealZooKeeperBuilder {
    fn default() -> Self {
        Self {
            tick_time: Duration::from_millis(500),
            min_session_timeout: None,
            max_session_timeout: Duration::from_secs(60),
            jar_directories: java::jar_directories(),
            data_directory: None,
            jvm_options: Vec::new(),
            settings: Vec::new(),
            start_timeout: Duration::from_secs(30),
        }
    }
}

impl RealZooKeeperBuilder {
    /// `tickTime`: sessions expire at multiples of it. Default: 500 ms.
    pub const fn tick_time(mut self, tick_time: Duration) -> Self {
        self.tick_time = tick_time;
        self
    }

    /// `minSessionTimeout`. Default: two ticks.
    pub const fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(timeout);
        self
    }

    /// `maxSessionTimeout`. Default: 60 s.
    pub const fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session_timeout = timeout;
        self
    }

    /// Where the libraries are looked for. Default: `ZOOKEEPER_JARS`, else `/usr/share/java`.
    pub fn jar_directories(mut self, directories: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.jar_directories = directories.into_iter().map(Into::into).collect();
        self
    }

    /// Where snapshots and logs of transactions go; it is not removed on drop. Default: a temporary
    /// directory, which is.
    pub fn data_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_directory = Some(directory.into());
        self
    }

    /// A system property of the JVM, for example `znode.container.checkIntervalMs`. The last one wins.
    pub fn jvm_property(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.jvm_options.push(format!("-D{name}={value}"));
        self
    }

    /// An option of the JVM, for example `-Xmx1g`. The last one wins.
    pub fn jvm_option(mut self, option: impl Into<String>) -> Self {
        self.jvm_options.push(option.into());
        self
    }

    /// A line of `zoo.cfg`. The last one wins.
    pub fn setting(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }

    /// How long the server may take until it serves. Default: 30 s.
    pub const fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Whether a server with these settings can be started here.
    ///
    /// # Errors
    /// [`RealError::JavaMissing`] or [`RealError::JarMissing`], naming what is missing.
    pub fn available(&self) -> Result<(), RealError> {
        java::find_program("java")?;
        self.jars()?;
        Ok(())
    }

    /// Starts the server on a free port, and returns when it serves.
    ///
    /// # Errors
    /// * [`RealError::JavaMissing`], [`RealError::JarMissing`]: not installed.
    /// * [`RealError::Exited`], [`RealError::DidNotServe`]: with the end of its log.
    /// * [`RealError::PortTaken`]: eight times, another process took the port first.
    /// * [`RealError::Io`]: a file cannot be written or the process cannot be run.
    ///
    /// # Cancel safety
    /// The server is started all the same, then killed.
    pub async fn start(self) -> Result<RealZooKeeper, RealError> {
        blocking(move || self.start_blocking()).await
    }

    fn start_blocking(self) -> Result<RealZooKeeper, RealError> {
        let java = java::find_program("java")?;
        let class_path = java::class_path(self.jars()?.iter().map(PathBuf::as_path))?;
        let home = TempDir::new("zk-curator-real")?;
        let data = self.data_directory.clone().unwrap_or_else(|| home.path().join("data"));
        let data = std::path::absolute(&data).map_err(io_error("find", &data))?;
        fs::create_dir_all(&data).map_err(io_error("create", &data))?;
        let launch = Launch {
            java,
            class_path,
            config: home.path().join("zoo.cfg"),
            log: home.path().join("zookeeper.log"),
            data,
            builder: self,
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port()?;
            match launch.run(port) {
                Err(RealError::PortTaken { .. }) if attempts < PORT_ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(process) => {
                    return Ok(RealZooKeeper { process: Some(process), launch, port, _home: home });
                }
            }
        }
    }

    fn jars(&self) -> Result<Vec<PathBuf>, RealError> {
        // The binding that writes to standard error; the one that writes nowhere is as good, but for errors.
        java::zookeeper_jars(&self.jar_directories, "slf4j-simple")
            .or_else(|_| java::zookeeper_jars(&self.jar_directories, "slf4j-nop"))
    }
}

/// All that is needed to start the process, again and again.
#[derive(Debug, Clone)]
struct Launch {
    java: PathBuf,
    class_path: std::ffi::OsString,
    config: PathBuf,
    log: PathBuf,
    data: PathBuf,
    builder: RealZooKeeperBuilder,
}

impl Launch {
    /// Starts a process on `port` and waits until it serves.
    fn run(&self, port: u16) -> Result<Process, RealError> {
        self.write_config(port)?;
        let mut process = self.spawn()?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // Another ZooKeeper may have taken the port, and would answer `ruok` for ours: `conf` tells them apart.
        let ours = format!("dataDir={}", self.data.join("version-2").display());
        let started = Instant::now();
        loop {
            if let Some(status) = process.ended()? {
                let log = self.log_tail();
                return Err(if log.contains("BindException") || log.contains("Address already in use") {
                    RealError::PortTaken { port }
                } else {
                    RealError::Exited { status, log }
                });
            }
            if ask(addr, "conf", PROBE_TIMEOUT).is_ok_and(|answer| answer.lines().any(|line| line == ours)) {
                return Ok(process);
            }
            let after = started.elapsed();
            if after >= self.builder.start_timeout {
                return Err(RealError::DidNotServe { after, log: self.log_tail() });
            }
            thread::sleep(POLL);
        }
    }

    fn write_config(&self, port: u16) -> Result<(), RealError> {
        let builder = &self.builder;
        let tick = builder.tick_time;
        let data = self.data.display();
        let mut text = format!(
            "tickTime={}\nminSessionTimeout={}\nmaxSessionTimeout={}\ndataDir={data}\nclientPort={port}\n\
             clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n\
             4lw.commands.whitelist=*\n",
            tick.as_millis(),
            builder.min_session_timeout.unwrap_or(tick * 2).as_millis(),
            builder.max_session_timeout.as_millis(),
        );
        for (name, value) in &builder.settings {
            text.push_str(&format!("{name}={value}\n"));
        }
        fs::write(&self.config, text).map_err(io_error("write", &self.config))
    }

    fn spawn(&self) -> Result<Process, RealError> {
        // A log for each run: what an earlier one said must not be taken for this one's.
        let log = OpenOptions::new().write(true).create(true).truncate(true).open(&self.log);
        let log = log.map_err(io_error("write", &self.log))?;
        let copy = log.try_clone().map_err(io_error("write", &self.log))?;
        Command::new(&self.java)
            .args(["-Xmx512m", "-XX:+UseSerialGC"])
            .args([
                "-Dzookeeper.extendedTypesEnabled=true",
                // Tests kill the process, never the machine: what was written is safe without waiting for the
                // disk. And one megabyte at a time is enough for their logs.
                "-Dzookeeper.forceSync=no",
                "-Dzookeeper.preAllocSize=1024",
                "-Dzookeeper.admin.enableServer=false",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dorg.slf4j.simpleLogger.showDateTime=true",
            ])
            .args(&self.builder.jvm_options)
            .arg("-cp")
            .arg(&self.class_path)
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(&self.config)
            .stdin(Stdio::null())
            .stdout(copy)
            .stderr(log)
            .spawn()
            .map(|child| Process { child })
            .map_err(io_error("run", &self.java))
    }

    fn log_tail(&self) -> String {
        let tail = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
            let mut tail = Vec::new();
            file.take(LOG_TAIL).read_to_end(&mut tail)?;
            Ok(tail)
        };
        tail().map_or_else(
            |error| format!("(no log: {error})"),
            |tail| String::from_utf8_lossy(&tail).trim_end().to_owned(),
        )
    }
}

/// A running server; dropping it kills it.
#[derive(Debug)]
struct Process {
    child: Child,
}

impl Process {
    fn ended(&mut self) -> Result<Option<ExitStatus>, RealError> {
        self.child.try_wait().map_err(io_error("wait for", Path::new("ZooKeeper")))
    }

    fn kill(mut self) -> Result<(), RealError> {
        self.kill_and_wait().map_err(io_error("kill", Path::new("ZooKeeper")))
    }

    fn stop(mut self) -> Result<(), RealError> {
        let shell = Path::new("sh");
        // The standard library only knows SIGKILL; every shell knows the others.
        Command::new(shell)
            .args(["-c", "kill -TERM \"$0\"", &self.child.id().to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(io_error("run", shell))?;
        let started = Instant::now();
        while started.elapsed() < STOP_TIMEOUT {
            if self.ended()?.is_some() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        self.kill()
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waits for the end, which SIGKILL makes a matter of milliseconds: else the data could not be removed.
        if let Err(error) = self.kill_and_wait() {
            tracing::warn!(%error, "ZooKeeper was not killed");
        }
    }
}

/// Sends a four-letter word and reads the answer. `timeout` bounds each step.
fn ask(addr: SocketAddr, word: &str, timeout: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn free_port() -> Result<u16, RealError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let port = fastrand::u16(PORTS);
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(_) if attempts < 1000 => {}
            Err(_) => return Err(RealError::PortTaken { port }),
        }
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RealError {
    let path = path.to_owned();
    move |source| RealError::Io { what, path, source }
}

/// Runs what blocks: waiting for a process, and files. It takes real time, also under a paused clock.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RealError> + Send + 'static,
) -> Result<T, RealError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(RealError::Io { what: "run", path: "a blocking task".into(), source: io::Error::other(error) })
    })
}
