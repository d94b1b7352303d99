//! Features that are off by default.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod backoff;
mod blocking;
#[path = "../../client/tests/certificates/mod.rs"]
mod certificates;
#[cfg(unix)]
mod child;
mod durations;
mod gzip;
mod gzip_recipes;
mod harness;
mod metrics;
mod monitoring;
#[path = "../locks/mutex_faults.rs"]
mod mutex_faults;
mod sasl;
mod serde;
#[cfg(unix)]
mod signals;
mod tls;
mod zookeeper_async;
