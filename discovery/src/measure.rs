//! The measurements of service discovery. Without the feature nothing is measured: see
//! [`observe`](crate::observe).

use zk_curator::CuratorFramework;
use zk_curator::internal::{Counter, Gauge, Series};

use crate::observe as table;

/// A registration, until it has ended.
#[derive(Debug)]
pub(crate) struct Registering {
    registrations: Series<Gauge>,
    registered: Series<Gauge>,
    superseded: Series<Counter>,
    is_registered: bool,
    has_ended: bool,
}

impl Registering {
    pub(crate) fn begin(zk: &CuratorFramework) -> Self {
        let this = Self {
            registrations: table::REGISTRATIONS.of(zk, []),
            registered: table::REGISTERED.of(zk, []),
            superseded: table::SUPERSEDED.of(zk, []),
            is_registered: false,
            has_ended: false,
        };
        this.registrations.add(1.0);
        this.registered.begin();
        this.superseded.begin();
        this
    }

    pub(crate) fn is_registered(&mut self, is_registered: bool) {
        if !self.has_ended && self.is_registered != is_registered {
            self.is_registered = is_registered;
            self.registered.add(if is_registered { 1.0 } else { -1.0 });
        }
    }

    pub(crate) fn superseded(&self) {
        self.superseded.add(1);
    }

    pub(crate) fn end(&mut self) {
        self.is_registered(false);
        if !std::mem::replace(&mut self.has_ended, true) {
            self.registrations.add(-1.0);
        }
    }
}

impl Drop for Registering {
    fn drop(&mut self) {
        self.end();
    }
}

/// The instances in a cache, until it is dropped.
#[derive(Debug)]
pub(crate) struct InstanceCounts([Series<Gauge>; 3]);

impl InstanceCounts {
    pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
        let gauges = [table::INSTANCES, table::DRAINED, table::UNDECODABLE];
        let gauges = gauges.map(|gauge| gauge.of(zk, [path]));
        gauges.iter().for_each(Series::<Gauge>::begin);
        Self(gauges)
    }

    /// Records the numbers of live, drained and undecodable instances.
    pub(crate) fn shows(&self, numbers: impl FnOnce() -> [usize; 3]) {
        if cfg!(feature = "metrics") {
            for (gauge, number) in self.0.iter().zip(numbers()) {
                gauge.set_number(number);
            }
        }
    }
}

impl Drop for InstanceCounts {
    fn drop(&mut self) {
        self.0.iter().for_each(|gauge| gauge.set(f64::NAN));
    }
}

/// The calls of a provider, until it is dropped.
pub(crate) struct Calls {
    pub(crate) ok: Series<Counter>,
    pub(crate) failed: Series<Counter>,
    pub(crate) unavailable: Series<Counter>,
    pub(crate) down: Series<Gauge>,
}

impl Calls {
    pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
        let calls = |result| {
            let calls = table::CALLS.of(zk, [path, result]);
            calls.begin();
            calls
        };
        let down = table::DOWN.of(zk, [path]);
        down.set(0.0);
        Self { ok: calls("ok"), failed: calls("failed"), unavailable: calls("unavailable"), down }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.down.set(f64::NAN);
    }
}
