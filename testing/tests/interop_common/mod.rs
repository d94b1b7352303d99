//! Where the clients in other languages are.
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "every test binary uses another part of it, and all of it is for tests"
)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Longer than any client takes at any server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// Where Debian's package `zookeeper-bin` has the command line of the C client.
pub(crate) const C_CLIENT: &str = "/usr/lib/zookeeper/bin/cli_mt";

/// The Python of `scripts/install-real`, or another one, that has kazoo.
pub(crate) async fn python_with_kazoo() -> Result<PathBuf, &'static str> {
    let ours = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("python").join("bin/python");
    for python in [ours, "python3".into()] {
        let imported =
            Command::new(&python).args(["-c", "import kazoo"]).stderr(Stdio::null()).status().await;
        if imported.is_ok_and(|status| status.success()) {
            return Ok(python);
        }
    }
    Err("no Python here has kazoo")
}

/// Whether programs can be compiled against the C client, of Debian's package `libzookeeper-mt-dev`.
pub(crate) fn c_library() -> Result<(), &'static str> {
    let header = Path::new("/usr/include/zookeeper/zookeeper.h");
    header.exists().then_some(()).ok_or("libzookeeper-mt-dev is not installed")
}

/// Whether the command line of the C client is there.
pub(crate) fn c_client() -> Result<(), &'static str> {
    Path::new(C_CLIENT).exists().then_some(()).ok_or("zookeeper-bin is not installed")
}

/// Compiles a program that uses the C client.
pub(crate) async fn compile_c(source: &Path, directory: &Path) -> PathBuf {
    let program = directory.join("program");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-DTHREADED", "-o"]);
    compiler.arg(&program).arg(source).args(["-lzookeeper_mt", "-lpthread"]);
    assert!(compiler.status().await.unwrap().success(), "{compiler:?}");
    program
}

/// An empty directory for one test of this process, removed on drop.
pub(crate) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a temporary directory was left behind");
        }
    }
}
