//! The answers of commands, and their formats.

pub(crate) mod data;
pub(crate) mod stream;
pub(crate) mod time;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::pin::Pin;

use bytes::Bytes;
use comfy_table::{CellAlignment, Table};
use serde_json::{Map, Value};
pub(crate) use zk_curator_ops::text::{printable, shell_word};

#[cfg(feature = "tui")]
use crate::args::Color;
use crate::args::{Global, OutputFormat};
use crate::exit::{CommandFailure, Exit};

/// The answer of a command. The body is a value, so every command has every format.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    body: OutputBody,
    exit: Exit,
    rest: Option<Rest>,
}

/// The rest of a command, which runs once its answer is printed. It is dropped if it cannot be.
struct Rest(Pin<Box<dyn Future<Output = Result<(), CommandFailure>>>>);

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rest")
    }
}

#[derive(Debug)]
enum OutputBody {
    Nothing,
    Rows(Rows),
    Report(TextReport),
}

impl CommandOutput {
    /// No output.
    pub(crate) const fn nothing() -> Self {
        Self { body: OutputBody::Nothing, exit: Exit::DONE, rest: None }
    }

    /// Adds what is done once the answer is printed.
    pub(crate) fn then(
        mut self,
        rest: impl Future<Output = Result<(), CommandFailure>> + 'static,
    ) -> Self {
        self.rest = Some(Rest(Box::pin(rest)));
        self
    }

    /// Returns `true` if something depends on the answer.
    pub(crate) const fn is_needed(&self) -> bool {
        self.rest.is_some()
    }

    /// Ends the command, whose answer is printed. Returns its exit code.
    pub(crate) async fn printed(self) -> Result<Exit, CommandFailure> {
        if let Some(Rest(rest)) = self.rest {
            rest.await?;
        }
        Ok(self.exit)
    }

    /// Ends the command with this code instead of 0.
    pub(crate) const fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

impl From<Exit> for CommandOutput {
    fn from(exit: Exit) -> Self {
        Self::nothing().with_exit(exit)
    }
}

impl From<Rows> for CommandOutput {
    fn from(rows: Rows) -> Self {
        Self { body: OutputBody::Rows(rows), ..Self::nothing() }
    }
}

impl From<TextReport> for CommandOutput {
    fn from(report: TextReport) -> Self {
        Self { body: OutputBody::Report(report), ..Self::nothing() }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputColumn {
    /// The key in JSON. The title is the same in upper case.
    pub(crate) key: &'static str,
    /// Shown only in the format `wide`.
    pub(crate) wide: bool,
    /// Aligned to the right.
    pub(crate) right: bool,
}

/// Returns a column of text.
pub(crate) const fn text(key: &'static str) -> OutputColumn {
    OutputColumn { key, wide: false, right: false }
}

/// Returns a column of numbers.
pub(crate) const fn number(key: &'static str) -> OutputColumn {
    OutputColumn { key, wide: false, right: true }
}

impl OutputColumn {
    /// Shows the column only in the format `wide`.
    pub(crate) const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }
}

/// A cell: the text for people, and the value for programs.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    value: Value,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { text: text.into(), value: value.into() }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::new(text, text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { value: Value::from(text.as_str()), text }
    }
}

macro_rules! cells_of {
    ($($number:ty),*) => {$(
        impl From<$number> for Cell {
            fn from(number: $number) -> Self {
                Self::new(number.to_string(), number)
            }
        }
    )*};
}

cells_of!(i32, i64, u32, u64, usize, bool);

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or_else(|| Self::new("–", Value::Null), Into::into)
    }
}

/// A list of things, with the same columns. The first column is the name.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: &'static [OutputColumn],
    rows: Vec<Vec<Cell>>,
    /// Without a line of titles in a table.
    plain: bool,
}

impl Rows {
    pub(crate) const fn new(columns: &'static [OutputColumn]) -> Self {
        Self { columns, rows: Vec::new(), plain: false }
    }

    /// Leaves out the line of titles.
    pub(crate) const fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn push(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    fn objects(&self) -> impl Iterator<Item = Value> + '_ {
        self.rows.iter().map(|cells| {
            let keys = self.columns.iter().map(|column| column.key.to_owned());
            let values = cells.iter().map(|cell| cell.value.clone());
            Value::Object(keys.zip(values).collect::<Map<_, _>>())
        })
    }

