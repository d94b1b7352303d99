//! The charts of the last 15 minutes.

use std::time::Duration;

use crate::ensemble::{EnsembleMoment, EnsembleSample, SPAN, ServerMeasures};
use crate::show::{Chart, ChartPoint, ChartSeries, ChartSpan, ChartTexts, visible};

/// The samples that may be missing within a line.
const MISSING: u32 = 3;

/// A measure of a server.
type Measure = fn(&ServerMeasures) -> Option<f64>;

const CHARTS: [(ChartTexts, Measure); 4] = [
    (ChartTexts { id: "requests", title: "Requests per second", hint: "" }, |measures| {
        measures.requests
    }),
    (
        ChartTexts {
            id: "latency",
            title: "Average latency in milliseconds",
            hint: "Of the requests between two samples, if the server reports it (since ZooKeeper \
                   3.6); otherwise of all requests since its start.",
        },
        |measures| measures.latency,
    ),
    (ChartTexts { id: "lag", title: "Transactions behind the leader", hint: "" }, |measures| {
        measures.lag
    }),
    (ChartTexts { id: "connections", title: "Connections", hint: "" }, |measures| {
        measures.connections
    }),
];

/// Returns the charts of a sample. `every` is the pause between two samples.
pub(super) fn charts(sample: &EnsembleSample, every: Duration) -> Vec<Chart> {
    let minutes = u32::try_from(SPAN.as_secs() / 60).unwrap_or(u32::MAX);
    // A sample takes some time, too.
    let gap = every.saturating_mul(MISSING).saturating_add(Duration::from_secs(5));
    let span = ChartSpan { minutes, gap: gap.as_secs_f64() };
    let chart = |(texts, measure): (ChartTexts, Measure)| {
        let of = |line| series(sample, line, measure);
        let series: Vec<_> = sample.servers.iter().map(|line| &*line.name).map(of).collect();
        Chart::new(texts, span, &series)
    };
    CHARTS.into_iter().map(chart).collect()
}

fn series(sample: &EnsembleSample, server: &str, measure: Measure) -> ChartSeries {
    let last = sample.moments.last().map(|moment| moment.at);
    let point = |moment: &EnsembleMoment| ChartPoint {
        age: last.map_or(0.0, |last| last.saturating_duration_since(moment.at).as_secs_f64()),
        value: moment.of(server).and_then(measure),
    };
    ChartSeries {
        name: visible(server).into_owned(),
        points: sample.moments.iter().map(point).collect(),
    }
}
