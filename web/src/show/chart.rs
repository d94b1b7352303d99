//! Charts of the last minutes, as SVG. Everything here is pure: coordinates are finite and within
//! the picture, whatever the values are.

use std::fmt::Write as _;

use super::count::grouped;

/// The edges of the plot, in a picture of 360 to 132: the template has the same numbers. The labels
/// of the lines are right of it.
const LEFT: f64 = 4.0;
const RIGHT: f64 = 336.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 114.0;
/// The height of the label of a line.
const LABEL: f64 = 11.0;
/// The maximum number of lines with labels. More of them would cover each other.
const MOST_LABELS: usize = 8;
/// The number of styles of lines.
const STYLES: usize = 6;
/// Greater values are not shown: nothing that servers count is that large.
const GREATEST: f64 = 1e15;

/// The values of one line, the oldest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartSeries {
    pub(crate) name: String,
    pub(crate) points: Vec<ChartPoint>,
}

/// A value at a time. `None` is a gap in the line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ChartPoint {
    /// The time before now, in seconds.
    pub(crate) age: f64,
    pub(crate) value: Option<f64>,
}

/// The span of a chart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ChartSpan {
    /// The time from the left edge to now, in minutes.
    pub(crate) minutes: u32,
    /// A longer time without a value is a gap, in seconds.
    pub(crate) gap: f64,
}

/// The texts of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChartTexts {
    /// The beginning of the ids of its elements.
    pub(crate) id: &'static str,
    /// The measure, with its unit.
    pub(crate) title: &'static str,
    /// A sentence about the measure; empty if the title says everything.
    pub(crate) hint: &'static str,
}

/// A chart, ready for its template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    pub(crate) texts: ChartTexts,
    pub(crate) minutes: u32,
    /// The values of the upper and of the middle grid line.
    pub(crate) top: String,
    pub(crate) middle: String,
    pub(crate) lines: Vec<ChartLine>,
    /// The chart in words.
    pub(crate) description: String,
    /// The values at the end of each minute, the newest first.
    pub(crate) rows: Vec<ChartRow>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartLine {
    /// The number at its end and in the legend.
    pub(crate) number: usize,
    /// The class of its colour and its dashes.
    pub(crate) style: String,
    pub(crate) name: String,
    /// The commands of its path; empty without a value.
    pub(crate) path: String,
    /// The vertical place of the number; empty if it is not shown.
    pub(crate) label: String,
    pub(crate) latest: String,
}

/// The values at the end of a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChartRow {
    pub(crate) when: String,
    pub(crate) values: Vec<String>,
}

impl Chart {
    /// Returns the chart of these series.
    pub(crate) fn new(texts: ChartTexts, span: ChartSpan, series: &[ChartSeries]) -> Self {
        let seconds = f64::from(span.minutes.max(1)) * 60.0;
        let series: Vec<_> = series.iter().map(|series| cleaned(series, seconds)).collect();
        let values = || series.iter().flat_map(|one| &one.points).filter_map(|point| point.value);
        let top = top_of(values().fold(0.0, f64::max));
        let scale = Scale { seconds, top, gap: span.gap };
        let labels = labels(&series, scale);
        let line = |((place, one), label): ((usize, &ChartSeries), String)| ChartLine {
            number: place + 1,
            style: format!("s{}", place % STYLES + 1),
            name: one.name.clone(),
            path: scale.path(&one.points),
            label,
            latest: text_of(latest(one)),
        };
        Self {
            texts,
            minutes: span.minutes,
            top: number(top),
            middle: number(top / 2.0),
            lines: series.iter().enumerate().zip(labels).map(line).collect(),
            description: description(span, &series),
            rows: rows(span, &series),
        }
    }
}

/// Returns the series without values that cannot be shown.
fn cleaned(series: &ChartSeries, seconds: f64) -> ChartSeries {
    let can_be_shown = |value: &f64| value.is_finite() && (0.0..=GREATEST).contains(value);
    let points = series.points.iter().filter(|point| (0.0..=seconds).contains(&point.age));
    let points =
        points.map(|point| ChartPoint { value: point.value.filter(can_be_shown), ..*point });
    ChartSeries { name: series.name.clone(), points: points.collect() }
}

