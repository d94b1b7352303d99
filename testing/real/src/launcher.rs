use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use zk_curator_testing::ZooKeeperVersion;

use super::launch::{
    Launch, Process, WORD_TIMEOUT, ask, blocking, free_port, io_error, signal, wait_until_suspended,
};
use super::temp_dir::TempDir;
use super::{RealError, java};

/// How many free ports are tried when another process takes them first.
const PORT_ATTEMPTS: u32 = 8;

/// An Apache ZooKeeper in a process of its own, on 127.0.0.1: standalone, or a member of a
/// [`super::RealEnsemble`].
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

    pub(super) const fn running(process: Process, launch: Launch, port: u16, home: TempDir) -> Self {
        Self { process: Some(process), launch, port, _home: home }
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
        self.process.as_ref().map(Process::id)
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

    /// The version at which an embedded server behaves like this one.
    ///
    /// # Errors
    /// [`RealError::NoAnswer`], also if the answer to `srvr` names no version.
    ///
    /// # Cancel safety
    /// Nothing is lost; the answer is read and dropped.
    pub async fn version(&self) -> Result<ZooKeeperVersion, RealError> {
        let word = "srvr";
        let answer = self.four_letter_word(word).await?;
        version(&answer).ok_or_else(|| RealError::NoAnswer {
            word,
            port: self.port,
            source: io::Error::new(io::ErrorKind::InvalidData, answer),
        })
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

    /// Suspends the process (SIGSTOP): it keeps its connections and answers nothing more. Nothing happens when it is
    /// stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is suspended all the same.
    pub async fn pause(&self) -> Result<(), RealError> {
        self.signal("STOP").await?;
        match self.process_id() {
            Some(process) => {
                blocking(move || {
                    wait_until_suspended(process);
                    Ok(())
                })
                .await
            }
            None => Ok(()),
        }
    }

    /// Ends [`RealZooKeeper::pause`] (SIGCONT).
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server goes on all the same.
    pub async fn resume(&self) -> Result<(), RealError> {
        self.signal("CONT").await
    }

    async fn signal(&self, name: &'static str) -> Result<(), RealError> {
        match self.process_id() {
            None => Ok(()),
            Some(process) => blocking(move || signal(process, name)).await,
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
    pub(super) tick_time: Duration,
    pub(super) min_session_timeout: Option<Duration>,
    pub(super) max_session_timeout: Duration,
    jar_directories: Vec<PathBuf>,
    data_directory: Option<PathBuf>,
    pub(super) jvm_options: Vec<String>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) start_timeout: Duration,
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
        let (launch, home) = self.prepare()?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port()?;
            match launch.run(port) {
                Err(RealError::PortTaken { .. }) if attempts < PORT_ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(process) => return Ok(RealZooKeeper::running(process, launch, port, home)),
            }
        }
    }

    /// Finds what is needed and makes the directories.
    pub(super) fn prepare(self) -> Result<(Launch, TempDir), RealError> {
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
        Ok((launch, home))
    }

    fn jars(&self) -> Result<Vec<PathBuf>, RealError> {
        // The binding that writes to standard error; the one that writes nowhere is as good, but for errors.
        java::zookeeper_jars(&self.jar_directories, "slf4j-simple")
            .or_else(|_| java::zookeeper_jars(&self.jar_directories, "slf4j-nop"))
    }
}

/// The version in an answer to `srvr`: its first line is `Zookeeper version: 3.8.0-…, built on …`.
fn version(srvr: &str) -> Option<ZooKeeperVersion> {
    let mut numbers =
        srvr.strip_prefix("Zookeeper version: ")?.split('.').map_while(|number| number.parse().ok());
    let release: (u32, u32) = (numbers.next()?, numbers.next()?);
    Some(if release < (3, 9) { ZooKeeperVersion::V3_8 } else { ZooKeeperVersion::V3_9 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_the_answer_to_srvr() {
        let answer = |release: &str| {
            format!("Zookeeper version: {release}, built on 2022-02-25 08:49 UTC\nMode: leader\n")
        };
        for (release, expected) in [
            ("3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f", Some(ZooKeeperVersion::V3_8)),
            ("3.9.3-\u{24}{mvngit.commit.id}", Some(ZooKeeperVersion::V3_9)),
            ("3.10.0", Some(ZooKeeperVersion::V3_9)),
            ("unknown", None),
        ] {
            assert_eq!(version(&answer(release)), expected, "{release}");
        }
        assert_eq!(version("This ZooKeeper instance is not currently serving requests\n"), None);
    }
}
