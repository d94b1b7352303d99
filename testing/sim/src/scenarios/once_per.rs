//! [`OncePer`]: members whose clocks differ, bodies that fail or are cancelled, and slots that come
//! again after their deletion.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;
use zk_curator::retry::BoundedExponentialBackoffRetry;
use zk_curator_recipes::schedule::{OnMissed, OncePer, Schedule, Slot, SlotInfo, SlotState};

use super::Scenario;
use super::support::driving::stopped_by;
use crate::checkers::{IssuedOnce, IssuedUpTo, SettledForGood};
use crate::history::{Name, Shared};
use crate::{Client, Failure};

const ONCE: &str = "/cron/once";
const AGAIN: &str = "/cron/again";
const PERIOD: Duration = Duration::from_secs(1);
/// The number of kept slots, small enough that slots are deleted while slow members come to them.
const KEPT: u32 = 3;
/// More slots than seconds in a run: a slot that was given up would look like a lost one.
const ALL: u32 = 500;
/// The first and the longest pause before a slot without a runner runs again.
const AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(400));
/// The maximum number of runs of a slot.
const MOST: u32 = 4;

pub(super) const AT_MOST: Scenario = Scenario::new(
    "once_per",
    "OncePer: no slot runs twice, even if clocks differ",
    &["numbers issued"],
    |sim| {
        sim.workload(at_most_once).checker(IssuedOnce).operator(["/cron/once/_c_*"]).leaves([
            "/cron",
            ONCE,
            "/cron/once/2*",
        ])
    },
);

pub(super) const AT_LEAST: Scenario = Scenario::new(
    "once_per_again",
    "OncePer: every slot is run until it is done or given up, by one member at a time",
    &["numbers issued"],
    |sim| {
        sim.workload(at_least_once)
            .checker(IssuedOnce)
            .checker(IssuedUpTo::new(MOST.into()))
            .operator(["/cron/again/_c_*", "/cron/again/_r_*", "/cron/again/2*/runner"])
            .leaves(["/cron", AGAIN, "/cron/again/2*"])
    },
);

pub(super) const FORGETS: Scenario = Scenario::new(
    "once_per_forgets",
    "OncePer: a slot that was done does not run again after it was deleted, even if clocks differ",
    &["numbers issued"],
    |sim| {
        sim.workload(at_least_once_of_few).checker(SettledForGood).leaves([
            "/cron",
            AGAIN,
            "/cron/again/2*",
        ])
    },
);

/// Returns the clock of a member, which is ahead by this time.
fn clock(client: &Client, ahead: Duration) -> impl Fn() -> SystemTime + Send + Sync + 'static {
    let client = client.clone();
    move || client.time_of_day() + ahead
}

