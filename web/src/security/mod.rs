//! The layers of security, from the outside to the inside. Each file is one layer, and none relies
//! on another one.

mod audit;
mod auth;
mod back_off;
mod hosts;
mod keys;
mod network;
mod origin;
mod permit;
mod rate;
mod redact;
mod sessions;
mod streams;
mod users;

pub(crate) use audit::{NodeChange, PendingRecord};
pub(crate) use auth::{Access, Authentication, Means, Viewer, cookie_of};
pub(crate) use back_off::BackOff;
pub(crate) use hosts::Hosts;
pub(crate) use keys::{ClientId, Keys, random_token};
pub(crate) use network::counted_network;
pub use network::{Network, NetworkError};
pub(crate) use origin::{Origin, origin_of};
pub(crate) use permit::ChangePermit;
pub(crate) use rate::RequestRates;
pub use redact::{Redaction, RedactionError};
pub(crate) use sessions::{Sessions, excess};
pub(crate) use streams::{StreamLimits, StreamSeat};
pub use users::{NewToken, Users, UsersError};
