//! Observability: spans and events, metrics, and the list of held nodes and watches. The vocabulary
//! is part of the interface: names change only with a line in the changelog.
//!
//! # Spans and events
//!
//! Spans and events use the crate `tracing`. No operation emits an event at `info` or above.
//!
//! | span | level | fields | meaning |
//! |---|---|---|---|
//! | `zookeeper` | debug | `operation`, `path` | one operation of a builder, with its retries; `path` within the namespace |
//! | `background` | error | `framework` | a background task of a framework with a [name](crate::CuratorFrameworkBuilder::name), including tasks of recipes |
//!
//! Every event of this crate has the fields `framework`, which is the
//! [name](crate::CuratorFrameworkBuilder::name) of the framework, `session` and `server`, as far as
//! they are known.
//!
//! | event | level | fields | meaning |
//! |---|---|---|---|
//! | `connection state` | info; LOST warn | `state` | the [`ConnectionState`](crate::ConnectionState) has changed; after a loss, the event names the lost session and server |
//! | `held back by the circuit breaker` | debug | `state` | a change that the [circuit breaker](crate::CuratorFrameworkBuilder::circuit_breaker) of the framework suppresses |
//! | `session over` | info | `state` | a session has ended, and how |
//! | `retrying` | debug | `error`, `delay` | an operation has failed and is retried after the delay; in its span |
//! | `operation failed` | debug | `error` | an operation has failed permanently; in its span |
//! | `in the background` | warn | `error` | an operation that no caller waits for has failed; also in [`background_errors`](crate::CuratorFramework::background_errors) |
//! | `the session could not be closed; it will expire` | warn | `error` | [`close`](crate::CuratorFramework::close) reached no server |
//! | `the last handle of a framework was dropped without close()` … | warn | – | its session is closed in the background, if the runtime continues |
//! | `closed before the servers learned of a lost session; it ends at its timeout` | warn | – | its ephemeral nodes stay until then |
//! | `deleting a node whose creator has gone` | debug | `path` | the janitor found the node of a create that was abandoned |
//! | `the lost session has not ended yet` | debug | `error` | the client tries again |
//! | `the lost session ends at its timeout` | warn | `error` | no server has ended it: its ephemeral nodes stay until then |
//! | `step` | debug | `step` | a step that a service recorded by its [`TracingRecorder`]; it has no other fields |
//!
//! The targets are the modules of this crate (`zk_curator::…`). Those of recipes and of the raw
//! client begin with `zk_curator_recipes` and `zk_curator_client`. No event contains data of nodes
//! or credentials.
//!
//! # Metrics
//!
//! Metrics use the crate `metrics`, with the feature `metrics`. Without the feature, nothing is
//! measured. [`METRICS`] is the table of the metrics, with their labels.
//!
//! `framework` is the [name](crate::CuratorFrameworkBuilder::name) of the framework, empty by
//! default, so a process with several frameworks needs names. `operation` is the name that errors
//! use, such as `create` or `get_data`.
//!
//! Series without the label `operation` exist from the [`start`](crate::CuratorFramework::start) of
//! the framework, with the value 0, so a rule like `increase(…) > 0` also sees the first event,
//! such as the first error of its kind. The series of an operation, with all results, begin with
//! the value 0 when the operation is called for the first time: a process calls few of the 28. So
//! an idle framework has 45 series, and each operation that it uses adds six. Install the recorder
//! before the start: otherwise a series is not shown before its first event. Only a few metrics of
//! recipes and of service discovery have paths as labels: see `zk_curator_recipes::observe` and
//! `zk_curator_discovery::observe`. `describe` passes units and help to the recorder. A dashboard
//! for Grafana and alert rules for Prometheus are in `docs/monitoring/`. Operations on
//! [typed](crate::CuratorFramework) values count as the operations that they consist of.
//!
//! # Held nodes
//!
//! [`CuratorFramework::inspect`](crate::CuratorFramework::inspect) returns a printable
//! [`FrameworkInspection`], for the engineer on call, an admin page, or the failure of a test.
//!
//! # Steps of a service
//!
//! A service reports to a [`Recorder`] which resources it believes to hold and what it does with
//! them. [`TracingRecorder`] emits each step at debug level. In a simulation, checkers judge the
//! steps.

