//! The events of a run, in order: a [`History`].
//!
//! A workload records its beliefs as [`Event`]s: it waits for a lock, it holds the lock, it uses
//! the resource that the lock protects. The simulation, or chaos, records the faults that it
//! injects. The [checkers](crate::checkers) read nothing else. Recipes with the same checkers share
//! an enum of events, and [`Client::record`](crate::Client::record) takes any of these enums.
//!
//! # Events and their times
//! * A workload records an `…ing` event **before** the call that it announces, and every other
//!   event **after** the response. If a call is cancelled or fails, the history has the
//!   announcement and nothing else. Where the difference matters, an event says so
//!   ([`Missed`](Hold::Missed), [`Outcome::Unknown`]).
//! * A client believes to hold a resource from [`Acquired`](Hold::Acquired) until the first of
//!   [`Lost`](Hold::Lost), [`Releasing`](Hold::Releasing) and the end of the process. It records
//!   [`Released`](Hold::Released) only if the server has confirmed that the resource was held
//!   until then.
//! * Numbers of holds and calls are unique in the whole history.
//!
//! A printed history is a timeline with one line for each record. Equal histories print the same
//! bytes:
//! ```
//! use std::time::Duration;
//!
//! use zk_curator_sim::{History, history::{Hold, HoldMode, ProcessId, UseOutcome}};
//!
//! let (orders, mode) = (|| "orders".into(), HoldMode::Exclusive);
//! let mut history = History::new();
//! let mut at_ms = |ms, event| history.record(Duration::from_millis(ms), ProcessId::client(1), event);
//! at_ms(5, Hold::Acquiring { resource: orders(), mode, hold: 7 });
//! at_ms(9, Hold::Acquired { resource: orders(), mode, hold: 7, token: 0x1f });
//! let outcome = UseOutcome::Accepted(1);
//! at_ms(12, Hold::Used { resource: orders(), hold: 7, token: 0x1f, outcome });
//! at_ms(14, Hold::Releasing { hold: 7 });
//!
//! let timeline = [
//!     "    0     0.005000  c1     acquires orders (exclusive), #7",
//!     "    1     0.009000  c1     holds orders (exclusive), #7, token 0x1f",
//!     "    2     0.012000  c1     uses orders, #7, token 0x1f: accepted as use 1",
//!     "    3     0.014000  c1     releases #7",
//! ];
//! assert!(history.to_string().lines().eq(timeline));
//! ```

/// Gives the events of an enum their names.
macro_rules! names {
    ($family:ident: $($variant:ident $name:literal,)*) => {
        impl $family {
            /// Returns the name of the kind of the event, such as `acquired`.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $name,)*
                }
            }
        }
    };
}

mod achievement;
mod barrier;
mod cache;
mod commit;
mod discovery;
mod division;
mod group;
mod hold;
mod leader;
mod lifecycle;
mod migration;
mod name;
mod operator;
mod queue;
mod shared;
mod step;
mod transact;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use barrier::Barrier;
pub use cache::{Cache, CacheStep, Look, News, NodeState, Nodes};
pub use commit::Commit;
pub use discovery::{Discovery, Written};
pub use division::Division;
pub use group::Group;
pub use hold::Hold;
pub use leader::Leader;
pub use lifecycle::Lifecycle;
pub use migration::Migration;
pub use name::Name;
pub use operator::Operator;
pub use queue::Queue;
pub use shared::{Answer, Doubt, Operation, Shared};
pub use transact::{Transact, Values};
pub use zk_curator::observe::{HoldMode, Outcome, UseOutcome};

/// The events of clients and servers, in the order in which they were recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    records: Vec<Record>,
}

/// One line of a [`History`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The time since the start of the run, simulated or real.
    pub at: Duration,
    /// The process that recorded the event, or that it happened to.
    pub who: ProcessId,
    /// The event.
    pub event: Event,
}

/// The process of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ProcessId {
    /// The servers, the network, and the source of the faults.
    World,
    /// A process.
    Client {
        /// The number of the process.
        number: u32,
        /// The number of restarts: zero at first, one more after each [`Lifecycle::Killed`].
        incarnation: u32,
    },
}

