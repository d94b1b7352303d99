//! Shared by all Rust clients of the comparison: the protocol with the harness, and the workloads
//! of plain operations, which are the same code for each of them.
//!
//! The clients of other authors are a project of their own (`benches/peers/clients`), which
//! includes these files.
#![allow(dead_code, clippy::allow_attributes, reason = "each program uses some of it")]

pub(crate) mod counts;
pub(crate) mod fleet;
pub(crate) mod growth;
pub(crate) mod locks;
pub(crate) mod measure;
pub(crate) mod outage;
pub(crate) mod queues;
pub(crate) mod raw;
pub(crate) mod session;
pub(crate) mod stage;
pub(crate) mod watches;

pub(crate) use session::Session;
pub(crate) use stage::Stage;
