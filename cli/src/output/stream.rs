//! Output of any length, one document after another.

use std::borrow::Cow;
use std::io::{self, BufWriter, Stdout, Write};

use serde_json::Value;

use super::{Out, printable_lines, yaml};
use crate::args::OutputFormat;
use crate::exit::CommandFailure;

/// A document of a stream. Only the form that the format shows is made.
pub(crate) trait Document {
    /// Returns the text for people.
    fn text(&self) -> Cow<'_, str>;

    /// Returns the value for programs.
    fn value(&self) -> Value;

    /// Returns the line of the formats `name` and `raw`; `None` for none.
    fn name(&self) -> Option<Cow<'_, str>>;
}

/// Documents that are printed while they are found, in the memory of one.
///
/// With `-o json` and `-o yaml`, the documents of [`list`](Out::list) are printed as one array.
/// Those of [`follow`](Out::follow), which has no end, are one line of JSON each, or a document of
/// YAML each.
#[derive(Debug)]
pub(crate) struct DocumentStream {
    out: BufWriter<Stdout>,
    format: OutputFormat,
    is_one_of_many: bool,
    has_end: bool,
    count: u64,
    /// The reader of the pipe is gone.
    is_closed: bool,
}

impl Out {
    /// Begins a list of documents.
    pub(crate) fn list(&self) -> DocumentStream {
        DocumentStream {
            out: BufWriter::new(io::stdout()),
            format: self.format,
            is_one_of_many: self.is_one_of_many,
            has_end: true,
            count: 0,
            is_closed: false,
        }
    }

    /// Begins a stream without an end.
    pub(crate) fn follow(&self) -> DocumentStream {
        DocumentStream { has_end: false, ..self.list() }
    }
}

impl DocumentStream {
    /// Prints a document. Returns `false` if the reader of the pipe is gone: then nothing else will
    /// be read.
    pub(crate) fn print(&mut self, document: &impl Document) -> Result<bool, CommandFailure> {
        let written = self.write(document);
        self.count += 1;
        self.check(written)
    }

    /// Passes all documents on to the reader.
    pub(crate) fn flush(&mut self) -> Result<bool, CommandFailure> {
        let flushed = self.out.flush();
        self.check(flushed)
    }

    /// Returns the number of documents.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Ends the list.
    pub(crate) fn finish(mut self) -> Result<(), CommandFailure> {
        let ended = self.end().and_then(|()| self.out.flush());
        self.check(ended).map(drop)
    }

    fn check(&mut self, written: io::Result<()>) -> Result<bool, CommandFailure> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
        Ok(!self.is_closed)
    }

    fn write(&mut self, document: &impl Document) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        match self.format {
            OutputFormat::Table | OutputFormat::Wide => {
                writeln!(self.out, "{}", printable_lines(&document.text()))
            }
            OutputFormat::Json if self.has_end => {
                let before = if self.count == 0 { "[\n  " } else { ",\n  " };
                write!(self.out, "{before}{}", document.value())
            }
            OutputFormat::Json | OutputFormat::Jsonl => writeln!(self.out, "{}", document.value()),
            OutputFormat::Yaml if self.has_end => {
                self.begin_list()?;
                yaml(&mut self.out, &Value::Array(vec![document.value()]))
            }
            OutputFormat::Yaml => {
                writeln!(self.out, "---")?;
                yaml(&mut self.out, &document.value())
            }
            OutputFormat::Name | OutputFormat::Raw => match document.name() {
                Some(name) => writeln!(self.out, "{name}"),
                None => Ok(()),
            },
        }
    }

    fn begin_list(&mut self) -> io::Result<()> {
        if self.count == 0 && self.is_one_of_many { writeln!(self.out, "---") } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        match self.format {
            _ if self.is_closed || !self.has_end => Ok(()),
            OutputFormat::Json if self.count == 0 => writeln!(self.out, "[]"),
            OutputFormat::Json => writeln!(self.out, "\n]"),
            OutputFormat::Yaml if self.count == 0 => {
                self.begin_list()?;
                writeln!(self.out, "[]")
            }
            _ => Ok(()),
        }
    }
}
