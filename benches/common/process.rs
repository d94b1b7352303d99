//! Memory and CPU time of processes and threads, as the kernel counts them.
#![expect(clippy::unwrap_used, reason = "a benchmark ends when it fails")]
#![allow(dead_code, clippy::allow_attributes, reason = "each benchmark uses some of it")]

use std::time::Duration;

/// The resident set of a process, in bytes. `self` is this process.
pub(crate) fn resident(process: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// The CPU time of a process, in steps of 10 ms.
pub(crate) fn process_cpu(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The second field is the name, in parentheses, and may contain anything; the others are
    // numbers.
    let (_, fields) = text.rsplit_once(") ").unwrap();
    let ticks = |field: usize| fields.split(' ').nth(field - 3).unwrap().parse::<u64>().unwrap();
    Duration::from_millis((ticks(14) + ticks(15)) * 10)
}

/// The CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
