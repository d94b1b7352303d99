mod consumer;
mod delivery;
mod queue;

pub use consumer::LockingConsumer;
pub use delivery::{LockingDelivery, Message};
pub use queue::LockingQueue;
