//! A name service: what a name stands for, now and later.
//!
//! # Layout
//! ```text
//! /names                            container, made on first use, or by an administrator
//!   ├─ billing                      persistent: bound to its data for good
//!   │    └─ _b_1f0c52a0-…           its identity: a name that no other binding has
//!   ├─ orders                       ephemeral: bound as long as a session
//!   └─ _r_9b2e77c4-…                ephemeral: a receipt of who binds
//! ```
//! Names of earlier versions have no identity. They are served, and told from later ones by `czxid` and version only; earlier
//! versions cannot unbind the new ones (`NotEmpty`).
//!
//! # Protocol
//! 1. To bind a name is to create its node, which only one can. It is a [certain](zk_curator::certain) write: after a lost
//!    answer a receipt tells whether it was ours.
//! 2. To rebind or unbind a lasting name is a certain write that also checks its identity: a name that was unbound and bound
//!    again since has another one, though versions begin anew.
//! 3. Who follows a name reads its node with a watch, or leaves one for when it comes, again and again.
//!
//! Requests, counted at a server: one for [`bind`](NameService::bind), [`resolve`](NameService::resolve) and each change that a
//! [`follower`](NameService::follow) is told of, four, in two flights, for [`rebind`](NameService::rebind) and [`unbind`](NameService::unbind), two for
//! [`bind_ephemeral`](NameService::bind_ephemeral), n + 1 to [`list`](NameService::list) n names.
//!
//! Bindings that are made or changed through one [`NameService`] and its clones wait for each other, because they share a
//! receipt.
//!
//! # Guarantees
//! * A name is bound to one value at a time. Of those that bind it, or rebind what they have seen, one succeeds, also if
//!   they give the same value, and whatever answers are lost. If that cannot be known, because the session ended first, the
//!   error says [`may_have_applied`](zk_curator::Error::may_have_applied).
//! * Rebinding and unbinding never hit another binding of the name. For an ephemeral one, which can have no children, its
//!   `czxid` and version are looked at first: what remains is somebody who deletes it and binds the name in the moment between.
//! * A binding that goes with its session does not outlive it, and never takes itself for one while it is not connected.
//!   It comes back only where that was [asked for](NameService::keep_bound).
//! * Who follows a name ends with what it is bound to, or with nothing if it is not.
//!
//! # Assumptions
//! Nobody writes to the nodes but by these functions; an administrator may delete them. A binding that goes with a session belongs to who has made it: others
//! can neither rebind nor unbind it.
//!
//! # Connection loss
//! * SUSPENDED: no binding [is bound](Binding::is_bound) for itself; for others it is, as long as its session.
//! * LOST: a [`Binding`] is over, a [`KeptBinding`] is bound again in the next session.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping a binding that goes with its session unbinds it in the background.
//!
//! # Errors
//! [`Error`].
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::name::NameService;
//!
//! let names = NameService::new(&zk, "/names");
//! let version = names.bind("billing", "10.0.0.7:80").await?;
//! let mut billing = names.follow("billing");
//! assert_eq!(billing.next().await?.unwrap().value::<String>()?, "10.0.0.7:80");
//!
//! names.rebind("billing", "10.0.0.8:80", version).await?;
//! assert_eq!(billing.next().await?.unwrap().value::<String>()?, "10.0.0.8:80");
//!
//! let orders = names.bind_ephemeral("orders", "10.0.0.9:80").await?;
//! assert_eq!(names.list().await?.len(), 2);
//! orders.unbind().await?;
//! assert!(names.resolve("orders").await?.is_none());
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod binding;
mod bound;
mod error;
mod follow;
mod service;

pub use binding::{Binding, KeptBinding};
pub use bound::{Bound, Version};
pub use error::Error;
pub use follow::NameWatch;
pub use service::NameService;
