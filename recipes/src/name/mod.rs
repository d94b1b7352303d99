//! A name service: binds names to data, and follows them.
//!
//! # Layout
//! ```text
//! /names                            container, made on first use, or by an administrator
//!   ├─ billing                      persistent: bound to its data permanently
//!   │    └─ _b_1f0c52a0-…           its identity: a name that no other binding has
//!   ├─ orders                       ephemeral: bound as long as a session
//!   └─ _r_9b2e77c4-…                ephemeral: a receipt of a binding client
//! ```
//! A name that was created by hand has no identity. It is supported, but only its `czxid` and
//! version distinguish it from later ones.
//!
//! # Protocol
//! 1. To bind a name is to create its node, which only one can. It is a
//!    [certain](zk_curator::certain) write: after a lost response a receipt shows whether it was
//!    applied.
//! 2. To rebind or unbind a persistent name is a certain write that also checks its identity: a
//!    name that was unbound and bound again since has another one, though versions begin again.
//! 3. A follower of a name reads its node with a watch, or leaves one for when it comes, again and
//!    again.
//!
//! Requests, counted at a server: one for [`bind`](NameService::bind),
//! [`resolve`](NameService::resolve) and each change that a [`follower`](NameService::follow) is
//! told of, four, in two round trips, for [`rebind`](NameService::rebind) and
//! [`unbind`](NameService::unbind), two for [`bind_ephemeral`](NameService::bind_ephemeral), n + 1
//! to [`list`](NameService::list) n names.
//!
//! Bindings that are made or changed through one [`NameService`] and its clones wait for each
//! other, because they share a receipt.
//!
//! # Guarantees
//! * A name is bound to one value at a time. If several clients bind a name, or rebind the binding
//!   that they have seen, one succeeds, even with equal values and lost responses. If that cannot
//!   be known, because the session ended first, the error says
//!   [`may_have_applied`](zk_curator::Error::may_have_applied).
//! * Rebinding and unbinding never hit another binding of the name. For an ephemeral name, which
//!   can have no children, the `czxid` and version are read first. One gap remains: another client
//!   deletes the node and binds the name between the read and the write.
//! * A binding that goes with its session does not outlive it, and never takes itself for one while
//!   it is not connected. It comes back only where that was [asked for](NameService::keep_bound).
//! * The last state that a follower of a name sees is its final binding, or none.
//!
//! # Assumptions
//! Clients write to the nodes only by these functions; an administrator may delete them. A binding
//! that ends with a session belongs to its creator: other clients can neither rebind nor unbind it.
//!
//! # Connection loss
//! * SUSPENDED: [`is_bound`](Binding::is_bound) returns `false`, but other clients see the binding
//!   as long as its session lives.
//! * LOST: a [`Binding`] is over, a [`KeptBinding`] is bound again in the next session.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping a binding that goes with its session unbinds
//! it in the background.
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
