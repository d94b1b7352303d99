use clap::Args;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, data, printable, text};
use crate::{node, path, walk};

/// The most characters of a line that are shown.
const SHOWN: usize = 200;

/// The arguments of `zkc grep`.
#[derive(Debug, Args)]
pub(crate) struct Grep {
    /// Regular expression
    pattern: String,
    /// Root of the subtree
    #[arg(value_parser = path::parse, default_value = "/")]
    path: String,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// The pattern is a plain text
    #[arg(short = 'F', long)]
    fixed: bool,
    /// Search only this part of JSON data, as a pointer such as /service/address
    #[arg(long, value_name = "POINTER")]
    json_pointer: Option<String>,
    /// Print only paths
    #[arg(short = 'l', long)]
    paths_only: bool,
}

const COLUMNS: &[OutputColumn] = &[text("path"), text("match")];

impl Grep {
    /// Prints the first matching line of each node. Compressed data are searched as plain data.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let pattern = self.regex()?;
        let zk = app.zk().await?;
        super::tree::ask(app, &self.path).await?;
        let nodes = walk::list(zk, &self.path, usize::MAX, |_| true).await?;
        let mut unreadable = walk::hidden(&nodes);
        let mut paths: Vec<_> = nodes.into_iter().map(|node| node.path).collect();
        paths.sort_by(|a, b| node::compare(a, b));
        let columns = if self.paths_only { &COLUMNS[..1] } else { COLUMNS };
        let mut rows = Rows::new(columns).plain();
        let mut found = false;
        let unread = walk::read(zk, &paths, |node| {
            let Some(line) = self.first_match(&pattern, &node.data) else { return };
            found = true;
            let mut cells = vec![node.path.into()];
            if !self.paths_only {
                cells.push(line.into());
            }
            rows.push(cells);
        });
        unreadable.extend(unread.await?);
        let exit = if found { Exit::DONE } else { Exit::NO };
        Ok(unreadable.complete(app.out(), CommandOutput::from(rows).with_exit(exit)))
    }

    fn regex(&self) -> Result<Regex, CommandFailure> {
        let escaped = if self.fixed { regex::escape(&self.pattern) } else { self.pattern.clone() };
        RegexBuilder::new(&escaped)
            .case_insensitive(self.ignore_case)
            .build()
            .map_err(|error| CommandFailure::usage(error.to_string()))
    }

    /// Returns the first line that matches, cut.
    fn first_match(&self, pattern: &Regex, bytes: &[u8]) -> Option<String> {
        let plain = if data::is_gzip(bytes) { data::gunzip(bytes).ok() } else { None };
        let bytes = plain.as_deref().unwrap_or(bytes);
        let text = match &self.json_pointer {
            None => String::from_utf8_lossy(bytes).into_owned(),
            Some(pointer) => match serde_json::from_slice::<Value>(bytes).ok()?.pointer(pointer)? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
        };
        let line = text.lines().find(|line| pattern.is_match(line))?;
        let cut = printable(&line.chars().take(SHOWN).collect::<String>());
        Some(if line.chars().count() > SHOWN { format!("{cut}…") } else { cut })
    }
}
