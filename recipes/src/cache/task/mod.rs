//! The background task of a cache, and the state that it shares with the handles.

mod driver;
mod options;
mod pauses;
mod requests;
mod session;
mod shared;
mod source;
mod wants;
mod watched;

pub use options::ServerDiffMode;

pub(crate) use driver::CacheDriver;
pub(crate) use options::{CacheOptions, MOST_BYTES};
pub(crate) use shared::{Alive, CacheShared, Prover};
#[cfg(test)]
pub(crate) use wants::Wants;
