//! [`Diagnostics`]: prints what the proxy reports.

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The modules whose events are printed.
const SOURCE: &str = "zk_curator_testing::fault_proxy";

/// The least time between two lines about the same problem of the same server.
const PAUSE: Duration = Duration::from_secs(10);

/// Prints events of the proxy on standard error, one line each. Further events about the same
/// problem of the same server are left out for ten seconds.
#[derive(Debug)]
pub(crate) struct Diagnostics {
    /// The name of the program, at the beginning of each line.
    program: &'static str,
    /// The time of the last line about each problem, by its message and server.
    printed: Mutex<HashMap<(String, String), Instant>>,
}

impl Diagnostics {
    pub(crate) fn new(program: &'static str) -> Self {
        Self { program, printed: Mutex::default() }
    }

    /// Returns the line about an event, unless there was one about the same problem a moment ago.
    fn line(&self, text: Text, now: Instant) -> Option<String> {
        let Text { server, message, details } = text;
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        // Old entries have no effect.
        printed.retain(|_, at| now.saturating_duration_since(*at) < PAUSE);
        let line = match server.as_str() {
            "" => format!("{message}{details}"),
            server => format!("{server}: {message}{details}"),
        };
        let key = (message, server);
        if printed.contains_key(&key) {
            return None;
        }
        printed.insert(key, now);
        Some(line)
    }
}

impl Subscriber for Diagnostics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::INFO
            && metadata.target().starts_with(SOURCE)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        if let Some(line) = self.line(text, Instant::now()) {
            // There is nobody to tell if standard error is closed.
            writeln!(std::io::stderr(), "{}: {line}", self.program).ok();
        }
    }

    // No span is enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event.
#[derive(Debug, Default)]
struct Text {
    server: String,
    message: String,
    /// The error, and all other fields.
    details: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "server" => value.clone_into(&mut self.server),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.add(format_args!(": {value:?}")),
            name => self.add(format_args!(", {name} {value:?}")),
        }
    }
}

impl Text {
    fn add(&mut self, details: std::fmt::Arguments<'_>) {
        // A text takes everything.
        self.details.write_fmt(details).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(server: &str, error: &str) -> Text {
        let details = format!(": {error}");
        Text { server: server.into(), message: "cannot connect".into(), details }
    }

    #[test]
    fn the_same_problem_is_printed_at_most_every_ten_seconds() {
        let diagnostics = Diagnostics::new("test");
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let line = |server, millis| diagnostics.line(text(server, "refused"), at(millis));
        assert_eq!(line("zk1:2181", 0).as_deref(), Some("zk1:2181: cannot connect: refused"));
        assert_eq!(line("zk1:2181", 9_999), None);
        assert!(line("zk2:2181", 9_999).is_some(), "another server");
        assert!(line("zk1:2181", 10_000).is_some());
        assert_eq!(line("zk1:2181", 19_999), None);
        assert_eq!(diagnostics.printed.lock().unwrap().len(), 1, "memory is bounded");
    }
}
