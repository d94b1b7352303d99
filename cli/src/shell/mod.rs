//! `zkc shell`: the commands of the command line in one session.

mod editor;
mod line;

use std::path::Path;
use std::process::Stdio;

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

use self::editor::Editor;
use self::line::Line;
use crate::app::App;
use crate::args::Global;
use crate::exit::{Exit, Failure};
use crate::output::{Out, Report};
use crate::path;

/// Runs the lines of a file. Ends with the first failure, unless `keep_going`; then with the exit
/// code of the last one.
pub(crate) async fn run_script(app: &App, file: &Path, keep_going: bool) -> Result<Exit, Failure> {
    let input: Box<dyn AsyncRead + Unpin> = if file == Path::new("-") {
        Box::new(tokio::io::stdin())
    } else {
        let open = tokio::fs::File::open(file).await;
        Box::new(open.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?)
    };
    let mut lines = BufReader::new(input).lines();
    let mut shell = Shell::new(app);
    let mut exit = Exit::DONE;
    while let Some(line) = lines.next_line().await? {
        match shell.run(&line).await {
            Next::Exit => break,
            Next::Done(Exit::DONE) => {}
            Next::Done(code) if keep_going => exit = code,
            Next::Done(code) => return Ok(code),
        }
    }
    Ok(exit)
}

/// Runs the lines of the terminal.
pub(crate) async fn run_terminal(app: &App) -> Result<Exit, Failure> {
    let zk = app.zk().await?;
    let editor = Editor::start(app, zk)?;
    let mut shell = Shell::new(app);
    let mut exit = Exit::DONE;
    while let Some(line) = editor.line(&shell.prompt(), &shell.at).await? {
        match shell.run(&line).await {
            Next::Exit => break,
            Next::Done(code) => exit = code,
        }
    }
    editor.close().await?;
    Ok(exit)
}

struct Shell<'a> {
    app: &'a App,
    /// The current node.
    at: String,
}

enum Next {
    Exit,
    Done(Exit),
}

impl<'a> Shell<'a> {
    fn new(app: &'a App) -> Self {
        Self { app, at: "/".to_owned() }
    }

    fn prompt(&self) -> String {
        let context = self.app.context().unwrap_or("zkc");
        let state = self.app.connection();
        let state = state.as_deref().unwrap_or("not connected");
        let rules = if self.app.is_read_only() { " read-only" } else { "" };
        format!("{context}:{} ({state}{rules})> ", self.at)
    }

    /// Runs a line, and prints its answer or failure.
    async fn run(&mut self, line: &str) -> Next {
        let outcome = match line::parse(line, &self.at) {
            Err(why) => Err(Failure::usage(why)),
            Ok(Line::Empty) => Ok(Exit::DONE),
            Ok(Line::Exit) => return Next::Exit,
            Ok(Line::Pwd) => {
                let at = self.at.clone();
                let report = Report::new(at.as_str(), at.as_str());
                self.app.out().print(&report.names([at]).into()).map(|()| Exit::DONE)
            }
            Ok(Line::Cd(path)) => self.cd(path).await,
            Ok(Line::System(command)) => system(&command).await,
            Ok(Line::Command { words, pipe }) => self.command(words, pipe).await,
        };
        let exit = outcome.unwrap_or_else(|failure| {
            self.app.out().warn(failure.to_string());
            failure.exit()
        });
        Next::Done(exit)
    }

    async fn cd(&mut self, path: String) -> Result<Exit, Failure> {
        if self.app.zk().await?.exists(&path).await?.is_none() {
            return Err(Failure::no_node(&path));
        }
        self.at = path;
        Ok(Exit::DONE)
    }

    async fn command(&self, words: Vec<String>, pipe: Option<String>) -> Result<Exit, Failure> {
        let names = std::iter::once("zkc".to_owned()).chain(words);
        let tree = path::relative_to(self.app.grammar().command(), &self.at);
        let matches = match tree.try_get_matches_from(names) {
            Ok(matches) => matches,
            Err(error) => {
                // Nothing can be done about a terminal that is gone.
                drop(error.print());
                return Ok(if error.use_stderr() { Exit::USAGE } else { Exit::DONE });
            }
        };
        refuse_other_session(&matches)?;
        let options = Global::from_arg_matches(&matches);
        let options = options.map_err(|error| Failure::usage(error.to_string()))?;
        let answer = match self.app.grammar().run(self.app, &matches).await {
            Ok(answer) => answer,
            Err(failure) => return Err(self.app.explain(failure).await),
        };
        let out = Out::new(&options);
        match pipe {
            None => out.print(&answer)?,
            Some(program) => pass_on(&program, &out.bytes(&answer)?).await?,
        }
        Ok(answer.exit())
    }
}

/// Refuses the options of another session, which the shell cannot follow.
fn refuse_other_session(matches: &ArgMatches) -> Result<(), Failure> {
    const OPTIONS: [&str; 7] =
        ["servers", "context", "namespace", "auth", "sasl", "session_timeout", "timeout"];
    let is_given = |option: &&&str| {
        let source =
            matches.try_contains_id(option).ok().and_then(|_| matches.value_source(option));
        source == Some(ValueSource::CommandLine)
    };
    match OPTIONS.iter().find(is_given) {
        None => Ok(()),
        Some(option) => Err(Failure::usage(format!(
            "--{}: the shell has one session, which began with its options",
            option.replace('_', "-")
        ))),
    }
}

/// Runs a command of the system.
async fn system(command: &str) -> Result<Exit, Failure> {
    let status = tokio::process::Command::new("sh").arg("-c").arg(command).status().await?;
    Ok(Exit::of_command(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Passes an answer to a program.
async fn pass_on(program: &str, answer: &[u8]) -> Result<(), Failure> {
    let mut command = tokio::process::Command::new("sh");
    let mut child = command.arg("-c").arg(program).stdin(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program such as `head` ends before it has read everything.
        drop(stdin.write_all(answer).await);
    }
    child.wait().await?;
    Ok(())
}
