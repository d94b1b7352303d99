use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::pin::pin;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_ops::files::TemporaryFile;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, printable};
use crate::stop::{Handled, StopRequest, Stops};
use crate::{merge, path, stop};

/// The lines of a merged text that are shown.
const SHOWN: usize = 40;

const AFTER_HELP: &str = "\
If another client has changed the node since it was read, both changes are shown as one text, and \
you choose what is written. Lines that both have changed are shown as mine, base (as you have read \
them) and theirs, with marks; the editor opens that text. Without a terminal, nothing is written \
then, and the exit code is 6. Edited data that are not written stay in a file, which is named, \
also after a signal. While the editor runs, Ctrl-C is for the editor.";

/// The arguments of `zkc edit`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct EditCommand {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// Form of the data, checked before they are written
    #[arg(long, value_enum, value_name = "FORM")]
    form: Option<EditForm>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EditForm {
    /// JSON
    Json,
}

/// The data of the node when they were read.
#[derive(Debug)]
struct EditedNode {
    data: Bytes,
    version: i32,
    czxid: i64,
}

/// The meaning of a signal.
#[derive(Debug, Clone, Copy)]
enum EditPhase {
    /// It ends the command.
    Asks,
    /// Ctrl-C is for the editor.
    Edits,
    /// It ends the command, whose outcome is unknown.
    Writes,
}

/// The choice of the user after a conflict.
enum EditChoice {
    /// Write these data over those of the other client.
    Write(Bytes),
    /// Keep the data of the other client.
    Keep,
    Quit,
}

