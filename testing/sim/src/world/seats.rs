//! The places of the clients: their processes begin, are killed and begin again.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use zk_curator_client::Spawn;
use zk_curator_client::internal::{Locked, sleep};
use zk_curator_testing::Direction;

use super::World;
use super::slot::ClientSlot;
use crate::census::Counted;
use crate::client::{Client, ClientParts, Ending, Lived, Workload};
use crate::faults::FaultAction;
use crate::history::{Lifecycle, ProcessId};
use crate::options::ClientSettings;
use crate::process::{Load, Process};
use crate::seed;
use crate::watch::ProcessWatch;

impl World<'_> {
    pub(super) fn reconcile_client(&mut self, at: usize, active: &[&FaultAction]) {
        let seat = &mut self.seats[at];
        if seat.finished {
            return;
        }
        let me = seat.number;
        let killed = active.iter().find_map(|action| match action {
            FaultAction::KillClient { client, silently } if *client == me => Some(*silently),
            _ => None,
        });
        match (&seat.process, killed) {
            (Some(_), Some(silently)) => self.kill(at, silently),
            (None, None) => self.start(at),
            _ => {}
        }
        let ClientSlot { process: Some(process), host, .. } = &self.seats[at] else {
            return;
        };
        let host = host.lock().clone();
        let Base { load, latency } = Base::of(self.sim.seed, me).under(me, active);
        process.set_load(load);
        for server in 0..self.sim.servers {
            match cut(me, server, active) {
                Some(direction) => host.cut(server, direction),
                None => host.mend(server),
            }
        }
        if self.seats[at].latency.as_ref() != Some(&latency) {
            for server in 0..self.sim.servers {
                let seed = seed::of(self.sim.seed, "latency", u64::from(me) << 8 | server as u64);
                // A new seed at every change, so that earlier draws do not shift later ones.
                let since = self.run.elapsed().as_micros() as u64;
                host.set_latency(server, latency.clone(), seed::of(seed, "since", since));
            }
            self.seats[at].latency = Some(latency);
        }
        let ClientSlot { process: Some(process), .. } = &self.seats[at] else {
            return;
        };
        let stopped = active.contains(&&FaultAction::PauseClient { client: me });
        if stopped {
            process.stop();
        } else {
            process.resume();
        }
        // The late task may be the one that tells the others of a loss.
        let paused = stopped || is_late(me, active);
        if paused != self.seats[at].is_paused() {
            let event = if paused { Lifecycle::Paused } else { Lifecycle::Resumed };
            self.run.record(self.seats[at].who(), event);
            self.seats[at].paused.store(paused, Ordering::Relaxed);
        }
    }

    fn kill(&mut self, at: usize, silently: bool) {
        let seat = &mut self.seats[at];
        if silently {
            let host = seat.host();
            for server in 0..self.sim.servers {
                host.cut(server, Direction::Both);
            }
        }
        let Some(process) = seat.process.take() else {
            return;
        };
        seat.ending.lock().silence();
        process.kill();
        seat.former.push(process);
        seat.paused.store(false, Ordering::Relaxed);
        self.run.record(seat.who(), Lifecycle::Killed);
        seat.incarnation.fetch_add(1, Ordering::Relaxed);
    }

    fn start(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let number = seat.number;
        seat.latency = None;
        let host = self.cluster.connector();
        let former = std::mem::replace(&mut *seat.host.lock(), host.clone());
        seat.former_hosts.push(former);
        let of_life = of_life(self.sim.seed, seat.who());
        let supervisor = ProcessWatch {
            watch: Arc::clone(&self.watch),
            number,
            incarnation: Arc::clone(&seat.incarnation),
        };
        let load = Base::of(self.sim.seed, number).load;
        let schedule = seed::of(of_life, "schedule", 0);
        let process = Process::new(Arc::new(supervisor), self.census.clone(), schedule, load);
        let parts = ClientParts {
            who: seat.who(),
            clients: self.sim.numbers().count() as u32,
            rounds: self.sim.all_rounds(),
            begun: seat.begun.clone(),
            manner: ClientSettings::of(number, self.settings),
            seed: of_life,
            connect_string: self.cluster.connect_string(),
            connector: Some(Arc::new(Counted { connector: host, census: self.census.clone() })),
            spawner: Some(Arc::new(process.clone())),
            session_timeout: self.sim.session_timeout,
            run: self.run.clone(),
        };
        let (workload, watch) = (self.sim.workload.clone(), Arc::clone(&self.watch));
        let lives = Lives {
            seed: self.sim.seed,
            number,
            incarnation: Arc::clone(&seat.incarnation),
            ending: Arc::clone(&seat.ending),
            paused: Arc::clone(&seat.paused),
        };
        // Comes before the process runs, because it may be asked to end immediately.
        let client = lives.begin(parts.clone());
        process.spawn(Box::pin(async move {
            sleep(client.moment(Duration::from_millis(100))).await;
            lives.live(client, parts, &workload).await;
            watch.finish(number);
        }));
        seat.process = Some(process);
    }
}

