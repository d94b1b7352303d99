//! The data of nodes for people and programs.
//!
//! ```
//! use zk_curator_ops::data;
//!
//! assert_eq!(data::line(b"first\nsecond", 80), "first…");
//! assert_eq!(data::value(b"text"), serde_json::json!({ "text": "text" }));
//! assert!(data::show(&[0, 1]).starts_with("00000000  00 01"));
//! ```

use std::borrow::Cow;
use std::io::{self, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::text::printable;

/// The most that compressed data may become: far more than a node has.
const MAX_DECOMPRESSED: u64 = 64 << 20;

/// Returns the value for programs: `{"text": …}` if it is text, otherwise `{"base64": …}`.
#[must_use]
pub fn value(data: &[u8]) -> Value {
    std::str::from_utf8(data)
        .map_or_else(|_| json!({ "base64": STANDARD.encode(data) }), |text| json!({ "text": text }))
}

/// Returns data for people: text as it is, and everything else in hexadecimal. Control characters,
/// which could command a terminal, are no text.
#[must_use]
pub fn show(data: &[u8]) -> String {
    text(data).map_or_else(|| hex(data), ToOwned::to_owned)
}

/// Returns data in one line of at most `limit` characters. Data that are cut end with `…`.
#[must_use]
pub fn line(data: &[u8], limit: usize) -> String {
    let Some(text) = text(data) else { return format!("{} bytes", data.len()) };
    let first = text.lines().next().unwrap_or_default();
    let cut: String = first.chars().take(limit).collect();
    let shown = printable(&cut);
    if cut.len() < text.len() { format!("{shown}…") } else { shown }
}

fn text(data: &[u8]) -> Option<&str> {
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    std::str::from_utf8(data).ok().filter(|text| text.chars().all(is_text))
}

/// Decompresses gzip, up to 64 MiB.
///
/// # Errors
/// `InvalidData`, `InvalidInput` or `UnexpectedEof` if the data are not gzip, or become larger.
pub fn gunzip(data: &[u8]) -> io::Result<Bytes> {
    let mut plain = Vec::new();
    let mut reader = flate2::bufread::MultiGzDecoder::new(data).take(MAX_DECOMPRESSED + 1);
    reader.read_to_end(&mut plain)?;
    if plain.len() as u64 > MAX_DECOMPRESSED {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more than 64 MiB"));
    }
    Ok(plain.into())
}

/// Returns `true` if the data begin as gzip.
#[must_use]
pub fn is_gzip(data: &[u8]) -> bool {
    data.starts_with(&[0x1f, 0x8b, 8])
}

/// Returns data without compression: decompressed if [`gunzip`] can do that, and otherwise
/// unchanged.
#[must_use]
pub fn plain(data: &[u8]) -> Cow<'_, [u8]> {
    let plain = if is_gzip(data) { gunzip(data).ok() } else { None };
    plain.map_or(Cow::Borrowed(data), |plain| Cow::Owned(plain.into()))
}

/// Returns a dump with 16 bytes a line: the offset, the bytes in hexadecimal, and their text.
#[must_use]
pub fn hex(data: &[u8]) -> String {
    let line = |(line, bytes): (usize, &[u8])| {
        let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if matches!(byte, 32..127) { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(shown).collect();
        format!("{:08x}  {:<47}  {text}\n", line * 16, digits.join(" "))
    };
    data.chunks(16).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn binary_data_are_a_dump() {
        assert_eq!(
            hex(b"\x00ab"),
            "00000000  00 61 62                                         .ab\n"
        );
        assert_eq!(show(b"plain\ntext"), "plain\ntext");
        assert!(show(b"\x1b[31mred").starts_with("00000000"));
    }

    #[test]
    fn one_line_is_cut() {
        assert_eq!(line(b"abcdef", 3), "abc…");
        assert_eq!(line(b"abc", 3), "abc");
        assert_eq!(line(b"a\nb", 3), "a…");
        assert_eq!(line(&[0xff, 0], 3), "2 bytes");
    }

    proptest! {
        #[test]
        fn no_data_command_a_terminal(data: Vec<u8>) {
            let is_harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
            prop_assert!(show(&data).chars().all(is_harmless));
            prop_assert!(!line(&data, 40).contains(char::is_control));
        }
    }
}
