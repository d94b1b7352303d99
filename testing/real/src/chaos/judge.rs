//! Makes the history of each scenario from the records.
//!
//! In simulated time, a process learns that its session is lost no later than the servers do. In
//! real time it may learn it later, through no fault of the scenario: the process did not run, or
//! stopped servers had not reported its last ping to the leader. So holds are judged with exactly
//! these allowances:
//!
//! * A process was [paused](Lifecycle::Paused) for all the time in which it did not run, by its own
//!   measurement. The cause does not matter: a SIGSTOP, or other load on the machine. The pause
//!   ends when the process has run for the [slack].
//! * A hold whose end the servers have not confirmed ([`Hold::Released`]) counts as ended some
//!   time earlier than recorded. The end is the release, the notice of the loss, or the kill of the
//!   process. The allowance is the slack: two ticks of the servers, which is the granularity with
//!   which the leader learns of pings and ends sessions, and the longest time in this round that
//!   the watching process had to wait for a processor. If servers were stopped or away up to two
//!   session timeouts earlier, the allowance is one session timeout. A client counts the pings that
//!   any server has responded, while the leader, which ends sessions, counts only the pings that
//!   other servers have reported to it, and stopped servers report nothing.
//!
//! Results of the servers and of the resources are judged without an allowance. The use of an old
//! token is always a violation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::journal::{Entries, Entry, Span, Stall};
use super::servers::TICK;
use zk_curator_sim::history::{Hold, Lifecycle, ProcessId};
use zk_curator_sim::{Event, History};

type Line = (Duration, ProcessId, Event);

/// Returns the events of the clients of one scenario, in order.
pub(super) fn history(entries: &Entries, scenario: usize, session_timeout: Duration) -> History {
    let slack = slack(entries);
    let mut lines: Vec<Line> = entries
        .entries
        .iter()
        .filter(|entry| entry.scenario.is_none_or(|of| of == scenario))
        .map(|Entry { at, who, event, .. }| (*at, *who, event.clone()))
        .collect();
    lines.sort_by_key(|(at, ..)| *at);
    end_early(&mut lines, |at| {
        let since = at.saturating_sub(session_timeout * 2);
        let disturbed =
            entries.outages.iter().any(|outage| outage.from <= at && outage.to >= since);
        if disturbed { session_timeout } else { slack }
    });
    for (who, span) in pauses(entries, scenario, slack) {
        lines.push((span.from, who, Lifecycle::Paused.into()));
        lines.push((span.to, who, Lifecycle::Resumed.into()));
    }
    lines.sort_by_key(|(at, ..)| *at);
    let mut history = History::new();
    for (at, who, event) in lines {
        history.record(at, who, event);
    }
    history
}

fn slack(entries: &Entries) -> Duration {
    let own = entries.stalls.iter().filter(|stall| stall.client.is_none());
    let longest = own.map(|stall| stall.span.to - stall.span.from).max().unwrap_or_default();
    TICK * 2 + longest
}

/// Returns the times in which the clients of a scenario did not run, without overlaps.
fn pauses(entries: &Entries, scenario: usize, slack: Duration) -> Vec<(ProcessId, Span)> {
    let of = |stall: &Stall| stall.client.filter(|(of, _)| *of == scenario).map(|(_, who)| who);
    let mut pauses: BTreeMap<ProcessId, Vec<Span>> = BTreeMap::new();
    for stall in &entries.stalls {
        if let Some(who) = of(stall) {
            let span = Span { from: stall.span.from, to: stall.span.to + slack };
            pauses.entry(who).or_default().push(span);
        }
    }
    let mut merged: Vec<(ProcessId, Span)> = Vec::new();
    for (who, mut spans) in pauses {
        spans.sort_by_key(|span| span.from);
        for span in spans {
            match merged.last_mut() {
                Some((of, last)) if *of == who && span.from <= last.to => {
                    last.to = last.to.max(span.to);
                }
                _ => merged.push((who, span)),
            }
        }
    }
    merged
}

/// Moves the unconfirmed ends of holds to an earlier time, but not before the begin of the hold.
fn end_early(lines: &mut Vec<Line>, allowance: impl Fn(Duration) -> Duration) {
    let confirmed: BTreeSet<u64> = lines
        .iter()
        .filter_map(|(.., event)| {
            if let Event::Hold(Hold::Released { hold }) = event { Some(*hold) } else { None }
        })
        .collect();
    let mut begun: BTreeMap<u64, (Duration, ProcessId)> = BTreeMap::new();
    let mut with_the_process: Vec<Line> = Vec::new();
    for (at, who, event) in lines.iter_mut() {
        match event {
            Event::Hold(Hold::Acquired { hold, .. }) => {
                begun.insert(*hold, (*at, *who));
            }
            Event::Hold(Hold::Lost { hold } | Hold::Releasing { hold }) => {
                if let Some((since, _)) = begun.remove(hold)
                    && !confirmed.contains(hold)
                {
                    *at = since.max(at.saturating_sub(allowance(*at)));
                }
            }
            Event::Lifecycle(Lifecycle::Killed) => {
                begun.retain(|hold, (since, of)| {
                    if of == who {
                        let end = (*since).max(at.saturating_sub(allowance(*at)));
                        with_the_process.push((end, *who, Hold::Lost { hold: *hold }.into()));
                    }
                    of != who
                });
            }
            _ => {}
        }
    }
    lines.append(&mut with_the_process);
}

