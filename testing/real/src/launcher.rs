use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use zk_curator_testing::ZooKeeperVersion;

use super::builder::RealZooKeeperBuilder;
use super::error::io_error;
use super::launch::{Launch, Process, WORD_TIMEOUT, ask, blocking, signal, wait_until_suspended};
use super::ports::free_port;
use super::temp_dir::TempDir;
use super::{RealError, java};

/// The number of free ports that are tried when another process takes them first.
const PORT_ATTEMPTS: u32 = 8;

/// An Apache ZooKeeper in a process of its own, on 127.0.0.1: standalone, or a member of a
/// [`super::RealEnsemble`].
///
/// Dropping it kills the process and removes its data.
#[derive(Debug)]
pub struct RealZooKeeper {
    // Declared before `home`, so the process ends before its directory is removed.
    process: Option<Process>,
    launch: Launch,
    port: u16,
    _home: TempDir,
}

impl RealZooKeeper {
    /// Creates the settings of a server.
    pub fn builder() -> RealZooKeeperBuilder {
        RealZooKeeperBuilder::default()
    }

    pub(super) const fn running(
        process: Process,
        launch: Launch,
        port: u16,
        home: TempDir,
    ) -> Self {
        Self { process: Some(process), launch, port, _home: home }
    }

    /// Returns the parameters to start the process, with its port.
    pub(super) fn launch(&self) -> (Launch, u16) {
        (self.launch.clone(), self.port)
    }

    /// Sets the process that was started with [`RealZooKeeper::launch`].
    pub(super) fn set_process(&mut self, process: Process) {
        self.process = Some(process);
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

    /// Returns `true` if a server with the default settings can be started here.
    ///
    /// # Errors
    /// [`RealError::JavaMissing`] or [`RealError::JarMissing`], naming what is missing.
    pub fn available() -> Result<(), RealError> {
        Self::builder().available()
    }

    /// Returns the address for clients. It stays the same over [`RealZooKeeper::restart`].
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// Returns [`RealZooKeeper::addr`] as a connect string, for example `127.0.0.1:20123`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.addr().to_string()
    }

    /// Returns the id of the server's process; `None` while it is stopped.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Returns the directory of its snapshots and transaction logs (`dataDir`).
    #[must_use]
    pub fn data_directory(&self) -> &Path {
        &self.launch.data
    }

    /// Returns the end of the server's log: warnings and errors, unless the JVM has another log
    /// level.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.launch.log_tail()
    }

    /// Returns the response to a four-letter word such as `ruok`, `srvr` or `dump`. All words are
    /// allowed.
    ///
    /// # Errors
    /// [`RealError::NoResponse`] if the server does not respond within 30 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the response is read and discarded.
    pub async fn four_letter_word(&self, word: &'static str) -> Result<String, RealError> {
        let addr = self.addr();
        blocking(move || {
            ask(addr, word, WORD_TIMEOUT).map_err(|source| RealError::NoResponse {
                word,
                port: addr.port(),
                source,
            })
        })
        .await
    }

    /// Returns the version at which an embedded server behaves like this one.
    ///
    /// # Errors
    /// [`RealError::NoResponse`], also if the response to `srvr` names no version.
    ///
    /// # Cancel safety
    /// If the future is dropped, the response is read and discarded.
    pub async fn version(&self) -> Result<ZooKeeperVersion, RealError> {
        self.release().await.map(version)
    }

    /// Returns the release of this server: the first two numbers of its version.
    ///
    /// # Errors
    /// [`RealError::NoResponse`], also if the response to `srvr` names no version.
    ///
    /// # Cancel safety
    /// If the future is dropped, the response is read and discarded.
    pub async fn release(&self) -> Result<(u32, u32), RealError> {
        let word = "srvr";
        let answer = self.four_letter_word(word).await?;
        release(&answer).ok_or_else(|| RealError::NoResponse {
            word,
            port: self.port,
            source: io::Error::new(io::ErrorKind::InvalidData, answer),
        })
    }

    /// Kills the process (SIGKILL) and waits for its end. Has no effect if it is already stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is stopped even if the future is dropped.
    pub async fn kill(&mut self) -> Result<(), RealError> {
        match self.process.take() {
            None => Ok(()),
            Some(process) => blocking(move || process.kill()).await,
        }
    }

    /// Asks the process to end (SIGTERM), waits for its end, and kills it after 30 seconds. Has no
    /// effect if it is already stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is stopped even if the future is dropped.
    pub async fn stop(&mut self) -> Result<(), RealError> {
        match self.process.take() {
            None => Ok(()),
            Some(process) => blocking(move || process.stop()).await,
        }
    }

    /// Suspends the process (SIGSTOP): it keeps its connections, but sends no more responses. Has
    /// no effect if it is stopped.
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is suspended even if the future is dropped.
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

    /// Resumes the process (SIGCONT) after [`RealZooKeeper::pause`].
    ///
    /// # Errors
    /// [`RealError::Io`] when the operating system refuses.
    ///
    /// # Cancel safety
    /// The server is resumed even if the future is dropped.
    pub async fn resume(&self) -> Result<(), RealError> {
        self.signal("CONT").await
    }

    async fn signal(&self, name: &'static str) -> Result<(), RealError> {
        match self.process_id() {
            None => Ok(()),
            Some(process) => blocking(move || signal(process, name)).await,
        }
    }

    /// Restarts the server on the same data and port. A running server is stopped first.
    ///
    /// # Errors
    /// See [`RealZooKeeperBuilder::start`]. [`RealError::PortTaken`] if another process has the
    /// port now.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server is stopped, and can be restarted.
    pub async fn restart(&mut self) -> Result<(), RealError> {
        self.stop().await?;
        let (launch, port) = self.launch();
        self.set_process(blocking(move || launch.run(port)).await?);
        Ok(())
    }
}

