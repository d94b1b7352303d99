//! Bars, as PNG.

use std::convert::Infallible;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use embedded_graphics::mono_font::iso_8859_1::{FONT_7X13, FONT_9X18_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::prelude::*;
use embedded_graphics::primitives::{PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};

use crate::peer::Result;

const WIDTH: i32 = 1100;
/// Where the bars begin, and end at most.
const LEFT: i32 = 340;
const RIGHT: i32 = WIDTH - 90;
/// Above the bars.
const TOP: i32 = 74;
const BAR: i32 = 14;
const GAP: i32 = 10;

const INK: Rgb888 = Rgb888::new(0x22, 0x22, 0x22);
const FAINT: Rgb888 = Rgb888::new(0xdd, 0xdd, 0xdd);
const COLOURS: [Rgb888; 3] =
    [Rgb888::new(0xd5, 0x5e, 0x00), Rgb888::new(0x00, 0x72, 0xb2), Rgb888::new(0x99, 0x99, 0x99)];

/// Groups of bars, one group below the other.
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    /// What each bar of a group is.
    pub(super) series: &'a [&'a str],
    pub(super) groups: Vec<(String, Vec<Option<f64>>)>,
    /// Each step of the scale is ten times the one before.
    pub(super) logarithmic: bool,
    /// A line at this value.
    pub(super) mark: Option<f64>,
}

impl Chart<'_> {
    /// Draws and writes it. Nothing when there is nothing to show.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let values = || self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let scale = Scale::of(values().chain(self.mark), self.logarithmic);
        let rows: i32 = self.groups.iter().map(|(_, values)| BAR * length(values.len()) + GAP).sum();
        let mut picture = Picture::new(WIDTH, TOP + rows + 16);
        picture.text(self.title, (16, 12), &FONT_9X18_BOLD, Alignment::Left);
        let mut x = 16;
        for (name, colour) in self.series.iter().zip(COLOURS) {
            picture.fill((x, 42), (12, 12), colour);
            picture.text(name, (x + 18, 42), &FONT_7X13, Alignment::Left);
            x += 18 + 7 * length(name.chars().count()) + 28;
        }
        for tick in scale.ticks() {
            let x = scale.x(tick);
            picture.fill((x, TOP - 4), (1, rows), FAINT);
            picture.text(&number(tick), (x, TOP - 18), &FONT_7X13, Alignment::Center);
        }
        if let Some(mark) = self.mark {
            picture.fill((scale.x(mark), TOP - 4), (2, rows), INK);
        }
        let mut y = TOP;
        for (name, values) in &self.groups {
            let height = BAR * length(values.len());
            picture.text(name, (LEFT - 10, y + (height - 13) / 2), &FONT_7X13, Alignment::Right);
            for (value, colour) in values.iter().zip(COLOURS) {
                if let Some(value) = value {
                    let end = scale.x(*value).max(LEFT + 1);
                    picture.fill((LEFT, y + 1), (end - LEFT, BAR - 2), colour);
                    picture.text(&number(*value), (end + 5, y), &FONT_7X13, Alignment::Left);
                }
                y += BAR;
            }
            y += GAP;
        }
        picture.save(file)
    }
}

/// From values to places.
struct Scale {
    least: f64,
    most: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (least, most) =
            values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if logarithmic {
            // Whole steps, so that a bar always has a length.
            let step = |value: f64| 10_f64.powf(value.max(1e-3).log10().floor());
            Self { least: step(least.min(most) * 0.99), most: step(most) * 10.0, logarithmic }
        } else {
            Self { least: 0.0, most: if most > 0.0 { most * 1.05 } else { 1.0 }, logarithmic }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "within the picture")]
    fn x(&self, value: f64) -> i32 {
        let part = if self.logarithmic {
            (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
        } else {
            value / self.most
        };
        LEFT + (part.clamp(0.0, 1.0) * f64::from(RIGHT - LEFT)).round() as i32
    }

    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let next = |value: &f64| Some(value * 10.0);
            return std::iter::successors(Some(self.least), next)
                .take_while(|value| *value <= self.most * 1.01)
                .collect();
        }
        // 1, 2 or 5 times a power of ten: five to ten of them.
        let rough = self.most / 8.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|by| by * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        std::iter::successors(Some(0.0), |value| Some(value + step))
            .take_while(|value| *value <= self.most)
            .collect()
    }
}

