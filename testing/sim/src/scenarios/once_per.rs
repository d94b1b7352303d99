//! [`OncePer`]: members whose clocks differ, bodies that fail or are cut short, and slots that come again after their deletion.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;
use zk_curator_recipes::schedule::{Missed, OncePer, Schedule, Slot, SlotState};

use super::Scenario;
use crate::checkers::IssuedOnce;
use crate::history::Event;
use crate::{Client, Failure};

const ONCE: &str = "/cron/once";
const AGAIN: &str = "/cron/again";
const PERIOD: Duration = Duration::from_secs(1);
/// The clock of the servers is about that far ahead of the time of the run.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
/// Few, so that slots are deleted while slow members come to them.
const KEPT: u32 = 3;
/// More than there are seconds in a run: a slot that is given up would look like one that is lost.
const ALL: u32 = 500;
/// A slot without a runner runs again by then.
const AFTER: Duration = Duration::from_millis(200);

pub(super) const AT_MOST: Scenario =
    Scenario::new("once_per", "OncePer: no slot runs twice, whatever clocks say", |client| {
        Box::pin(at_most_once(client))
    })
    .checked_by(|| vec![Arc::new(IssuedOnce)])
    .operator(&["/cron/once/_c_*"])
    .leaves(&["/cron", ONCE, "/cron/once/2*"]);

pub(super) const AT_LEAST: Scenario = Scenario::new(
    "once_per_again",
    "OncePer: every slot is run until it is done, by one member at a time",
    |client| Box::pin(at_least_once(client)),
)
.checked_by(|| vec![Arc::new(IssuedOnce)])
.operator(&["/cron/again/_c_*", "/cron/again/_r_*", "/cron/again/2*/runner"])
.leaves(&["/cron", AGAIN, "/cron/again/2*"]);

/// The clock of a member that is so far ahead.
fn clock(client: &Client, ahead: Duration) -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let client = client.clone();
    move || client.time_of_day() + EPOCH + ahead
}

/// Seconds since the Unix epoch.
fn number(slot: &Slot) -> i64 {
    let since = slot.start().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

async fn at_most_once(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let missed = [Missed::Skip, Missed::Last, Missed::All][rng.usize(..3)];
    // Within the tolerance, and far more than slots are kept.
    let ahead = Duration::from_secs(rng.u64(..20));
    client.note(format!("{missed:?}, {ahead:?} ahead"));
    let schedule = OncePer::new(&zk, ONCE, Schedule::every(PERIOD)).id(client.who().to_string());
    let schedule = schedule.keep(KEPT).missed(missed).clock(clock(&client, ahead));
    while client.next_round().is_some() {
        let stop = sleep(client.moment(PERIOD * 3));
        let body = async |slot: Slot| {
            client.record(Event::Issued { sequence: ONCE.into(), number: number(&slot) });
            sleep(client.moment(Duration::from_millis(300))).await;
            if client.rng().bool() { Ok(()) } else { Err("a body that fails") }
        };
        run(&client, schedule.run_until(stop, client.moment(PERIOD), &body)).await?;
    }
    Ok(())
}

async fn at_least_once(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let ahead = Duration::from_millis(client.rng().u64(..2000));
    let schedule = OncePer::new(&zk, AGAIN, Schedule::every(PERIOD)).id(client.who().to_string());
    let schedule = schedule.keep(ALL).at_least_once(AFTER).clock(clock(&client, ahead));
    let body = async |slot: Slot| {
        // The number of the run: two members that run it at the same time have the same.
        let sequence = format!("{AGAIN}/{}", slot.name());
        client.record(Event::Issued { sequence: sequence.into(), number: i64::from(slot.attempt()) });
        sleep(client.moment(Duration::from_millis(300))).await;
        if client.no_more_faults() || client.rng().bool() { Ok(()) } else { Err("a body that fails") }
    };
    while client.next_round().is_some() {
        let stop = sleep(client.moment(PERIOD * 3));
        run(&client, schedule.run_until(stop, client.moment(PERIOD), &body)).await?;
    }
    client.faults_are_over().await;
    // Every slot that is recorded by now.
    let until = client.time_of_day() + EPOCH;
    let done = async {
        loop {
            match schedule.slots().await {
                Ok(slots) if slots.iter().all(|slot| slot.start > until || slot.state == SlotState::Done) => {
                    break;
                }
                Ok(_) => {}
                Err(error) => client.note(format!("not read: {error}")),
            }
            sleep(PERIOD).await;
        }
    };
    Ok(schedule.run_until(done, PERIOD, &body).await?)
}

/// Runs a member, or cuts it short.
async fn run<E: fmt::Display + Into<Failure>>(
    client: &Client,
    member: impl Future<Output = Result<(), E>>,
) -> Result<(), Failure> {
    match client.maybe_cancel(member).await {
        Some(Err(error)) => Err(error.into()),
        _ => Ok(()),
    }
}
