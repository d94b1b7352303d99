//! Slots as numbers and names: pure functions of the time.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// The last second with a name: 9999-12-31T23:59:59Z.
pub(crate) const LAST: i64 = 253_402_300_799;

/// Divides time into slots of one period, aligned to the Unix epoch in UTC.
///
/// ```
/// use std::time::Duration;
/// use zk_curator_recipes::schedule::Schedule;
///
/// const HOUR: Duration = Duration::from_secs(3600);
/// let hourly = Schedule::every(HOUR);
/// let daily_at_three = Schedule::every(24 * HOUR).offset(3 * HOUR);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Schedule {
    period: Duration,
    offset: Duration,
}

impl Schedule {
    /// Slots of this period: whole seconds, at least one. Other values are refused when the
    /// schedule runs.
    pub const fn every(period: Duration) -> Self {
        Self { period, offset: Duration::ZERO }
    }

    /// Moves the start of every slot by this time: whole seconds, shorter than the period. Other
    /// values are refused when the schedule runs. Default: zero.
    pub const fn offset(mut self, offset: Duration) -> Self {
        self.offset = offset;
        self
    }
}

/// The slots that run although their time has passed.
///
/// A slot is missed if no member could claim it when it began: no member was running, or all
/// members were cut off, busy, or outside the [tolerance](super::OncePer::tolerance). Slots before
/// the newest recorded one are not missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMissed {
    /// None. A member begins with the next slot. While it runs, a slot that it comes to late still
    /// runs if its period is not over.
    #[default]
    Skip,
    /// The latest one.
    Last,
    /// Run all slots since the newest recorded one, from the oldest to the latest, but at most as
    /// many as are [kept](super::OncePer::keep).
    All,
}

/// A schedule with valid settings. Slots have numbers, from zero at the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotPlan {
    /// In seconds.
    period: i64,
    offset: i64,
}

impl SlotPlan {
    /// # Errors
    /// The invalid setting, and the valid ones.
    pub(super) fn new(schedule: Schedule) -> Result<Self, (&'static str, &'static str)> {
        let period = whole_seconds(schedule.period).filter(|period| (1..=LAST).contains(period));
        let period = period.ok_or(("period", "whole seconds, at least one"))?;
        let offset = whole_seconds(schedule.offset).filter(|offset| *offset < period);
        let offset = offset.ok_or(("offset", "whole seconds, and shorter than the period"))?;
        Ok(Self { period, offset })
    }

    /// The number of the slot that contains a second.
    pub(super) const fn at(self, second: i64) -> i64 {
        (second - self.offset).div_euclid(self.period)
    }

    /// The first second of a slot.
    pub(super) const fn start(self, number: i64) -> i64 {
        number.saturating_mul(self.period).saturating_add(self.offset)
    }

    /// The period in seconds.
    pub(super) const fn period(self) -> Duration {
        Duration::from_secs(self.period.cast_unsigned())
    }
}

/// The slots to run, from the oldest: `next` is the first slot that was not dealt with, `current`
/// the slot that contains the present time. Empty before `next` begins.
pub(super) fn due(next: i64, current: i64, missed: OnMissed, keep: u32) -> RangeInclusive<i64> {
    match missed {
        OnMissed::Skip | OnMissed::Last => next.max(current)..=current,
        OnMissed::All => next.max(current.saturating_sub(i64::from(keep) - 1))..=current,
    }
}

/// The first slot to deal with, for a member that starts: `newest` is the start of the newest
/// recorded slot.
pub(super) fn first(plan: SlotPlan, current: i64, newest: Option<i64>, missed: OnMissed) -> i64 {
    match (missed, newest) {
        (OnMissed::Skip, _) | (_, None) => current.saturating_add(1),
        (OnMissed::Last | OnMissed::All, Some(newest)) => plan.at(newest).saturating_add(1),
    }
}

/// The time since the Unix epoch, within the times that have names.
pub(super) fn since_epoch(time: SystemTime) -> Duration {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.min(Duration::from_secs(LAST.cast_unsigned()))
}

