use clap::Args;
use regex::RegexBuilder;
use zk_curator_ops::tree::grep::GrepPattern;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, printable, text};
use crate::path;
use crate::unreadable::NameUnreadable;

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
        let pattern = self.pattern()?;
        let zk = app.zk().await?;
        super::tree::ask(app, &self.path).await?;
        let columns = if self.paths_only { &COLUMNS[..1] } else { COLUMNS };
        let mut rows = Rows::new(columns).plain();
        let mut found = false;
        let search = pattern.grep(zk, &self.path, |path, line| {
            found = true;
            let mut cells = vec![path.into()];
            if !self.paths_only {
                cells.push(cut(&line).into());
            }
            rows.push(cells);
        });
        let unreadable = search.await?;
        let exit = if found { Exit::DONE } else { Exit::NO };
        Ok(unreadable.complete(app.out(), CommandOutput::from(rows).with_exit(exit)))
    }

    fn pattern(&self) -> Result<GrepPattern, CommandFailure> {
        let escaped = if self.fixed { regex::escape(&self.pattern) } else { self.pattern.clone() };
        let regex = RegexBuilder::new(&escaped)
            .case_insensitive(self.ignore_case)
            .build()
            .map_err(|error| CommandFailure::usage(error.to_string()))?;
        let pattern = GrepPattern::new(regex);
        Ok(match &self.json_pointer {
            Some(pointer) => pattern.json_pointer(pointer),
            None => pattern,
        })
    }
}

/// Returns a line as it is shown.
fn cut(line: &str) -> String {
    let cut = printable(&line.chars().take(SHOWN).collect::<String>());
    if line.chars().count() > SHOWN { format!("{cut}…") } else { cut }
}
