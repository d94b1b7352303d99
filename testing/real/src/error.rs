use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why Apache ZooKeeper or a Java program could not be run.
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
        /// Where it was looked for.
        directories: Vec<PathBuf>,
    },
    /// The server did not serve in time.
    #[error("ZooKeeper did not serve within {after:?}; its log ends with:\n{log}")]
    DidNotServe {
        /// How long it was waited for.
        after: Duration,
        /// The end of its log.
        log: String,
    },
    /// The server ended before it served.
    #[error("ZooKeeper ended with {status} before it served; its log ends with:\n{log}")]
    Exited {
        /// How it ended.
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
    /// No server of an ensemble was its leader in time, or more than one said so.
    #[error("no single leader within {after:?}")]
    NoLeader {
        /// How long it was waited for.
        after: Duration,
    },
    /// `javac` refused a program.
    #[error("javac refused {}:\n{output}", file.display())]
    Compile {
        /// The source.
        file: PathBuf,
        /// What the compiler said.
        output: String,
    },
    /// The operating system refused something.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried, a verb.
        what: &'static str,
        /// On which file, or the program that was to be run.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The server did not answer a four-letter word.
    #[error("no answer to {word} from port {port}")]
    NoAnswer {
        /// The word.
        word: &'static str,
        /// The port of the server.
        port: u16,
        /// The reason.
        source: io::Error,
    },
}
