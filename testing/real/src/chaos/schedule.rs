//! The schedule of the faults, their times and their durations. A seed decides it, regardless of
//! the events of the run.

use std::fmt;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::sleep;
use zk_curator_testing::{Direction, Flow};

/// The target of faults, which happen to it one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The servers.
    Servers,
    /// The connections of a client.
    Link(u32),
    /// The process of a client.
    Process(u32),
    /// The session of a client.
    Session(u32),
}

/// A fault, which ends after a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL, and later a restart.
    KillServer(Which),
    /// SIGSTOP, and later SIGCONT.
    StopServer(Which),
    /// SIGSTOP for all servers.
    StopAll,
    /// All connections are cut. New connections are accepted immediately.
    Cut,
    /// All connections are cut, and new ones are refused.
    Refuse(Reach),
    /// Bytes are held back, or lost.
    Silence { direction: Direction, flow: Flow, reach: Reach },
    /// Bytes are delayed by this time, in both directions.
    Delay(Duration),
    /// SIGSTOP, and later SIGCONT.
    StopClient,
    /// SIGKILL, and later another process.
    KillClient,
    /// Another connection closes the session with its id and password.
    Expire,
}

/// The choice of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The leader at the time of the fault.
    Leader,
    /// The server with this number, from zero, modulo the number of servers.
    Number(usize),
}

/// The servers that a fault of a client's network affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    /// The server with this number, from zero, modulo the number of servers.
    One(usize),
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// The time since the end of the previous step.
    pub(super) after: Duration,
    /// `true` if the step waits until the client has acquired a resource, if it does so soon.
    pub(super) when_granted: bool,
    pub(super) fault: Fault,
    pub(super) duration: Duration,
}

impl Fault {
    /// All kinds.
    pub(super) const KINDS: [&'static str; 14] = [
        "leader killed",
        "server killed",
        "leader stopped",
        "server stopped",
        "all servers stopped",
        "connections cut",
        "connections refused",
        "network silent",
        "requests lost or held back",
        "answers lost or held back",
        "network slow",
        "client stopped",
        "client killed",
        "session expired",
    ];

    /// Returns the kind, for counting.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::KillServer(Which::Leader) => "leader killed",
            Self::KillServer(Which::Number(_)) => "server killed",
            Self::StopServer(Which::Leader) => "leader stopped",
            Self::StopServer(Which::Number(_)) => "server stopped",
            Self::StopAll => "all servers stopped",
            Self::Cut => "connections cut",
            Self::Refuse(_) => "connections refused",
            Self::Silence { direction: Direction::Both, .. } => "network silent",
            Self::Silence { direction: Direction::ToServer, .. } => "requests lost or held back",
            Self::Silence { .. } => "answers lost or held back",
            Self::Delay(_) => "network slow",
            Self::StopClient => "client stopped",
            Self::KillClient => "client killed",
            Self::Expire => "session expired",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Silence { flow, .. } => write!(f, " ({flow:?})")?,
            Self::Delay(delay) => write!(f, " ({delay:?})")?,
            _ => {}
        }
        match self {
            Self::Refuse(Reach::One(_)) | Self::Silence { reach: Reach::One(_), .. } => {
                f.write_str(", to one server")
            }
            _ => Ok(()),
        }
    }
}

/// The endless sequence of faults of one target.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    target: Target,
    session_timeout: Duration,
    /// The draws of the steps.
    rng: fastrand::Rng,
    /// The draws of the last fault. They are apart, because the number of steps depends on the run.
    last: fastrand::Rng,
}

impl Schedule {
    pub(super) fn new(seed: u64, target: Target, session_timeout: Duration) -> Self {
        let (kind, number) = match target {
            Target::Servers => (1, 0),
            Target::Link(client) => (2, client),
            Target::Process(client) => (3, client),
            Target::Session(client) => (4, client),
        };
        // Close seeds, and the targets of one seed, must not have the same faults with a shift.
        let mut rng = fastrand::Rng::with_seed(seed);
        let rng = fastrand::Rng::with_seed(rng.u64(..) ^ (kind << 32 | u64::from(number)));
        let last = rng.clone().fork();
        Self { target, session_timeout, rng, last }
    }

    /// Draws a duration. Half of the faults end before a connection is given up. The others last
    /// about as long as a session, or longer.
    fn duration(&mut self) -> Duration {
        let part = match self.rng.u8(0..10) {
            0..5 => between(&mut self.rng, 0.01, 0.4),
            5..8 => between(&mut self.rng, 0.4, 1.1),
            _ => between(&mut self.rng, 1.1, 2.5),
        };
        self.session_timeout.mul_f64(part)
    }

