//! Services of an example as processes: the example itself, started again.

use std::io;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// Starts a service as a process and forwards its output. The last argument is its name.
pub(crate) fn start(
    servers: &str,
    root: &str,
    name: &'static str,
    lines: mpsc::UnboundedSender<(&'static str, String)>,
) -> io::Result<Child> {
    let mut process = Command::new(std::env::current_exe()?)
        .args([servers, root, name])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut output =
        BufReader::new(process.stdout.take().ok_or_else(|| io::Error::other("no output"))?).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = output.next_line().await {
            if lines.send((name, line)).is_err() {
                return;
            }
        }
    });
    Ok(process)
}
