//! Starts Apache ZooKeeper itself, for tests that must not rely on the embedded server alone.
//!
//! [`RealZooKeeper`] needs a Java runtime and the libraries of the Debian packages
//! `libzookeeper-java`, `libnetty-java`, `libsnappy-java` and `libslf4j-java`.
//! `scripts/install-real` installs them. The environment variable `ZOOKEEPER_JARS` names other
//! directories for the libraries, separated by colons. [`RealEnsemble`] starts several servers,
//! which elect a leader.
//!
//! # Tests
//! A test that needs Java begins with [`or_skip`], or with [`chroot_or_skip`] if it needs only
//! nodes of its own. Without Java it prints a line and passes, so `cargo test --workspace` needs
//! only the Rust toolchain. With `ZK_CURATOR_REQUIRE_REAL=1`, as in CI, the test fails instead,
//! because a skipped test proves nothing. With `ZK_CURATOR_REQUIRE_REAL=0` the test is always
//! skipped, for a quick run of everything else.
//!
//! ```
//! # async fn test() {
//! use zk_curator_real as real;
//!
//! let Some(zookeeper) = real::or_skip("writes_survive_a_restart").await else { return };
//! let connect_string = zookeeper.connect_string(); // "127.0.0.1:20123"
//! # }
//! ```
//!
//! [`Journal`] writes transaction logs, for tests of programs that read those of a server.
//!
//! Servers, processes and files end with the process of the tests, even if it is killed.

mod builder;
#[cfg(all(feature = "chaos", unix))]
pub mod chaos;
mod ensemble;
mod error;
mod home;
pub mod java;
mod journal;
mod kdc;
mod launch;
mod launcher;
pub mod other_clients;
mod ports;
mod session;
mod shared;
mod signals;
mod temp_dir;

use std::env;
use std::io::{self, Write};

pub use builder::RealZooKeeperBuilder;
pub use ensemble::{RealEnsemble, RealEnsembleBuilder, Role};
pub use error::RealError;
pub use journal::Journal;
pub use kdc::Kdc;
pub use launcher::RealZooKeeper;
pub use ports::free_port;
pub use session::Session;
pub use shared::{Chroot, chroot_or_skip};
pub use signals::default_signals;
pub use temp_dir::TempDir;

/// Returns `true` if a missing Apache ZooKeeper is a failure, that is, if `ZK_CURATOR_REQUIRE_REAL`
/// is `1`.
#[must_use]
pub fn required() -> bool {
    env::var_os("ZK_CURATOR_REQUIRE_REAL").is_some_and(|value| value == "1")
}

/// Returns `true` if `test` can run, given the result of an `available` function or of another
/// search. If not, prints the reason.
///
/// # Panics
/// Panics if the test cannot run and [`required`] returns `true`.
#[must_use]
pub fn runs(test: &str, available: Result<(), impl std::fmt::Display>) -> bool {
    let why = match available {
        _ if env::var_os("ZK_CURATOR_REQUIRE_REAL").is_some_and(|value| value == "0") => {
            "ZK_CURATOR_REQUIRE_REAL is 0".to_owned()
        }
        Ok(()) => return true,
        Err(why) => why.to_string(),
    };
    assert!(!required(), "{test} cannot run here: {why}");
    // With `eprintln!`, the test harness would hide the output of a passing test. A single write
    // keeps lines whole.
    if io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes()).is_err() {
        tracing::warn!(test, %why, "skipped");
    }
    false
}

/// Starts Apache ZooKeeper for `test`, by [`quick_start`](RealZooKeeperBuilder::quick_start). If it
/// is not installed, prints a line to standard error and returns `None`.
///
/// # Panics
/// Panics if it is not installed and [`required`] returns `true`, or if it is installed but does
/// not start.
///
/// # Cancel safety
/// See [`RealZooKeeperBuilder::start`].
pub async fn or_skip(test: &str) -> Option<RealZooKeeper> {
    or_skip_with(test, RealZooKeeper::builder()).await
}

/// Does the same as [`or_skip`], with settings.
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
    match builder.quick_start().start().await {
        Ok(zookeeper) => Some(zookeeper),
        Err(error) => panic!("{test}: {error} ({:?})", std::error::Error::source(&error)),
    }
}

/// Starts an ensemble of `servers` for `test`. If Apache ZooKeeper is not installed, prints a line
/// to standard error and returns `None`.
///
/// # Panics
/// As [`or_skip`].
///
/// # Cancel safety
/// See [`RealEnsembleBuilder::start`].
pub async fn or_skip_ensemble(test: &str, servers: usize) -> Option<RealEnsemble> {
    or_skip_ensemble_with(test, RealEnsemble::builder(servers)).await
}

/// Does the same as [`or_skip_ensemble`], with settings.
///
/// # Panics
/// As [`or_skip`].
///
/// # Cancel safety
/// See [`RealEnsembleBuilder::start`].
pub async fn or_skip_ensemble_with(
    test: &str,
    builder: RealEnsembleBuilder,
) -> Option<RealEnsemble> {
    if !runs(test, builder.available()) {
        return None;
    }
    match builder.start().await {
        Ok(ensemble) => Some(ensemble),
        Err(error) => panic!("{test}: {error} ({:?})", std::error::Error::source(&error)),
    }
}