/// Whole seconds since the Unix epoch.
pub(super) fn seconds(since: Duration) -> i64 {
    i64::try_from(since.as_secs()).unwrap_or(LAST)
}

/// The time from now until a second; zero if it has begun.
pub(super) fn until(second: i64, now: Duration) -> Duration {
    Duration::from_secs(u64::try_from(second).unwrap_or(0)).saturating_sub(now)
}

/// The time at which a second begins.
pub(crate) fn time_of(second: i64) -> SystemTime {
    let distance = Duration::from_secs(second.unsigned_abs());
    let time = if second < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// The name of the slot that starts at a second, as in RFC 3339: `2026-11-22T13:00:00Z`.
pub(crate) fn name(second: i64) -> String {
    let (days, rest) = (second.div_euclid(DAY), second.rem_euclid(DAY));
    let (year, month, day) = date(days);
    let (hour, minute) = (rest / HOUR, rest % HOUR / MINUTE);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", rest % MINUTE)
}

/// The second of a name; `None` for a name that [`name`] does not write.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| {
        let digits =
            text.get(range).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<i64>().ok()
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let second = days(year, month, day) * DAY + hour * HOUR + minute * MINUTE + second;
    // There is no 31st of April, and no 61st minute.
    (name(second) == text).then_some(second)
}

fn whole_seconds(duration: Duration) -> Option<i64> {
    (duration.subsec_nanos() == 0).then(|| i64::try_from(duration.as_secs()).ok()).flatten()
}

/// The date of a day since the Unix epoch, in the Gregorian calendar.
///
/// Counts from the 1st of March of year 0, so that a leap day is the last day of a year; 146,097
/// days are 400 years.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day_of_month)
}

