//! JSON as Jackson writes it.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, Formatter};

/// Serializes as Jackson does.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, Jackson))?;
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

/// The fields of an object as JSON, in order.
pub(crate) type WrittenJson = Vec<(String, String)>;

pub(super) fn pairs(fields: &WrittenJson) -> impl Iterator<Item = (&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Returns the object with these fields.
pub(super) fn joined<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut object = String::from("{");
    for (name, value) in fields {
        if object.len() > 1 {
            object.push(',');
        }
        // Names of unknown fields may contain quotes. A text can always be written.
        object.push_str(&json(name).unwrap_or_default());
        object.push(':');
        object.push_str(value);
    }
    object.push('}');
    object
}

/// Writes no spaces, control characters in upper-case hexadecimal, and numbers like Java's
/// `Double.toString`.
struct Jackson;

impl Formatter for Jackson {
    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let escaped: &[u8] = match escape {
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"/",
            CharEscape::Backspace => b"\\b",
            CharEscape::FormFeed => b"\\f",
            CharEscape::LineFeed => b"\\n",
            CharEscape::CarriageReturn => b"\\r",
            CharEscape::Tab => b"\\t",
            CharEscape::AsciiControl(byte) => return write!(out, "\\u{byte:04X}"),
        };
        out.write_all(escaped)
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, out: &mut W, number: f32) -> io::Result<()> {
        out.write_all(of_java(&format!("{number:e}")).as_bytes())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, number: f64) -> io::Result<()> {
        out.write_all(of_java(&format!("{number:e}")).as_bytes())
    }
}

/// Formats a number such as `-1.25e-7` as Java does: with an exponent only below 10⁻³ and from 10⁷.
fn of_java(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = mantissa.replace('.', "");
    let with_fraction = |whole: &str, fraction: &str| {
        format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
    };
    match exponent {
        0..7 => {
            let places = usize::try_from(exponent).unwrap_or_default() + 1;
            let padded = format!("{digits:0<places$}");
            let (whole, fraction) = padded.split_at(places);
            with_fraction(whole, fraction)
        }
        -3..0 => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
            with_fraction("0", &format!("{}{digits}", "0".repeat(zeros)))
        }
        _ => {
            let (whole, fraction) = digits.split_at(1);
            if digits == "0" {
                return with_fraction("0", "");
            }
            format!("{}E{exponent}", with_fraction(whole, fraction))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_java;

    #[test]
    fn numbers_are_those_of_java() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.5, "1.5"),
            (-12345.678, "-12345.678"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (1.25e300, "1.25E300"),
            (0.001, "0.001"),
            (0.015, "0.015"),
            (-0.000_25, "-2.5E-4"),
        ];
        for (number, text) in cases {
            assert_eq!(of_java(&format!("{number:e}")), text);
        }
    }
}
