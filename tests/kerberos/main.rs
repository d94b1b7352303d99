//! Kerberos (SASL GSSAPI) with MIT's Kerberos server, Apache ZooKeeper and Java Curator.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod curator;
mod expiry;
mod framework;
#[expect(dead_code, reason = "shared with the tests of other clients, which use more of it")]
#[path = "../interop/peer.rs"]
mod peer;
mod realm;
mod servers;
mod tickets;
