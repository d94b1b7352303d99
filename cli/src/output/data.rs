//! The data of nodes for people and programs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde_json::Value;
use zk_curator_ops::data::{gunzip, hex};
pub(crate) use zk_curator_ops::data::{line, plain, show, value};

use crate::exit::CommandFailure;
use crate::output::{Cell, TextReport};
use crate::stdin;

/// A way to show data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum As {
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

/// Returns a cell of a table with data in one line.
pub(crate) fn cell(data: &[u8], limit: usize) -> Cell {
    Cell::new(line(data, limit), value(data))
}

/// The form of the data of a node in the output.
#[derive(Debug, Args)]
pub(crate) struct DataForm {
    /// Form of the data [default: text, or a dump of the bytes]
    #[arg(long = "as", value_enum, value_name = "FORM")]
    form: Option<As>,
    /// Print the bytes unchanged; the same as `--output raw`
    #[arg(long)]
    raw: bool,
}

impl DataForm {
    /// Returns the data for people.
    pub(crate) fn text(&self, data: &Bytes) -> Result<String, CommandFailure> {
        self.form.map_or_else(|| Ok(show(&plain(data))), |form| show_as(data, form))
    }

    /// Adds the data to a report.
    pub(crate) fn with_bytes(&self, report: TextReport, data: Bytes) -> TextReport {
        let report = report.raw(data);
        if self.raw { report.only_raw() } else { report }
    }
}

/// Shows data in the given way.
fn show_as(data: &Bytes, way: As) -> Result<String, CommandFailure> {
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
        As::Gzip => Ok(show(&gunzip(data).map_err(|error| wrong("gzip", error))?)),
    }
}

fn fixed<const N: usize>(data: &[u8]) -> Result<[u8; N], CommandFailure> {
    let refused = |_| CommandFailure::usage(format!("the node has {} bytes, not {N}", data.len()));
    data.try_into().map_err(refused)
}

fn wrong(format: &str, error: impl std::fmt::Display) -> CommandFailure {
    CommandFailure::usage(format!("the data are not {format}: {error}"))
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
    use super::*;

    #[test]
    fn numbers_have_their_size() {
        let data = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(show_as(&data, As::I64).expect("8 bytes"), "5");
        assert!(show_as(&data, As::I32).is_err());
    }
}
