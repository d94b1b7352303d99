//! The harness of tests in a real browser: Debian's Chromium, without a window, which chromedriver
//! controls. `scripts/install-browser` installs both, and axe-core.
//!
//! * [`in_browser`] runs a test with a [`Browser`] that has a new profile, and fails if the page
//!   has left an error in the console.
//! * [`Site`] serves a router on 127.0.0.1, on threads of its own, and can be stopped and
//!   restarted.
//! * [`Explorer`] is a site over a framework that is connected to an embedded server.
//!
//! # Waiting
//! A test waits with [`Browser::wait_for`] for a state of the page, and never for a time. The page
//! itself looks at each of its changes. Every command of the browser has a deadline, and so has
//! every test: see [`in_browser`].
//!
//! # Scripts
//! [`Browser::execute`] is not subject to the content security policy of the page. This holds also
//! for code of the page that the script calls. So a test of the policy acts as a person does, with
//! [`Browser::click`] and [`Browser::keys`].
#![cfg(target_os = "linux")]
#![expect(
    clippy::missing_errors_doc,
    reason = "every variant of BrowserError says what has failed, and every method may return it"
)]

mod browser;
mod driver;
mod error;
mod explorer;
mod findings;
mod http;
mod picture;
mod processes;
mod run;
mod site;
mod webdriver;

pub use browser::{Browser, Theme, key};
pub use error::BrowserError;
pub use explorer::{Explorer, connect};
pub use findings::{ConsoleEntry, Violation};
pub use picture::Picture;
pub use processes::OwnProcesses;
pub use run::in_browser;
pub use site::Site;
