//! Registrations are instances that stay registered through outages and in later sessions.
//!
//! # Protocol
//! 1. Create the node; missing parents become containers.
//! 2. If the node exists, and an earlier session of this registration has created it, replace it.
//!    For any other node the [policy](OnConflict) decides.
//! 3. To replace a node, delete it at its version and create ours in one transaction, so that
//!    consumers always see one of them.
//! 4. Read the node with a watch. Keep data that other clients have written to it. If another node
//!    has taken its place, end as [`Superseded`](RegistrationState::Superseded).
//! 5. To change the record, edit the document that was read, and write it at its version. Read it
//!    again, behind a quorum, only if the version is another. The watch is set again.
//! 6. If another client deletes the node, create it again after a pause of 1 to 30 seconds, or
//!    [end](OnDeleted::End).
//! 7. In the next session, continue with step 1.
//!
//! # Connection loss
//! * SUSPENDED, and RECONNECTED in the same session: nothing is sent.
//! * LOST: the instance is registered again in the next session.

mod attempt;
mod driver;
mod error;
mod gate;
mod handle;
mod machine;
mod shared;
mod state;
mod writes;

pub use error::{RegistrationError, Result};
pub(crate) use handle::RegistrationPlan;
pub use handle::{Registration, RegistrationEvents};
pub use state::{OnConflict, OnDeleted, RegistrationState, Rival};
