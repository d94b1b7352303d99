//! `zkc shell`: the commands of the command line in one session.

mod editor;
mod line;

use std::path::Path;
use std::pin::pin;
use std::process::Stdio;

use clap::FromArgMatches;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};

use self::editor::Editor;
use self::line::ShellLine;
use crate::app::App;
use crate::args::{self, Global};
use crate::exit::{CommandFailure, Exit};
use crate::output::TextReport;
use crate::path;
use crate::stop::{Handled, StopRequest, Stops};

/// Runs the lines of a file. Ends with the first failure, unless `keep_going`; then with the exit
/// code of the last one.
pub(crate) async fn run_script(
    app: &App,
    file: &Path,
    keep_going: bool,
) -> Result<Exit, CommandFailure> {
    let input: Box<dyn AsyncRead + Unpin> = if file == Path::new("-") {
        Box::new(tokio::io::stdin())
    } else {
        let open = tokio::fs::File::open(file).await;
        Box::new(
            open.map_err(|error| CommandFailure::usage(format!("{}: {error}", file.display())))?,
        )
    };
    let mut lines = BufReader::new(input).lines();
    let (mut shell, mut stops) = (ShellLoop::new(app), Stops::catch()?);
    let mut exit = Exit::DONE;
    loop {
        let line = tokio::select! {
            biased;
            stop = stops.next() => return Ok(Exit::of_command(stop.code())),
            line = lines.next_line() => line?,
        };
        let Some(line) = line else { return Ok(exit) };
        match shell.run_until_stopped(&line, &mut stops).await {
            AfterLine::Exit => return Ok(exit),
            AfterLine::Stopped(stop) => return Ok(Exit::of_command(stop.code())),
            AfterLine::Done(Exit::DONE) => {}
            AfterLine::Done(code) if keep_going => exit = code,
            AfterLine::Done(code) => return Ok(code),
        }
    }
}

/// The editor has asked the terminal to mark what is pasted. This takes it back.
const NO_PASTE_MARKS: &str = "\u{1b}[?2004l";

/// Runs the lines of the terminal, until its end, `exit`, or a signal other than Ctrl-C, which ends
/// only a line.
pub(crate) async fn run_terminal(app: &App) -> Result<Exit, CommandFailure> {
    let zk = app.zk().await?;
    // The editor does not restore a terminal at which a signal has ended it.
    #[cfg(unix)]
    let _terminal = crate::supervise::terminal::Terminal::present();
    // Before the editor, which restores what was there before it.
    let mut stops = Stops::catch()?;
    let (mut shell, editor) = (ShellLoop::new(app), Editor::start(app, zk)?);
    let mut exit = Exit::DONE;
    loop {
        let line = {
            let prompt = shell.prompt();
            let mut line = pin!(editor.line(&prompt, &shell.at));
            loop {
                tokio::select! {
                    biased;
                    stop = stops.next() => if stop != StopRequest::Interrupt {
                        app.out().warn(NO_PASTE_MARKS);
                        return Ok(Exit::of_command(stop.code()));
                    },
                    line = &mut line => break line?,
                }
            }
        };
        let Some(line) = line else { break };
        match shell.run_until_stopped(&line, &mut stops).await {
            AfterLine::Exit => break,
            AfterLine::Stopped(StopRequest::Interrupt) => exit = Exit::INTERRUPTED,
            AfterLine::Stopped(stop) => return Ok(Exit::of_command(stop.code())),
            AfterLine::Done(code) => exit = code,
        }
    }
    editor.close().await?;
    Ok(exit)
}

struct ShellLoop<'a> {
    app: &'a App,
    /// The current node.
    at: String,
}

enum AfterLine {
    Exit,
    Done(Exit),
    /// A signal has ended the line, or was for the whole shell.
    Stopped(StopRequest),
}

impl<'a> ShellLoop<'a> {
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

