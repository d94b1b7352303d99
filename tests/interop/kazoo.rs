//! Finds kazoo.

use std::path::PathBuf;

use zk_curator_real::{other_clients, runs};

/// Returns a Python with kazoo. If there is none, prints a line and returns `None`.
pub(crate) async fn python_or_skip(test: &str) -> Option<PathBuf> {
    let python = other_clients::python_with_kazoo(env!("CARGO_TARGET_TMPDIR")).await;
    if runs(test, python.as_ref().map(|_| ())) { python.ok() } else { None }
}
