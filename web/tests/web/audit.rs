//! The records of changes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_default;
use tracing::{Event, Metadata, Subscriber};
use zk_curator::internal::Locked;
use zk_curator_testing::paused;
use zk_curator_web::WebOptions;

use crate::support::{Site, ask};

/// Keeps the records that this thread makes.
#[derive(Debug, Clone, Default)]
struct Records(Arc<Locked<Vec<String>>>);

impl Subscriber for Records {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "zk_curator_web::audit"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a record.
#[derive(Debug, Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

/// Checks the only record.
fn assert_record(records: &Records, parts: &[&str]) {
    let mut lines = records.0.lock();
    let lines = std::mem::take(&mut *lines);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in parts {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
}

async fn site() -> Site {
    let site = Site::start(WebOptions::new().write(true)).await;
    site.zk.create("/a").data("1").await.unwrap();
    site
}

#[test]
fn a_change_of_a_client_that_goes_away_is_recorded() {
    paused(async {
        let (site, records) = (site().await, Records::default());
        let _kept = set_default(records.clone());
        site.server.hold();
        let put = ask("PUT", "/api/v1/node/a").header("if-match", "\"0\"");
        let put = site.send(put.body(Body::from("22")).unwrap());
        // A server drops the request of a connection that its client closes.
        assert!(timeout(Duration::from_secs(1), put).await.is_err());
        assert_record(&records, &["unknown", "\"set\"", "path=\"/a\"", "version=\"0\"", "bytes=2"]);
        site.server.release();
    });
}

#[test]
fn a_record_names_the_created_node() {
    paused(async {
        let (site, records) = (site().await, Records::default());
        let _kept = set_default(records.clone());
        let post = ask("POST", "/api/v1/node/a/n-?mode=persistent_sequential");
        let post = post.header("if-none-match", "*").body(Body::from("x")).unwrap();
        assert_eq!(site.send(post).await.status, 201);
        assert_record(&records, &["=changed", "\"create\"", "path=\"/a/n-0000000000\""]);
        let post = ask("POST", "/api/v1/node/a").header("if-none-match", "*");
        assert_eq!(site.send(post.body(Body::from("x")).unwrap()).await.status, 412);
        assert_record(&records, &["not changed", "\"create\"", "path=\"/a\""]);
    });
}
