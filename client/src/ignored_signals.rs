//! The signals that this process was started to ignore.

use std::sync::OnceLock;

/// Returns `true` if this process ignored a signal when this was called first: HUP (1) by `nohup`,
/// and INT (2) and QUIT (3) by a script that starts a program with `&`. A signal that was caught is
/// not ignored any more, so the first look counts.
///
/// Only Linux says which signals are ignored. Elsewhere this returns `false`.
pub fn is_ignored(signal: i32) -> bool {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/self/status");
    let ignored = IGNORED.get_or_init(|| read().map_or(0, |status| ignored_by(&status)));
    ignored & bit(signal) != 0
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn ignored_by(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let ignored = ignored_by("Name:\tzkc\nSigIgn:\t0000000000001001\nSigCgt:\t00\n");
        assert_ne!(ignored & bit(1), 0);
        assert_eq!(ignored & bit(2), 0);
        assert_eq!(ignored_by("nothing"), 0);
    }
}