mod attempt;
mod recorder;

use std::fmt;

pub use attempt::{Attempt, Held};
pub use recorder::{HoldMode, Outcome, Recorder, Step, TracingRecorder, UseOutcome};

#[cfg(feature = "metrics")]
pub use crate::core::metrics::describe;
pub use crate::core::metrics::{METRICS, Metric, MetricKind};
use crate::core::metrics::{MetricHandle, Series};
pub use crate::core::{HeldNode, HeldWatch, HeldWatchKind, PendingDeletion};
use crate::framework::CuratorFramework;
use crate::state::ConnectionStatus;

/// The state of a framework at one moment, and the resources of all its handles. Printable.
///
/// ```text
/// billing: Connected to zk1:2181, session 0x1000a3f210000 (timeout 10s), number 1 of this framework, epoch 1
/// servers zk1:2181,zk2:2181
/// owns 1:
///   /locks/orders/_c_1f0c…-lock-0000000007  token 0x2f, session 1
/// waits on 1:
///   /locks/orders/_c_9b2e…-lock-0000000006  one-shot
/// owes nothing
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FrameworkInspection {
    /// The [name](crate::CuratorFrameworkBuilder::name) of the framework, if it has one.
    pub name: Option<String>,
    /// The state of the connection, and the session.
    pub status: ConnectionStatus,
    /// The present connect string.
    pub connect_string: String,
    /// The reason why the last connection, or the last attempt to open one, failed, if it is known.
    pub last_failure: Option<String>,
    /// The nodes of guards, in the order of their creation by this framework: locks that are held
    /// or waited for, leases. Paths are the server's, with the namespace.
    pub owned: Vec<HeldNode>,
    /// The watches that callers wait on.
    pub watches: Vec<HeldWatch>,
    /// The pending cleanups of the janitor.
    pub owed: Vec<PendingDeletion>,
}

impl CuratorFramework {
    /// Returns the state of the framework: its session, owned nodes, watches and pending cleanups.
    /// Sends no request.
    #[must_use]
    pub fn inspect(&self) -> FrameworkInspection {
        let core = self.core();
        let (owned, watches, owed) = core.resources.lists();
        FrameworkInspection {
            name: self.name().map(str::to_owned),
            status: self.status(),
            connect_string: core.connect_string(),
            last_failure: self.last_failure().map(|why| why.to_string()),
            owned,
            watches,
            owed,
        }
    }
}

impl<K, const N: usize> MetricHandle<K, N> {
    /// Returns the series of a framework with these values of the labels.
    pub fn of(&self, zk: &CuratorFramework, values: [&str; N]) -> Series<K> {
        self.series(zk.core().meter(), values)
    }
}

impl fmt::Display for FrameworkInspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        write!(f, "{:?}", self.status.state)?;
        if let Some(server) = &self.status.server {
            write!(f, " to {server}")?;
        }
        match self.status.session {
            Some(session) => write!(f, ", session {} (timeout {:?})", session.id, session.timeout)?,
            None => f.write_str(", no session")?,
        }
        writeln!(
            f,
            ", number {} of this framework, epoch {}",
            self.status.session_epoch, self.status.epoch
        )?;
        writeln!(f, "servers {}", self.connect_string)?;
        if let Some(why) = &self.last_failure {
            writeln!(f, "last failure: {why}")?;
        }
        list(f, "owns", &self.owned)?;
        list(f, "waits on", &self.watches)?;
        list(f, "owes", &self.owed)
    }
}

fn list(f: &mut fmt::Formatter<'_>, verb: &str, things: &[impl fmt::Display]) -> fmt::Result {
    if things.is_empty() {
        return writeln!(f, "{verb} nothing");
    }
    writeln!(f, "{verb} {}:", things.len())?;
    things.iter().try_for_each(|thing| writeln!(f, "  {thing}"))
}
