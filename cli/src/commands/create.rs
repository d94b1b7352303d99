use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use zk_curator::CreateMode;

use crate::acls;
use crate::app::App;
use crate::exit::Failure;
use crate::output::{Answer, Report, data};
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
    /// The server deletes the node if it is not changed for this time, and has no children
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
    /// Create missing parents
    #[arg(short, long)]
    parents: bool,
    /// Access control list: `SCHEME:ID:PERMISSIONS`, separated by commas
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

impl Create {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        let data = data::argument(&self.data)?;
        let acl = self.acl.as_deref().map(acls::parse).transpose()?;
        if self.dry_run {
            let exists = app.zk().await?.exists(&self.path).await?.is_some();
            let text = match (exists && !self.sequential, self.if_exists) {
                (false, _) => format!("create {} with {} bytes", self.path, data.len()),
                (true, IfExists::Fail) => format!("node exists: {}", self.path),
                (true, IfExists::Keep) => format!("keep {}", self.path),
                (true, IfExists::Set) => format!("set {} to {} bytes", self.path, data.len()),
            };
            return Ok(Report::new(text.clone(), text).into());
        }
        let zk = app.zk_to_change().await?;
        if self.if_exists == IfExists::Keep
            && !self.ephemeral
            && zk.exists(&self.path).await?.is_some()
        {
            return Ok(created(&self.path));
        }
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
            return Ok(created(&create.await?.path));
        }
        let stop = crate::stop::requested();
        let node = create.owned().await?;
        let ownership = node.ownership();
        app.out().print(&created(node.path()))?;
        app.out().say("holds the node until Ctrl-C");
        tokio::select! {
            () = ownership.lost() => Err(Failure::new(
                crate::exit::Exit::NO_NODE,
                format!("lost: {} was deleted, or the session ended", node.path()),
            )),
            interrupted = stop => {
                interrupted?;
                node.delete().await?;
                Ok(Answer::nothing())
            }
        }
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

fn created(path: &str) -> Answer {
    Report::new(path, json!({ "path": path })).names([path.to_owned()]).into()
}
