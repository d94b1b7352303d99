//! The background task of a cache, and the state that it shares with the handles.

mod driver;
mod options;
mod pauses;
mod requests;
mod session;
mod shared;
mod source;
mod wants;

pub use options::ServerDiff;

pub(crate) use driver::Driver;
pub(crate) use options::{MOST_BYTES, Options};
pub(crate) use shared::{Alive, Prover, Shared};
#[cfg(test)]
pub(crate) use wants::Wants;
