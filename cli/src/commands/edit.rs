use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use zk_curator::{CuratorFramework, ErrorKind};

use crate::app::App;
use crate::exit::{Exit, Failure};
use crate::output::{Answer, printable};
use crate::{merge, path};

/// The lines of a merged text that are shown.
const SHOWN: usize = 40;

const AFTER_HELP: &str = "\
If another client has changed the node meanwhile, both changes are shown as one text, and you choose \
what is written. Lines that both have changed are shown as mine, base (as you have read them) and \
theirs, with marks; the editor opens that text. Without a terminal, nothing is written then, and the \
exit code is 6. Edited data that are not written stay in a file, which is named.";

/// The arguments of `zkc edit`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Edit {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// Form of the data, checked before they are written
    #[arg(long, value_enum, value_name = "FORM")]
    form: Option<Form>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// JSON
    Json,
}

/// The data of the node when they were read.
#[derive(Debug)]
struct Seen {
    data: Bytes,
    version: i32,
}

/// The choice of the user after a conflict.
enum Choice {
    /// Write these data over those of the other client.
    Write(Bytes),
    /// Keep the data of the other client.
    Keep,
    Quit,
}

impl Edit {
    /// Opens the data in an editor, and writes them if the node still has the version that was
    /// read. If another client has changed it since, shows both changes and asks. The edited data stay in a
    /// file unless they are written.
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        let zk = app.zk_to_change().await?;
        let mut base = self.read(zk).await?;
        self.is_valid(&base.data)?;
        let mut file = Draft::new(&base.data)?;
        edit(file.path()).await?;
        let text = std::fs::read(file.path())?;
        let mut mine = match self.check(text, &base.data) {
            Ok(mine) => mine,
            Err(failure) => return Err(failure.hint(file.keep())),
        };
        loop {
            if mine == base.data {
                app.out().say("unchanged");
                return Ok(Answer::nothing());
            }
            let set = zk.set_data(&self.path, mine.clone()).uncompressed().version(base.version);
            match set.await {
                Ok(_) => return Ok(Answer::nothing()),
                Err(error) if error.kind() == ErrorKind::BadVersion => {}
                Err(error) => return Err(Failure::from(error).hint(file.keep())),
            }
            let theirs = match self.read(zk).await {
                Ok(theirs) => theirs,
                Err(failure) => return Err(failure.hint(file.keep())),
            };
            if theirs.data != base.data && theirs.data != mine {
                match self.resolve(app, &base, &theirs, &mine, &mut file).await? {
                    Choice::Write(data) => mine = data,
                    Choice::Keep => {
                        app.out().say("kept the data of the other client");
                        return Ok(Answer::nothing());
                    }
                    Choice::Quit => {
                        let text = format!("other version: {} was changed meanwhile", self.path);
                        return Err(Failure::new(Exit::CONFLICT, text).hint(file.keep()));
                    }
                }
            }
            base = theirs;
        }
    }

    async fn read(&self, zk: &CuratorFramework) -> Result<Seen, Failure> {
        let (data, stat) = zk.get_data(&self.path).undecompressed().with_stat().await?;
        Ok(Seen { data, version: stat.version })
    }

    /// Shows both changes, and asks what to write. Without a terminal, quits.
    async fn resolve(
        &self,
        app: &App,
        base: &Seen,
        theirs: &Seen,
        mine: &Bytes,
        file: &mut Draft,
    ) -> Result<Choice, Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(Choice::Quit);
        }
        let mut merged = Merged::new(base, theirs, mine);
        app.out().warn(format!(
            "{} was changed meanwhile: it had version {} and has {}",
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
            let is_edited = match (chosen, &mut merged) {
                (Some('w'), Some(merged)) => Ok(merged.text.clone().into_bytes()),
                (Some('e'), Some(merged)) => {
                    *file = Draft::new(merged.text.as_bytes())?;
                    edit(file.path()).await?;
                    std::fs::read(file.path())
                }
                (Some('m'), _) => return Ok(Choice::Write(mine.clone())),
                (Some('t'), _) => return Ok(Choice::Keep),
                _ => return Ok(Choice::Quit),
            };
            let edited = is_edited?;
            let text = String::from_utf8_lossy(&edited).into_owned();
            let has_marks = merge::has_marks(&text);
            match self.check(edited, &theirs.data) {
                Ok(data) if !has_marks => return Ok(Choice::Write(data)),
                Ok(_) => app.out().warn("lines are still marked as in conflict"),
                Err(failure) => app.out().warn(failure.to_string()),
            }
            merged = Some(Merged { text, has_marks });
        }
    }

    /// Checks that the data have the form.
    fn is_valid(&self, data: &[u8]) -> Result<(), Failure> {
        if self.form.is_some() {
            serde_json::from_slice::<serde::de::IgnoredAny>(data).map_err(not_json)?;
        }
        Ok(())
    }

    /// Returns the data to write: the edited text, which is JSON if that is the form. Editors end
    /// the last line, although the data did not.
    fn check(&self, text: Vec<u8>, shown: &[u8]) -> Result<Bytes, Failure> {
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
    fn new(base: &Seen, theirs: &Seen, mine: &[u8]) -> Option<Self> {
        let text = |data| std::str::from_utf8(data).ok();
        let (before, theirs_text) = (text(&base.data)?, text(&theirs.data)?);
        let parts = merge::merge(before, text(mine)?, theirs_text);
        let of = |seen: &Seen| format!("version {}", seen.version);
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

fn not_json(error: serde_json::Error) -> Failure {
    Failure::usage(format!("the data are not JSON: {error}"))
}

/// A file with the data, deleted unless it is kept.
#[derive(Debug)]
struct Draft(Option<PathBuf>);

impl Draft {
    fn new(data: &[u8]) -> Result<Self, Failure> {
        let (path, mut file) = crate::private::create_temporary(&std::env::temp_dir(), "zkc-")?;
        let draft = Self(Some(path));
        file.write_all(data)?;
        Ok(draft)
    }

    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or_else(|| Path::new(""))
    }

    /// Keeps the file, and returns a hint.
    fn keep(mut self) -> String {
        let path = self.0.take().unwrap_or_default();
        format!("the edited data are in {}", path.display())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It is only a copy of the data.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Runs the editor of the user.
async fn edit(file: &Path) -> Result<(), Failure> {
    let of = |variable| std::env::var(variable).ok().filter(|value| !value.is_empty());
    let editor = of("VISUAL").or_else(|| of("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    // On a terminal, Ctrl-C is for the editor.
    let _editor = crate::stop::Handled::begin();
    let status = tokio::process::Command::new(program).args(words).arg(file).status().await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::usage(format!("{editor}: {status}; nothing was changed"))),
        Err(error) => Err(Failure::usage(format!("{editor}: {error}")).hint("set EDITOR")),
    }
}
