//! The series of metrics. Without the feature `metrics` they are empty, and measure nothing.
#![cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, unused_variables, reason = "nothing is measured")
)]

use std::marker::PhantomData;
use std::sync::Arc;

#[cfg(feature = "metrics")]
use metrics::{Key, Label, Level, Metadata, Recorder};
use tokio::time::Instant;

/// A value that only exists with the feature `metrics`.
#[derive(Debug, Clone)]
pub struct Metered<T> {
    #[cfg(feature = "metrics")]
    value: T,
    #[cfg(not(feature = "metrics"))]
    value: PhantomData<T>,
}

impl<T> Metered<T> {
    /// Makes the value, if it exists.
    pub fn new(make: impl FnOnce() -> T) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            value: make(),
            #[cfg(not(feature = "metrics"))]
            value: PhantomData,
        }
    }

    /// Returns the value, if it exists.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        #[cfg(feature = "metrics")]
        {
            Some(&self.value)
        }
        #[cfg(not(feature = "metrics"))]
        None
    }

    /// Returns the value, to be changed, if it exists.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        #[cfg(feature = "metrics")]
        {
            Some(&mut self.value)
        }
        #[cfg(not(feature = "metrics"))]
        None
    }
}

/// The label `framework` of the series of a framework. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Metered<Arc<str>>);

impl Meter {
    pub(crate) fn new(framework: Option<&str>) -> Self {
        Self(Metered::new(|| framework.unwrap_or_default().into()))
    }
}

/// The kind of a metric that only grows.
#[derive(Debug)]
#[non_exhaustive]
pub struct Counter;

/// The kind of a metric that goes up and down.
#[derive(Debug)]
#[non_exhaustive]
pub struct Gauge;

/// The kind of a metric of times.
#[derive(Debug)]
#[non_exhaustive]
pub struct Histogram;

/// A metric of a table, with `N` labels besides `framework`.
#[derive(Debug)]
pub struct MetricHandle<K, const N: usize> {
    name: &'static str,
    labels: [&'static str; N],
    is_measured: bool,
    kind: PhantomData<K>,
}

impl<K, const N: usize> MetricHandle<K, N> {
    /// Creates the handle of a row of a table. It `is_measured` if the crate of the table has the
    /// feature `metrics`, too.
    #[must_use]
    pub const fn new(name: &'static str, labels: [&'static str; N], is_measured: bool) -> Self {
        Self { name, labels, is_measured, kind: PhantomData }
    }

    /// Returns the series of a framework with these values of the labels.
    pub(crate) fn series(&self, meter: &Meter, values: [&str; N]) -> Series<K> {
        Series {
            #[cfg(feature = "metrics")]
            key: if self.is_measured { self.key(&meter.0.value, values) } else { None },
            kind: PhantomData,
        }
    }

    #[cfg(feature = "metrics")]
    fn key(&self, framework: &Arc<str>, values: [&str; N]) -> Option<Key> {
        let mut labels = Vec::with_capacity(N + 1);
        labels.push(Label::new("framework", Arc::clone(framework)));
        for (label, value) in self.labels.into_iter().zip(values) {
            if label == "path" && !paths::is_measured(value) {
                return None;
            }
            labels.push(Label::new(label, value.to_owned()));
        }
        Some(Key::from_parts(self.name, labels))
    }
}

#[cfg(feature = "metrics")]
mod paths {
    use std::collections::BTreeSet;

    use zk_curator_client::internal::Locked;

    /// The number of different paths of a process that are labels. Later ones are not measured.
    const MOST_PATHS: usize = 1000;

    /// Returns `false` for a path beyond the paths that a process measures.
    pub(super) fn is_measured(path: &str) -> bool {
        static PATHS: Locked<BTreeSet<String>> = Locked::new(BTreeSet::new());
        let mut paths = PATHS.lock();
        if paths.contains(path) {
            return true;
        }
        let has_room = paths.len() < MOST_PATHS;
        if has_room {
            paths.insert(path.to_owned());
        }
        has_room
    }
}

/// A metric with values of its labels. A recorder that is installed later shows it from the next
/// measurement on.
#[derive(Debug)]
pub struct Series<K> {
    /// `None` if it is not measured.
    #[cfg(feature = "metrics")]
    key: Option<Key>,
    kind: PhantomData<K>,
}

#[cfg(feature = "metrics")]
static METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl<K> Series<K> {
    #[cfg(feature = "metrics")]
    fn measure(&self, measure: impl FnOnce(&dyn Recorder, &Key)) {
        if let Some(key) = &self.key {
            metrics::with_recorder(|recorder| measure(recorder, key));
        }
    }
}

impl Series<Counter> {
    /// Creates the series with the value 0.
    pub fn begin(&self) {
        self.add(0);
    }

    /// Counts more.
    pub fn add(&self, number: u64) {
        #[cfg(feature = "metrics")]
        self.measure(|recorder, key| recorder.register_counter(key, &METADATA).increment(number));
    }
}

impl Series<Gauge> {
    /// Creates the series with the value 0.
    pub fn begin(&self) {
        self.add(0.0);
    }

    /// Moves the value, down if `change` is negative.
    pub fn add(&self, change: f64) {
        #[cfg(feature = "metrics")]
        self.measure(|recorder, key| recorder.register_gauge(key, &METADATA).increment(change));
    }

    /// Sets the value.
    pub fn set(&self, value: f64) {
        #[cfg(feature = "metrics")]
        self.measure(|recorder, key| recorder.register_gauge(key, &METADATA).set(value));
    }

    /// Sets the value to a number of things.
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
    pub fn set_number(&self, number: usize) {
        self.set(number as f64);
    }

    /// Sets the value to the present time, in seconds since 1970.
    pub fn set_now(&self) {
        #[cfg(feature = "metrics")]
        self.set(
            std::time::SystemTime::now()
                .duration_since(std::time::SystemTime::UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
        );
    }
}

impl Series<Histogram> {
    /// Creates the series without a value.
    pub fn begin(&self) {
        #[cfg(feature = "metrics")]
        self.measure(|recorder, key| drop(recorder.register_histogram(key, &METADATA)));
    }

    /// Records the time since a moment.
    pub fn record(&self, since: &Metered<Instant>) {
        #[cfg(feature = "metrics")]
        self.measure(|recorder, key| {
            recorder.register_histogram(key, &METADATA).record(since.value.elapsed());
        });
    }
}