impl EditCommand {
    /// Opens the data in an editor, and writes them if the node is still the one that was read, in
    /// the same version. If another client has changed it since, shows both changes and asks.
    /// Edited data stay in a file unless they are written.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk_to_change().await?;
        let base = self.read(zk).await?;
        self.is_valid(&base.data)?;
        // To the end of the command: signals that were caught once do not end the process.
        let (mut stops, _handled) = (Stops::catch()?, Handled::begin());
        let (mut drafts, phase) = (Drafts::default(), Cell::new(EditPhase::Asks));
        let outcome = {
            let mut work = pin!(self.edit(app, zk, base, &mut drafts, &phase));
            loop {
                tokio::select! {
                    biased;
                    stop = stops.next() => match (stop, phase.get()) {
                        // On a terminal, Ctrl-C is for the editor.
                        (StopRequest::Interrupt, EditPhase::Edits) => {}
                        (_, EditPhase::Writes) => {
                            let text = "unknown outcome: interrupted while the data were written";
                            break Err(CommandFailure::new(Exit::UNKNOWN, text));
                        }
                        (stop, _) => {
                            break Err(CommandFailure::new(Exit::of_command(stop.code()), "interrupted"));
                        }
                    },
                    outcome = &mut work => break outcome,
                }
            }
        };
        outcome.inspect(|_| drafts.discard()).map_err(|failure| drafts.keep(failure))
    }

    async fn edit(
        &self,
        app: &App,
        zk: &CuratorFramework,
        mut base: EditedNode,
        drafts: &mut Drafts,
        phase: &Cell<EditPhase>,
    ) -> Result<CommandOutput, CommandFailure> {
        let mut mine = self.check(drafts.edit(&base.data, phase).await?, &base.data)?;
        loop {
            if mine == base.data {
                app.out().say("unchanged");
                return Ok(CommandOutput::nothing());
            }
            // The versions of a node that was created again begin again.
            let stat = zk.exists(&self.path).await?;
            if stat.is_none_or(|stat| stat.czxid == base.czxid) {
                phase.set(EditPhase::Writes);
                let set = zk.set_data(&self.path, mine.clone()).uncompressed();
                let set = set.version(base.version).await;
                phase.set(EditPhase::Asks);
                match set {
                    Ok(_) => return Ok(CommandOutput::nothing()),
                    Err(error) if error.kind() == ErrorKind::BadVersion => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let theirs = self.read(zk).await?;
            if theirs.data != base.data && theirs.data != mine {
                match self.resolve(app, &base, &theirs, &mine, drafts, phase).await? {
                    EditChoice::Write(data) => mine = data,
                    EditChoice::Keep => {
                        app.out().say("kept the data of the other client");
                        return Ok(CommandOutput::nothing());
                    }
                    EditChoice::Quit => {
                        let text =
                            format!("other version: {} was changed during the edit", self.path);
                        return Err(CommandFailure::new(Exit::CONFLICT, text));
                    }
                }
            }
            base = theirs;
        }
    }

    async fn read(&self, zk: &CuratorFramework) -> Result<EditedNode, CommandFailure> {
        let (data, stat) = zk.get_data(&self.path).undecompressed().with_stat().await?;
        Ok(EditedNode { data, version: stat.version, czxid: stat.czxid })
    }

    /// Shows both changes, and asks what to write. Without a terminal, quits.
    async fn resolve(
        &self,
        app: &App,
        base: &EditedNode,
        theirs: &EditedNode,
        mine: &Bytes,
        drafts: &mut Drafts,
        phase: &Cell<EditPhase>,
    ) -> Result<EditChoice, CommandFailure> {
        if !io::stdin().is_terminal() {
            return Ok(EditChoice::Quit);
        }
        let mut merged = Merged::new(base, theirs, mine);
        let change = if theirs.czxid == base.czxid { "changed" } else { "created again" };
        app.out().warn(format!(
            "{} was {change} during the edit: it had version {} and has {}",
            self.path, base.version, theirs.version
        ));
        loop {
            if let Some(merged) = &merged {
                app.out().warn(merged.shown());
            }
            let write = match &merged {
                None => "m write mine, t keep theirs, q quit",
                Some(merged) if merged.has_marks => {
                    "e edit this, m write mine, t keep theirs, q quit"
                }
                Some(_) => "w write this, e edit it, m write mine, t keep theirs, q quit",
            };
            let letters: String =
                write.split(", ").filter_map(|choice| choice.chars().next()).collect();
            let chosen = app.choose(&format!("{write}?"), &letters).await?;
            let edited = match (chosen, &merged) {
                (Some('w'), Some(merged)) => merged.text.clone().into_bytes(),
                (Some('e'), Some(merged)) => drafts.edit(merged.text.as_bytes(), phase).await?,
                (Some('m'), _) => return Ok(EditChoice::Write(mine.clone())),
                (Some('t'), _) => return Ok(EditChoice::Keep),
                _ => return Ok(EditChoice::Quit),
            };
            let text = String::from_utf8_lossy(&edited).into_owned();
            let has_marks = merge::has_marks(&text);
            match self.check(edited, &theirs.data) {
                Ok(data) if !has_marks => return Ok(EditChoice::Write(data)),
                Ok(_) => app.out().warn("lines are still marked as in conflict"),
                Err(failure) => app.out().warn(failure.to_string()),
            }
            merged = Some(Merged { text, has_marks });
        }
    }

    /// Checks that the data have the form.
    fn is_valid(&self, data: &[u8]) -> Result<(), CommandFailure> {
        if self.form.is_some() {
            serde_json::from_slice::<serde::de::IgnoredAny>(data).map_err(not_json)?;
        }
        Ok(())
    }

    /// Returns the data to write: the edited text, which is JSON if that is the form. Editors end
    /// the last line, although the data did not.
    fn check(&self, text: Vec<u8>, shown: &[u8]) -> Result<Bytes, CommandFailure> {
        self.is_valid(&text)?;
        let added = usize::from(text.ends_with(b"\n") && !shown.ends_with(b"\n"));
        let end = text.len() - added;
        Ok(Bytes::from(text).slice(..end))
    }
}

/// Both changes in one text.
#[derive(Debug)]
struct Merged {
    text: String,
    /// `true` if lines are in conflict.
    has_marks: bool,
}

impl Merged {
    /// Returns `None` if the data are no text.
    fn new(base: &EditedNode, theirs: &EditedNode, mine: &[u8]) -> Option<Self> {
        let text = |data| std::str::from_utf8(data).ok();
        let (before, theirs_text) = (text(&base.data)?, text(&theirs.data)?);
        let parts = merge::merge(before, text(mine)?, theirs_text);
        let of = |seen: &EditedNode| format!("version {}", seen.version);
        let text = merge::text(&parts, &of(base), &of(theirs));
        Some(Self { text, has_marks: !merge::is_clean(&parts) })
    }

    /// Returns the text for a terminal.
    fn shown(&self) -> String {
        let lines: Vec<_> = self.text.lines().map(printable).collect();
        let more = lines.len().saturating_sub(SHOWN);
        let mut shown = lines[..lines.len().min(SHOWN)].join("\n");
        if more > 0 {
            shown.push_str(&format!("\n… {more} more lines"));
        }
        shown
    }
}

fn not_json(error: serde_json::Error) -> CommandFailure {
    CommandFailure::usage(format!("the data are not JSON: {error}"))
}

/// The files of the editor.
#[derive(Debug, Default)]
struct Drafts(Vec<DraftFile>);

impl Drafts {
    /// Opens the data in the editor, and returns the edited data. They are also in the last draft.
    async fn edit(
        &mut self,
        data: &[u8],
        phase: &Cell<EditPhase>,
    ) -> Result<Vec<u8>, CommandFailure> {
        let mut draft = DraftFile::new(data)?;
        let file = draft.file.path().to_owned();
        draft.is_open = true;
        self.0.push(draft);
        phase.set(EditPhase::Edits);
        let edited = run_editor(&file).await;
        // A Ctrl-C just before the end of the editor was for the editor, too.
        stop::told().await;
        phase.set(EditPhase::Asks);
        if let Some(draft) = self.0.last_mut() {
            draft.is_open = false;
        }
        edited?;
        Ok(std::fs::read(file)?)
    }

    fn discard(&mut self) {
        for draft in &mut self.0 {
            draft.is_discarded = true;
        }
    }

    /// Names the files that are kept.
    fn keep(&self, failure: CommandFailure) -> CommandFailure {
        let kept = self.0.iter().filter(|draft| draft.is_kept());
        let kept: Vec<_> = kept.map(|draft| draft.file.path().display().to_string()).collect();
        if kept.is_empty() {
            return failure;
        }
        failure.hint(format!("the edited data are in {}", kept.join(" and ")))
    }
}

/// A file with the data. It is kept if the user has edited it, unless the data are written.
#[derive(Debug)]
struct DraftFile {
    file: TemporaryFile,
    /// The data before the user has edited them.
    shown: Vec<u8>,
    /// The editor has not ended.
    is_open: bool,
    is_discarded: bool,
}

impl DraftFile {
    fn new(data: &[u8]) -> Result<Self, CommandFailure> {
        let (file, mut output) = TemporaryFile::create("zkc-")?;
        output.write_all(data)?;
        Ok(Self { file, shown: data.to_vec(), is_open: false, is_discarded: false })
    }

    fn is_kept(&self) -> bool {
        let is_edited = || match std::fs::read(self.file.path()) {
            Ok(data) => data != self.shown,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        !self.is_discarded && (self.is_open || is_edited())
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if self.is_kept() {
            self.file.keep();
        }
    }
}

/// Runs the editor of the user.
async fn run_editor(file: &Path) -> Result<(), CommandFailure> {
    let of = |variable| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let editor = of("VISUAL").or_else(|| of("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = tokio::process::Command::new(program).args(words).arg(file).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(CommandFailure::usage(format!("{editor}: {status}; nothing was changed")))
        }
        Err(error) => Err(CommandFailure::usage(format!("{editor}: {error}")).hint("set EDITOR")),
    }
}
