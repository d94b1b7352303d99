//! Connections over TCP, TLS and memory, and the tasks of a server.

mod connection;
mod endpoint;
mod gate;
mod link;
mod memory;
mod pipe;
mod shared;

pub(crate) use endpoint::{Endpoint, OpenEndpoint};
pub use link::Direction;
pub use memory::MemoryConnector;
pub(crate) use shared::Shared;
