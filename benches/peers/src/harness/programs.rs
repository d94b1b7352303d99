//! Finds the programs of the clients, and their workloads.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;
use zk_curator_real::java::{self, Program};

use super::matrix::Client;
use crate::peer::Result;

/// Where the sources are.
const SOURCES: &str = env!("CARGO_MANIFEST_DIR");

/// A client that can be run here.
pub(super) struct Peer {
    pub(super) client: Client,
    how: How,
    workloads: Vec<String>,
}

enum How {
    /// This program.
    Ours(PathBuf),
    Java(Program),
    Python(PathBuf),
    /// The program of the Rust clients, and the name of one.
    RustClient(PathBuf, &'static str),
}

impl Peer {
    /// Finds a client, compiles it if needed, and asks it for its workloads.
    ///
    /// # Errors
    /// A text that names the missing program.
    pub(super) async fn find(client: Client) -> Result<Self> {
        let how = match client {
            Client::Java => {
                java::available()?;
                How::Java(Program::compile(Path::new(SOURCES).join("java/CuratorPeer.java")).await?)
            }
            Client::Python => How::Python(python().await?),
            Client::ZookeeperClient | Client::ZookeeperAsync | Client::TokioZookeeper => {
                How::RustClient(rust_clients().await?, client.name())
            }
            Client::Rust | Client::Socket => How::Ours(std::env::current_exe()?),
        };
        let mut peer = Self { client, how, workloads: Vec::new() };
        let listed = peer.command().arg("--list").stderr(Stdio::inherit()).output().await?;
        if !listed.status.success() {
            return Err(format!("--list of {} ended with {}", client.name(), listed.status).into());
        }
        peer.workloads = String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect();
        Ok(peer)
    }

    pub(super) fn knows(&self, workload: &str) -> bool {
        self.workloads.iter().any(|known| known == workload)
    }

    /// The program, without arguments yet. It ends when its handle is dropped.
    pub(super) fn command(&self) -> Command {
        let mut command = match &self.how {
            How::Ours(program) => {
                let mut command = Command::new(program);
                command.arg("peer");
                command
            }
            // Room for 100 sessions, and the collector that takes the least CPU time on two cores:
            // a third less than the default.
            How::Java(program) => program.command(["-Xmx512m", "-XX:+UseSerialGC"]),
            How::Python(python) => {
                let mut command = Command::new(python);
                command.arg(Path::new(SOURCES).join("python/kazoo_peer.py"));
                command
            }
            How::RustClient(program, name) => {
                let mut command = Command::new(program);
                command.arg(name);
                command
            }
        };
        command.kill_on_drop(true);
        command
    }
}

/// The target directory of the workspace.
fn target() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.ancestors().nth(2).ok_or("no target directory")?.to_owned())
}

/// Compiles the Rust clients of other authors, with a target directory of their own, and returns
/// their program.
async fn rust_clients() -> Result<PathBuf> {
    let target = target()?.join("peers-clients");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
    build.arg(Path::new(SOURCES).join("clients/Cargo.toml")).arg("--target-dir").arg(&target);
    let built = build.status().await?;
    if !built.success() {
        return Err(format!("benches/peers/clients cannot be compiled: {built}").into());
    }
    Ok(target.join("release/zk-curator-peers-clients"))
}

/// Returns a Python with kazoo: the one of `scripts/install-real`, or the system's.
async fn python() -> Result<PathBuf> {
    let target = target()?;
    for python in [target.join("python/bin/python"), "python3".into()] {
        let imported =
            Command::new(&python).args(["-c", "import kazoo"]).stderr(Stdio::null()).status().await;
        if imported.is_ok_and(|status| status.success()) {
            return Ok(python);
        }
    }
    Err("no Python here has kazoo: scripts/install-real installs it".into())
}
