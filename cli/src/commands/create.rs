use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde_json::json;
use zk_curator::op::CreateOp;
use zk_curator::{Acl, CreateMode, CuratorFramework, Error, ErrorKind};
use zk_curator_ops::acl;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node::NodeSnapshot;
use crate::output::{CommandOutput, TextReport, data};
use crate::path;

/// The arguments of `zkc create`.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Node; with --sequential the server appends a number
    #[arg(value_parser = path::parse)]
    path: String,
    /// Data: text, `@FILE`, or `-` for standard input
    #[arg(default_value = "", allow_hyphen_values = true)]
    data: String,
    /// Keep the node until Ctrl-C; it is deleted when `zkc` ends
    #[arg(short, long, conflicts_with_all = ["container", "ttl"])]
    ephemeral: bool,
    /// Append the parent's counter to the name
    #[arg(short = 'S', long)]
    sequential: bool,
    /// The server deletes the node after its last child
    #[arg(long, conflicts_with_all = ["sequential", "ttl"])]
    container: bool,
    /// The server deletes the node if it is not changed for this time, and has no children: from
    /// 1ms, to 34 years
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<Duration>,
    /// Create missing parents
    #[arg(short, long)]
    parents: bool,
    /// Access control list: `SCHEME:ID:PERMISSIONS`, separated by commas; a comma in an id is `\,`
    #[arg(long, value_name = "ACL")]
    acl: Option<String>,
    /// Tag the name with a unique id, so that a create whose response was lost is found again
    #[arg(long)]
    protected: bool,
    /// What to do if the node exists
    #[arg(long, value_enum, value_name = "ACTION", default_value = "fail")]
    if_exists: IfExists,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IfExists {
    /// Fail with exit code 6
    Fail,
    /// Leave it as it is
    Keep,
    /// Replace its data
    Set,
}

/// Parses a time to live, in the limits of the servers.
fn ttl(text: &str) -> Result<Duration, String> {
    const MOST: u128 = (1 << 40) - 1;
    let ttl = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (1..=MOST).contains(&ttl.as_millis()) {
        Ok(ttl)
    } else {
        Err("not in the limits".to_owned())
    }
}

impl Create {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let data = data::argument(&self.data).await?;
        let acl = self.acl.as_deref().map(acl::parse).transpose()?;
        if self.if_exists == IfExists::Set && (self.sequential || self.ephemeral) {
            return Err(CommandFailure::usage(
                "--if-exists set excludes --sequential and --ephemeral",
            ));
        }
        if self.dry_run {
            return self.plan(app.zk().await?, data, acl).await;
        }
        let zk = app.zk_to_change().await?;
        let mut create = zk.create(&self.path).mode(self.mode()).data(data).uncompressed();
        if let Some(ttl) = self.ttl {
            create = create.ttl(ttl);
        }
        if let Some(acl) = acl {
            create = create.acl(acl);
        }
        if self.parents {
            create = create.creating_parents();
        }
        if self.protected {
            create = create.protected();
        }
        if self.if_exists == IfExists::Set {
            create = create.or_set_data();
        }
        if !self.ephemeral {
            return match create.await {
                Ok(node) => Ok(created(&node.path)),
                Err(error) => self.keep(zk, error).await,
            };
        }
        let stop = crate::stop::requested();
        let node = match create.owned().await {
            Ok(node) => node,
            Err(error) => {
                let kept = self.keep(zk, error).await?;
                app.out().say("the node exists, and is not held");
                return Ok(kept);
            }
        };
        let ownership = node.ownership();
        app.out().print(&created(node.path()))?;
        app.out().say("holds the node until Ctrl-C");
        tokio::select! {
            () = ownership.lost() => Err(CommandFailure::new(
                Exit::NO_NODE,
                format!("lost: {} was deleted, or the session ended", node.path()),
            )),
            interrupted = stop => {
                interrupted?;
                node.delete().await?;
                Ok(CommandOutput::nothing())
            }
        }
    }

    /// Turns the failure of a create into a success, if the node exists and may stay as it is.
    async fn keep(
        &self,
        zk: &CuratorFramework,
        error: Error,
    ) -> Result<CommandOutput, CommandFailure> {
        let keeps = self.if_exists == IfExists::Keep && !self.sequential && !self.protected;
        let exists = match error.kind() {
            ErrorKind::NodeExists => keeps,
            // Servers check the permission to create before anything else.
            ErrorKind::NoAuth if keeps => {
                !matches!(NodeSnapshot::of(zk.exists(&self.path).await)?, NodeSnapshot::Missing)
            }
            _ => false,
        };
        if exists { Ok(created(&self.path)) } else { Err(error.into()) }
    }

    /// Returns what would happen. Fails as the create would, except for permissions and quotas.
    async fn plan(
        &self,
        zk: &CuratorFramework,
        data: Bytes,
        acl: Option<Vec<Acl>>,
    ) -> Result<CommandOutput, CommandFailure> {
        let (path, size) = (&self.path, data.len());
        let mut op = CreateOp::new(path).data(data).mode(self.mode());
        if let Some(ttl) = self.ttl {
            op = op.ttl(ttl);
        }
        if let Some(acl) = acl {
            op = op.acl(acl);
        }
        let has_own_name = self.sequential || self.protected;
        let seen = if has_own_name {
            NodeSnapshot::Missing
        } else {
            NodeSnapshot::of(zk.exists(path).await)?
        };
        let text = match (seen, self.if_exists) {
            (NodeSnapshot::Missing, _) => {
                check_creation(zk, path, self.parents, op).await?;
                format!("create {path} with {size} bytes")
            }
            (_, IfExists::Fail) => {
                return Err(CommandFailure::new(Exit::CONFLICT, format!("node exists: {path}")));
            }
            (_, IfExists::Keep) => format!("keep {path}"),
            (_, IfExists::Set) => format!("set {path} to {size} bytes"),
        };
        Ok(TextReport::new(text.clone(), text).into())
    }

    const fn mode(&self) -> CreateMode {
        match (self.ephemeral, self.sequential, self.ttl.is_some()) {
            (true, false, _) => CreateMode::Ephemeral,
            (true, true, _) => CreateMode::EphemeralSequential,
            (false, false, true) => CreateMode::PersistentWithTtl,
            (false, true, true) => CreateMode::PersistentSequentialWithTtl,
            (false, true, false) => CreateMode::PersistentSequential,
            (false, false, false) if self.container => CreateMode::Container,
            (false, false, false) => CreateMode::Persistent,
        }
    }
}

fn created(path: &str) -> CommandOutput {
    TextReport::new(path, json!({ "path": path })).names([path.to_owned()]).into()
}

/// Fails as a create would if the node cannot be created. `parents` tells if missing parents are
/// created.
pub(super) async fn check_creation(
    zk: &CuratorFramework,
    path: &str,
    parents: bool,
    op: CreateOp,
) -> Result<(), CommandFailure> {
    zk.transaction().uncompressed().with(op).check_size()?;
    for above in path::ancestors(path).iter().rev() {
        match NodeSnapshot::of(zk.exists(above).await)? {
            NodeSnapshot::Present(stat) if stat.is_ephemeral() => {
                return Err(CommandFailure::usage(format!(
                    "{above} is ephemeral: it has no children"
                )));
            }
            NodeSnapshot::Present(_) | NodeSnapshot::Hidden => return Ok(()),
            // The root of a namespace is created with the first node below it.
            NodeSnapshot::Missing if parents || above == "/" => {}
            NodeSnapshot::Missing => return Err(CommandFailure::no_node(path)),
        }
    }
    Ok(())
}
