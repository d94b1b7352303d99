//! The parts of running a server: its configuration, its process, and the requests that tell if it
//! serves.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::builder::RealZooKeeperBuilder;
use super::error::{RealError, io_error};
use super::home::Guarded;

/// The interval at which a server that starts or ends is polled. There is no event to wait for,
/// because the process does not report its progress.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The time that a server may take to end by itself, also on a busy machine.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that a server may take to respond to a four-letter word, also on a busy machine.
pub(super) const WORD_TIMEOUT: Duration = Duration::from_secs(30);

/// The same time during the start, when the word is sent repeatedly.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// The size of the part of the log that goes into an error, in bytes.
const LOG_TAIL: u64 = 4096;

/// The parameters to start the process repeatedly.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) java: PathBuf,
    pub(super) class_path: std::ffi::OsString,
    pub(super) config: PathBuf,
    pub(super) log: PathBuf,
    pub(super) data: PathBuf,
    pub(super) builder: RealZooKeeperBuilder,
}

impl Launch {
    /// Starts a process on `port` and waits until it serves.
    pub(super) fn run(&self, port: u16) -> Result<Process, RealError> {
        let mut process = self.begin(port)?;
        self.wait_until_it_serves(&mut process, port)?;
        Ok(process)
    }

    /// Starts a process on `port`.
    pub(super) fn begin(&self, port: u16) -> Result<Process, RealError> {
        self.write_config(port)?;
        self.spawn()
    }

    /// Waits until a process serves. A member of an ensemble serves after it has found the others
    /// and a leader.
    #[expect(clippy::disallowed_methods, reason = "a thread polls a process")]
    pub(super) fn wait_until_it_serves(
        &self,
        process: &mut Process,
        port: u16,
    ) -> Result<(), RealError> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // Another ZooKeeper may have taken the port, and would respond to `ruok` in place of ours.
        // `conf` tells them apart.
        let ours = format!("dataDir={}", self.data.join("version-2").display());
        let started = Instant::now();
        loop {
            if let Some(status) = process.ended()? {
                let log = self.log_tail();
                return Err(
                    if log.contains("BindException") || log.contains("Address already in use") {
                        RealError::PortTaken { port }
                    } else {
                        RealError::Exited { status, log }
                    },
                );
            }
            if ask(addr, "conf", PROBE_TIMEOUT)
                .is_ok_and(|answer| answer.lines().any(|line| line == ours))
            {
                return Ok(());
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
        // Truncates the log, so that lines of an earlier run are not taken for lines of this one.
        let log = OpenOptions::new().write(true).create(true).truncate(true).open(&self.log);
        let log = log.map_err(io_error("write", &self.log))?;
        let copy = log.try_clone().map_err(io_error("write", &self.log))?;
        Command::new(&self.java)
            .args(["-Xmx512m", "-XX:+UseSerialGC"])
            .args([
                "-Dzookeeper.extendedTypesEnabled=true",
                // Tests kill the process, never the machine, so writes are safe without waiting for
                // the disk. One megabyte at a time is enough for their logs.
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
            .map_err(io_error("run", &self.java))
            .and_then(Process::new)
    }

    pub(super) fn log_tail(&self) -> String {
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

/// A running server. Dropping it kills it, and so does the end of this process.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    guarded: Option<Guarded>,
}

impl Process {
    fn new(child: Child) -> Result<Self, RealError> {
        let mut process = Self { child, guarded: None };
        process.guarded = Some(Guarded::new(process.id())?);
        Ok(process)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, RealError> {
        self.child.try_wait().map_err(io_error("wait for", Path::new("ZooKeeper")))
    }

    pub(super) fn kill(mut self) -> Result<(), RealError> {
        self.kill_and_wait().map_err(io_error("kill", Path::new("ZooKeeper")))
    }

    #[expect(clippy::disallowed_methods, reason = "a thread polls a process")]
    pub(super) fn stop(mut self) -> Result<(), RealError> {
        // A suspended process receives SIGTERM only after SIGCONT.
        for name in ["TERM", "CONT"] {
            signal(self.child.id(), name)?;
        }
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
        self.guarded = None;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waits for the end, which takes milliseconds after SIGKILL. Otherwise the data could not
        // be removed.
        if let Err(error) = self.kill_and_wait() {
            tracing::warn!(%error, "ZooKeeper was not killed");
        }
    }
}

/// Sends a signal. The standard library knows only SIGKILL, while every shell knows the others.
pub(super) fn signal(process: u32, name: &str) -> Result<(), RealError> {
    let shell = Path::new("sh");
    Command::new(shell)
        .args(["-c", "kill -\"$0\" \"$1\"", name, &process.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map(drop)
        .map_err(io_error("run", shell))
}

/// Waits until no thread of a process runs. The signal is only pending after it was sent, and a
/// thread that has not seen it yet still responds. Returns after 30 seconds at the latest, and
/// immediately where the system does not list threads.
#[expect(clippy::disallowed_methods, reason = "a thread polls a process")]
pub(super) fn wait_until_suspended(process: u32) {
    let is_suspended = |thread: io::Result<fs::DirEntry>| {
        // The second field is the name, in parentheses, and may contain any character. The third is
        // the state.
        let stat = fs::read_to_string(thread?.path().join("stat"))?;
        io::Result::Ok(
            stat.rsplit_once(") ")
                .is_none_or(|(_, fields)| fields.starts_with(['T', 't', 'Z', 'X'])),
        )
    };
    let started = Instant::now();
    while let Ok(mut threads) = fs::read_dir(format!("/proc/{process}/task"))
        && started.elapsed() < STOP_TIMEOUT
        // A thread that cannot be read has ended.
        && !threads.all(|thread| is_suspended(thread).unwrap_or(true))
    {
        thread::sleep(POLL);
    }
}

/// Sends a four-letter word and reads the response. `timeout` limits each step.
pub(super) fn ask(addr: SocketAddr, word: &str, timeout: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Runs a blocking call, such as waiting for a process, or file access. It takes real time, also
/// under a paused clock.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RealError> + Send + 'static,
) -> Result<T, RealError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(RealError::Io {
            what: "run",
            path: "a blocking task".into(),
            source: io::Error::other(error),
        })
    })
}
