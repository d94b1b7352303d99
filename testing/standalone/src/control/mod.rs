//! The control protocol: JSON lines on a loopback port.
//!
//! [`message`], [`call`], [`rule`], [`condition`] and [`value`] are the messages, without I/O. A
//! [`Target`] does what a [`Call`] says, a [`Service`] adds the rules and `until`, and a
//! [`Listener`] serves it to connections that present the [`Token`].

pub mod call;
pub mod condition;
mod connection;
mod lines;
mod listener;
pub mod message;
pub mod rule;
mod rule_book;
mod service;
mod target;
mod token;
pub mod value;

pub use call::Call;
pub use condition::Condition;
pub use listener::Listener;
pub use message::{CallError, Code};
pub use service::Service;
pub use target::{Decide, Target};
pub use token::Token;

/// The version of the protocol.
pub const VERSION: i64 = 1;
