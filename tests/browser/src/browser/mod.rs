//! A browser with one page.

mod audit;
mod files;
pub mod key;
mod look;
mod page;
mod survey;
mod theme;
mod wait;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use zk_curator_real::TempDir;

pub use theme::Theme;

use super::driver::{Driver, find};
use super::error::BrowserError;
use super::processes::OwnProcesses;
use super::webdriver::{LIMIT, Session};

/// The browsers that this process may have at a time: each has several processes, and the gate has
/// two cores.
static SLOTS: Semaphore = Semaphore::const_new(2);

/// A headless Chromium with a new profile, which shows one page.
///
/// Its window has 1280 × 800 pixels, and its user prefers light pages without animations: see
/// [`resize`](Self::resize) and [`set_theme`](Self::set_theme). It reaches only 127.0.0.1: every
/// other name or address is unknown to it.
///
/// Dropping it kills the processes of the browser and of its driver, and no others, and removes the
/// profile. They end with the process of the tests, too, even if it is killed.
///
/// # Cancel safety
/// If the future of a command is dropped, the browser may perform the command, and the next command
/// waits for it.
#[derive(Debug)]
pub struct Browser {
    session: Session,
    /// The process of the browser itself, which starts the others.
    process: Option<u32>,
    /// The folder of axe-core, and of the pictures.
    folder: PathBuf,
    // Killed before the profile is removed.
    driver: Driver,
    _profile: TempDir,
    _slot: SemaphorePermit<'static>,
}

impl Browser {
    /// Starts a browser, after others of this process have ended if there are two: a test that has
    /// two of them could wait for itself. `target_tmpdir` is the `CARGO_TARGET_TMPDIR` of the
    /// tests.
    ///
    /// # Cancel safety
    /// If the future is dropped, no process stays.
    pub async fn start(target_tmpdir: &str) -> Result<Self, BrowserError> {
        let slot = slot().await;
        let program = find("chromium")?;
        let profile = TempDir::new("browser")?;
        let driver = Driver::start(profile.path()).await?;
        let wanted = capabilities(&program, profile.path());
        let (session, capabilities) = Session::open(driver.addr(), &wanted).await?;
        let process = capabilities["goog:processID"].as_u64();
        let browser = Self {
            session,
            process: process.and_then(|id| u32::try_from(id).ok()),
            folder: Path::new(target_tmpdir).with_file_name("browser"),
            driver,
            _profile: profile,
            _slot: slot,
        };
        browser.resize(1280, 800).await?;
        browser.set_theme(Theme::Light).await?;
        // Without the entries of the page that a new browser shows.
        browser.goto("about:blank").await?;
        browser.console_errors().await?;
        Ok(browser)
    }

    /// Closes the browser as a person does, so that it removes its files outside of the profile,
    /// and kills the processes that are left.
    pub async fn close(self) -> Result<(), BrowserError> {
        self.session.close().await
    }

    /// Returns the id of the process whose end is the end of the browser; `None` if the driver does
    /// not tell it.
    #[must_use]
    pub const fn process(&self) -> Option<u32> {
        self.process
    }

    /// Returns the processes of the browser and of its driver, which may have ended.
    #[must_use]
    pub fn processes(&self) -> OwnProcesses {
        self.driver.processes().clone()
    }

    /// Runs the body of a JavaScript function with `arguments`, and returns its result. A promise
    /// is awaited, for at most 40 s. The policy of the page does not apply to it. It may use `eval`
    /// until its first `await`.
    pub async fn execute(&self, script: &str, args: &[Value]) -> Result<Value, BrowserError> {
        self.session.execute(script, args).await
    }
}

/// Waits for a slot.
async fn slot() -> SemaphorePermit<'static> {
    SLOTS.acquire().await.expect("invariant: nothing closes the semaphore")
}

/// The capabilities of a browser with a new profile.
fn capabilities(program: &Path, profile: &Path) -> Value {
    let mut args = vec![
        "--headless".to_owned(),
        format!("--user-data-dir={}", profile.join("profile").display()),
        "--window-size=1280,800".to_owned(),
    ];
    args.extend(SWITCHES.iter().map(|&switch| switch.to_owned()));
    if is_root() {
        // Chromium has no sandbox for root.
        args.push("--no-sandbox".to_owned());
    }
    let limit = u64::try_from(LIMIT.as_millis()).unwrap_or(u64::MAX);
    json!({
        "goog:chromeOptions": { "binary": program.display().to_string(), "args": args },
        "goog:loggingPrefs": { "browser": "ALL" },
        "timeouts": { "script": limit, "pageLoad": limit, "implicit": 0 },
    })
}

/// The switches of every browser.
const SWITCHES: [&str; 15] = [
    // Nothing but this machine can be reached: no name has an address, and there is no proxy.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-proxy-server",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-features=MediaRouter,OptimizationHints,Translate",
    "--no-pings",
    // The folder /dev/shm of a container is small.
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-extensions",
    "--no-default-browser-check",
    // The handler of crashes is a process of its own.
    "--disable-crash-reporter",
    // Pages look the same on every machine with the same fonts.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--hide-scrollbars",
    "--lang=en-GB",
];

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_has_no_sandbox() {
        let wanted = capabilities(Path::new("/usr/bin/chromium"), Path::new("/tmp/profile"));
        let options = &wanted["goog:chromeOptions"];
        assert_eq!(options["binary"], "/usr/bin/chromium");
        let args = options["args"].as_array().unwrap();
        assert!(args.contains(&json!("--user-data-dir=/tmp/profile/profile")), "{args:?}");
        assert_eq!(args.contains(&json!("--no-sandbox")), is_root());
    }
}