impl RealZooKeeperBuilder {
    /// Returns `true` if a server with these settings can be started here.
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
    /// * [`RealError::JavaMissing`], [`RealError::JarMissing`]: Java or a library is not installed.
    /// * [`RealError::Exited`], [`RealError::DidNotServe`]: the server failed; the error has the
    ///   end of its log.
    /// * [`RealError::PortTaken`]: another process took the port first, eight times in a row.
    /// * [`RealError::Io`]: a file cannot be written, or the process cannot be run.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server is started and then killed.
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

    /// Finds the programs and libraries, and makes the directories.
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
        // The binding that writes to standard error. Without it, errors would be lost.
        java::zookeeper_jars(&self.jar_directories, "slf4j-simple")
            .or_else(|_| java::zookeeper_jars(&self.jar_directories, "slf4j-nop"))
    }
}

/// Parses the release in a response to `srvr`. Its first line is `Zookeeper version: 3.8.0-…, built
/// on …`.
fn release(srvr: &str) -> Option<(u32, u32)> {
    let mut numbers = srvr
        .strip_prefix("Zookeeper version: ")?
        .split('.')
        .map_while(|number| number.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn version(release: (u32, u32)) -> ZooKeeperVersion {
    if release < (3, 9) { ZooKeeperVersion::V3_8 } else { ZooKeeperVersion::V3_9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_the_response_to_srvr() {
        let answer = |release: &str| {
            format!("Zookeeper version: {release}, built on 2022-02-25 08:49 UTC\nMode: leader\n")
        };
        for (number, expected) in [
            (
                "3.6.3-6401e4ad2087061bc6b9f80dec2d69f2e3c8660a",
                Some(((3, 6), ZooKeeperVersion::V3_8)),
            ),
            (
                "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f",
                Some(((3, 8), ZooKeeperVersion::V3_8)),
            ),
            ("3.9.3-\u{24}{mvngit.commit.id}", Some(((3, 9), ZooKeeperVersion::V3_9))),
            ("3.10.0", Some(((3, 10), ZooKeeperVersion::V3_9))),
            ("unknown", None),
        ] {
            let found = release(&answer(number)).map(|release| (release, version(release)));
            assert_eq!(found, expected, "{number}");
        }
        assert_eq!(release("This ZooKeeper instance is not currently serving requests\n"), None);
    }
}
