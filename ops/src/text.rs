//! Times, sizes, numbers and names as text for people.
//!
//! ```
//! use std::time::Duration;
//!
//! use zk_curator_ops::text;
//!
//! assert_eq!(text::duration(Duration::from_secs(8_040)), "2 h 14 m");
//! assert_eq!(text::size(1_536), "1.5 KiB");
//! assert_eq!(text::grouped(1_234_567), "1,234,567");
//! assert_eq!(text::rfc3339(0).as_deref(), Some("1970-01-01T00:00:00Z"));
//! assert_eq!(text::printable("a\u{1b}[2Jb"), "a\u{fffd}[2Jb");
//! assert_eq!(text::shell_word("/a b"), "'/a b'");
//! ```

use std::borrow::Cow;
use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Replaces the characters that could command a terminal, or change the order of the others.
#[must_use]
pub fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() || is_bidi(c), "\u{fffd}")
}

/// Returns `true` for characters that change the order of text, or begin a line of it.
const fn is_bidi(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Returns a path or another text as one word of a POSIX shell: in quotes if it is empty, or has
/// other characters than ASCII letters, digits and `/_-.,:=@%+`. Anybody who may create a node
/// chooses its name.
#[must_use]
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.,:=@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Returns a time in RFC 3339, in UTC and to the second. `ms` are milliseconds since 1970, as in a
/// stat. `None` if it is not a year of four digits.
#[must_use]
pub fn rfc3339(ms: i64) -> Option<String> {
    time_of(ms).map(|time| humantime::format_rfc3339_seconds(time).to_string())
}

/// Returns a time if its year has four digits.
fn time_of(ms: i64) -> Option<SystemTime> {
    // The year 10000.
    const END: u64 = 253_402_300_800_000;
    let ms = u64::try_from(ms).ok().filter(|ms| *ms < END)?;
    UNIX_EPOCH.checked_add(Duration::from_millis(ms))
}

/// Returns a time in milliseconds since 1970 in RFC 3339, in UTC and to the millisecond. If the year
/// does not have four digits, it is the number of milliseconds.
#[must_use]
pub fn rfc3339_millis(ms: i64) -> String {
    let text = time_of(ms).map(|time| humantime::format_rfc3339_millis(time).to_string());
    text.unwrap_or_else(|| ms.to_string())
}

/// Returns the present time in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns a duration as its two largest units, such as `2 h 14 m`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 10 => format!("{:.1} s", duration.as_secs_f64()),
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} m {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} m"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Returns a duration in milliseconds.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time from `then` to `now`, both in milliseconds; zero if `then` is later.
#[must_use]
pub fn since(then: i64, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(then)).unwrap_or_default())
}

/// Returns a size, such as `1.5 KiB`, with one digit after the point, which is rounded down. The
/// largest unit is `TiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    let mut scaled = bytes;
    while scaled >= 1024 * 1024 && unit + 1 < UNITS.len() {
        scaled /= 1024;
        unit += 1;
    }
    let tenths = scaled * 10 / 1024;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// Returns an integer with its digits in groups of three, such as `1,234,567`.
#[must_use]
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let first = usize::from(digits.starts_with('-'));
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > first && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_digits() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (123_456, "123,456"),
            (1_234_567, "1,234,567"),
            (-999, "-999"),
            (-1_000, "-1,000"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn every_character_that_commands_a_terminal_is_replaced() {
        for (text, printed) in [
            ("/a b~", "/a b~"),
            ("", ""),
            ("ü\u{202e}", "ü\u{fffd}"),
            ("a\u{7f}\u{85}", "a\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(printable(text), printed, "{text:?}");
        }
        for byte in 0..=u8::MAX {
            let character = char::from(byte);
            let is_shown = printable(&character.to_string()) == character.to_string();
            assert_eq!(is_shown, !character.is_control(), "{byte:#x}");
        }
    }

    #[test]
    fn names_are_words_of_a_shell() {
        for (path, word) in [
            ("/a/_c_1f-lock-0000000001", "/a/_c_1f-lock-0000000001"),
            ("/a b;rm -rf $HOME", "'/a b;rm -rf $HOME'"),
            ("/it's", r"'/it'\''s'"),
            ("/ü", "'/ü'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(path), word);
        }
    }

    #[test]
    fn durations_have_two_units() {
        for (seconds, text) in [
            (0, "0.0 s"),
            (9, "9.0 s"),
            (59, "59 s"),
            (61, "1 m 1 s"),
            (8_040, "2 h 14 m"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn sizes_have_one_digit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (3 << 20, "3.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (7 << 40, "7.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn odd_times_are_numbers() {
        assert_eq!(rfc3339(0).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(rfc3339(-1), None);
        assert_eq!(rfc3339(i64::MAX), None);
        assert_eq!(rfc3339_millis(1_700), "1970-01-01T00:00:01.700Z");
        assert_eq!(rfc3339_millis(-1), "-1");
        let last = 253_402_300_799_999;
        assert_eq!(rfc3339_millis(last), "9999-12-31T23:59:59.999Z");
        assert_eq!(rfc3339_millis(last + 1), "253402300800000");
    }
}
