use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

use crate::history::{Event, HoldMode, Name, ProcessId, UseOutcome};

/// The parts of a run that are outside the process of a client.
pub trait Remote: Send + Sync {
    /// Records an event at the present time.
    fn record(&self, who: ProcessId, event: Event);

    /// Returns the time of day, by a clock that agrees with that of the servers.
    fn time_of_day(&self) -> SystemTime;

    /// Returns a number that is unique in this run, and higher than all earlier ones.
    fn number(&self) -> u64;

    /// Uses a resource: [`FencedResource::use_as`](crate::FencedResource::use_as).
    fn use_resource(&self, resource: &Name, mode: HoldMode, token: i64) -> Answered;
}

/// The future reaction of a resource to a use.
pub type Answered = Pin<Box<dyn Future<Output = UseOutcome> + Send>>;