/// As short as it is meaningful.
fn number(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.0} k", v / 1e3),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        0.0 => "0".to_owned(),
        v => format!("{v:.2}"),
    }
}

fn length(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Pixels that can be drawn on.
struct Picture {
    width: i32,
    height: i32,
    pixels: Vec<u8>,
}

impl Picture {
    fn new(width: i32, height: i32) -> Self {
        let bytes = width.unsigned_abs() as usize * height.unsigned_abs() as usize * 3;
        Self { width, height, pixels: vec![0xff; bytes] }
    }

    fn fill(&mut self, (x, y): (i32, i32), (width, height): (i32, i32), colour: Rgb888) {
        let size = Size::new(width.unsigned_abs(), height.unsigned_abs());
        let area = Rectangle::new(Point::new(x, y), size).into_styled(PrimitiveStyle::with_fill(colour));
        let Ok(()) = area.draw(self);
    }

    fn text(&mut self, text: &str, (x, y): (i32, i32), font: &MonoFont<'_>, alignment: Alignment) {
        let style = TextStyleBuilder::new().alignment(alignment).baseline(Baseline::Top).build();
        let text = Text::with_text_style(text, Point::new(x, y), MonoTextStyle::new(font, INK), style);
        let Ok(_) = text.draw(self);
    }

    fn save(&self, file: &Path) -> Result<()> {
        let out = BufWriter::new(File::create(file)?);
        let mut encoder = png::Encoder::new(out, self.width.unsigned_abs(), self.height.unsigned_abs());
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(())
    }
}

impl OriginDimensions for Picture {
    fn size(&self) -> Size {
        Size::new(self.width.unsigned_abs(), self.height.unsigned_abs())
    }
}

impl DrawTarget for Picture {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> std::result::Result<(), Infallible> {
        for Pixel(at, colour) in pixels {
            if (0..self.width).contains(&at.x) && (0..self.height).contains(&at.y) {
                let first = (at.y * self.width + at.x).unsigned_abs() as usize * 3;
                self.pixels[first..first + 3].copy_from_slice(&[colour.r(), colour.g(), colour.b()]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_bars_are_for_larger_values_on_either_scale() {
        for logarithmic in [false, true] {
            let scale = Scale::of([0.5, 2.0, 70.0].into_iter(), logarithmic);
            let places = [0.5, 2.0, 70.0].map(|value| scale.x(value));
            assert!(places.is_sorted() && places[0] > LEFT && places[2] <= RIGHT, "{places:?}");
            let ticks = scale.ticks();
            assert!(ticks.len() >= 3 && ticks.is_sorted(), "{ticks:?}");
        }
    }

    #[test]
    fn a_picture_can_be_read_back_and_has_its_bars() {
        let chart = Chart {
            title: "µs",
            series: &["a", "b"],
            groups: vec![("x".to_owned(), vec![Some(1.0), Some(2.0)]), ("y".to_owned(), vec![None, None])],
            logarithmic: false,
            mark: Some(1.0),
        };
        let file = std::env::temp_dir().join(format!("zk-curator-chart-{}.png", std::process::id()));
        chart.write(&file).unwrap();
        let mut reader =
            png::Decoder::new(std::io::BufReader::new(File::open(&file).unwrap())).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        std::fs::remove_file(&file).unwrap();
        let count = |colour: Rgb888| {
            pixels.chunks(3).filter(|rgb| **rgb == [colour.r(), colour.g(), colour.b()]).count()
        };
        // Twice as long, but for the squares of the legend.
        let (a, b) = (count(COLOURS[0]) as f64 - 144.0, count(COLOURS[1]) as f64 - 144.0);
        assert!((1.9..2.1).contains(&(b / a)), "{a} {b}");
    }
}
