//! The lines of a terminal. They are edited in a thread of its own, so that the session lives on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{DefaultHistory, History};
use rustyline::validate::Validator;
use rustyline::{Config, Helper};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use zk_curator::CuratorFramework;

use crate::app::App;
use crate::complete::{self, ChildLister};
use crate::exit::CommandFailure;
use crate::path::absolute;
use crate::words;

/// The most lines of the history.
const HISTORY: usize = 1_000;

/// The editor of a terminal.
pub(super) struct Editor {
    /// Each request for a line has its prompt, and takes the reply.
    requests: mpsc::UnboundedSender<(String, oneshot::Sender<Option<String>>)>,
    /// The current node, to which completed paths are relative.
    at: Arc<Mutex<String>>,
    thread: tokio::task::JoinHandle<Result<(), CommandFailure>>,
}

impl Editor {
    /// Starts the thread, and reads the history of the context.
    pub(super) fn start(app: &App, zk: &CuratorFramework) -> Result<Self, CommandFailure> {
        let at = Arc::new(Mutex::new("/".to_owned()));
        let grammar = Arc::new(app.grammar().command());
        let completion = Completion { grammar, children: children(zk, &at) };
        let history = history_file(app)?;
        let (requests, receiver) = mpsc::unbounded_channel();
        let edit = move || edit_lines(receiver, &completion, history.as_deref());
        Ok(Self { requests, at, thread: tokio::task::spawn_blocking(edit) })
    }

    /// Returns the next line; `None` at its end, after Ctrl-D.
    pub(super) async fn line(
        &self,
        prompt: &str,
        at: &str,
    ) -> Result<Option<String>, CommandFailure> {
        at.clone_into(&mut self.at.lock().unwrap_or_else(PoisonError::into_inner));
        let (reply, line) = oneshot::channel();
        // If the thread has ended, the reply is dropped.
        drop(self.requests.send((prompt.to_owned(), reply)));
        Ok(line.await.unwrap_or_default())
    }

    /// Ends the thread, which writes the history.
    pub(super) async fn close(self) -> Result<(), CommandFailure> {
        drop(self.requests);
        self.thread.await.unwrap_or_else(|error| Err(CommandFailure::usage(error.to_string())))
    }
}

/// Returns the file of the history, in the folder of the configuration. Without that, the history
/// ends with the shell.
fn history_file(app: &App) -> Result<Option<PathBuf>, CommandFailure> {
    let context = app.context().unwrap_or("default");
    let name: String = context.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let Some(file) = app.config_file() else { return Ok(None) };
    let folder = file.parent().map(PathBuf::from).unwrap_or_default();
    std::fs::create_dir_all(&folder)?;
    Ok(Some(folder.join(format!("history-{name}"))))
}

fn edit_lines(
    mut requests: mpsc::UnboundedReceiver<(String, oneshot::Sender<Option<String>>)>,
    completion: &Completion,
    file: Option<&Path>,
) -> Result<(), CommandFailure> {
    let failed = |error: ReadlineError| CommandFailure::usage(format!("terminal: {error}"));
    let config = Config::builder().max_history_size(HISTORY).map_err(failed)?.build();
    let mut history = DefaultHistory::with_config(&config);
    if let Some(file) = file {
        // There is none before the first time.
        drop(history.load(file));
    }
    while let Some((prompt, reply)) = requests.blocking_recv() {
        // An editor catches Ctrl-C as long as it exists, and takes it from the commands.
        let mut editor =
            rustyline::Editor::with_history(config.clone(), history).map_err(failed)?;
        editor.set_helper(Some(completion.clone()));
        let line = loop {
            match editor.readline(&prompt) {
                // Ctrl-C discards the line.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break None,
                Err(error) => return Err(failed(error)),
                Ok(line) => break Some(line),
            }
        };
        if let Some(line) = line.as_deref().filter(|line| is_kept(line)) {
            drop(editor.add_history_entry(line));
        }
        history = std::mem::take(editor.history_mut());
        drop(editor);
        if reply.send(line).is_err() {
            break;
        }
    }
    let Some(file) = file else { return Ok(()) };
    history.save(file).map_err(failed)?;
    restrict(file)
}

/// Makes the history readable by its owner only.
fn restrict(file: &Path) -> Result<(), CommandFailure> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?;
    }
    let _ = file;
    Ok(())
}

/// The commands whose lines are kept: those that only read. Others may have secrets in them, such
/// as the data of nodes.
const KEPT: [&str; 24] = [
    "cd",
    "deadlocks",
    "diff",
    "doctor",
    "du",
    "ephemerals",
    "exists",
    "exit",
    "find",
    "get",
    "inspect",
    "ls",
    "man",
    "metrics",
    "pwd",
    "quit",
    "servers",
    "sessions",
    "stat",
    "status",
    "top",
    "tree",
    "watches",
    "why",
];

/// As in other shells, lines that begin with a space are not kept either.
fn is_kept(line: &str) -> bool {
    let words = words::split(line).unwrap_or_default();
    let is_secret = |word: &String| word.starts_with("--auth") || word.starts_with("--sasl");
    !line.starts_with(' ')
        && !line.contains('|')
        && !words.iter().any(is_secret)
        && words.first().is_some_and(|verb| KEPT.contains(&verb.as_str()))
}

/// Lists children for the completion, at most as long as a person does not notice.
fn children(zk: &CuratorFramework, at: &Arc<Mutex<String>>) -> ChildLister {
    const WITHIN: std::time::Duration = std::time::Duration::from_millis(50);
    let (zk, at, runtime) = (zk.clone(), Arc::clone(at), Handle::current());
    Arc::new(move |parent| {
        let at = at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let parent = absolute(&at, parent);
        let listing = async { timeout(WITHIN, zk.children(parent).into_future()).await };
        runtime.block_on(listing).ok().and_then(Result::ok).unwrap_or_default()
    })
}

/// Completes commands, options and paths by the grammar of the command line.
#[derive(Clone)]
struct Completion {
    grammar: Arc<clap::Command>,
    children: ChildLister,
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        place: usize,
        _context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..place).unwrap_or(line);
        let start = line.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let Ok(mut words) = words::split(&line[..start]) else { return Ok((start, Vec::new())) };
        words.insert(0, "zkc".to_owned());
        words.push(line[start..].to_owned());
        let last = words.len() - 1;
        let words = words.into_iter().map(Into::into).collect();
        let mut grammar = complete::with_paths((*self.grammar).clone(), &self.children);
        let found = clap_complete::engine::complete(&mut grammar, words, last, None);
        let pair = |text: &str| Pair { display: text.to_owned(), replacement: text.to_owned() };
        let found = found?.iter().map(|one| pair(&one.get_value().to_string_lossy())).collect();
        Ok((start, found))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_has_no_data() {
        for kept in ["ls /", "get /secret", "cd a"] {
            assert!(is_kept(kept), "{kept}");
        }
        for dropped in [
            "set /a hunter2",
            "queue put /q hunter2",
            "-o json set /a hunter2",
            "!export A=hunter2",
            "get /a | grep hunter2",
            " ls",
            "ls --auth digest:@f",
        ] {
            assert!(!is_kept(dropped), "{dropped}");
        }
    }
}
