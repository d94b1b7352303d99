//! Tests of the client, by subject: on the embedded server and, if a name ends in `_real`, on
//! Apache ZooKeeper.

#[cfg(feature = "tls")]
mod certificates;
mod changes;
mod client_real;
mod closing;
mod cluster;
mod common;
mod conformance;
mod conformance_embedded;
mod conformance_real;
mod connection;
mod credentials;
mod deadlines;
mod driver;
mod faults;
mod operations;
mod races;
#[cfg(feature = "sasl")]
mod sasl_embedded;
#[cfg(feature = "sasl")]
mod sasl_real;
#[cfg(all(feature = "tls", feature = "sasl"))]
mod security_real;
mod servers;
mod sessions;
mod sessions_real;
#[cfg(feature = "tls")]
mod tls_config;
#[cfg(feature = "tls")]
mod tls_embedded;
#[cfg(feature = "tls")]
mod tls_peers;
#[cfg(feature = "tls")]
mod tls_real;
mod validity;
mod watches;