impl ProcessId {
    /// Returns the client with this number, in its first life.
    #[must_use]
    pub const fn client(number: u32) -> Self {
        Self::Client { number, incarnation: 0 }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World => f.pad("-"),
            Self::Client { number, incarnation: 0 } => f.pad(&format!("c{number}")),
            Self::Client { number, incarnation } => f.pad(&format!("c{number}.{incarnation}")),
        }
    }
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An event of a process.
    Lifecycle(Lifecycle),
    /// An event of a lock, a lease, or leadership.
    Hold(Hold),
    /// An event of a queue.
    Queue(Queue),
    /// An event of a double barrier.
    Barrier(Barrier),
    /// An event of a two-phase commit.
    Commit(Commit),
    /// An event of a group.
    Group(Group),
    /// An event of a set that members divide.
    Division(Division),
    /// An event of service discovery.
    Discovery(Discovery),
    /// An event of a shared value, a counter, or a sequence.
    Shared(Shared),
    /// An event of a transaction over several nodes.
    Transact(Transact),
    /// An event of an observer of an election.
    Leader(Leader),
    /// An event of a cache.
    Cache(Cache),
    /// An event of a set of migrations.
    Migration(Migration),
    /// An event of an operator.
    Operator(Operator),
    /// A fault has begun or ended.
    Fault {
        /// A description of the fault.
        text: String,
    },
    /// There will be no more faults. From now on every client has to make progress.
    FaultsOver,
    /// A client has compared what it sees with what must be.
    Checked {
        /// What was compared.
        what: Name,
    },
    /// A note for the reader.
    Note {
        /// The text.
        text: String,
    },
}

/// Makes an [`Event`] of the events of these enums.
macro_rules! events_of {
    ($($family:ident)*) => {
        $(
            impl From<$family> for Event {
                fn from(event: $family) -> Self {
                    Self::$family(event)
                }
            }
        )*

        impl Event {
            /// Returns the name of the kind of the event, such as `acquired`.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$family(event) => event.name(),)*
                    Self::Fault { .. } => "fault",
                    Self::FaultsOver => "faults-over",
                    Self::Checked { .. } => "checked",
                    Self::Note { .. } => "note",
                }
            }
        }

        impl fmt::Display for Event {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$family(event) => event.fmt(f),)*
                    Self::Fault { text } => write!(f, "FAULT: {text}"),
                    Self::FaultsOver => f.write_str("NO MORE FAULTS"),
                    Self::Checked { what } => write!(f, "has checked {what}"),
                    Self::Note { text } => f.write_str(text),
                }
            }
        }
    };
}

events_of!(
    Lifecycle Hold Queue Barrier Commit Group Division Discovery Shared Transact Leader Cache
    Migration Operator
);

impl History {
    /// Creates an empty history.
    #[must_use]
    pub const fn new() -> Self {
        Self { records: Vec::new() }
    }

    /// Adds a record. Time does not go back: a record with an earlier time than the last one gets
    /// the time of the last one.
    pub fn record(&mut self, at: Duration, who: ProcessId, event: impl Into<Event>) {
        let at = self.records.last().map_or(at, |last| last.at.max(at));
        self.records.push(Record { at, who, event: event.into() });
    }

    /// Returns the records in their order. Violations name a record by its place here.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns `true` if an operator has deleted the node that this transaction created.
    pub(crate) fn has_removed(&self, czxid: i64) -> bool {
        self.records.iter().any(|record| match &record.event {
            Event::Operator(Operator::Removed { tokens, .. }) => tokens.contains(&czxid),
            _ => false,
        })
    }

    /// Prints the records at these places, in the given order: those of a violation, for example.
    #[must_use]
    pub fn excerpt(&self, places: &[usize]) -> String {
        let line =
            |&place: &usize| self.records.get(place).map(|record| Line(place, record).to_string());
        places.iter().filter_map(line).collect()
    }
}

/// A record and its place.
struct Line<'a>(usize, &'a Record);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(place, Record { at, who, event }) = self;
        writeln!(f, "{place:>5} {:>5}.{:06}  {who:<6} {event}", at.as_secs(), at.subsec_micros())
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records.iter().enumerate().try_for_each(|(place, record)| Line(place, record).fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Hold, Lifecycle};

    #[test]
    fn names_are_those_of_the_variants() {
        assert_eq!(Event::from(Lifecycle::Finished).name(), "finished");
        assert_eq!(Event::FaultsOver.name(), "faults-over");
        assert_eq!(Event::from(Hold::Missed { hold: 1 }).name(), "missed");
    }
}
