//! Every fault at every decision point, in place of faults at random times.
//!
//! A run without faults has a list of [decision points](DecisionPoint): each request that reaches a
//! server, each wake-up of a client, and each poll of a future that the client may drop. An
//! [`Exhaustion`] plays every [`FaultPlan`] with up to a number of faults at these points. After a
//! fault the real code continues, and the points that it reaches then count, too.

mod explore;
mod extension;
mod fault;
mod plan;
mod point;
mod points;
mod progress;
mod unit;

pub use explore::{Exhaustion, Explored, Flaw};
pub use fault::PointFault;
pub use plan::FaultPlan;
pub use point::{DecisionPoint, PointKind};
pub(crate) use points::{Interruption, PointRecorder, Struck};
