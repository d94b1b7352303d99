//! Watches: the handles a caller waits on, and the client's book of what is armed.

mod changes;
mod event;
mod oneshot;
mod operations;
mod persistent;
mod registry;

pub use changes::ChangesSince;
pub(crate) use event::Fired;
#[cfg(test)]
pub(crate) use event::Outcome;
pub use event::{PersistentEvent, WatchEnded, WatchedEvent};
pub use oneshot::{OneshotWatch, WatchNotifier};
pub use persistent::PersistentWatch;
pub(crate) use registry::{Registry, Sink, WatchKind};