/// The lives of a process: a new one begins whenever the process was asked to close its frameworks.
struct Lives {
    seed: u64,
    number: u32,
    incarnation: Arc<AtomicU32>,
    ending: Arc<Locked<Arc<Ending>>>,
    paused: Arc<AtomicBool>,
}

impl Lives {
    fn begin(&self, parts: ClientParts) -> Client {
        let client = Client::new(parts);
        *self.ending.lock() = Arc::clone(client.ending());
        client
    }

    async fn live(&self, mut client: Client, mut parts: ClientParts, workload: &Workload) {
        while client.live_until_asked(workload).await == Lived::Closed {
            let incarnation = self.incarnation.fetch_add(1, Ordering::Relaxed) + 1;
            parts.who = ProcessId::Client { number: self.number, incarnation };
            parts.seed = of_life(self.seed, parts.who);
            // A fault that slows the process down affects its next life too.
            if self.paused.load(Ordering::Relaxed) {
                parts.run.record(parts.who, Lifecycle::Paused);
            }
            client = self.begin(parts.clone());
        }
    }
}

/// Returns the seed of a life.
fn of_life(seed: u64, who: ProcessId) -> u64 {
    let ProcessId::Client { number, incarnation } = who else { return seed };
    seed::of(seed, "client", u64::from(number) << 32 | u64::from(incarnation))
}

/// The load of the machine and the latency of the network of a client without faults.
struct Base {
    load: Load,
    latency: RangeInclusive<Duration>,
}

impl Base {
    fn of(seed: u64, client: u32) -> Self {
        let mut rng = seed::rng(seed, "base", u64::from(client));
        let yields = [0, 16, 4][rng.usize(..3)];
        let least = Duration::from_micros(rng.u64(0..500));
        let most = least + Duration::from_micros([200, 2_000, 10_000][rng.usize(..3)]);
        Self { load: Load { yields, delays: 0, most: Duration::ZERO }, latency: least..=most }
    }

    /// Adds the effects of the faults on the client `me`.
    fn under(self, me: u32, active: &[&FaultAction]) -> Self {
        let Self { mut load, mut latency } = self;
        for action in active {
            match action {
                // Without delays, one task alone is late.
                FaultAction::Busy { client, most } if *client == me && !most.is_zero() => {
                    load = Load { delays: 3, most: load.most.max(*most), ..load };
                }
                FaultAction::SlowNetwork { client, most } if *client == me => {
                    latency = *latency.start()..=*most.max(latency.end());
                }
                _ => {}
            }
        }
        Self { load, latency }
    }
}

/// Returns `true` if all tasks of the client `me` are late, or one.
fn is_late(me: u32, active: &[&FaultAction]) -> bool {
    active.iter().any(|action| matches!(action, FaultAction::Busy { client, .. } if *client == me))
}

/// Returns the direction in which the client `me` is cut off from a server.
fn cut(me: u32, server: usize, active: &[&FaultAction]) -> Option<Direction> {
    let cuts = active.iter().filter_map(|action| match action {
        FaultAction::CutLink { client, server: of, direction }
            if *client == me && *of == server =>
        {
            Some(*direction)
        }
        FaultAction::CutClient { client, direction } if *client == me => Some(*direction),
        _ => None,
    });
    cuts.reduce(|one, other| if one == other { one } else { Direction::Both })
}
