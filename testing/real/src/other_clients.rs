//! The places of the clients in other languages: Python with kazoo, and the C client.
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// A time that is longer than any client takes at any server.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// The command line of the C client in Debian's package `zookeeper-bin`.
pub const C_CLIENT: &str = "/usr/lib/zookeeper/bin/cli_mt";

/// Finds a Python with kazoo: that of `scripts/install-real`, in the target directory of a test
/// that passes its `CARGO_TARGET_TMPDIR`, or another one.
///
/// # Errors
/// A text that says which program is missing.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn python_with_kazoo(target_tmpdir: &str) -> Result<PathBuf, &'static str> {
    let ours = Path::new(target_tmpdir).with_file_name("python").join("bin/python");
    for python in [ours, "python3".into()] {
        let imported =
            Command::new(&python).args(["-c", "import kazoo"]).stderr(Stdio::null()).status().await;
        if imported.is_ok_and(|status| status.success()) {
            return Ok(python);
        }
    }
    Err("no Python here has kazoo")
}

/// Returns `Ok` if programs can be compiled against the C client, which is in Debian's package
/// `libzookeeper-mt-dev`.
///
/// # Errors
/// A text that says which package is missing.
pub fn c_library() -> Result<(), &'static str> {
    let header = Path::new("/usr/include/zookeeper/zookeeper.h");
    header.exists().then_some(()).ok_or("libzookeeper-mt-dev is not installed")
}

/// Returns `Ok` if the command line of the C client is installed.
///
/// # Errors
/// A text that says which package is missing.
pub fn c_client() -> Result<(), &'static str> {
    Path::new(C_CLIENT).exists().then_some(()).ok_or("zookeeper-bin is not installed")
}

/// Compiles a program that uses the C client.
///
/// # Panics
/// Panics if the program does not compile. The compiler prints the reason.
///
/// # Cancel safety
/// If the future is dropped, the compiler may still write its output.
pub async fn compile_c(source: &Path, directory: &Path) -> PathBuf {
    let program = directory.join("program");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-DTHREADED", "-o"]);
    compiler.arg(&program).arg(source).args(["-lzookeeper_mt", "-lpthread"]);
    let compiled = compiler.status().await.is_ok_and(|status| status.success());
    assert!(compiled, "{compiler:?}");
    program
}
