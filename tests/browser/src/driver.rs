//! The program chromedriver, which starts and controls browsers.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::time::timeout;

use super::error::{BrowserError, io_error};
use super::processes::{Group, OwnProcesses};

/// The time that the driver may take until it serves, also on a busy machine.
const START: Duration = Duration::from_secs(60);
/// The number of starts. The system chooses a free port for IPv6, and the driver ends if another
/// process has the same one for IPv4.
const ATTEMPTS: usize = 5;

/// A running driver. Dropping it kills it, and its browser.
#[derive(Debug)]
pub(crate) struct Driver {
    addr: SocketAddr,
    group: Group,
    /// Kept open: the driver would end when it writes to a closed pipe.
    _output: Lines<BufReader<ChildStdout>>,
}

impl Driver {
    /// Starts a driver on a free port of 127.0.0.1. Its files, and those of its browser, are in
    /// `home`.
    pub(crate) async fn start(home: &Path) -> Result<Self, BrowserError> {
        let program = find("chromedriver")?;
        let mut output = String::new();
        for _ in 0..ATTEMPTS {
            output.clear();
            let (group, stdout) = Group::start(&program, &["--port=0"], home)?;
            let mut lines = BufReader::new(stdout).lines();
            match timeout(START, port(&mut lines, &mut output)).await {
                Ok(Ok(Some(port))) => {
                    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                    return Ok(Self { addr, group, _output: lines });
                }
                Ok(Ok(None)) if output.contains("port not available") => {}
                Ok(Err(error)) => return Err(io_error("read the output of", &program)(error)),
                Ok(Ok(None)) | Err(_) => break,
            }
        }
        Err(BrowserError::NotStarted { output })
    }

    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) const fn processes(&self) -> &OwnProcesses {
        self.group.processes()
    }
}

/// Reads the output until it names the port; `None` at its end. Appends it to `output`.
async fn port(
    lines: &mut Lines<BufReader<ChildStdout>>,
    output: &mut String,
) -> std::io::Result<Option<u16>> {
    while let Some(line) = lines.next_line().await? {
        output.push_str(&line);
        output.push('\n');
        if let Some(port) = port_of(&line) {
            return Ok(Some(port));
        }
    }
    Ok(None)
}

/// Returns the port in `ChromeDriver was started successfully on port 34567.`
fn port_of(line: &str) -> Option<u16> {
    let (_, port) = line.split_once(" was started successfully on port ")?;
    port.trim_end_matches('.').parse().ok()
}

/// Finds a program in `PATH`.
pub(crate) fn find(program: &str) -> Result<PathBuf, BrowserError> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| BrowserError::Missing { what: program.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_the_one_that_serves() {
        let start = "Starting ChromeDriver 156.0.8078.114 (0123) on port 0";
        assert_eq!(port_of(start), None);
        assert_eq!(port_of("ChromeDriver was started successfully on port 40123."), Some(40123));
        assert_eq!(port_of("ChromeDriver was started successfully."), None);
    }

    #[test]
    fn a_missing_program_names_the_script_that_installs_it() {
        let error = find("no-such-browser").unwrap_err().to_string();
        assert_eq!(error, "no-such-browser is missing: run scripts/install-browser");
    }
}
