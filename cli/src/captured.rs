//! Commands of a shell whose output is kept, and shown only when it matters.

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// The bytes of the output that are kept: the last ones.
const KEPT: usize = 64 * 1024;

/// The time for the rest of the output after the end of the command. Processes that it has left in
/// the background may keep their end of the pipe.
const REST: Duration = Duration::from_millis(200);

/// A command that has ended, or was killed at the end of its time.
#[derive(Debug)]
pub(crate) struct Captured {
    /// `None` if it was killed.
    pub(crate) status: Option<ExitStatus>,
    /// The end of its output and of its errors, in the order in which they arrived.
    pub(crate) output: String,
}

/// Runs a command of a shell, without input, in a process group of its own: Ctrl-C does not reach
/// it. At the end of the time, the group is killed.
///
/// # Cancel safety
/// Dropping the future kills the group.
pub(crate) async fn run(
    line: &str,
    environment: Vec<(&'static str, OsString)>,
    within: Duration,
) -> io::Result<Captured> {
    let mut child = Command::new("sh")
        .args(["-c", line])
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let kept = Kept::default();
    let streams = (child.stdout.take(), child.stderr.take());
    let mut reading = pin!(async {
        tokio::join!(kept.read(streams.0), kept.read(streams.1));
    });
    let mut is_read = false;
    let ended = timeout(within, async {
        loop {
            tokio::select! {
                status = child.wait() => break status,
                () = &mut reading, if !is_read => is_read = true,
            }
        }
    });
    let status = ended.await.ok().transpose()?;
    if status.is_some() {
        // A process in the background lives on.
        group.0 = None;
    }
    drop(group);
    if !is_read {
        // An error is the end of the time.
        timeout(REST, reading).await.ok();
    }
    Ok(Captured { status, output: kept.text() })
}

/// A process group, which is killed when this value is dropped.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // A group that is gone needs no signal.
            killpg(id, Signal::SIGKILL).ok();
        }
    }
}

/// The end of an output.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<u8>>);

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a stream to its end, or to the first error.
    async fn read(&self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            let mut kept = self.lock();
            kept.extend_from_slice(buffer.get(..length).unwrap_or_default());
            let excess = kept.len().saturating_sub(KEPT);
            kept.drain(..excess);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn output(line: &str) -> Captured {
        run(line, vec![("NAME", "value".into())], LONG).await.expect("a shell")
    }

    #[tokio::test]
    async fn output_and_errors_are_kept() {
        let captured = output("echo \"$NAME\"; echo two >&2; exit 3").await;
        assert_eq!(captured.status.and_then(|status| status.code()), Some(3));
        let mut lines: Vec<_> = captured.output.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["two", "value"]);
    }

    #[tokio::test]
    async fn the_end_of_a_long_output_is_kept() {
        let captured =
            output("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done").await;
        assert!(captured.output.len() <= KEPT && captured.output.len() > KEPT / 2);
        assert!(captured.output.ends_with("line 19999\n"));
    }

    #[tokio::test]
    async fn a_process_in_the_background_does_not_delay_the_end() {
        let captured = output("sleep 300 & echo \"$!\"").await;
        assert!(captured.status.is_some_and(|status| status.success()));
        let pid: i32 = captured.output.trim().parse().expect("a process");
        // It lives on.
        nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a process");
    }

    #[tokio::test]
    async fn a_command_is_killed_at_the_end_of_its_time() {
        let captured = run("sleep 300 | cat", Vec::new(), Duration::from_millis(50)).await;
        let captured = captured.expect("a shell");
        assert!(captured.status.is_none());
    }
}
