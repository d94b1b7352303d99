use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{Args, ValueEnum};
use zk_curator::ErrorKind;

use crate::app::App;
use crate::exit::{Exit, Failure};
use crate::output::Answer;
use crate::path;

/// The arguments of `zkc edit`.
#[derive(Debug, Args)]
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

impl Edit {
    /// Opens the data in an editor, and writes them if the node still has the version that was
    /// read. Otherwise the edited data stay in a file.
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        let zk = app.zk_to_change().await?;
        let (before, stat) = zk.get_data(&self.path).undecompressed().with_stat().await?;
        self.is_valid(&before)?;
        let file = Draft::new(&before)?;
        edit(file.path()).await?;
        let text = std::fs::read(file.path())?;
        let after = match self.check(text, &before) {
            Ok(after) => after,
            Err(failure) => return Err(failure.hint(file.keep())),
        };
        if after == before {
            app.out().say("unchanged");
            return Ok(Answer::nothing());
        }
        let set = zk.set_data(&self.path, after).uncompressed().version(stat.version);
        match set.await {
            Ok(_) => Ok(Answer::nothing()),
            Err(error) if error.kind() == ErrorKind::BadVersion => {
                let text = format!("other version: {} was changed meanwhile", self.path);
                Err(Failure::new(Exit::CONFLICT, text).hint(file.keep()))
            }
            Err(error) => Err(Failure::from(error).hint(file.keep())),
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