    fn table(&self, wide: bool) -> String {
        let shown: Vec<_> =
            (0..self.columns.len()).filter(|place| wide || !self.columns[*place].wide).collect();
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        if !self.plain {
            table.set_header(shown.iter().map(|place| self.columns[*place].key.to_uppercase()));
        }
        for cells in &self.rows {
            table.add_row(shown.iter().map(|place| printable(&cells[*place].text)));
        }
        for (place, shown) in shown.iter().enumerate() {
            if let Some(column) = table.column_mut(place) {
                // One space before each column but the first, and one after each.
                column.set_padding((0, 2));
                if self.columns[*shown].right {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.trim_fmt()
    }
}

/// Does the same as [`printable`] in a text of several lines.
fn printable_lines(text: &str) -> String {
    text.split_inclusive(['\n', '\t', '\r'])
        .flat_map(|part| {
            let end =
                part.char_indices().next_back().filter(|(_, c)| matches!(c, '\n' | '\t' | '\r'));
            let (line, end) = part.split_at(end.map_or(part.len(), |(place, _)| place));
            [printable(line), end.to_owned()]
        })
        .collect()
}

/// An answer with a text of its own for people.
#[derive(Debug)]
pub(crate) struct TextReport {
    text: String,
    value: Value,
    names: Vec<String>,
    raw: Option<Bytes>,
    /// Printed as raw bytes in every format.
    only_raw: bool,
    /// One of several documents. In JSON, each has one line.
    one_line: bool,
}

impl TextReport {
    pub(crate) fn new(text: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            text: text.into(),
            value: value.into(),
            names: Vec::new(),
            raw: None,
            only_raw: false,
            one_line: false,
        }
    }

    /// Sets the lines of the format `name`. Default: none.
    pub(crate) fn names(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.names = names.into_iter().collect();
        self
    }

    /// Sets the bytes of the format `raw`. The text shows them, unchanged. Default: the names.
    pub(crate) fn raw(mut self, raw: Bytes) -> Self {
        self.raw = Some(raw);
        self
    }

    /// Prints JSON in one line, and YAML with a separator, for streams.
    pub(crate) const fn in_one_line(mut self) -> Self {
        self.one_line = true;
        self
    }

    /// Prints the raw bytes, whatever the format.
    pub(crate) const fn only_raw(mut self) -> Self {
        self.only_raw = true;
        self
    }
}

/// The output: data on stdout, talk on stderr.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    pub(crate) format: OutputFormat,
    quiet: bool,
    verbose: bool,
    /// Several answers are printed, as in the shell.
    is_one_of_many: bool,
    #[cfg(feature = "tui")]
    color: bool,
}

impl Out {
    pub(crate) fn new(global: &Global) -> Self {
        Self {
            format: global.output,
            quiet: global.quiet,
            verbose: global.verbose,
            is_one_of_many: false,
            #[cfg(feature = "tui")]
            color: match global.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => std::env::var_os("NO_COLOR").is_none() && io::stdout().is_terminal(),
            },
        }
    }

    /// Prints answers as documents of a stream.
    #[cfg(feature = "shell")]
    pub(crate) const fn one_of_many(mut self) -> Self {
        self.is_one_of_many = true;
        self
    }

    /// Returns `true` if the data on stdout may have colours.
    #[cfg(feature = "tui")]
    pub(crate) const fn color(&self) -> bool {
        self.color
    }

    /// Returns `true` if people look at stderr while a command works.
    pub(crate) fn shows_progress(&self) -> bool {
        let is_for_people =
            matches!(self.format, OutputFormat::Table | OutputFormat::Wide) && !self.quiet;
        let is_dumb = || std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        is_for_people && io::stderr().is_terminal() && !is_dumb()
    }

    /// Prints an answer. Succeeds if the reader of a pipe is gone.
    pub(crate) fn print(&self, answer: &CommandOutput) -> Result<(), CommandFailure> {
        match self.write_to_stdout(answer) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            // Nobody has it.
            Err(error) if answer.is_needed() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Prints one of the answers of a command that has no end of its own. Returns `false` if the
    /// reader of the pipe is gone: then nothing else will be read.
    pub(crate) fn print_next(&self, answer: &CommandOutput) -> Result<bool, CommandFailure> {
        match self.write_to_stdout(answer) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            written => written.map(|()| true).map_err(CommandFailure::from),
        }
    }

