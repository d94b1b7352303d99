//! A rolling restart: every server of an ensemble once, one at a time, and the ensemble serves.
//!
//! # Order
//! Observers first, because they have no vote, then the followers, and the leader last: so there is
//! one election. If the leadership moves during the run, the order of the servers that are left
//! adapts.
//!
//! # Protocol
//! 1. Ask all servers. A doubt ends the run.
//! 2. Run the command that restarts the next server. Nothing else is restarted while it runs.
//! 3. Ask all servers, until the server has restarted, is the same member, has every transaction
//!    that the leader had one response earlier, and nothing else is in doubt, several times in a
//!    row. Then continue with 2. A doubt that cannot pass ends the run, and so does the time limit.
//!
//! # Guarantees
//! A server is restarted at most once, and only if the last responses prove that the others are a
//! majority of the voting members that serves, that all members serve, and that none is behind. A
//! missing response proves nothing.
//!
//! [`observation`] joins the responses, and [`plan`] decides, both without I/O. [`driver`] performs
//! what [`plan`] has decided.

pub(crate) mod command;
mod doubt;
pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod observation;
pub(crate) mod plan;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub(crate) use doubt::{Doubt, RestartError};
