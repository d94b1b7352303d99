//! Bars of ratios, as SVG: a value below 1 is better than Curator's.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::tables;
use crate::peer::Result;

/// The width in pixels. A viewer may scale the picture.
const WIDTH: i32 = 1000;
/// The left end of the bars, unless a name needs more room, and the right end of the scale. The
/// values are to the right of it.
const LEFT: i32 = 440;
const RIGHT: i32 = WIDTH - 70;
/// The distances of a text from the edge, and of a name from its bar.
const MARGIN: i32 = 16;
const GAP: i32 = 10;
/// The width for which a character of a name counts. The mean of a name is less, even in a wide
/// font.
const CHARACTER: i32 = 7;
/// The heights above and below the bars.
const TOP: i32 = 76;
const BOTTOM: i32 = 40;
const ROW: i32 = 22;

/// A white card: legible on a light page and on a dark one.
const CARD: RGBColor = WHITE;
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xd8, 0xd8, 0xd8);
const BETTER: RGBColor = RGBColor(0x00, 0x72, 0xb2);
const WORSE: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// One bar.
pub(super) struct Bar {
    pub(super) name: String,
    /// Ours divided by Curator's.
    pub(super) ratio: f64,
    /// The error of the ratio, relative to it. `None`: unknown, and not drawn.
    pub(super) error: Option<f64>,
}

/// A picture of one idea.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// The explanation of the bars and their errors, under the title.
    pub(super) subtitle: &'a str,
    pub(super) bars: Vec<Bar>,
}

impl Chart<'_> {
    /// Draws it into a file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        Ok(std::fs::write(file, self.svg()?)?)
    }

    fn svg(&self) -> Result<String> {
        let rows = i32::try_from(self.bars.len())?;
        let bottom = TOP + rows * ROW;
        let mut svg = String::new();
        {
            let size = (WIDTH.unsigned_abs(), (bottom + BOTTOM).unsigned_abs());
            let card = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            card.fill(&CARD)?;
            let text = |words: &str, at: (i32, i32), size: i32, anchor: HPos| {
                let style = ("sans-serif", size).into_font().color(&INK);
                let style = style.pos(Pos::new(anchor, VPos::Center));
                card.draw(&Text::new(words.to_owned(), at, style))
            };
            text(self.title, (MARGIN, 22), 22, HPos::Left)?;
            text(self.subtitle, (MARGIN, 46), 16, HPos::Left)?;
            let scale = Scale::of(&self.bars)?;
            for tick in scale.ticks() {
                let x = scale.x(tick);
                card.draw(&PathElement::new([(x, TOP), (x, bottom)], GRID))?;
                text(&format!("{tick}"), (x, bottom + 12), 15, HPos::Center)?;
            }
            let one = scale.x(1.0);
            for (bar, row) in self.bars.iter().zip(0..) {
                let (y, middle) = (TOP + row * ROW, TOP + row * ROW + ROW / 2);
                text(&bar.name, (scale.left - GAP, middle), 16, HPos::Right)?;
                let end = scale.x(bar.ratio);
                let colour = if bar.ratio > 1.0 { WORSE } else { BETTER };
                let area = [(scale.left, y + 4), (end, y + ROW - 4)];
                card.draw(&Rectangle::new(area, colour.filled()))?;
                if let Some(error) = bar.error {
                    let far = scale.x(bar.ratio * (1.0 + error));
                    let near = scale.x((bar.ratio * (1.0 - error)).max(0.0));
                    let style = INK.stroke_width(2);
                    card.draw(&PathElement::new([(near, middle), (far, middle)], style))?;
                    for x in [near, far] {
                        card.draw(&PathElement::new([(x, middle - 4), (x, middle + 4)], style))?;
                    }
                }
                text(&tables::share(bar.ratio), (WIDTH - MARGIN, middle), 15, HPos::Right)?;
            }
            card.draw(&PathElement::new([(one, TOP - 4), (one, bottom)], INK.stroke_width(2)))?;
            text("Curator = 1", (one, TOP - 12), 15, HPos::Center)?;
            card.present()?;
        }
        svg.push('\n');
        Ok(svg)
    }
}

