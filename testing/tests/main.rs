//! The embedded server and cluster, by subject. Modules whose names end in `_real` compare them
//! with Apache ZooKeeper.

#[cfg(feature = "tls")]
#[path = "../../client/tests/certificates/mod.rs"]
mod certificates;
mod cluster_faults;
mod cluster_parity_real;
mod cluster_replication;
mod common;
mod differential;
mod differential_real;
mod ensemble_real;
mod fault_proxy;
mod four_letter_words;
mod launcher_real;
mod parity_real;
mod read_only_real;
mod server_acls;
mod server_read_only;
mod server_requests;
mod server_rules;
mod server_sessions;
mod server_snapshots;
#[cfg(feature = "tls")]
mod server_tls;
mod server_watch_requests;
mod server_watches;
mod test_kit;