    fn write_to_stdout(&self, answer: &CommandOutput) -> io::Result<()> {
        let mut stdout = BufWriter::new(io::stdout().lock());
        self.write(&mut stdout, answer).and_then(|()| stdout.flush())
    }

    /// Returns an answer as it is printed.
    #[cfg(any(feature = "shell", feature = "tui"))]
    pub(crate) fn bytes(&self, answer: &CommandOutput) -> Result<Vec<u8>, CommandFailure> {
        let mut bytes = Vec::new();
        self.write(&mut bytes, answer)?;
        Ok(bytes)
    }

    fn write(&self, out: &mut impl Write, answer: &CommandOutput) -> io::Result<()> {
        match &answer.body {
            OutputBody::Nothing => Ok(()),
            OutputBody::Rows(rows) => self.write_rows(out, rows),
            OutputBody::Report(report) => self.write_report(out, report),
        }
    }

    /// Separates the documents of a stream.
    fn begin_document(&self, out: &mut impl Write, is_stream: bool) -> io::Result<()> {
        if is_stream || self.is_one_of_many { writeln!(out, "---") } else { Ok(()) }
    }

    fn write_rows(&self, out: &mut impl Write, rows: &Rows) -> io::Result<()> {
        match self.format {
            OutputFormat::Table | OutputFormat::Wide if rows.rows.is_empty() => Ok(()),
            OutputFormat::Table | OutputFormat::Wide => {
                writeln!(out, "{}", rows.table(self.format == OutputFormat::Wide))
            }
            OutputFormat::Json => document(out, &Value::Array(rows.objects().collect())),
            OutputFormat::Jsonl => rows.objects().try_for_each(|row| writeln!(out, "{row}")),
            OutputFormat::Yaml => {
                self.begin_document(out, false)?;
                yaml(out, &Value::Array(rows.objects().collect()))
            }
            OutputFormat::Name | OutputFormat::Raw => {
                let mut names = rows.rows.iter().filter_map(|cells| cells.first());
                names.try_for_each(|cell| writeln!(out, "{}", cell.text))
            }
        }
    }

    fn write_report(&self, out: &mut impl Write, report: &TextReport) -> io::Result<()> {
        let format = if report.only_raw { OutputFormat::Raw } else { self.format };
        match (format, &report.raw) {
            (OutputFormat::Table | OutputFormat::Wide, _) if report.text.is_empty() => Ok(()),
            (OutputFormat::Table | OutputFormat::Wide, _) => {
                let text = report.text.strip_suffix('\n').unwrap_or(&report.text);
                // Data are what they are.
                let text = match report.raw {
                    Some(_) => Cow::Borrowed(text),
                    None => Cow::Owned(printable_lines(text)),
                };
                writeln!(out, "{text}")
            }
            (OutputFormat::Json, _) if !report.one_line => document(out, &report.value),
            (OutputFormat::Json | OutputFormat::Jsonl, _) => writeln!(out, "{}", report.value),
            (OutputFormat::Yaml, _) => {
                self.begin_document(out, report.one_line)?;
                yaml(out, &report.value)
            }
            (OutputFormat::Raw, Some(raw)) => out.write_all(raw),
            (OutputFormat::Name | OutputFormat::Raw, _) => {
                report.names.iter().try_for_each(|name| writeln!(out, "{name}"))
            }
        }
    }

    /// Prints a line for people on stderr, unless `--quiet` is given.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// Prints a line for people on stderr if `--verbose` is given.
    pub(crate) fn detail(&self, text: impl AsRef<str>) {
        if self.verbose {
            self.warn(text);
        }
    }

    /// Prints a line for people on stderr.
    #[expect(clippy::unused_self, reason = "all output goes through this type")]
    pub(crate) fn warn(&self, text: impl AsRef<str>) {
        warn(text.as_ref());
    }
}

/// Prints a line for people on stderr.
pub(crate) fn warn(text: &str) {
    // Nothing can be done about a terminal that is gone.
    drop(writeln!(io::stderr(), "{}", printable_lines(text)));
}

fn document(out: &mut impl Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

fn yaml(out: &mut impl Write, value: &Value) -> io::Result<()> {
    // Its writer hides the kind of a failure, such as that of a closed pipe.
    let text = serde_yaml_ng::to_string(value).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}
