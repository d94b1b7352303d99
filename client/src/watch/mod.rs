//! Watches: the handles that a caller waits on, and the client's registry of armed watches.

mod armed;
mod changes;
mod event;
mod kinds;
mod oneshot;
mod operations;
mod persistent;
mod registry;

pub(crate) use armed::AskedWatch;
pub use changes::ChangesSince;
pub(crate) use event::FiredWatch;
#[cfg(test)]
pub(crate) use event::WatchOutcome;
pub use event::{PersistentEvent, WatchEnded, WatchedEvent};
pub(crate) use kinds::WatchKind;
pub use oneshot::{OneshotWatch, WatchNotifier};
pub use persistent::PersistentWatch;
pub(crate) use registry::{EventSink, Upkeep, WatchRegistry};