/// The inverse of [`date`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan(period: u64, offset: u64) -> SlotPlan {
        let (period, offset) = (Duration::from_secs(period), Duration::from_secs(offset));
        SlotPlan::new(Schedule::every(period).offset(offset)).unwrap()
    }

    #[test]
    fn names_are_those_of_rfc_3339() {
        for (second, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_352_400, "2026-11-22T13:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(name(second), expected);
            assert_eq!(parse(expected), Some(second));
        }
    }

    #[test]
    fn other_names_are_no_slots() {
        for text in [
            "",
            "2026-11-22",
            "2026-11-22T13:00:00",
            "2026-11-22T13:00:00+00:00",
            "2026-11-22t13:00:00z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T13:60:00Z",
            "2026-11-22T13:00:60Z",
            "2026-11-22T13:00:00.0Z",
            "+026-11-22T13:00:00Z",
            "2026-11-22T13:00:00Zé",
            "éé26-11-22T13:00:00Z",
            "clock-2026",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn slots_are_aligned_to_utc() {
        let hourly = plan(3600, 0);
        let one = parse("2026-11-22T13:00:00Z").unwrap();
        assert_eq!(hourly.start(hourly.at(one + 3599)), one);
        assert_eq!(hourly.start(hourly.at(one + 3600)), one + 3600);
        let daily = plan(86_400, 3 * 3600);
        assert_eq!(name(daily.start(daily.at(one))), "2026-11-22T03:00:00Z");
        let early = parse("2026-11-22T02:59:59Z").unwrap();
        assert_eq!(name(daily.start(daily.at(early))), "2026-11-21T03:00:00Z");
        assert_eq!(name(daily.start(daily.at(0))), "1969-12-31T03:00:00Z");
    }

    #[test]
    fn settings_are_whole_seconds() {
        let refused = |period: Duration, offset: Duration| {
            SlotPlan::new(Schedule::every(period).offset(offset)).unwrap_err().0
        };
        let second = Duration::from_secs(1);
        for period in [Duration::ZERO, Duration::from_millis(1500), Duration::MAX] {
            assert_eq!(refused(period, Duration::ZERO), "period");
        }
        for offset in [second, Duration::from_millis(1), Duration::MAX] {
            assert_eq!(refused(second, offset), "offset");
        }
        assert_eq!(plan(1, 0).period(), second);
    }

    #[test]
    fn missed_slots_are_due_as_the_policy_says() {
        let due = |next, current, missed| due(next, current, missed, 3).collect::<Vec<_>>();
        for missed in [OnMissed::Skip, OnMissed::Last, OnMissed::All] {
            assert!(due(8, 7, missed).is_empty());
            assert_eq!(due(7, 7, missed), [7]);
        }
        assert_eq!((due(5, 7, OnMissed::Skip), due(5, 7, OnMissed::Last)), (vec![7], vec![7]));
        assert_eq!(
            (due(6, 7, OnMissed::All), due(1, 7, OnMissed::All)),
            (vec![6, 7], vec![5, 6, 7])
        );
    }

    #[test]
    fn the_first_slot_follows_the_newest_recorded_one() {
        let plan = plan(60, 0);
        let first = |newest, missed| first(plan, 10, newest, missed);
        assert_eq!(first(Some(6 * 60), OnMissed::Skip), 11);
        for missed in [OnMissed::Last, OnMissed::All] {
            assert_eq!(first(None, missed), 11);
            assert_eq!(first(Some(6 * 60), missed), 7);
            assert_eq!(first(Some(10 * 60), missed), 11);
            // Recorded with another period.
            assert_eq!(first(Some(6 * 60 + 30), missed), 7);
        }
    }

    #[test]
    fn times_without_names_are_not_used() {
        assert_eq!(since_epoch(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), Duration::ZERO);
        let late = since_epoch(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 60));
        assert_eq!(seconds(late), LAST);
        assert_eq!(until(10, Duration::from_millis(9_500)), Duration::from_millis(500));
        assert_eq!(until(10, Duration::from_millis(10_001)), Duration::ZERO);
        assert_eq!(since_epoch(time_of(LAST)), late);
        assert_eq!(time_of(-1), SystemTime::UNIX_EPOCH - Duration::from_secs(1));
    }

    proptest! {
        #[test]
        fn a_name_comes_back(second in 0..=LAST) {
            let name = name(second);
            prop_assert_eq!(name.len(), 20);
            prop_assert_eq!(parse(&name), Some(second));
        }

        #[test]
        fn names_are_in_the_order_of_time(one in 0..=LAST, other in 0..=LAST) {
            prop_assert_eq!(name(one).cmp(&name(other)), one.cmp(&other));
        }

        #[test]
        fn days_follow_each_other(day in -1_000_000..3_000_000_i64) {
            let (year, month, of_month) = date(day);
            prop_assert_eq!(days(year, month, of_month), day);
            let next = date(day + 1);
            prop_assert!(next > (year, month, of_month));
            prop_assert!(next == (year, month, of_month + 1) || next.2 == 1);
        }

        #[test]
        fn every_second_is_in_one_slot(period in 1..1_000_000_u64, offset in any::<prop::sample::Index>(), second in 0..=LAST) {
            let offset = offset.index(usize::try_from(period).unwrap()) as u64;
            let plan = plan(period, offset);
            let number = plan.at(second);
            prop_assert!(plan.start(number) <= second && second < plan.start(number + 1));
            prop_assert_eq!(plan.at(plan.start(number)), number);
            prop_assert_eq!(plan.start(number).rem_euclid(period as i64), offset as i64);
        }

        #[test]
        fn due_slots_are_begun_and_not_dealt_with(
            next in -100..100_i64, current in -100..100_i64, keep in 1..9_u32,
        ) {
            for missed in [OnMissed::Skip, OnMissed::Last, OnMissed::All] {
                let due = due(next, current, missed, keep);
                prop_assert_eq!(due.is_empty(), current < next);
                prop_assert!(due.clone().all(|slot| slot >= next && slot <= current));
                prop_assert!(due.count() <= keep as usize);
            }
        }

        #[test]
        fn any_text_is_a_name_or_none(text in ".{0,24}") {
            if let Some(second) = parse(&text) {
                prop_assert_eq!(name(second), text);
            }
        }
    }
}
