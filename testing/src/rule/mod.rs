//! Fault rules: faults on matching requests.
//!
//! A rule is a function from a request to a [`Verdict`]. It sees every request that the server can
//! decode, including pings, `auth` and `closeSession`, but not the handshake of a connection. Rules
//! run in the order of their installation, and the first verdict other than [`Verdict::Pass`] wins.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use zk_curator_testing::{TestServer, Verdict};
//!
//! let server = TestServer::in_memory().await;
//! let lost = server
//!     .rule(|request| if request.is_create_under("/locks") { Verdict::LoseReply } else { Verdict::Pass })
//!     .times(1);
//! assert_eq!(lost.hits(), 0);
//! # }
//! ```

mod glob;
mod request;
mod rules;
mod verdict;

pub use glob::matches as path_matches;
pub use request::RuleRequest;
pub use rules::RuleGuard;
pub(crate) use rules::{Judgement, Rules};
pub use verdict::Verdict;
