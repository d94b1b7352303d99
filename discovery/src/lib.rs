//! Service discovery over ZooKeeper for async Rust, in the format of Apache Curator: programs
//! that use Java Curator find services written in Rust, and the reverse.
//!
//! | Curator | here |
//! |---|---|
//! | `ServiceDiscoveryBuilder`, `ServiceDiscovery` | [`ServiceDiscovery`] |
//! | `registerService`, `updateService`, `unregisterService` | [`register`](ServiceDiscovery::register), which returns a [`Registration`] |
//! | `queryForNames`, `queryForInstances`, `queryForInstance` | [`names`](ServiceDiscovery::names), [`instances`](ServiceDiscovery::instances), [`instance`](ServiceDiscovery::instance) |
//! | `ServiceCache`, `ServiceCacheListener` | [`ServiceCache`], its [`events`](ServiceCache::events) |
//! | `ServiceProvider`, `ProviderStrategy`, `DownInstancePolicy` | [`ServiceProvider`], [`provider`] |
//! | `InstanceFilter` | [`filter`](provider::ProviderBuilder::filter) |
//! | – | [`inspect`](ServiceDiscovery::inspect): who is registered, for people |
//! | `JsonInstanceSerializer` | [`json`], [`PayloadCodec`] |
//! | `UriSpec` | [`UriSpec`] |
//! | `DiscoveryPathConstructor` | [`paths`](ServiceDiscovery::paths) |
//! | `ServiceInstanceBuilder.getAllLocalIPs`, `LocalIpFilter` | [`LocalAddress`] |
//! | `DiscoveryResource`, `InstanceCleanup` of the REST server | the module `rest`, with the feature `rest` |
//! | – | [`Registration::gate`]: drained while a local check fails |
//! | – | `ServiceProvider::discover`, with the feature `tower` |
//!
//! # Layout
//! ```text
//! /services                             container – the base
//!   └─ orders                           container – a service
//!        └─ 06c0af4c-03c4-…             ephemeral, or persistent for static and permanent instances – an instance    data: JSON
//! ```
//! The node of a sequential instance is named `_c_<uuid>-<id><number>`. Its prefix identifies it if
//! the response to its create is lost.
//!
//! # Protocol
//! See [`registration`], [`cache`] and [`provider`].
//!
//! # Guarantees
//! * A lost connection causes no write, so consumers see no change.
//! * An instance never disappears while it is replaced: one transaction deletes the old node and
//!   creates the new one.
//! * Two processes with the same id do not fight: the older registration ends as
//!   [superseded](RegistrationState::Superseded).
//! * An instance that was [unregistered](Registration::unregister) does not come back.
//! * An update keeps changes by other clients, and fields that this version does not know.
//! * A node that is not a readable instance does not hide the others.
//! * Without a connection a provider serves the last known instances, and reports that they are
//!   stale.
//!
//! # Assumptions
//! * Ids are unique, unless processes are meant to replace each other.
//! * ZooKeeper cannot write or delete a node by its identity. So a node is read before it is
//!   written, and a replacement never has the version of the old node. One gap remains: between the
//!   read and the write, another client deletes the node and creates one with the same version.
//!
//! # Connection loss
//! * SUSPENDED: nothing is sent. Registrations count as registered, caches as stale.
//! * LOST: registrations are lost, and registered again in the next session.
//! * RECONNECTED: caches catch up. Registrations do nothing in the same session.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping a [`Registration`] of a dynamic instance
//! unregisters it in the background.
//!
//! # Metrics
//! See [`observe`].
//!
//! # Errors
//! Registrations return [`RegistrationError`], and providers
//! [`Unavailable`](provider::Unavailable). Queries and caches return the
//! [`Error`](zk_curator::Error) of the framework.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use serde::{Deserialize, Serialize};
//! use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Meta {
//!     zone: String,
//! }
//!
//! let discovery = ServiceDiscovery::<Meta>::new(&zk, "/services");
//! let orders = ServiceInstance::builder("orders").address("10.0.0.1").port(8040);
//! let orders = orders.uri_spec("{scheme}://{address}:{port}").payload(Meta { zone: "a".into() });
//! let mut me = discovery.register(orders.build()?).await?;
//!
//! let provider = discovery.provider("orders").filter(|orders| orders.payload.zone == "a").start();
//! provider.wait_ready(1).await?;
//! let call = provider.get()?;
//! assert_eq!(call.uri().as_deref(), Some("http://10.0.0.1:8040"));
//! call.ok();
//!
//! me.drain().await?;
//! provider.cache().synced().await?;
//! assert!(provider.get().is_err());
//! me.unregister().await?;
//! # zk.close().await?;
//! # Ok(()) }
//! ```

pub mod cache;
mod config;
mod discovery;
pub mod inspect;
pub mod instance;
pub mod json;
mod local_address;
mod measure;
pub mod observe;
pub mod payload;
pub mod provider;
pub mod query;
pub mod registration;
#[cfg(feature = "rest")]
pub mod rest;
pub mod uri_spec;
mod versioned;

pub use cache::{ServiceCache, ServiceEvent};
pub use discovery::ServiceDiscovery;
pub use instance::{ServiceInstance, ServiceInstanceBuilder, ServiceType};
pub use local_address::{LocalAddress, LocalAddressError};
pub use payload::PayloadCodec;
pub use provider::{DownInstancePolicy, ServiceProvider};
pub use query::{Instances, Undecodable};
pub use registration::{OnConflict, OnDeleted, Registration, RegistrationError, RegistrationState};
pub use uri_spec::{UriSpec, UriSpecError};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
