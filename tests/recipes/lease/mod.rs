//! Leases: of sessions of their own, and by the clock of the leader.

mod incarnation;
mod session;
mod timed;
mod timed_clocks;
mod timed_faults;
