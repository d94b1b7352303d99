//! The directory of this process, which ends with the process: its files, and its servers.
//!
//! Statics are not dropped at the end of a process, and nothing is dropped when it is killed. So a
//! shell waits for the end of the process, kills its servers, and removes the directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io};

use super::error::{RealError, io_error};

/// Reads until the pipe from this process ends. The shell has a group of its own, and ignores the
/// signals of a terminal, so that who ends the group of this process does not end the shell before
/// its work is done. A server that is being killed may still write a file, so the directory is
/// removed more than once.
const GUARD: &str = "\
trap '' HUP INT QUIT TERM
while read -r _; do :; done
for file in \"$0\"/processes/*; do kill -KILL \"${file##*/}\" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9; do rm -rf \"$0\" && break; sleep 0.1; done";

/// The directory, and the shell that removes it.
#[derive(Debug)]
struct Home {
    path: PathBuf,
    _guard: Child,
}

static HOME: Mutex<Option<Home>> = Mutex::new(None);

/// Creates a new directory in that of this process. Its name starts with `prefix`.
pub(super) fn new_directory(prefix: &str) -> Result<PathBuf, RealError> {
    create_unused(&home()?, prefix)
}

fn home() -> Result<PathBuf, RealError> {
    let mut home = HOME.lock().unwrap_or_else(PoisonError::into_inner);
    match &*home {
        Some(home) => Ok(home.path.clone()),
        None => Ok(home.insert(Home::new()?).path.clone()),
    }
}

impl Home {
    fn new() -> Result<Self, RealError> {
        let path = create_unused(&env::temp_dir(), "zk-curator-real")?;
        let processes = path.join("processes");
        fs::create_dir(&processes).map_err(io_error("create", &processes))?;
        let shell = Path::new("sh");
        let mut guard = Command::new(shell);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut guard, 0);
        let guard = guard
            .args(["-c", GUARD])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io_error("run", shell))?;
        Ok(Self { path, _guard: guard })
    }
}

fn create_unused(parent: &Path, prefix: &str) -> Result<PathBuf, RealError> {
    loop {
        let name = format!("{prefix}-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = parent.join(name);
        // `create_dir` fails for an existing directory, so no other process uses this one.
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(RealError::Io { what: "create", path, source }),
        }
    }
}

/// A child process that is killed at the end of this process. Dropping it changes nothing about the
/// process: it must be dropped before the process is waited for, because its id may be reused then.
#[derive(Debug)]
pub(super) struct Guarded {
    file: PathBuf,
}

impl Guarded {
    pub(super) fn new(process: u32) -> Result<Self, RealError> {
        let file = home()?.join("processes").join(process.to_string());
        fs::write(&file, "").map_err(io_error("write", &file))?;
        Ok(Self { file })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.file) {
            tracing::warn!(path = %self.file.display(), %error, "a file was left behind");
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::CommandExt;
    use std::thread;

    use super::*;

    /// Makes a process of these tests a victim, which ends in this way.
    const VICTIM: &str = "ZK_CURATOR_REAL_VICTIM";

    /// Starts a child that outlives its parent, makes a file, and ends without dropping anything.
    fn victim(end: &str) -> ! {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let guarded = Guarded::new(child.id()).unwrap();
        let directory = new_directory("victim").unwrap();
        fs::write(directory.join("file"), "").unwrap();
        println!("\nHOME {}", home().unwrap().display());
        if end == "exit" {
            std::process::exit(0);
        }
        child.wait().unwrap();
        panic!("{guarded:?} and {directory:?} are still there");
    }

    #[test]
    fn a_process_leaves_neither_children_nor_files() {
        if let Ok(end) = env::var(VICTIM) {
            victim(&end);
        }
        for end in ["exit", "kill", "kill the group"] {
            let mut victim = Command::new(env::current_exe().unwrap())
                .process_group(0)
                .args(["a_process_leaves_neither_children_nor_files", "--nocapture"])
                .env(VICTIM, end)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut output = BufReader::new(victim.stdout.take().unwrap());
            let mut line = String::new();
            while !line.starts_with("HOME ") {
                line.clear();
                assert!(output.read_line(&mut line).unwrap() > 0, "{end}");
            }
            match end {
                "kill" => victim.kill().unwrap(),
                "kill the group" => {
                    let group = format!("-{}", victim.id());
                    let status = Command::new("kill").args(["-s", "KILL", "--", &group]).status();
                    assert!(status.unwrap().success());
                }
                _ => {}
            }
            victim.wait().unwrap();
            // The child has the same standard output, which ends with it.
            output.read_to_string(&mut String::new()).unwrap();
            let home = Path::new(line["HOME ".len()..].trim_end());
            while home.exists() {
                thread::yield_now();
            }
        }
    }
}
