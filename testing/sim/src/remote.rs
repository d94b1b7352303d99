use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::history::{Event, Mode, Name, ProcessId};

/// The rest of a run, for a client in a process of its own.
pub trait Remote: Send + Sync {
    /// Writes down what happens now.
    fn record(&self, who: ProcessId, event: Event);

    /// The time, from wherever: the same in all processes.
    fn now(&self) -> Duration;

    /// A number that nobody else has in this run, higher than those before.
    fn number(&self) -> u64;

    /// Uses a resource: [`FencedResource::use_as`](crate::FencedResource::use_as).
    fn use_resource(&self, resource: &Name, mode: Mode, hold: u64, token: i64) -> Answered;
}

/// What became of the use of a resource.
pub type Answered = Pin<Box<dyn Future<Output = Event> + Send>>;
