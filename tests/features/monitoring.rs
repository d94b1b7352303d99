//! The dashboard and the alert rules name metrics, labels and kinds that exist, and all of them. So
//! do the tables of metrics and of warnings.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use serde_json::Value;
use zk_curator_recipes::observe::{Metric, MetricKind};
use zk_curator_tests::files_below;

const PREFIX: &str = "zk_curator_";
/// The labels that Prometheus adds to each series.
const ADDED: [&str; 2] = ["job", "instance"];
/// The lines around the table of metrics.
const TABLE_BEGIN: &str = "<!-- written by `just metrics` from the tables of the sources -->\n";
const TABLE_END: &str = "<!-- end of the table -->\n";

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitoring").join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn all_metrics() -> impl Iterator<Item = &'static Metric> {
    let framework = zk_curator::observe::METRICS.iter();
    framework
        .chain(zk_curator_recipes::observe::METRICS)
        .chain(zk_curator_discovery::observe::METRICS)
}

/// The metric of a series: histograms have several.
fn metric(series: &str) -> &'static Metric {
    let ends = ["_sum", "_count", "_bucket"];
    all_metrics()
        .find(|metric| match metric.kind {
            MetricKind::Histogram => {
                ends.iter().any(|end| series.strip_suffix(end) == Some(metric.name))
            }
            _ => metric.name == series,
        })
        .unwrap_or_else(|| panic!("there is no metric {series}"))
}

fn is_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Checks an expression in Prometheus' language, and returns the metrics in it.
fn check(expression: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut labels: BTreeSet<&str> = ADDED.into();
    for (at, _) in expression.match_indices(PREFIX) {
        let rest = &expression[at..];
        let (series, rest) = rest.split_at(rest.find(|char| !is_name(char)).unwrap_or(rest.len()));
        let metric = metric(series);
        found.insert(metric.name);
        labels.extend(metric.labels);
        if let Some(selectors) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            for selector in selectors.0.split(", ") {
                let label = selector.split(|char| !is_name(char)).next().unwrap();
                assert!(
                    metric.labels.contains(&label) || ADDED.contains(&label),
                    "{series} has no label {label}: {expression}"
                );
            }
        }
        // A counter only makes sense as a rate.
        let before = &expression[..at];
        let is_rate = before.ends_with("rate(") || before.ends_with("increase(");
        let is_counted = metric.kind != MetricKind::Gauge;
        assert_eq!(is_rate, is_counted, "{series} is a {}: {expression}", metric.kind);
    }
    assert!(!found.is_empty(), "no metric in {expression}");
    for (_, by) in
        expression.match_indices("by (").map(|(at, by)| (at, &expression[at + by.len()..]))
    {
        for label in by.split_once(')').unwrap().0.split(", ") {
            assert!(labels.contains(label), "no label {label}: {expression}");
        }
    }
    found
}

fn expressions(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" => into.push(text.to_owned()),
                    _ => expressions(value, into),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, into)),
        _ => {}
    }
}

#[test]
fn the_dashboard_shows_every_metric() {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let mut shown = Vec::new();
    expressions(&dashboard, &mut shown);
    let shown: BTreeSet<_> = shown.iter().flat_map(|expression| check(expression)).collect();
    let all: BTreeSet<_> = all_metrics().map(|metric| metric.name).collect();
    assert_eq!(shown, all);
}

#[test]
fn alerts_name_metrics_that_exist_and_are_explained() {
    let (rules, readme) = (read("alerts.yml"), read("README.md"));
    let of = |key: &str| {
        let lines = rules
            .lines()
            .filter_map(move |line| line.trim_start_matches([' ', '-']).strip_prefix(key));
        lines.map(str::trim).collect::<Vec<_>>()
    };
    let (alerts, expressions) = (of("alert:"), of("expr:"));
    assert_eq!(
        (alerts.len(), of("summary:").len(), of("labels:").len()),
        (expressions.len(), alerts.len(), alerts.len())
    );
    for expression in expressions {
        check(expression);
    }
    let explained = readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let explained: Vec<_> = explained.map(|(alert, _)| alert).collect();
    assert_eq!(alerts, explained);
}

/// `scripts/check-alerts` plays them; here, that each alert has an incident in which it fires.
#[test]
fn every_alert_has_an_incident() {
    let (rules, incidents) = (read("alerts.yml"), read("alerts-test.yml"));
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let mut fired = BTreeSet::new();
    for case in incidents.split("  - name: ").skip(1) {
        let name = case.lines().next().unwrap().trim();
        assert!(alerts.contains(name), "there is no alert {name}");
        if case.contains("exp_labels: {") {
            fired.insert(name);
        }
        for series in case.lines().filter_map(|line| line.trim().strip_prefix("- series: ")) {
            // As a selector is written: with a space after each comma.
            let series = series.trim_matches('\'');
            let name = series.split_once('{').unwrap().0;
            let labels = series.split_once('{').unwrap().1.trim_end_matches('}').split(", ");
            for label in labels.map(|label| label.split_once('=').unwrap().0) {
                assert!(metric(name).labels.contains(&label) || ADDED.contains(&label), "{series}");
            }
        }
    }
    assert_eq!(fired, alerts);
}

#[test]
fn every_metric_is_tested() {
    let tests = include_str!("metrics.rs");
    for metric in all_metrics() {
        let name = metric.name.strip_prefix(PREFIX).unwrap();
        let is_tested = tests.match_indices(name).any(|(at, _)| {
            let (before, after) = (&tests[..at], &tests[at + name.len()..]);
            (before.ends_with('"') || before.ends_with(", ")) && after.starts_with(['{', ' ', '"'])
        });
        assert!(is_tested, "no test checks {name}");
    }
}

/// With `WRITE_METRICS` in the environment, writes the table.
#[test]
fn the_reference_lists_the_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitoring/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(TABLE_BEGIN).unwrap();
    let (_, after) = rest.split_once(TABLE_END).unwrap();
    let rows = all_metrics().map(|Metric { name, kind, labels, help, .. }| {
        format!("| `{name}` | {kind} | `{}` | {help} |\n", labels.join("`, `"))
    });
    let head = "| name | kind | labels | meaning |\n|---|---|---|---|\n";
    let table: String = rows.collect();
    let expected = format!("{before}{TABLE_BEGIN}\n{head}{table}\n{TABLE_END}{after}");
    if env::var_os("WRITE_METRICS").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert!(page == expected, "the table is out of date: run `just metrics`");
    }
}

/// Returns the sources of the libraries. Literals of several lines are joined.
fn sources() -> String {
    let files = files_below(&["src", "client/src", "recipes/src", "discovery/src"], "rs");
    let text: String = files.into_iter().map(|(_, text)| text).collect();
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |joined, line| joined + line.trim_start())
}

#[test]
fn warnings_in_the_guide_are_in_the_sources() {
    let (page, sources) = (include_str!("../../docs/book/src/operating/monitoring.md"), sources());
    let (_, table) = page.split_once("\n## Warnings\n").unwrap();
    let first_cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let mut found = 0;
    for (cell, _) in first_cells {
        for message in cell.split('`').step_by(2) {
            assert!(sources.contains(message), "no event says: {message}");
            found += 1;
        }
    }
    assert!(found > 50, "{found} messages");
}
