//! Leases: ownership that ends by time.
//!
//! | | ends | survives its process | for |
//! |---|---|---|---|
//! | a [lock](crate::lock) | when the session of the framework ends | no | a critical section |
//! | [`SessionLease`] | when a session of its own ends | no | nodes with another time to live than the rest of the process |
//! | [`TimedLease`] | at a time of the leader's clock | yes | a job that should stay on the same host from run to run |
//! | [`MultiLease`] | the same, for `n` holders | yes | a job that runs on at most `n` hosts |
//!
//! [`PreviousIncarnation`] ends the sessions' nodes of a process that was killed and restarted,
//! without waiting for the session to expire.

mod error;
mod guard;
mod held;
mod incarnation;
mod record;
mod rules;
mod session;
mod site;
mod takes;
mod timed;

pub use error::Error;
pub use guard::TimedLeaseGuard;
pub use incarnation::PreviousIncarnation;
pub use session::{SessionLease, SessionLeaseBuilder};
pub use timed::{LeaseHolder, MultiLease, TimedLease};
