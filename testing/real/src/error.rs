use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// An error of running Apache ZooKeeper or a Java program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RealError {
    /// `java` or `javac` is neither in `JAVA_HOME` nor in `PATH`.
    #[error("{program} was not found in JAVA_HOME or PATH")]
    JavaMissing {
        /// `java` or `javac`.
        program: &'static str,
    },
    /// A library is in none of the directories.
    #[error("{jar}.jar was not found in {directories:?}")]
    JarMissing {
        /// The name, without version and extension.
        jar: &'static str,
        /// The searched directories.
        directories: Vec<PathBuf>,
    },
    /// The server did not serve in time.
    #[error("ZooKeeper did not serve within {after:?}; its log ends with:\n{log}")]
    DidNotServe {
        /// The time that the start waited.
        after: Duration,
        /// The end of its log.
        log: String,
    },
    /// The server ended before it served.
    #[error("ZooKeeper ended with {status} before it served; its log ends with:\n{log}")]
    Exited {
        /// The exit status.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// The port is used by another process.
    #[error("port {port} is taken")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// Other processes have all the ports for servers of tests.
    #[error("no port between 20000 and 32767 is free")]
    NoPort,
    /// In the given time, no server of an ensemble was its leader, or more than one claimed to be.
    #[error("no single leader within {after:?}")]
    NoLeader {
        /// The time that was waited.
        after: Duration,
    },
    /// In the given time, not all servers of an ensemble had what the leader has.
    #[error("not all members have what the leader has within {after:?}")]
    NotSynced {
        /// The time that was waited.
        after: Duration,
    },
    /// A program of the Kerberos server is neither in `PATH` nor in `/usr/sbin`.
    #[error("{program} was not found in PATH or /usr/sbin; it is in Debian's package {package}")]
    KerberosMissing {
        /// The program.
        program: &'static str,
        /// The package.
        package: &'static str,
    },
    /// A program of the Kerberos server failed.
    #[error("{program} failed:\n{output}")]
    KerberosFailed {
        /// The program.
        program: &'static str,
        /// Its output.
        output: String,
    },
    /// `javac` refused the programs in a folder.
    #[error("javac refused {}:\n{output}", folder.display())]
    Compile {
        /// The folder.
        folder: PathBuf,
        /// The output of the compiler.
        output: String,
    },
    /// The operating system refused an action.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The action, as a verb.
        what: &'static str,
        /// The file of the action, or the program to run.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server did not respond to a four-letter word.
    #[error("no response to {word} from port {port}")]
    NoResponse {
        /// The word.
        word: &'static str,
        /// The port of the server.
        port: u16,
        /// The reason.
        source: io::Error,
    },
}

pub(super) fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RealError {
    let path = path.to_owned();
    move |source| RealError::Io { what, path, source }
}
