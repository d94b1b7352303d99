//! Observability: spans and events, metrics, and the list of what is held. The vocabulary is part of the
//! interface: names change only with a line in the changelog.
//!
//! # Spans and events
//!
//! Through the crate `tracing`. Nothing is emitted at `info` or above per operation.
//!
//! | span | level | fields | is |
//! |---|---|---|---|
//! | `zookeeper` | debug | `operation`, `path` | one operation of a builder, with its retries; `path` within the namespace |
//! | `background` | error | `framework` | a background task of a framework with a [name](crate::CuratorFrameworkBuilder::name), recipes' included |
//!
//! Every event of this crate has the fields `framework`, its [name](crate::CuratorFrameworkBuilder::name), `session` and
//! `server`, as far as they are known.
//!
//! | event | level | fields | says |
//! |---|---|---|---|
//! | `connection state` | info; LOST warn | `state` | the [`ConnectionState`](crate::ConnectionState) has changed; of what is lost it names session and server |
//! | `held back by the circuit breaker` | debug | `state` | a change that the framework's [circuit breaker](crate::CuratorFrameworkBuilder::circuit_breaker) does not tell |
//! | `session over` | info | `state` | a session has ended, and how |
//! | `retrying` | debug | `error`, `delay` | an operation failed and is tried again after the delay; in its span |
//! | `operation failed` | debug | `error` | an operation has failed for good; in its span |
//! | `in the background` | warn | `error` | something failed that nobody waits for; also in [`background_errors`](crate::CuratorFramework::background_errors) |
//! | `the session could not be closed; it will expire` | warn | `error` | [`close`](crate::CuratorFramework::close) reached no server |
//! | `closed before the servers were told of a lost session; it ends at its timeout` | warn | – | its ephemeral nodes stay until then |
//! | `deleting a node whose creator has gone` | debug | `path` | the janitor found the node of a create that was abandoned |
//! | `the server was not told of a lost session` | debug | `error` | it is tried again |
//! | `the lost session ends at its timeout` | warn | `error` | no server could be told of its end: its ephemeral nodes stay until then |
//! | `step` | debug | `step` | a step of a service, told by its [`TracingRecorder`]; it has no other fields |
//!
//! The targets are the modules of this crate (`zk_curator::…`); those of recipes and of the raw client begin with
//! `zk_curator_recipes` and `zk_curator_client`. Data of nodes and credentials are in no event.
//!
//! # Metrics
//!
//! Through the crate `metrics`, with the feature `metrics`. Nothing is measured without it.
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `zk_curator_connected` | gauge | `framework` | 1 while a server serves the session, 0 while none does; by the [name](crate::CuratorFrameworkBuilder::name) of the framework: a process with several needs names. NaN after the close |
//! | `zk_curator_session_start_time_seconds` | gauge | `framework` | when the present session began, in seconds since 1970; 0 without one |
//! | `zk_curator_operations_in_progress` | gauge | – | operations that wait for an answer, or for a connection |
//! | `zk_curator_owned_nodes` | gauge | – | nodes that guards answer for: locks that are held or waited for, leases, claims, receipts |
//! | `zk_curator_watches` | gauge | – | watches that somebody waits on |
//! | `zk_curator_operations_total` | counter | `operation`, `result` | operations that have ended. `result` is `ok`, `cancelled` if the future was dropped, or the name of the [`ErrorKind`](crate::ErrorKind), such as `connection_loss` |
//! | `zk_curator_operation_duration_seconds` | histogram | `operation` | how long each took, retries and pauses included |
//! | `zk_curator_retries_total` | counter | `operation` | attempts after the first |
//! | `zk_curator_state_changes_total` | counter | `state` | transitions: `connected`, `suspended`, `reconnected`, `lost`, `read_only`, `closed` |
//! | `zk_curator_sessions_lost_total` | counter | – | sessions that ended before the framework was closed |
//! | `zk_curator_janitor_backlog` | gauge | – | deletions that are owed and not yet done, of all frameworks of the process |
//!
//! `operation` is the name that errors have, such as `create` or `get_data`: a small set, so that it is safe as a label.
//! Paths are no labels, but of queues. Those of recipes are in `zk_curator_recipes::observe`. `describe` gives units and help to the
//! recorder, [`METRICS`] is this table as data. A dashboard for Grafana and alert rules for Prometheus are in `docs/monitoring/`.
//! Operations on [typed](crate::CuratorFramework) values count as what they are made of.
//!
//! # Who holds what
//!
//! [`CuratorFramework::inspect`](crate::CuratorFramework::inspect) answers a printable [`FrameworkInspection`]: for the engineer
//! on call, an admin page, or the failure of a test.
//!
//! # What a service does
//!
//! A service tells a [`Recorder`] what it believes to hold and what it does on the strength of that. [`TracingRecorder`] emits each
//! step at debug level; in a simulation, checkers judge them.

mod attempt;
mod metric;
mod recorder;

use std::fmt;

pub use attempt::{Attempt, Held, Release};
#[cfg(feature = "metrics")]
pub use metric::describe;
pub use metric::{METRICS, Metric, MetricKind};
pub use recorder::{HoldMode, Outcome, Recorder, Step, TracingRecorder, UseOutcome};

pub use crate::core::{HeldChore, HeldNode, HeldWatch, WatchKind};
use crate::framework::CuratorFramework;
use crate::state::ConnectionStatus;

/// The state of a framework at one moment, and what it holds, for all its handles. Printable.
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
    /// The servers, as they are named now.
    pub connect_string: String,
    /// Why the last connection, or attempt to open one, failed, if it is known.
    pub last_failure: Option<String>,
    /// The nodes that guards answer for, in the order of their creation here: locks that are held or waited for, leases.
    /// Paths are the server's, with the namespace.
    pub owned: Vec<HeldNode>,
    /// The watches that somebody waits on.
    pub watches: Vec<HeldWatch>,
    /// The chores of the janitor.
    pub owed: Vec<HeldChore>,
}

impl CuratorFramework {
    /// Answers who holds what: session, owned nodes, watches, cleanup that is owed. Asks no server.
    #[must_use]
    pub fn inspect(&self) -> FrameworkInspection {
        let core = self.core();
        let (owned, watches, owed) = core.held.lists();
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
        writeln!(f, ", number {} of this framework, epoch {}", self.status.session_epoch, self.status.epoch)?;
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
