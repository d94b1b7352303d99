//! The measurements of service discovery. Without the feature nothing is measured: see
//! [`observe`](crate::observe).

#[cfg(feature = "metrics")]
mod facade {
    use metrics::{Counter, Gauge, SharedString};
    use zk_curator::CuratorFramework;
    use zk_curator::internal::{framework_label, gauge_at, results_at};

    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 instances")]
    fn set(gauge: &Gauge, number: usize) {
        gauge.set(number as f64);
    }

    /// A registration, until it has ended.
    #[derive(Debug)]
    pub(crate) struct Registering {
        // Not the framework, which would stay open as long as this is kept.
        framework: SharedString,
        is_registered: bool,
        has_ended: bool,
    }

    impl Registering {
        pub(crate) fn begin(zk: &CuratorFramework) -> Self {
            let this =
                Self { framework: framework_label(zk), is_registered: false, has_ended: false };
            this.add("zk_curator_discovery_registrations", 1.0);
            this.add("zk_curator_discovery_registered", 0.0);
            this.count_superseded(0);
            this
        }

        pub(crate) fn is_registered(&mut self, is_registered: bool) {
            if !self.has_ended && self.is_registered != is_registered {
                self.is_registered = is_registered;
                let change = if is_registered { 1.0 } else { -1.0 };
                self.add("zk_curator_discovery_registered", change);
            }
        }

        pub(crate) fn superseded(&self) {
            self.count_superseded(1);
        }

        pub(crate) fn end(&mut self) {
            self.is_registered(false);
            if !std::mem::replace(&mut self.has_ended, true) {
                self.add("zk_curator_discovery_registrations", -1.0);
            }
        }

        fn add(&self, name: &'static str, change: f64) {
            metrics::gauge!(name, "framework" => self.framework.clone()).increment(change);
        }

        fn count_superseded(&self, number: u64) {
            let framework = self.framework.clone();
            metrics::counter!("zk_curator_discovery_superseded_total", "framework" => framework)
                .increment(number);
        }
    }

    impl Drop for Registering {
        fn drop(&mut self) {
            self.end();
        }
    }

    /// The instances in a cache, until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Caching {
        up: Gauge,
        drained: Gauge,
        undecodable: Gauge,
    }

    impl Caching {
        pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
            Self {
                up: gauge_at(zk, "zk_curator_discovery_instances", path),
                drained: gauge_at(zk, "zk_curator_discovery_drained", path),
                undecodable: gauge_at(zk, "zk_curator_discovery_undecodable", path),
            }
        }

        pub(crate) fn shows(&self, numbers: impl FnOnce() -> (usize, usize, usize)) {
            let (up, drained, undecodable) = numbers();
            set(&self.up, up);
            set(&self.drained, drained);
            set(&self.undecodable, undecodable);
        }
    }

    impl Drop for Caching {
        fn drop(&mut self) {
            for gauge in [&self.up, &self.drained, &self.undecodable] {
                gauge.set(f64::NAN);
            }
        }
    }

    /// The calls of a provider, until it is dropped.
    pub(crate) struct Calls {
        ok: Counter,
        failed: Counter,
        unavailable: Counter,
        down: Gauge,
    }

    impl Calls {
        pub(crate) fn begin(zk: &CuratorFramework, path: &str) -> Self {
            let calls = |result| results_at(zk, "zk_curator_discovery_calls_total", path, result);
            let down = gauge_at(zk, "zk_curator_discovery_down", path);
            down.set(0.0);
            Self {
                ok: calls("ok"),
                failed: calls("failed"),
                unavailable: calls("unavailable"),
                down,
            }
        }

        pub(crate) fn ok(&self) {
            self.ok.increment(1);
        }

        pub(crate) fn failed(&self) {
            self.failed.increment(1);
        }

        pub(crate) fn unavailable(&self) {
            self.unavailable.increment(1);
        }

        pub(crate) fn down(&self, instances: usize) {
            set(&self.down, instances);
        }
    }

    impl Drop for Calls {
        fn drop(&mut self) {
            self.down.set(f64::NAN);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod facade {
    use zk_curator::CuratorFramework;

    #[derive(Debug)]
    pub(crate) struct Registering;

    impl Registering {
        pub(crate) const fn begin(_zk: &CuratorFramework) -> Self {
            Self
        }

        pub(crate) const fn is_registered(&self, _is_registered: bool) {}
        pub(crate) const fn superseded(&self) {}
        pub(crate) const fn end(&self) {}
    }

    #[derive(Debug)]
    pub(crate) struct Caching;

    impl Caching {
        pub(crate) const fn begin(_zk: &CuratorFramework, _path: &str) -> Self {
            Self
        }

        /// Without the feature, nothing is counted.
        pub(crate) fn shows(&self, _numbers: impl FnOnce() -> (usize, usize, usize)) {}
    }

    pub(crate) struct Calls;

    impl Calls {
        pub(crate) const fn begin(_zk: &CuratorFramework, _path: &str) -> Self {
            Self
        }

        pub(crate) const fn ok(&self) {}
        pub(crate) const fn failed(&self) {}
        pub(crate) const fn unavailable(&self) {}
        pub(crate) const fn down(&self, _instances: usize) {}
    }
}

pub(crate) use facade::*;
