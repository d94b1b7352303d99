//! The configuration of the ensemble, and the tracker that follows it.

mod config;
mod tracker;

pub use config::{ConfigError, EnsembleConfig, EnsembleServer, PeerAddress, ServerAddress};
pub(crate) use tracker::track;
