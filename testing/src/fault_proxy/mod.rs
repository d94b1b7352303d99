//! A TCP proxy between clients and their servers, for faults of requests and of the network in real
//! time.
//!
//! `split` divides the bytes of a client into requests, and `conversation` decides what the client
//! receives. Both are free of I/O. `accept` accepts
//! connections, and `connection` moves the bytes.

mod accept;
mod builder;
mod connection;
mod conversation;
mod proxy;
mod shared;
mod split;
mod traffic;

pub use builder::{FaultProxyBuilder, FaultProxyError};
pub use proxy::{FaultProxy, ProxiedServer};
pub use shared::{Flow, ProxyCounts};
pub use traffic::{ProxySession, ProxyTraffic};
