//! The servers: what the ensemble says of itself, and whether the framework follows it.

mod config;
mod tracker;

pub use config::{ConfigError, EnsembleConfig, EnsembleServer, PeerAddress, ServerAddress};
pub(crate) use tracker::track;
