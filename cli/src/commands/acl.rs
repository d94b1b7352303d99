use clap::Args;
use serde_json::json;
use zk_curator::op::fan_out;
use zk_curator::{Acl as AclEntry, ErrorKind};
use zk_curator_ops::acl;
use zk_curator_ops::tree::walk;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, text};
use crate::path;
use crate::unreadable::{self, NameUnreadable, UnreadableNodes};

/// The lists that are set at a time.
const AT_ONCE: usize = 256;

/// The arguments of `zkc acl`.
#[derive(Debug, Args)]
pub(crate) struct AclCommand {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// New list: `SCHEME:ID:PERMISSIONS`, separated by commas; `open`, `read`, or `creator`. A
    /// comma in an id is `\,`
    #[arg(long, value_name = "ACL")]
    set: Option<String>,
    /// Also change everything below the node
    #[arg(short, long, requires = "set")]
    recursive: bool,
    /// Only if the list has this version
    #[arg(long, value_name = "N", requires = "set", conflicts_with = "recursive")]
    version: Option<i32>,
    /// Print what would be changed, and change nothing
    #[arg(long, requires = "set")]
    dry_run: bool,
}

const COLUMNS: &[OutputColumn] = &[text("scheme"), text("id"), text("permissions")];

impl AclCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let Some(list) = self.set.as_deref() else { return self.show(app).await };
        let list = acl::parse(list)?;
        let (mut paths, mut unreadable) = (vec![self.path.clone()], UnreadableNodes::default());
        if self.recursive {
            let zk = app.zk().await?;
            path::refuse_system(zk, &self.path)?;
            let nodes = walk::list(zk, &self.path, usize::MAX, |_| true).await?;
            unreadable = walk::hidden(&nodes);
            paths = nodes.into_iter().map(|node| node.path).collect();
        }
        if self.dry_run {
            let rows = self.plan(app, paths).await?;
            return Ok(unreadable.complete(app.out(), rows));
        }
        if self.recursive {
            app.agree(&format!("change the ACL of {} nodes?", paths.len())).await?;
        }
        self.set(app, &paths, &list).await?;
        Ok(unreadable.complete(app.out(), CommandOutput::nothing()))
    }

    /// Returns the nodes whose lists would be changed, and fails as the change would.
    async fn plan(&self, app: &App, paths: Vec<String>) -> Result<Rows, CommandFailure> {
        if !self.recursive {
            let stat = app.zk().await?.exists(&self.path).await?;
            let stat = stat.ok_or_else(|| CommandFailure::no_node(&self.path))?;
            if self.version.is_some_and(|version| version != -1 && version != stat.aversion) {
                let text = format!("other version: {} has version {}", self.path, stat.aversion);
                return Err(CommandFailure::new(Exit::CONFLICT, text));
            }
        }
        let mut rows = Rows::new(const { &[text("path")] }).plain();
        for path in paths {
            rows.push(vec![path.into()]);
        }
        Ok(rows)
    }

    /// Sets the lists. Nodes that are deleted meanwhile need none.
    async fn set(
        &self,
        app: &App,
        paths: &[String],
        list: &[AclEntry],
    ) -> Result<(), CommandFailure> {
        let zk = app.zk_to_change().await?;
        let sets = paths.iter().map(|path| match self.version {
            Some(version) => zk.set_acl(path, list.to_vec()).version(version),
            None => zk.set_acl(path, list.to_vec()),
        });
        let mut failures = Vec::new();
        for (path, outcome) in paths.iter().zip(fan_out(AT_ONCE, sets).await) {
            match outcome {
                Err(error)
                    if error.kind() == ErrorKind::NoNode
                        && self.recursive
                        && *path != self.path => {}
                Err(error) => failures.push(CommandFailure::from(error)),
                Ok(_) => {}
            }
        }
        match (paths.len() - failures.len(), failures.len()) {
            (_, 0) => Ok(()),
            (0, _) => Err(failures.swap_remove(0)),
            (changed, failed) => {
                let lines: Vec<_> = failures.iter().map(ToString::to_string).collect();
                unreadable::name(app.out(), "", lines.iter().map(String::as_str));
                let text = format!("changed the ACL of {changed} nodes, not of {failed}");
                Err(CommandFailure::new(Exit::PARTLY, text))
            }
        }
    }

    async fn show(&self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let (list, stat) = app.zk().await?.get_acl(&self.path).with_stat().await?;
        let mut rows = Rows::new(COLUMNS);
        for entry in &list {
            let letters = acl::letters(entry.permissions);
            rows.push(vec![entry.scheme.clone().into(), entry.id.clone().into(), letters.into()]);
        }
        app.out().detail(format!(
            "version {}: {}",
            stat.aversion,
            json!(list.iter().map(acl::text).collect::<Vec<_>>())
        ));
        Ok(rows.into())
    }
}
