use clap::Args;
use zk_curator::op::{CheckOp, CreateOp, DeleteOp, SetDataOp, TransactionOp};
use zk_curator::{CreateMode, ErrorKind, OpResult, Version};
use zk_curator_ops::acl;

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, data, number, text};
use crate::{path, stdin, words};

const AFTER_HELP: &str = "\
All operations are applied, or none. Each line is an operation:
  check PATH [VERSION]                            fail unless the node exists
  create [-e] [-S] [-c] [--acl ACL] PATH [DATA]   create a node
  set PATH DATA [VERSION]                         replace the data
  rm PATH [VERSION]                               delete the node

With -e the node is ephemeral, with -S sequential, with -c a container; ACL is a list as for \
`zkc create --acl`. With VERSION, the operation fails if the node has another version. DATA is a \
text or `@FILE`; `-` is a text here. Texts with spaces need quotes: 'two words'. Empty lines, and \
lines that begin with #, are skipped. If an operation fails, its line is named.

A file could have these lines:
  check /app/limits 3
  set /app/config '{\"limit\": 6}'
  create -S /app/log/entry- 'limit 6'";

/// The arguments of `zkc txn`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Txn {
    /// File with the operations, or `-` for standard input
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    file: String,
    /// Check the operations, and send nothing
    #[arg(long)]
    dry_run: bool,
}

const COLUMNS: &[OutputColumn] = &[text("operation"), text("path"), number("version")];

impl Txn {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let text = self.text().await?;
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let invalid =
                |why: CommandFailure| CommandFailure::usage(format!("line {}: {why}", index + 1));
            let words = words::split(line).map_err(CommandFailure::usage).map_err(invalid)?;
            lines.push((index + 1, operation(&words).map_err(invalid)?));
        }
        if lines.is_empty() {
            return Err(CommandFailure::usage("no operations"));
        }
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let mut transaction = zk.transaction().uncompressed();
        for (_, (_, _, op)) in &lines {
            transaction = transaction.with(op.clone());
        }
        transaction.check_size()?;
        if self.dry_run {
            return Ok(CommandOutput::nothing());
        }
        let results = transaction.commit().await.map_err(|error| failed(error, &lines))?;
        let mut rows = Rows::new(COLUMNS);
        for ((_, (verb, path, _)), result) in lines.into_iter().zip(results) {
            let (path, version) = match result {
                OpResult::Created { path, .. } => (path, None),
                OpResult::DataSet(stat) => (path, Some(stat.version)),
                _ => (path, None),
            };
            rows.push(vec![verb.into(), path.into(), version.into()]);
        }
        Ok(rows.into())
    }

    async fn text(&self) -> Result<String, CommandFailure> {
        if self.file == "-" {
            let text = String::from_utf8(stdin::all().await?);
            return text.map_err(|_| CommandFailure::usage("the operations are not UTF-8"));
        }
        std::fs::read_to_string(&self.file)
            .map_err(|error| CommandFailure::usage(format!("{}: {error}", self.file)))
    }
}

/// Names the line that was refused. Each of the `lines` has a verb, a path and an operation.
fn failed(
    error: zk_curator::Error,
    lines: &[(usize, (&'static str, String, TransactionOp))],
) -> CommandFailure {
    let ErrorKind::TransactionFailed { index, .. } = error.kind() else { return error.into() };
    let Some((line, (verb, path, _))) = lines.get(index) else { return error.into() };
    let why = error.code().map(|code| code.to_string()).unwrap_or_default();
    let exit = CommandFailure::from(error).exit();
    let text = format!("line {line}: {verb} {path}: {why}");
    CommandFailure::new(exit, text).hint("nothing was applied")
}

/// Returns the verb, the path and the operation of a line.
fn operation(words: &[String]) -> Result<(&'static str, String, TransactionOp), CommandFailure> {
    let mut words = words.iter().map(String::as_str);
    let verb = words.next().unwrap_or_default();
    if verb == "create" {
        return create(words);
    }
    let path = words.next().map(path::normal);
    let path = path.ok_or_else(|| CommandFailure::usage(format!("{verb}: no path")))?;
    let (verb, op): (_, TransactionOp) = match verb {
        "check" => ("check", CheckOp::new(&path).version(version(words.next())?).into()),
        "rm" | "delete" => ("rm", DeleteOp::new(&path).version(version(words.next())?).into()),
        "set" => {
            let value = words.next().ok_or_else(|| CommandFailure::usage("set: no data"))?;
            let op = SetDataOp::new(&path, argument(value)?);
            ("set", op.version(version(words.next())?).into())
        }
        other => return Err(CommandFailure::usage(format!("not an operation: {other}"))),
    };
    no_more(words)?;
    Ok((verb, path, op))
}

fn create<'a>(
    mut words: impl Iterator<Item = &'a str>,
) -> Result<(&'static str, String, TransactionOp), CommandFailure> {
    let (mut ephemeral, mut sequential, mut container) = (false, false, false);
    let mut acl = None;
    let path = loop {
        match words.next() {
            Some("-e") => ephemeral = true,
            Some("-S") => sequential = true,
            Some("-c") => container = true,
            Some("--acl") => {
                let list = words.next().ok_or_else(|| CommandFailure::usage("--acl: no list"))?;
                acl = Some(acl::parse(list)?);
            }
            Some(path) => break path::normal(path),
            None => return Err(CommandFailure::usage("create: no path")),
        }
    };
    let mode = match (ephemeral, sequential, container) {
        (false, false, false) => CreateMode::Persistent,
        (false, true, false) => CreateMode::PersistentSequential,
        (true, false, false) => CreateMode::Ephemeral,
        (true, true, false) => CreateMode::EphemeralSequential,
        (false, false, true) => CreateMode::Container,
        _ => return Err(CommandFailure::usage("create: -c excludes -e and -S")),
    };
    let data = words.next().map(argument).transpose()?.unwrap_or_default();
    no_more(words)?;
    let mut op = CreateOp::new(&path).data(data).mode(mode);
    if let Some(acl) = acl {
        op = op.acl(acl);
    }
    Ok(("create", path, op.into()))
}

/// Returns data. Standard input has the operations, so `-` is a text.
fn argument(word: &str) -> Result<bytes::Bytes, CommandFailure> {
    data::text_or_file(word)
}

fn version(word: Option<&str>) -> Result<Version, CommandFailure> {
    let Some(word) = word else { return Ok(Version::Any) };
    let number: i32 =
        word.parse().map_err(|_| CommandFailure::usage(format!("not a version: {word}")))?;
    Ok(number.into())
}

fn no_more<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<(), CommandFailure> {
    match words.next() {
        Some(word) => Err(CommandFailure::usage(format!("too many words: {word}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<&'static str, String> {
        let words = words::split(line).map_err(|why| why.to_string())?;
        operation(&words).map(|(verb, ..)| verb).map_err(|failure| failure.to_string())
    }

    #[test]
    fn lines_are_operations() {
        for (line, verb) in [
            ("check /a 3", "check"),
            ("create /a 'two words'", "create"),
            ("create -e -S --acl open /a", "create"),
            ("set /a x -1", "set"),
            ("rm /a", "rm"),
        ] {
            assert_eq!(parse(line), Ok(verb), "{line}");
        }
    }

    #[test]
    fn the_lines_of_the_help_are_operations() {
        let (_, lines) = AFTER_HELP.split_once("these lines:\n").expect("lines");
        for line in lines.lines() {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn an_invalid_line_is_refused() {
        for line in
            ["check", "set /a", "set /a x y", "rm /a 1 2", "move /a", "create -c -e /a", "'open"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
