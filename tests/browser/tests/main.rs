//! Tests in a real browser: `explorer` tests the web explorer, and `night::harness` the harness itself,
//! with pages that it defines.
//!
//! They fail without Chromium: `scripts/install-browser` installs it.
#![cfg(target_os = "linux")]

mod explorer;
mod night;

use zk_curator_browser::{Browser, BrowserError};

/// The folder of the tests in the target directory.
const TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// Runs a test in a browser, see [`zk_curator_browser::in_browser`].
fn in_browser<T>(test: impl AsyncFnOnce(&Browser) -> Result<T, BrowserError>) {
    zk_curator_browser::in_browser(TMP, test);
}