/// Returns the value of the upper grid line: 1, 2 or 5 times a power of ten.
fn top_of(greatest: f64) -> f64 {
    let mut unit = 1.0;
    loop {
        for times in [1.0, 2.0, 5.0] {
            if greatest <= unit * times || unit > GREATEST {
                return unit * times;
            }
        }
        unit *= 10.0;
    }
}

/// The way from values to places.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// The time from the left to the right edge.
    seconds: f64,
    /// The value at the upper edge.
    top: f64,
    gap: f64,
}

impl Scale {
    fn x(self, age: f64) -> f64 {
        (RIGHT - (RIGHT - LEFT) * age / self.seconds).clamp(LEFT, RIGHT)
    }

    fn y(self, value: f64) -> f64 {
        (BOTTOM - (BOTTOM - TOP) * value / self.top).clamp(TOP, BOTTOM)
    }

    /// Returns the commands of a path: a part for all values without a gap between them. A part of
    /// one value is a point.
    fn path(self, points: &[ChartPoint]) -> String {
        let mut path = String::new();
        let mut before: Option<f64> = None;
        for point in points {
            let Some(value) = point.value else {
                before = None;
                continue;
            };
            let (x, y) = (self.x(point.age), self.y(value));
            // Writing into a string does not fail.
            let written = match before.filter(|before| before - point.age <= self.gap) {
                Some(_) => write!(path, "L{x:.1} {y:.1}"),
                None => write!(path, "M{x:.1} {y:.1}h0"),
            };
            before = written.is_ok().then_some(point.age);
        }
        path
    }
}

/// Returns the vertical places of the labels at the ends of the lines, apart from each other.
fn labels(series: &[ChartSeries], scale: Scale) -> Vec<String> {
    let mut labels = vec![String::new(); series.len()];
    if series.len() > MOST_LABELS {
        return labels;
    }
    let end = |(place, one): (usize, &ChartSeries)| Some((place, scale.y(latest(one)?)));
    let mut ends: Vec<_> = series.iter().enumerate().filter_map(end).collect();
    ends.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    // First down, and then up where that has left the plot.
    let mut least = TOP;
    for (_, y) in &mut ends {
        *y = y.max(least);
        least = *y + LABEL;
    }
    let mut most = BOTTOM;
    for (place, y) in ends.iter_mut().rev() {
        *y = y.min(most);
        most = *y - LABEL;
        labels[*place] = format!("{y:.1}");
    }
    labels
}

/// Returns the last value, if it belongs to the last point.
fn latest(series: &ChartSeries) -> Option<f64> {
    series.points.last()?.value
}

