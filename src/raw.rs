//! The interface between the framework and a raw ZooKeeper client: see [`zk_curator_client::raw`].
//!
//! A builder takes another client with [`raw_client`](crate::CuratorFrameworkBuilder::raw_client).

pub use zk_curator_client::raw::{
    NativeFactory, RawClient, RawClientFactory, RawFuture, RawStates, Revocable, RevocableFuture,
    SessionSettings,
};
#[cfg(feature = "zookeeper-async")]
pub use zk_curator_zookeeper_async as zookeeper_async;
