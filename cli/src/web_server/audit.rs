//! The record of changes, on standard error: what the explorer reports to `tracing`.

use std::fmt;
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::output;

/// The target of the records.
const TARGET: &str = "zk_curator_web::audit";

/// Prints a line for each record, from now on.
pub(crate) fn print_audit() {
    // It was set before, for example by another `zkc web` in a shell.
    drop(tracing::subscriber::set_global_default(AuditLines));
}

/// Prints the records, and ignores all other events.
#[derive(Debug)]
struct AuditLines;

impl Subscriber for AuditLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET && metadata.is_event()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = AuditLine::default();
        event.record(&mut line);
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        output::warn(&format!("{time} audit: {}{}", line.message, line.fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of a record.
#[derive(Debug, Default)]
struct AuditLine {
    message: String,
    fields: String,
}

impl AuditLine {
    fn add(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            // A path may contain spaces and line breaks, which would look like another field or
            // another record.
            name if value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') => {
                self.fields.push_str(&format!(" {name}={value:?}"));
            }
            name => self.fields.push_str(&format!(" {name}={value}")),
        }
    }
}

impl Visit for AuditLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }
}
