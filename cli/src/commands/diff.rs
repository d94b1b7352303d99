use std::path::{Path, PathBuf};

use clap::Args;
use zk_curator_ops::transfer::{DiffScope, DiffTree, NodeDifference, differences};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, Rows, text};
use crate::path;
use crate::transfer::BackupInput;
use crate::unreadable::{NameUnreadable, UnreadableNodes};

/// The arguments of `zkc diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffCommand {
    /// Path, `CONTEXT:PATH`, or backup file: `@FILE`, `@-` for standard input, or a name that ends
    /// with .zkb
    before: String,
    /// The same, compared with the first one
    after: String,
    /// Compare ephemeral nodes too
    #[arg(long)]
    ephemerals: bool,
    /// Compare only data, not ACLs
    #[arg(long)]
    no_acl: bool,
}

/// A tree to compare.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    File(PathBuf),
    Servers { context: Option<String>, path: String },
}

impl Side {
    fn parse(text: &str) -> Self {
        if let Some(file) = text.strip_prefix('@') {
            return Self::File(file.into());
        }
        if Path::new(text).extension().is_some_and(|ending| ending == "zkb") {
            return Self::File(text.into());
        }
        match text.split_once(":/") {
            Some((context, below)) if !context.is_empty() && !context.contains('/') => {
                let (context, path) = (Some(context.to_owned()), path::normal(below));
                Self::Servers { context, path }
            }
            _ => Self::Servers { context: None, path: path::normal(text) },
        }
    }

    /// Reads the tree. Returns its root too.
    async fn read(self, app: &App, scope: DiffScope) -> Result<(DiffTree, String), CommandFailure> {
        match self {
            Self::File(file) => Ok(DiffTree::of_file(BackupInput::of(&file).await?.path(), scope)?),
            Self::Servers { context: None, path } => {
                Ok((DiffTree::of_servers(app.zk().await?, &path, scope).await?, path))
            }
            Self::Servers { context: Some(context), path } => {
                let other = app.of_context(&context)?;
                let tree = match other.zk().await {
                    Ok(zk) => {
                        let tree = DiffTree::of_servers(zk, &path, scope).await;
                        tree.map_err(CommandFailure::from)
                    }
                    Err(failure) => Err(failure),
                };
                let closed = other.close().await;
                let tree = tree?;
                closed.map(|()| (tree, path))
            }
        }
    }
}

impl DiffCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let scope = DiffScope::new().ephemerals(self.ephemerals).acls(!self.no_acl);
        let (before, old_root) = Side::parse(&self.before).read(app, scope).await?;
        let (after, new_root) = Side::parse(&self.after).read(app, scope).await?;
        let mut rows = Rows::new(const { &[text("change"), text("path"), text("what")] }).plain();
        let differences = differences(&before, &after);
        let exit = if differences.is_empty() { Exit::DONE } else { Exit::NO };
        let unread = |tree: DiffTree, root: &str| {
            let nodes = tree.unreadable.into_iter();
            let nodes = nodes.map(|(path, why)| (path::moved(&path, "/", root), why));
            nodes.collect::<Vec<_>>()
        };
        let mut unreadable = UnreadableNodes::default();
        unreadable.extend(unread(before, &old_root));
        unreadable.extend(unread(after, &new_root));
        for difference in differences {
            let (sign, root, path, what) = match difference {
                NodeDifference::Unknown(path, why) => ("?", &old_root, path, why.to_string()),
                NodeDifference::Removed(path) => ("-", &old_root, path, String::new()),
                NodeDifference::Added(path) => ("+", &new_root, path, String::new()),
                NodeDifference::Changed(path, what) => ("~", &old_root, path, what.join(", ")),
            };
            rows.push(vec![sign.into(), path::moved(&path, "/", root).into(), what.into()]);
        }
        Ok(unreadable.complete(app.out(), CommandOutput::from(rows).with_exit(exit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_paths_or_files() {
        let servers = |context: Option<&str>, path: &str| Side::Servers {
            context: context.map(ToOwned::to_owned),
            path: path.to_owned(),
        };
        for (text, side) in [
            ("/a", servers(None, "/a")),
            ("a/b", servers(None, "/a/b")),
            ("prod:/a", servers(Some("prod"), "/a")),
            ("/a:/b", servers(None, "/a:/b")),
            ("@/a", Side::File("/a".into())),
            ("old.zkb", Side::File("old.zkb".into())),
        ] {
            assert_eq!(Side::parse(text), side, "{text}");
        }
    }
}
