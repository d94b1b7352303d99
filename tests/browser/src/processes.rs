//! The processes of a browser, and their end.
//!
//! They are a process group, whose leader is a shell. A few leave the group: the handler of crashes
//! has a session of its own. So all of them also have a mark in their environment. The shell reads
//! a pipe from the process of the tests. It kills the group when that process ends, even if it is
//! killed.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use tokio::process::{Child, ChildStdout, Command};

use super::error::{BrowserError, io_error};

/// The environment variable with the mark.
const MARK: &str = "ZK_CURATOR_BROWSER";

/// Runs the program, and waits for the end of standard input. The output ends with the program.
const GUARD: &str = "\
\"$0\" \"$@\" </dev/null &
exec >/dev/null 2>&1
while read -r _; do :; done
kill -KILL 0";

/// The interval at which processes that end are polled: no event tells the end of a process that is
/// not a child.
const POLL: Duration = Duration::from_millis(5);
/// The time that processes may take to end after SIGKILL, also on a busy machine.
const END: Duration = Duration::from_secs(30);

/// The processes of a [`Browser`](crate::Browser).
#[derive(Debug, Clone)]
pub struct OwnProcesses {
    group: u32,
    mark: String,
}

impl OwnProcesses {
    /// Returns the ids of the running processes, in any order. Zombies do not count.
    #[must_use]
    pub fn running(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let all = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        all.filter(|&process| self.owns(process)).collect()
    }

    fn owns(&self, process: u32) -> bool {
        let is_member = |group: u32| group == self.group || self.is_marked(process);
        group_of(process).is_some_and(is_member)
    }

    /// Returns `true` if a process has the mark. An ordinary user cannot read the environment of a
    /// process in a sandbox. This process is a member of the group.
    fn is_marked(&self, process: u32) -> bool {
        let Ok(environment) = fs::read(format!("/proc/{process}/environ")) else { return false };
        let mark = format!("{MARK}={}", self.mark);
        environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    }

    fn kill(&self) {
        if let Some(group) = pid(self.group) {
            // It fails if all of them are zombies.
            kill_process_group(group, Signal::KILL).ok();
        }
        for process in self.running() {
            self.kill_marked(process);
        }
    }

    /// Kills a process outside of the group. The descriptor still means this process if the id is
    /// given to another one.
    fn kill_marked(&self, process: u32) {
        let Some(handle) = pid(process).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok())
        else {
            return;
        };
        if self.is_marked(process) {
            pidfd_send_signal(handle, Signal::KILL).ok();
        }
    }
}

/// A program in a process group of its own. Dropping it kills the group, and the processes that
/// have left it.
#[derive(Debug)]
pub(crate) struct Group {
    processes: OwnProcesses,
    leader: Child,
}

impl Group {
    /// Starts a program whose files are in `home`, which also is the mark of its processes. Returns
    /// its standard output.
    pub(crate) fn start(
        program: &Path,
        args: &[&str],
        home: &Path,
    ) -> Result<(Self, ChildStdout), BrowserError> {
        let mark = home.display().to_string();
        let mut leader = Command::new("sh")
            .args(["-c", GUARD])
            .arg(program)
            .args(args)
            .env(MARK, &mark)
            // Nothing is read from the settings of the user, or written to them.
            .env("HOME", home)
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("XDG_DATA_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(io_error("run", "sh"))?;
        let output = leader.stdout.take().expect("invariant: the output is a pipe");
        let group = leader.id().expect("invariant: nothing has waited for the shell");
        Ok((Self { processes: OwnProcesses { group, mark }, leader }, output))
    }

    pub(crate) const fn processes(&self) -> &OwnProcesses {
        &self.processes
    }
}

impl Drop for Group {
    /// Waits for the end, which takes milliseconds after SIGKILL. Otherwise the files could not be
    /// removed.
    #[expect(clippy::disallowed_methods, reason = "a thread polls processes")]
    fn drop(&mut self) {
        let started = Instant::now();
        // The leader is not waited for before the end, so the id of the group stays its own.
        while !self.processes.running().is_empty() {
            if started.elapsed() > END {
                let left = self.processes.running();
                tracing::warn!(?left, "processes of a browser were not killed");
                return;
            }
            self.processes.kill();
            thread::sleep(POLL);
        }
        while matches!(self.leader.try_wait(), Ok(None)) && started.elapsed() < END {
            thread::sleep(POLL);
        }
    }
}

/// Returns the process group of a process, unless it has ended.
fn group_of(process: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The second field is the name, in parentheses, and may contain any character. The state, the
    // parent and the group follow.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

fn pid(process: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(process).ok()?)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;
    use zk_curator_real::TempDir;
    use zk_curator_testing::wait::until;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_dropped_group_leaves_no_process() {
        let home = TempDir::new("browser").unwrap();
        // Two processes stay in the group, and one leaves it.
        let script = "sleep 1000 & setsid sleep 1001 & wait";
        let (group, _output) = Group::start(Path::new("sh"), &["-c", script], home.path()).unwrap();
        let processes = group.processes().clone();
        let all_run = || {
            let running = processes.running();
            let is_outside = |process: &u32| group_of(*process) != Some(processes.group);
            running.len() == 4 && running.iter().any(is_outside)
        };
        let started = timeout(LONG, until(async || all_run())).await;
        started.unwrap_or_else(|_| panic!("{:?}", processes.running()));
        drop(group);
        assert!(processes.running().is_empty(), "{:?}", processes.running());
    }

    #[tokio::test]
    async fn the_end_of_a_pipe_ends_the_group() {
        let home = TempDir::new("browser").unwrap();
        let args = ["-c", "echo ready; sleep 1000"];
        let (mut group, mut output) = Group::start(Path::new("sh"), &args, home.path()).unwrap();
        let mut line = [0; "ready\n".len()];
        timeout(LONG, output.read_exact(&mut line)).await.unwrap().unwrap();
        assert_eq!(line, *b"ready\n");
        drop(group.leader.stdin.take());
        // The pipe ends with the processes, because each of them has it as its output.
        let mut text = String::new();
        timeout(LONG, output.read_to_string(&mut text)).await.unwrap().unwrap();
        assert_eq!(text, "");
        timeout(LONG, until(async || group.processes.running().is_empty())).await.unwrap();
    }
}