/// Returns the seconds of a slot since the Unix epoch.
fn number(slot: &Slot) -> i64 {
    let since = slot.start().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

async fn at_most_once(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    let missed = [OnMissed::Skip, OnMissed::Last, OnMissed::All][rng.usize(..3)];
    // The difference is within the tolerance, and far greater than the time of the kept slots.
    let ahead = Duration::from_secs(rng.u64(..20));
    client.note(format!("{missed:?}, {ahead:?} ahead"));
    let schedule = OncePer::new(&zk, ONCE, Schedule::every(PERIOD)).id(client.who().to_string());
    let schedule = schedule.keep(KEPT).on_missed(missed).clock(clock(&client, ahead));
    while client.next_round().is_some() {
        let (stop, drain) = (sleep(client.moment(PERIOD * 3)), client.moment(PERIOD));
        let body = async |slot: Slot| {
            client.record(Shared::Issued { sequence: ONCE.into(), number: number(&slot) });
            sleep(client.moment(Duration::from_millis(300))).await;
            if client.rng().bool() { Ok(()) } else { Err("a body that fails") }
        };
        run(&client, stopped_by(stop, |stop| schedule.run(&body).until(stop.drain(drain)))).await?;
    }
    Ok(())
}

async fn at_least_once(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let ahead = Duration::from_millis(client.rng().u64(..2000));
    let schedule = OncePer::new(&zk, AGAIN, Schedule::every(PERIOD)).id(client.who().to_string());
    let policy = BoundedExponentialBackoffRetry::new(AFTER.0, AFTER.1, 29);
    let schedule =
        schedule.keep(ALL).at_least_once(policy).max_attempts(MOST).clock(clock(&client, ahead));
    let body = async |slot: Slot| {
        // The number of the run, which two members that run it at the same time share.
        let sequence = format!("{AGAIN}/{}", slot.name());
        let (sequence, number) = (sequence.into(), i64::from(slot.attempt()));
        client.record(Shared::Issued { sequence, number });
        sleep(client.moment(Duration::from_millis(300))).await;
        if client.no_more_faults() || client.rng().bool() {
            Ok(())
        } else {
            Err("a body that fails")
        }
    };
    while client.next_round().is_some() {
        let (stop, drain) = (sleep(client.moment(PERIOD * 3)), client.moment(PERIOD));
        run(&client, stopped_by(stop, |stop| schedule.run(&body).until(stop.drain(drain)))).await?;
    }
    client.faults_are_over().await;
    // Checks every slot that is recorded so far.
    let until = client.time_of_day();
    let mut too_early = None;
    let done = async {
        loop {
            match schedule.slots().await {
                Ok(slots) if slots.iter().all(|slot| slot.start > until || has_ended(slot)) => {
                    let is_early = |slot: &SlotInfo| {
                        matches!(slot.state, SlotState::GaveUp { .. }) && slot.attempt < MOST
                    };
                    too_early = slots.into_iter().find(is_early);
                    break;
                }
                Ok(_) => {}
                Err(error) => client.note(format!("not read: {error}")),
            }
            sleep(PERIOD).await;
        }
    };
    stopped_by(done, |stop| schedule.run(&body).until(stop.drain(PERIOD))).await?;
    match too_early {
        Some(slot) => Err(format!("given up after {} runs: {}", slot.attempt, slot.name).into()),
        None => Ok(()),
    }
}

async fn at_least_once_of_few(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    // Slow members claim slots that were done and deleted.
    let ahead = Duration::from_secs(client.rng().u64(..20));
    let schedule = OncePer::new(&zk, AGAIN, Schedule::every(PERIOD)).id(client.who().to_string());
    let policy = BoundedExponentialBackoffRetry::new(AFTER.0, AFTER.1, 29);
    let schedule = schedule.keep(KEPT).on_missed(OnMissed::All).at_least_once(policy);
    let schedule = schedule.clock(clock(&client, ahead));
    let sequence = |slot: &str| Name::from(format!("{AGAIN}/{slot}"));
    let body = async |slot: Slot| {
        let (sequence, number) = (sequence(slot.name()), i64::from(slot.attempt()));
        client.record(Shared::Issued { sequence, number });
        sleep(client.moment(Duration::from_millis(100))).await;
        Ok::<(), Failure>(())
    };
    let look = async || {
        let mut settled = BTreeSet::new();
        loop {
            sleep(client.moment(PERIOD)).await;
            let slots = schedule.slots().await.unwrap_or_default();
            for slot in slots.into_iter().filter(|slot| matches!(slot.state, SlotState::Done)) {
                if settled.insert(slot.name.clone()) {
                    client.record(Shared::Settled { sequence: sequence(&slot.name) });
                }
            }
        }
    };
    let mut rounds_after_faults = 2;
    while client.next_round().is_some() || rounds_after_faults > 0 {
        if client.no_more_faults() {
            rounds_after_faults -= 1;
        }
        let (stop, drain) = (sleep(client.moment(PERIOD * 3)), client.moment(PERIOD));
        let member = stopped_by(stop, |stop| schedule.run(&body).until(stop.drain(drain)));
        tokio::select! {
            biased;
            ran = run(&client, member) => ran?,
            () = look() => {}
        }
    }
    Ok(())
}

fn has_ended(slot: &SlotInfo) -> bool {
    matches!(slot.state, SlotState::Done | SlotState::GaveUp { .. })
}

/// Runs a member, or cancels it early.
async fn run<E: fmt::Display + Into<Failure>>(
    client: &Client,
    member: impl Future<Output = Result<(), E>>,
) -> Result<(), Failure> {
    match client.maybe_cancel(member).await {
        Some(Err(error)) => Err(error.into()),
        _ => Ok(()),
    }
}
