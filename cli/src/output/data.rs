//! The data of nodes for people and programs.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::exit::CommandFailure;
use crate::output::{Cell, printable};
use crate::stdin;

/// The most that compressed data may become: far more than a node has.
const MAX_DECOMPRESSED: u64 = 64 << 20;

/// A way to show data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum As {
    /// Indented JSON
    Json,
    /// Bytes in hexadecimal, with their text
    Hex,
    /// Base64
    Base64,
    /// Big-endian integer of 4 bytes, as in SharedCount
    I32,
    /// Big-endian integer of 8 bytes, as in DistributedAtomicLong
    I64,
    /// Decompressed gzip, as written by Curator
    Gzip,
}

/// Returns the value for programs: text if it is text.
pub(crate) fn value(data: &[u8]) -> Value {
    std::str::from_utf8(data)
        .map_or_else(|_| json!({ "base64": STANDARD.encode(data) }), |text| json!({ "text": text }))
}

/// Returns data for people: text as it is, and everything else in hexadecimal. Control characters,
/// which could command a terminal, are no text.
pub(crate) fn show(data: &[u8]) -> String {
    text(data).map_or_else(|| hex(data), ToOwned::to_owned)
}

/// Returns a cell of a table with data in one line.
pub(crate) fn cell(data: &[u8], limit: usize) -> Cell {
    Cell::new(line(data, limit), value(data))
}

/// Returns data in one line of at most `limit` characters.
pub(crate) fn line(data: &[u8], limit: usize) -> String {
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

/// Shows data in the given way.
pub(crate) fn show_as(data: &Bytes, way: As) -> Result<String, CommandFailure> {
    match way {
        As::Json => {
            let value: Value =
                serde_json::from_slice(data).map_err(|error| wrong("JSON", error))?;
            serde_json::to_string_pretty(&value).map_err(|error| wrong("JSON", error))
        }
        As::Hex => Ok(hex(data)),
        As::Base64 => Ok(STANDARD.encode(data)),
        As::I32 => Ok(i32::from_be_bytes(fixed(data)?).to_string()),
        As::I64 => Ok(i64::from_be_bytes(fixed(data)?).to_string()),
        As::Gzip => Ok(show(&gunzip(data)?)),
    }
}

fn fixed<const N: usize>(data: &[u8]) -> Result<[u8; N], CommandFailure> {
    let refused = |_| CommandFailure::usage(format!("the node has {} bytes, not {N}", data.len()));
    data.try_into().map_err(refused)
}

/// Decompresses gzip, up to a limit.
pub(crate) fn gunzip(data: &[u8]) -> Result<Bytes, CommandFailure> {
    let mut plain = Vec::new();
    let mut reader = flate2::bufread::MultiGzDecoder::new(data).take(MAX_DECOMPRESSED + 1);
    reader.read_to_end(&mut plain).map_err(|error| wrong("gzip", error))?;
    if plain.len() as u64 > MAX_DECOMPRESSED {
        return Err(wrong("gzip", "more than 64 MiB"));
    }
    Ok(plain.into())
}

/// Returns `true` if the data begin as gzip.
pub(crate) fn is_gzip(data: &[u8]) -> bool {
    data.starts_with(&[0x1f, 0x8b, 8])
}

fn wrong(format: &str, error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::usage(format!("the data are not {format}: {error}"))
}

/// Returns a dump with 16 bytes a line.
fn hex(data: &[u8]) -> String {
    let line = |(line, bytes): (usize, &[u8])| {
        let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |byte: &u8| if matches!(byte, 32..127) { char::from(*byte) } else { '.' };
        let text: String = bytes.iter().map(shown).collect();
        format!("{:08x}  {:<47}  {text}\n", line * 16, digits.join(" "))
    };
    data.chunks(16).enumerate().map(line).collect()
}

/// Parses data on the command line: text, `@FILE`, or `-` for standard input.
pub(crate) async fn argument(text: &str) -> Result<Bytes, CommandFailure> {
    if text == "-" { Ok(stdin::all().await?.into()) } else { text_or_file(text) }
}

/// Parses data on the command line that cannot be standard input: text, or `@FILE`.
pub(crate) fn text_or_file(text: &str) -> Result<Bytes, CommandFailure> {
    match text.strip_prefix('@') {
        Some(file) => std::fs::read(file)
            .map(Bytes::from)
            .map_err(|error| CommandFailure::usage(format!("{file}: {error}"))),
        None => Ok(Bytes::copy_from_slice(text.as_bytes())),
    }
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

    #[test]
    fn numbers_have_their_size() {
        let data = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(show_as(&data, As::I64).expect("8 bytes"), "5");
        assert!(show_as(&data, As::I32).is_err());
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
