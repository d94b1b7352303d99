//! [`Date`]: times as Java writes them.

use std::fmt;

/// Milliseconds since the Unix epoch, written as `Fri Nov 20 11:02:50 UTC 2026`.
pub(super) struct Date(pub(super) i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let seconds = u64::try_from(self.0 / 1000).unwrap_or(0);
        let (days, time) = (seconds / 86_400, seconds % 86_400);
        let (mut year, mut day) = (1970, days);
        let leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        while day >= 365 + u64::from(leap(year)) {
            day -= 365 + u64::from(leap(year));
            year += 1;
        }
        let february = 28 + u64::from(leap(year));
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (name, length) in MONTHS.iter().zip(lengths) {
            if day < length {
                let weekday = DAYS.get(usize::try_from(days % 7).unwrap_or(0)).unwrap_or(&"Thu");
                let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
                let day = day + 1;
                return write!(
                    f,
                    "{weekday} {name} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}"
                );
            }
            day -= length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_java() {
        for (millis, text) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (1_795_172_570_999, "Fri Nov 20 11:02:50 UTC 2026"),
            (4_107_542_399_000, "Sun Feb 28 23:59:59 UTC 2100"),
            (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
        ] {
            assert_eq!(Date(millis).to_string(), text);
        }
    }
}