fn description(span: ChartSpan, series: &[ChartSeries]) -> String {
    let values = || series.iter().flat_map(|one| &one.points).filter_map(|point| point.value);
    if values().next().is_none() {
        return format!("No values of the last {} minutes.", span.minutes);
    }
    let (least, greatest) =
        values().fold((f64::MAX, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
    let last: Vec<_> =
        series.iter().map(|one| format!("{} {}", one.name, text_of(latest(one)))).collect();
    let (least, greatest) = (number(least), number(greatest));
    format!(
        "Between {least} and {greatest} in the last {} minutes. Last values: {}.",
        span.minutes,
        last.join(", ")
    )
}

/// Returns the last value of each minute that has one, the newest first.
fn rows(span: ChartSpan, series: &[ChartSeries]) -> Vec<ChartRow> {
    let row = |minute: u32| {
        let from = f64::from(minute) * 60.0;
        let within = |point: &&ChartPoint| (from..from + 60.0).contains(&point.age);
        let value = |one: &ChartSeries| {
            one.points.iter().rev().find(|point| within(point)).and_then(|point| point.value)
        };
        let values: Vec<_> = series.iter().map(value).collect();
        let when = match minute {
            0 => "now".to_owned(),
            minute => format!("{minute} min ago"),
        };
        values
            .iter()
            .any(Option::is_some)
            .then(|| ChartRow { when, values: values.into_iter().map(text_of).collect() })
    };
    (0..=span.minutes).filter_map(row).collect()
}

fn text_of(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// Returns a number with one digit after the point, unless it is whole or large.
pub(crate) fn number(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 {
        grouped(format_args!("{value:.0}"))
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use askama::Template;
    use proptest::prelude::*;

    use super::*;

    #[derive(Template)]
    #[template(path = "chart.html", whitespace = "minimize")]
    struct ChartFigure {
        chart: Chart,
    }

    const TEXTS: ChartTexts = ChartTexts { id: "requests", title: "Requests", hint: "A hint." };
    const SPAN: ChartSpan = ChartSpan { minutes: 15, gap: 20.0 };

    fn series(name: &str, values: &[Option<f64>]) -> ChartSeries {
        let ages =
            (0..values.len()).rev().map(|place| 5.0 * f64::from(u32::try_from(place).unwrap()));
        let point = |(age, value): (f64, &Option<f64>)| ChartPoint { age, value: *value };
        ChartSeries { name: name.to_owned(), points: ages.zip(values).map(point).collect() }
    }

    fn chart(all: &[ChartSeries]) -> Chart {
        Chart::new(TEXTS, SPAN, all)
    }

    fn svg(chart: Chart) -> String {
        ChartFigure { chart }.render().unwrap()
    }

    /// Checks that every element is closed in its order, and that attributes have quotes.
    fn assert_well_formed(text: &str) {
        let mut open = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            assert!(!before.contains('>'), "{before}");
            let (tag, behind) = after.split_once('>').expect("an end of the tag");
            assert!(!tag.contains('<') && tag.matches('"').count() % 2 == 0, "{tag}");
            let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{text}");
            } else if !tag.ends_with('/') {
                open.push(name);
            }
            rest = behind;
        }
        assert!(open.is_empty() && !rest.contains('>'), "{open:?}");
        assert!(!text.contains("NaN") && !text.contains(" style="), "{text}");
    }

    /// Checks that every place is within the plot.
    fn assert_within(path: &str) {
        for command in path.split_inclusive(['M', 'L', 'h']) {
            let numbers = command.trim_end_matches(['M', 'L', 'h']);
            let numbers: Vec<f64> =
                numbers.split(' ').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
            match *numbers {
                [] | [_] => {}
                [x, y] => assert!((LEFT..=RIGHT).contains(&x) && (TOP..=BOTTOM).contains(&y)),
                _ => panic!("{path}"),
            }
        }
    }

    #[test]
    fn empty_single_and_constant_series_have_charts() {
        for (values, path, latest) in [
            (&[][..], "", "–"),
            (&[None, None][..], "", "–"),
            (&[Some(3.0)][..], "M336.0 56.4h0", "3"),
            (&[Some(0.0), Some(0.0)][..], "M334.2 114.0h0L336.0 114.0", "0"),
            (&[Some(7.5), Some(7.5)][..], "M334.2 42.0h0L336.0 42.0", "7.5"),
            (&[Some(1.0), None][..], "M334.2 18.0h0", "–"),
        ] {
            let chart = chart(&[series("zk1", values)]);
            assert_eq!((&*chart.lines[0].path, &*chart.lines[0].latest), (path, latest));
            assert_well_formed(&svg(chart));
        }
        let none = chart(&[]);
        assert!(none.lines.is_empty() && none.rows.is_empty());
        assert_eq!(none.description, "No values of the last 15 minutes.");
        assert_well_formed(&svg(none));
    }

    #[test]
    fn gaps_are_no_lines() {
        let point = |age, value| ChartPoint { age, value };
        let points = vec![
            point(120.0, Some(1.0)),
            point(60.0, Some(1.0)),
            point(55.0, Some(1.0)),
            point(50.0, None),
            point(45.0, Some(1.0)),
        ];
        let chart = chart(&[ChartSeries { name: "zk1".to_owned(), points }]);
        assert_eq!(chart.lines[0].path.matches('M').count(), 3);
        assert_eq!(chart.lines[0].path.matches('L').count(), 1);
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 1e300].map(Some);
        let chart = chart(&[series("zk1", &odd)]);
        assert_eq!((&*chart.lines[0].path, &*chart.top), ("", "1"));
        let old = ChartPoint { age: f64::NAN, value: Some(1.0) };
        let chart =
            Chart::new(TEXTS, SPAN, &[ChartSeries { name: String::new(), points: vec![old] }]);
        assert!(chart.lines[0].path.is_empty());
    }

    #[test]
    fn a_chart_is_also_a_text_and_a_table() {
        let values: Vec<_> = (0..30).map(|n| Some(f64::from(n))).collect();
        let chart = chart(&[series("<zk1>", &values), series("zk2", &[Some(2.0)])]);
        assert_eq!(
            chart.description,
            "Between 0 and 29 in the last 15 minutes. Last values: <zk1> 29, zk2 2."
        );
        let rows: Vec<_> =
            chart.rows.iter().map(|row| (&*row.when, row.values.join(" "))).collect();
        let expected = [("now", "29 2"), ("1 min ago", "17 –"), ("2 min ago", "5 –")];
        assert_eq!(rows, expected.map(|(when, values)| (when, values.to_owned())));
        assert_eq!((&*chart.top, &*chart.middle), ("50", "25"));
        let text = svg(chart);
        assert!(!text.contains("<zk1>"), "{text}");
        assert_well_formed(&text);
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let all: Vec<_> = (0..8).map(|n| series(&format!("zk{n}"), &[Some(3.0)])).collect();
        let mut labels: Vec<f64> =
            chart(&all).lines.iter().map(|line| line.label.parse().unwrap()).collect();
        labels.sort_by(f64::total_cmp);
        assert!(labels.windows(2).all(|two| two[1] - two[0] > LABEL - 0.2), "{labels:?}");
        assert!(labels[0] >= TOP && labels[7] <= BOTTOM, "{labels:?}");
        let many: Vec<_> = (0..9).map(|n| series(&format!("zk{n}"), &[Some(3.0)])).collect();
        assert!(chart(&many).lines.iter().all(|line| line.label.is_empty()));
    }

    #[test]
    fn grid_lines_have_round_values() {
        for (greatest, top) in
            [(0.0, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (7.0, 10.0), (101.0, 200.0)]
        {
            assert_eq!(top_of(greatest), top);
        }
        assert!(top_of(GREATEST) >= GREATEST && top_of(f64::MAX).is_finite());
        assert_eq!([0.0, 0.26, 99.94, 1234.4].map(number), ["0", "0.3", "99.9", "1,234"]);
    }

    proptest! {
        #[test]
        fn every_chart_is_finite_and_well_formed(
            all in prop::collection::vec(
                ("[a-z<>&\"']{0,5}", prop::collection::vec(
                    (any::<f64>(), prop::option::of(any::<f64>())), 0..20,
                )),
                0..10,
            ),
            minutes in 0..100_u32,
            gap in any::<f64>(),
        ) {
            let point = |(age, value): (f64, Option<f64>)| ChartPoint { age, value };
            let series = |(name, points): (String, Vec<_>)| {
                let points = points.into_iter().map(point).collect();
                ChartSeries { name, points }
            };
            let all: Vec<_> = all.into_iter().map(series).collect();
            let chart = Chart::new(TEXTS, ChartSpan { minutes, gap }, &all);
            for line in &chart.lines {
                assert_within(&line.path);
            }
            assert_well_formed(&svg(chart));
        }

        #[test]
        fn values_of_a_server_are_within_the_picture(
            values in prop::collection::vec(prop::option::of(0.0..1e9_f64), 0..60),
        ) {
            let chart = chart(&[series("zk1", &values)]);
            assert_within(&chart.lines[0].path);
            let shown = values.iter().flatten().count();
            let path = &chart.lines[0].path;
            prop_assert_eq!(path.matches(['M', 'L']).count(), shown);
        }
    }
}