/// From ratios to pixels. It begins at 0, so that lengths can be compared.
struct Scale {
    /// The pixels of 0, to the right of the longest name.
    left: i32,
    most: f64,
}

impl Scale {
    fn of(bars: &[Bar]) -> Result<Self> {
        let longest = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let left = LEFT.max(MARGIN + i32::try_from(longest)? * CHARACTER + GAP);
        let ends = bars.iter().map(|bar| bar.ratio * (1.0 + bar.error.unwrap_or(0.0)));
        Ok(Self { left, most: ends.fold(1.0, f64::max) * 1.05 })
    }

    #[expect(clippy::cast_possible_truncation, reason = "within the picture")]
    fn x(&self, value: f64) -> i32 {
        self.left + (value / self.most * f64::from(RIGHT - self.left)).round() as i32
    }

    fn ticks(&self) -> Vec<f64> {
        let step = if self.most > 4.0 { 1.0 } else { 0.25 };
        std::iter::successors(Some(0.0), |tick| Some(tick + step))
            .take_while(|tick| *tick <= self.most)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, ratio: f64, error: Option<f64>) -> Bar {
        Bar { name: name.to_owned(), ratio, error }
    }

    /// The number in an attribute of an element.
    fn attribute(element: &str, name: &str) -> f64 {
        let (_, rest) = element.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    }

    #[test]
    fn bars_are_as_long_as_their_ratios() {
        let bars = vec![bar("a", 0.25, None), bar("b", 0.5, Some(0.1)), bar("c", 1.5, None)];
        let svg = Chart { title: "t", subtitle: "s", bars }.svg().unwrap();
        let of = |colour: &str| -> Vec<f64> {
            let rects = svg.lines().filter(|line| line.starts_with("<rect"));
            let rects = rects.filter(|line| line.contains(colour));
            rects.map(|rect| attribute(rect, "width")).collect()
        };
        let (better, worse) = (of("#0072B2"), of("#D55E00"));
        assert!((better[1] / better[0] - 2.0).abs() < 0.02, "{better:?}");
        assert!((worse[0] / better[0] - 6.0).abs() < 0.05, "{worse:?}");
    }

    #[test]
    fn errors_are_drawn_where_they_are_known() {
        let lines = |error| {
            let bars = vec![bar("a", 0.5, error)];
            let svg = Chart { title: "t", subtitle: "s", bars }.svg().unwrap();
            svg.matches("<polyline").count()
        };
        assert_eq!(lines(Some(0.2)), lines(None) + 3);
    }

    #[test]
    fn a_long_name_moves_the_bars_to_the_right() {
        let long = "mutex of 64 tasks in each of 2 sessions, ours in batches of 65 (run 5)";
        // The left end of the name, its right end, and both ends of its bar.
        let places = |name: &str| {
            let bars = vec![bar(name, 2.0, None), bar("b", 0.5, None)];
            let svg = Chart { title: "t", subtitle: "s", bars }.svg().unwrap();
            let mut pairs = svg.lines().zip(svg.lines().skip(1));
            let (label, _) = pairs.find(|(_, text)| *text == name).unwrap();
            let bar = svg.lines().find(|line| line.contains("#D55E00")).unwrap();
            let (end, left) = (attribute(label, "x"), attribute(bar, "x"));
            let width = name.chars().map(|_| f64::from(CHARACTER)).sum::<f64>();
            [end - width, end, left, left + attribute(bar, "width")]
        };
        let [from, to, left, right] = places(long);
        assert!(from >= f64::from(MARGIN) && to < left && right <= f64::from(RIGHT), "{from} {to}");
        assert!((places("a")[2] - f64::from(LEFT)).abs() < 0.5);
    }

    #[test]
    fn names_are_escaped_and_no_font_is_named_by_file() {
        let bars = vec![bar("a < b & c", 0.5, None)];
        let svg = Chart { title: "t", subtitle: "s", bars }.svg().unwrap();
        assert!(svg.contains("a &lt; b &amp; c"), "{svg}");
        assert!(svg.contains("font-family=\"sans-serif\"") && !svg.contains("font-face"));
    }
}