    /// Draws the last fault of a link and its duration: every second client ends with an outage that
    /// is longer than its session. So its session is lost when all faults are over.
    pub(super) fn last_fault(&self) -> Option<(Fault, Duration)> {
        let mut rng = self.last.clone();
        let part = between(&mut rng, 1.1, 1.8);
        let outage = (Fault::Refuse(Reach::All), self.session_timeout.mul_f64(part));
        rng.bool().then_some(outage)
    }

    fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(between(&mut self.rng, least, most))
    }

    fn server(&mut self) -> Fault {
        let which = if self.rng.bool() { Which::Leader } else { Which::Number(self.rng.usize(..)) };
        match self.rng.u8(0..9) {
            0..4 => Fault::KillServer(which),
            4..8 => Fault::StopServer(which),
            _ => Fault::StopAll,
        }
    }

    fn link(&mut self) -> Fault {
        let reach = if self.rng.bool() { Reach::All } else { Reach::One(self.rng.usize(..)) };
        match self.rng.u8(0..10) {
            0..2 => Fault::Cut,
            2 => Fault::Refuse(reach),
            3..5 => Fault::Delay(self.seconds(0.002, 0.8)),
            _ => {
                let direction = [Direction::Both, Direction::ToServer, Direction::ToClient]
                    [self.rng.usize(0..3)];
                let flow = if self.rng.bool() { Flow::Stalled } else { Flow::Lost };
                Fault::Silence { direction, flow, reach }
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let (after, fault) = match self.target {
            Target::Servers => (self.seconds(1.0, 8.0), self.server()),
            Target::Link(_) => (self.seconds(0.5, 8.0), self.link()),
            Target::Process(_) => {
                let fault =
                    if self.rng.u8(0..3) == 0 { Fault::KillClient } else { Fault::StopClient };
                (self.seconds(1.0, 12.0), fault)
            }
            Target::Session(_) => (self.seconds(5.0, 40.0), Fault::Expire),
        };
        let when_granted = self.target != Target::Servers && self.rng.bool();
        Some(Step { after, when_granted, fault, duration: self.duration() })
    }
}

fn between(rng: &mut fastrand::Rng, least: f64, most: f64) -> f64 {
    rng.f64().mul_add(most - least, least)
}

/// Sleeps, but at most until the faults are over. Returns `true` if they are over.
pub(super) async fn sleep_or_over(time: Duration, over: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = over.cancelled() => true,
        () = sleep(time) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    fn steps(seed: u64, target: Target) -> Vec<Step> {
        Schedule::new(seed, target, TIMEOUT).take(1000).collect()
    }

    #[test]
    fn a_seed_gives_each_target_its_own_repeatable_schedule() {
        assert_eq!(steps(7, Target::Link(1)), steps(7, Target::Link(1)));
        assert_ne!(steps(7, Target::Link(1)), steps(8, Target::Link(1)));
        assert_ne!(steps(7, Target::Link(1)), steps(7, Target::Link(2)));
        assert_ne!(steps(7, Target::Process(1))[0].after, steps(7, Target::Session(1))[0].after);
    }

    #[test]
    fn the_number_of_steps_does_not_change_the_last_fault() {
        let of_seed = |seed, steps| {
            let mut schedule = Schedule::new(seed, Target::Link(1), TIMEOUT);
            assert_eq!(schedule.by_ref().take(steps).count(), steps);
            schedule.last_fault()
        };
        let all: Vec<_> = (0..100).map(|seed| of_seed(seed, 0)).collect();
        assert_eq!(all, (0..100).map(|seed| of_seed(seed, 7)).collect::<Vec<_>>());
        assert!(all.contains(&None));
        assert!(all.iter().flatten().all(|(_, duration)| *duration > TIMEOUT));
        assert!(all.iter().any(Option::is_some));
    }

    #[test]
    fn every_fault_lasts_shorter_or_longer_than_a_session() {
        let targets = [Target::Servers, Target::Link(0), Target::Process(0), Target::Session(0)];
        let all: Vec<Step> = targets.into_iter().flat_map(|target| steps(7, target)).collect();
        let kinds: BTreeSet<&str> = all.iter().map(|step| step.fault.kind()).collect();
        assert_eq!(kinds, Fault::KINDS.into());
        for kind in kinds {
            let mut durations =
                all.iter().filter(|step| step.fault.kind() == kind).map(|step| step.duration);
            assert!(durations.clone().any(|duration| duration < TIMEOUT / 3), "{kind}");
            assert!(durations.clone().any(|duration| duration > TIMEOUT), "{kind}");
            assert!(durations.all(|duration| duration <= TIMEOUT * 5 / 2), "{kind}");
        }
    }
}
