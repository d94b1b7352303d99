//! Pages that server-sent events update.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use futures_util::stream;
use tokio::sync::watch;
use zk_curator::CuratorFramework;
use zk_curator_browser::{Explorer, Site};

use super::pages;
use crate::in_browser;

const BODY: &str = "<main><h1>Live</h1><output id=\"data\"></output></main>";
/// Shows the last event.
const SCRIPT: &str = "
new EventSource('/events').onmessage = event => {
    document.querySelector('#data').textContent = event.data;
};";

/// The time after which the browser connects again.
const RETRY: Duration = Duration::from_millis(50);

/// Sends each value of a channel, beginning with the present one.
fn counter(values: &watch::Receiver<u32>) -> Router {
    let values = values.clone();
    let events = move || {
        let mut values = values.clone();
        values.mark_changed();
        let events = stream::unfold(values, |mut values| async move {
            values.changed().await.ok()?;
            let value = values.borrow_and_update().to_string();
            Some((Ok::<_, Infallible>(Event::default().data(value).retry(RETRY)), values))
        });
        async move { Sse::new(events) }
    };
    pages::router(BODY, SCRIPT).route("/events", get(events))
}

#[test]
#[ignore = "night: scripts/night"]
fn events_of_the_server_update_the_page() {
    in_browser(async |browser| {
        let (set, values) = watch::channel(1);
        let site = Site::serve(counter(&values))?;
        browser.goto(&site.url("/")).await?;
        for value in 1..=3 {
            set.send_replace(value);
            browser.wait_for("#data", &format!("e => e.textContent === '{value}'")).await?;
        }
        Ok((site, set))
    });
}

#[test]
#[ignore = "night: scripts/night"]
fn a_page_reconnects_to_a_site_that_was_stopped() {
    in_browser(async |browser| {
        let (set, values) = watch::channel(1);
        let mut site = Site::serve(counter(&values))?;
        browser.goto(&site.url("/")).await?;
        browser.wait_for("#data", "e => e.textContent === '1'").await?;
        site.stop().await;
        set.send_replace(2);
        site.restart(counter(&values)).await?;
        browser.wait_for("#data", "e => e.textContent === '2'").await?;
        // The end of the connection is an error of the console, which the test takes.
        let errors = browser.console_errors().await?;
        assert!(errors.iter().all(|error| error.message().contains("/events")), "{errors:?}");
        Ok((site, set))
    });
}

/// Sends the data of a node.
fn data_of_greeting(zk: &CuratorFramework) -> Router {
    let zk = zk.clone();
    let events = move || {
        let events = stream::unfold(zk.watch_data("/greeting"), |mut watch| async move {
            let state = watch.next().await.ok()?;
            let text = state.map(|(data, _)| String::from_utf8_lossy(&data).into_owned());
            let event = Event::default().data(text.unwrap_or_else(|| "no node".to_owned()));
            Some((Ok::<_, Infallible>(event), watch))
        });
        async move { Sse::new(events) }
    };
    pages::router(BODY, SCRIPT).route("/events", get(events))
}

#[test]
#[ignore = "night: scripts/night"]
fn data_of_a_node_update_the_page() {
    in_browser(async |browser| {
        let explorer = Explorer::start(data_of_greeting).await?;
        browser.goto(&explorer.url("/")).await?;
        browser.wait_for("#data", "e => e.textContent === 'no node'").await?;
        explorer.zk().create("/greeting").data("hello").await?;
        browser.wait_for("#data", "e => e.textContent === 'hello'").await?;
        // Markup in data is text.
        explorer.zk().set_data("/greeting", "<b>שלום</b>").await?;
        browser.wait_for("#data", "e => e.textContent === '<b>שלום</b>'").await?;
        assert_eq!(browser.text_of("#data").await?, "<b>שלום</b>");
        assert!(explorer.server().probe().exists("/greeting"));
        Ok(explorer)
    });
}
