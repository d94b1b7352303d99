//! Series of the crates that measure more than the framework.

use std::collections::BTreeSet;

use metrics::{Counter, Gauge, SharedString};
use zk_curator_client::internal::Locked;

use crate::framework::CuratorFramework;

/// The number of different paths of a process that are labels. Later ones are not measured.
const MOST_PATHS: usize = 1000;

/// The label `framework`.
#[must_use]
pub fn framework_label(zk: &CuratorFramework) -> SharedString {
    zk.name().unwrap_or_default().to_owned().into()
}

/// Returns `false` for a path beyond the paths that a process measures.
fn is_measured(path: &str) -> bool {
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

/// A gauge with the labels `framework` and `path`.
pub fn gauge_at(zk: &CuratorFramework, name: &'static str, path: &str) -> Gauge {
    if !is_measured(path) {
        return Gauge::noop();
    }
    metrics::gauge!(name, "framework" => framework_label(zk), "path" => path.to_owned())
}

/// A counter with the labels `framework`, `path` and `result`.
pub fn results_at(
    zk: &CuratorFramework,
    name: &'static str,
    path: &str,
    result: &'static str,
) -> Counter {
    if !is_measured(path) {
        return Counter::noop();
    }
    let framework = framework_label(zk);
    let path = path.to_owned();
    metrics::counter!(name, "framework" => framework, "path" => path, "result" => result)
}
