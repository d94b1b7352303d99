//! The web explorer, as its users see it.

mod changes_by_hand;
mod conflict;
mod empty;
mod history;
mod hostile;
mod hostile_recipes;
mod keyboard;
mod large;
mod live;
mod login;
mod no_rights;
mod outage;
mod pages;
mod policy;
mod restore;
mod sampled;
mod steps;
mod three_clicks;
mod way;
mod without_script;
mod world;

use zk_curator_browser::{BrowserError, Explorer};
use zk_curator_web::{WebOptions, router};

/// Starts an explorer with these settings over an embedded server.
async fn explorer(options: WebOptions) -> Result<Explorer, BrowserError> {
    Explorer::start(|zk| router(zk, options)).await
}
