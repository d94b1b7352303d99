//! Starts Apache ZooKeeper itself, for the tests that must not trust a server of our own.
//!
//! [`RealZooKeeper`] needs a Java runtime and the libraries of the Debian packages `libzookeeper-java`,
//! `libnetty-java`, `libsnappy-java` and `libslf4j-java`; `scripts/install-real` installs them. Other
//! places for the libraries are named in the environment variable `ZOOKEEPER_JARS`, directories separated
//! by colons. [`RealEnsemble`] starts several of them, which elect a leader.
//!
//! # Tests
//! A test that needs Java begins with [`or_skip`]. Without Java it says so and passes, so that
//! `cargo test --workspace` works with nothing but the Rust toolchain. With `ZK_CURATOR_REQUIRE_REAL=1`, as
//! in CI, it fails instead: a test that was skipped is not a test that passed. With `ZK_CURATOR_REQUIRE_REAL=0` it
//! is skipped in any case, for a quick run of everything else.
//!
//! ```
//! # async fn test() {
//! use zk_curator_real as real;
//!
//! let Some(zookeeper) = real::or_skip("writes_survive_a_restart").await else { return };
//! let connect_string = zookeeper.connect_string(); // "127.0.0.1:20123"
//! # }
//! ```

#[cfg(all(feature = "chaos", unix))]
pub mod chaos;
mod ensemble;
mod error;
pub mod java;
mod launch;
mod launcher;
pub mod other_clients;
mod temp_dir;

use std::env;
use std::io::{self, Write};

pub use ensemble::{RealEnsemble, RealEnsembleBuilder};
pub use error::RealError;
pub use launcher::{RealZooKeeper, RealZooKeeperBuilder};
pub use temp_dir::TempDir;

/// Whether a missing Apache ZooKeeper is a failure: `ZK_CURATOR_REQUIRE_REAL` is `1`.
#[must_use]
pub fn required() -> bool {
    env::var_os("ZK_CURATOR_REQUIRE_REAL").is_some_and(|value| value == "1")
}

/// Whether `test` can run, given what an `available` function answered, or another search for what it needs. If not,
/// says why.
///
/// # Panics
/// When the test cannot run and [`required`].
#[must_use]
pub fn runs(test: &str, available: Result<(), impl std::fmt::Display>) -> bool {
    let why = match available {
        _ if env::var_os("ZK_CURATOR_REQUIRE_REAL").is_some_and(|value| value == "0") => {
            "ZK_CURATOR_REQUIRE_REAL is 0".to_owned()
        }
        Ok(()) => return true,
        Err(why) => why.to_string(),
    };
    assert!(!required(), "{test} needs what is missing here: {why}");
    // Not eprintln!: the test harness would hide it, as the output of a test that passes. One write, for whole lines.
    if io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes()).is_err() {
        tracing::warn!(test, %why, "skipped");
    }
    false
}

/// Starts Apache ZooKeeper for `test`; `None`, with a line on standard error, when it is not installed.
///
/// # Panics
/// When it is not installed and [`required`], or when it is installed and does not start.
///
/// # Cancel safety
/// See [`RealZooKeeperBuilder::start`].
pub async fn or_skip(test: &str) -> Option<RealZooKeeper> {
    or_skip_with(test, RealZooKeeper::builder()).await
}

/// [`or_skip`] with settings.
///
/// # Panics
/// As [`or_skip`].
///
/// # Cancel safety
/// See [`RealZooKeeperBuilder::start`].
pub async fn or_skip_with(test: &str, builder: RealZooKeeperBuilder) -> Option<RealZooKeeper> {
    if !runs(test, builder.available()) {
        return None;
    }
    match builder.start().await {
        Ok(zookeeper) => Some(zookeeper),
        Err(error) => panic!("{test}: {error} ({:?})", std::error::Error::source(&error)),
    }
}

/// Starts an ensemble of `servers` for `test`; `None`, with a line on standard error, when Apache ZooKeeper is not
/// installed.
///
/// # Panics
/// As [`or_skip`].
///
/// # Cancel safety
/// See [`RealEnsembleBuilder::start`].
pub async fn or_skip_ensemble(test: &str, servers: usize) -> Option<RealEnsemble> {
    or_skip_ensemble_with(test, RealEnsemble::builder(servers)).await
}

/// [`or_skip_ensemble`] with settings.
///
/// # Panics
/// As [`or_skip`].
///
/// # Cancel safety
/// See [`RealEnsembleBuilder::start`].
pub async fn or_skip_ensemble_with(test: &str, builder: RealEnsembleBuilder) -> Option<RealEnsemble> {
    if !runs(test, builder.available()) {
        return None;
    }
    match builder.start().await {
        Ok(ensemble) => Some(ensemble),
        Err(error) => panic!("{test}: {error} ({:?})", std::error::Error::source(&error)),
    }
}