#[cfg(test)]
mod tests {
    use super::*;
    use zk_curator_sim::checkers::{Checker, Exclusion};
    use zk_curator_sim::history::HoldMode;

    const TIMEOUT: Duration = Duration::from_secs(3);

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn span(from: u64, to: u64) -> Span {
        Span { from: ms(from), to: ms(to) }
    }

    /// Makes entries of events of clients, with times in milliseconds.
    fn entries(events: impl IntoIterator<Item = (u64, u32, Event)>) -> Entries {
        let entry = |(at, client, event)| Entry {
            at: ms(at),
            scenario: Some(0),
            who: ProcessId::client(client),
            event,
        };
        Entries { entries: events.into_iter().map(entry).collect(), ..Entries::default() }
    }

    fn acquires(at: u64, client: u32, hold: u64) -> [(u64, u32, Event); 2] {
        let (resource, mode, token) =
            ("orders".into(), HoldMode::Exclusive, i64::try_from(hold).unwrap());
        [
            (at, client, Hold::Acquiring { resource: "orders".into(), mode, hold }.into()),
            (at, client, Hold::Acquired { resource, mode, hold, token }.into()),
        ]
    }

    /// Makes a hold of client 1 that ends in this way at 2 s, and a hold of client 2 that begins
    /// before that.
    fn overlapping(second: u64, end: impl Into<Event>) -> Entries {
        let end = (2000, 1, end.into());
        entries(acquires(1000, 1, 1).into_iter().chain(acquires(second, 2, 2)).chain([end]))
    }

    fn is_sound(entries: &Entries) -> bool {
        Exclusion::mutual().check(&history(entries, 0, TIMEOUT)).is_ok()
    }

    #[test]
    fn a_loss_noticed_within_the_slack_is_no_overlap() {
        let (lost, releasing) = (Hold::Lost { hold: 1 }, Hold::Releasing { hold: 1 });
        for end in [lost.into(), releasing.into(), Event::from(Lifecycle::Killed)] {
            assert!(is_sound(&overlapping(1600, end.clone())), "{end}");
            assert!(!is_sound(&overlapping(1599, end.clone())), "{end}");
        }
    }

    #[test]
    fn what_was_held_until_it_was_released_is_judged_as_it_is() {
        let mut released = overlapping(1999, Hold::Releasing { hold: 1 });
        assert!(is_sound(&released));
        let event = Hold::Released { hold: 1 }.into();
        released.entries.push(Entry {
            at: ms(2001),
            scenario: Some(0),
            who: ProcessId::client(1),
            event,
        });
        assert!(!is_sound(&released));
    }

    #[test]
    fn a_busy_machine_is_a_reason_to_notice_late() {
        let mut busy = overlapping(1500, Hold::Lost { hold: 1 });
        assert!(!is_sound(&busy));
        busy.stalls.push(Stall { client: None, span: span(100, 200) });
        assert!(is_sound(&busy));
    }

    #[test]
    fn after_an_outage_a_client_may_be_wrong_for_a_timeout() {
        for (outage, sound) in [(span(0, 500), true), (span(2001, 2500), false)] {
            let mut entries = overlapping(1100, Hold::Lost { hold: 1 });
            entries.outages.push(outage);
            assert_eq!(is_sound(&entries), sound, "{outage:?}");
        }
        let mut long_ago =
            entries(acquires(11_000, 1, 1).into_iter().chain(acquires(11_100, 2, 2)));
        long_ago.outages.push(span(0, 5000));
        assert!(!is_sound(&long_ago));
    }

    #[test]
    fn a_process_that_did_not_run_counts_as_paused() {
        let mut stopped = overlapping(1200, Hold::Lost { hold: 1 });
        assert!(!is_sound(&stopped));
        let who = Some((0, ProcessId::client(1)));
        // Three overlapping stalls count as one. With slack it lasts from 1.1 to 1.95 s.
        for stall in [span(1100, 1200), span(1150, 1250), span(1500, 1550)] {
            stopped.stalls.push(Stall { client: who, span: stall });
        }
        let history = history(&stopped, 0, TIMEOUT);
        let paused = Event::from(Lifecycle::Paused);
        let pauses = history.records().iter().filter(|record| record.event == paused).count();
        assert_eq!(pauses, 1, "{history}");
        assert!(is_sound(&stopped), "{history}");
        // Stalls of a client with the same number in another scenario.
        for stall in &mut stopped.stalls {
            stall.client = Some((1, ProcessId::client(1)));
        }
        assert!(!is_sound(&stopped));
    }

    #[test]
    fn no_hold_ends_before_it_has_begun() {
        let lost: Event = Hold::Lost { hold: 1 }.into();
        let mut entries =
            entries(acquires(1000, 1, 1).into_iter().chain([(1100, 1, lost.clone())]));
        entries.outages.push(span(0, 900));
        let history = history(&entries, 0, TIMEOUT);
        let events: Vec<_> =
            history.records().iter().map(|record| (record.at, &record.event)).collect();
        assert_eq!(events.last(), Some(&(ms(1000), &lost)), "{history}");
    }
}
