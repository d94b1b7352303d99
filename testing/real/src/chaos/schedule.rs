//! What is disturbed, when, how, and for how long: decided by a seed, whatever happens meanwhile.

use std::fmt;
use std::time::Duration;

use zk_curator_testing::{Direction, Flow};

/// What faults happen to, one at a time.
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

/// A fault: what is done, and later taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL, and a start later.
    KillServer(Which),
    /// SIGSTOP, and SIGCONT later.
    StopServer(Which),
    /// SIGSTOP for all servers.
    StopAll,
    /// All connections are cut; new ones are accepted at once.
    Cut,
    /// All connections are cut, and new ones refused.
    Refuse(Reach),
    /// Bytes wait, or vanish.
    Silence { direction: Direction, flow: Flow, reach: Reach },
    /// Bytes take this long, in either direction.
    Delay(Duration),
    /// SIGSTOP, and SIGCONT later.
    StopClient,
    /// SIGKILL, and another process later.
    KillClient,
    /// The session is closed by somebody else who knows its password.
    Expire,
}

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Whoever leads then.
    Leader,
    /// The one with this number, from zero, modulo their count.
    Number(usize),
}

/// Between a client and which servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    /// The one with this number, from zero, modulo their count.
    One(usize),
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Since the end of the step before.
    pub(super) after: Duration,
    /// Not before the client has acquired something, if it does so soon.
    pub(super) when_granted: bool,
    pub(super) fault: Fault,
    pub(super) lasting: Duration,
}

impl Fault {
    /// The kind, for counting.
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

/// The faults of one target, without an end.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    target: Target,
    session_timeout: Duration,
    rng: fastrand::Rng,
}

impl Schedule {
    pub(super) fn new(seed: u64, target: Target, session_timeout: Duration) -> Self {
        let (kind, number) = match target {
            Target::Servers => (1, 0),
            Target::Link(client) => (2, client),
            Target::Process(client) => (3, client),
            Target::Session(client) => (4, client),
        };
        // Seeds that are close, or targets, must not have the same faults a little later.
        let mut rng = fastrand::Rng::with_seed(seed);
        let rng = fastrand::Rng::with_seed(rng.u64(..) ^ (kind << 32 | u64::from(number)));
        Self { target, session_timeout, rng }
    }

    /// Half of the faults are over before anybody gives a connection up, some go on for about as long as a session
    /// lives, and some for longer.
    fn lasting(&mut self) -> Duration {
        let part = match self.rng.u8(0..10) {
            0..5 => self.between(0.01, 0.4),
            5..8 => self.between(0.4, 1.1),
            _ => self.between(1.1, 2.5),
        };
        self.session_timeout.mul_f64(part)
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        self.rng.f64().mul_add(most - least, least)
    }

    fn seconds(&mut self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(self.between(least, most))
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
                let direction =
                    [Direction::Both, Direction::ToServer, Direction::ToClient][self.rng.usize(0..3)];
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
                let fault = if self.rng.u8(0..3) == 0 { Fault::KillClient } else { Fault::StopClient };
                (self.seconds(1.0, 12.0), fault)
            }
            Target::Session(_) => (self.seconds(5.0, 40.0), Fault::Expire),
        };
        let when_granted = self.target != Target::Servers && self.rng.bool();
        Some(Step { after, when_granted, fault, lasting: self.lasting() })
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
    fn the_same_seed_is_the_same_schedule_and_no_two_targets_have_the_same() {
        assert_eq!(steps(7, Target::Link(1)), steps(7, Target::Link(1)));
        assert_ne!(steps(7, Target::Link(1)), steps(8, Target::Link(1)));
        assert_ne!(steps(7, Target::Link(1)), steps(7, Target::Link(2)));
        assert_ne!(steps(7, Target::Process(1))[0].after, steps(7, Target::Session(1))[0].after);
    }

    #[test]
    fn every_kind_of_fault_comes_for_shorter_and_for_longer_than_a_session() {
        let targets = [Target::Servers, Target::Link(0), Target::Process(0), Target::Session(0)];
        let all: Vec<Step> = targets.into_iter().flat_map(|target| steps(7, target)).collect();
        let kinds: BTreeSet<&str> = all.iter().map(|step| step.fault.kind()).collect();
        assert_eq!(kinds.len(), 14, "{kinds:?}");
        for kind in kinds {
            let mut lasting = all.iter().filter(|step| step.fault.kind() == kind).map(|step| step.lasting);
            assert!(lasting.clone().any(|lasting| lasting < TIMEOUT / 3), "{kind}");
            assert!(lasting.clone().any(|lasting| lasting > TIMEOUT), "{kind}");
            assert!(lasting.all(|lasting| lasting <= TIMEOUT * 5 / 2), "{kind}");
        }
    }
}