    /// Runs a line, until it ends or a signal asks for that. Commands that hold something end
    /// themselves, and so do programs: Ctrl-C is for them, too.
    async fn run_until_stopped(&mut self, line: &str, stops: &mut Stops) -> AfterLine {
        let app = self.app;
        let mut run = pin!(self.run(line));
        let mut ending = None;
        loop {
            // Signals come first: a command that has handled one is over then.
            let stop = tokio::select! {
                biased;
                stop = stops.next() => stop,
                next = &mut run => return ending.map_or(next, AfterLine::Stopped),
            };
            match stop {
                StopRequest::Interrupt if Handled::is_any() => {}
                stop if ending.is_none() && Handled::is_any() => ending = Some(stop),
                stop => {
                    app.out().warn("interrupted");
                    return AfterLine::Stopped(stop);
                }
            }
        }
    }

    /// Runs a line, and prints its answer or failure.
    async fn run(&mut self, line: &str) -> AfterLine {
        let outcome = match line::parse(line, &self.at) {
            Err(why) => Err(CommandFailure::usage(why)),
            Ok(ShellLine::Empty) => Ok(Exit::DONE),
            Ok(ShellLine::Exit) => return AfterLine::Exit,
            Ok(ShellLine::Pwd) => {
                let at = self.at.clone();
                let report = TextReport::new(at.as_str(), at.as_str());
                self.app.out().print(&report.names([at]).into()).map(|()| Exit::DONE)
            }
            Ok(ShellLine::Cd(path)) => self.cd(path).await,
            Ok(ShellLine::System(command)) => system(&command).await,
            Ok(ShellLine::Command { words, pipe }) => self.command(words, pipe).await,
        };
        let exit = outcome.unwrap_or_else(|failure| {
            self.app.out().warn(failure.to_string());
            failure.exit()
        });
        AfterLine::Done(exit)
    }

    async fn cd(&mut self, path: String) -> Result<Exit, CommandFailure> {
        if self.app.zk().await?.exists(&path).await?.is_none() {
            return Err(CommandFailure::no_node(&path));
        }
        self.at = path;
        Ok(Exit::DONE)
    }

    async fn command(
        &self,
        words: Vec<String>,
        pipe: Option<String>,
    ) -> Result<Exit, CommandFailure> {
        let names: Vec<_> =
            std::iter::once("zkc".into()).chain(words.into_iter().map(Into::into)).collect();
        let tree = path::relative_to(self.app.grammar().command(), &self.at);
        let matches = match args::parse(tree, &names) {
            Ok(matches) => matches,
            Err(error) => {
                // Nothing can be done about a terminal that is gone.
                drop(error.print());
                return Ok(if error.use_stderr() { Exit::USAGE } else { Exit::DONE });
            }
        };
        if let Some(option) = args::of_another_session(&matches) {
            let text =
                format!("--{option}: the shell has one session, which began with its options");
            return Err(CommandFailure::usage(text));
        }
        let options = Global::from_arg_matches(&matches);
        let options = options.map_err(|error| CommandFailure::usage(error.to_string()))?;
        let app = self.app.with_options_of(&options, |option| args::is_given(&matches, option));
        let answer = match app.grammar().run(&app, &matches).await {
            Ok(answer) => answer,
            Err(failure) => return Err(app.explain(failure).await),
        };
        match pipe {
            None => app.out().clone().one_of_many().print(&answer)?,
            Some(program) => {
                let passed = pass_on(&program, &app.out().bytes(&answer)?).await?;
                if answer.is_needed() {
                    passed?;
                }
            }
        }
        answer.printed().await
    }
}

/// Runs a command of the system.
async fn system(command: &str) -> Result<Exit, CommandFailure> {
    let _program = Handled::begin();
    let status = tokio::process::Command::new("sh").arg("-c").arg(command).status().await?;
    Ok(Exit::of_command(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Passes an answer to a program. The inner result says whether the program has read all of it: one
/// such as `head` ends before.
async fn pass_on(program: &str, answer: &[u8]) -> Result<std::io::Result<()>, CommandFailure> {
    let _program = Handled::begin();
    let mut command = tokio::process::Command::new("sh");
    let mut child = command.arg("-c").arg(program).stdin(Stdio::piped()).spawn()?;
    let passed = match child.stdin.take() {
        Some(mut stdin) => stdin.write_all(answer).await,
        None => Ok(()),
    };
    child.wait().await?;
    Ok(passed)
}
