//! Runs tests.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::browser::Browser;
use super::error::BrowserError;

/// The time that a test may take after the start of its browser, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// The time that the picture of a failure may take: the browser may hang.
const PICTURE: Duration = Duration::from_secs(10);

/// Runs a test with a browser, in real time. `target_tmpdir` is `env!("CARGO_TARGET_TMPDIR")` of
/// the tests. The value that the test returns, such as its [`Site`](crate::Site), lives until the
/// console has been read: the end of an open connection would be an error there.
///
/// # Panics
/// * The browser cannot be started: for example, it is not installed.
/// * The test fails, panics, or takes longer than three minutes. The message ends with the file of
///   a picture of the page.
/// * The page has left an error in the console that the test has not taken by
///   [`Browser::console_errors`].
pub fn in_browser<T>(
    target_tmpdir: &str,
    test: impl AsyncFnOnce(&Browser) -> Result<T, BrowserError>,
) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("invariant: the system has threads for a runtime");
    runtime.block_on(Box::pin(async {
        let browser = Browser::start(target_tmpdir).await;
        let browser = browser.unwrap_or_else(|error| panic!("{}", with_sources(&error)));
        let judged = timeout(LIMIT, Box::pin(judge(&browser, test)));
        let outcome = AssertUnwindSafe(judged).catch_unwind().await;
        let failure = match outcome {
            Ok(Ok(Ok(()))) => match browser.close().await {
                Ok(()) => return,
                Err(error) => panic!("{}", with_sources(&error)),
            },
            Ok(Ok(Err(error))) => with_sources(&error),
            Ok(Err(_)) => format!("the test takes longer than {LIMIT:?}"),
            Err(panic) => message_of(&*panic).unwrap_or_else(|| resume_unwind(panic)),
        };
        panic!("{failure}{}", picture_of_failure(&browser).await);
    }));
}

async fn judge<T>(
    browser: &Browser,
    test: impl AsyncFnOnce(&Browser) -> Result<T, BrowserError>,
) -> Result<(), BrowserError> {
    let _lives = test(browser).await?;
    let errors = browser.console_errors().await?;
    if errors.is_empty() { Ok(()) } else { Err(BrowserError::Console(errors)) }
}

/// Returns the file of a picture of the page as the end of a message; nothing if there is none.
async fn picture_of_failure(browser: &Browser) -> String {
    let name =
        thread::current().name().map_or_else(|| "test".to_owned(), |name| name.replace("::", "-"));
    let picture = timeout(PICTURE, browser.screenshot(&format!("failed-{name}"))).await;
    match picture {
        Ok(Ok(picture)) => format!("\nthe page: {}", picture.path().display()),
        _ => String::new(),
    }
}

fn with_sources(error: &BrowserError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

fn message_of(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
}
