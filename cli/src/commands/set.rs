use bytes::Bytes;
use clap::Args;
use zk_curator::op::CreateOp;
use zk_curator::{CuratorFramework, ErrorKind, Stat, Version};

use super::create::check_creation;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::node::NodeSnapshot;
use crate::output::{CommandOutput, TextReport, data};
use crate::supervise::LOCK_NODE;
use crate::{node, path};

const AFTER_HELP: &str = "\
With --fenced, one transaction sets the data and checks that the node of the lock exists. \
`zkc lock` and `zkc elect` name it in ZKC_LOCK_NODE. If the lock is no longer held, nothing is \
changed, and the exit code is 6.

Other systems can compare fencing tokens, which grow from holder to holder. A token is decimal in \
ZKC_FENCING_TOKEN, and hexadecimal (0x2f) in the output of `zkc why`, `zkc lock` and `zkc elect`. \
`zkc break --token` and `zkc revoke --token` accept both.";

/// The arguments of `zkc set`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Set {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// Data: text, `@FILE`, or `-` for standard input
    #[arg(allow_hyphen_values = true)]
    data: String,
    /// Only if the node has this version
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    version: Option<i32>,
    /// Only if the current data equal these
    #[arg(long, value_name = "DATA", conflicts_with = "version")]
    if_data: Option<String>,
    /// Create the node, and missing parents, if it does not exist
    #[arg(long, conflicts_with_all = ["version", "if_data"])]
    create: bool,
    /// Compress with gzip, as Curator does
    #[arg(long)]
    compress: bool,
    /// Only while the lock of the surrounding `zkc lock` or `zkc elect` is held
    #[arg(long, conflicts_with = "create")]
    fenced: bool,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Set {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let data = data::argument(&self.data).await?;
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let version = self.expected_version(zk).await?;
        let data = if self.compress { zk.compress(&self.path, data)? } else { data };
        let lock = self.fenced.then(lock_node).transpose()?;
        if self.dry_run {
            return self.plan(zk, lock.as_deref(), data, version).await;
        }
        if let Some(lock) = lock {
            return self.set_fenced(zk, &lock, data, version).await;
        }
        let set = zk.set_data(&self.path, data.clone()).uncompressed().version(version);
        let stat = match set.await {
            Err(error) if error.kind() == ErrorKind::NoNode && self.create => {
                zk.create(&self.path)
                    .creating_parents()
                    .data(data.clone())
                    .uncompressed()
                    .or_set_data()
                    .await?;
                zk.exists(&self.path).await?
            }
            stat => Some(stat?),
        };
        let version = stat.map(|stat| stat.version);
        app.out().detail(format!("{}: version {version:?}", self.path));
        let value = stat.map(|stat| node::stat_value(&self.path, &stat));
        Ok(TextReport::new("", value.unwrap_or_default()).names([self.path]).into())
    }

    /// Returns what would happen. Fails as the change would, except for permissions and quotas.
    async fn plan(
        &self,
        zk: &CuratorFramework,
        lock: Option<&str>,
        data: Bytes,
        version: Version,
    ) -> Result<CommandOutput, CommandFailure> {
        let (path, size) = (&self.path, data.len());
        zk.transaction().uncompressed().set_data_if(path, data.clone(), version).check_size()?;
        if let Some(lock) = lock
            && let NodeSnapshot::Missing = NodeSnapshot::of(zk.exists(lock).await)?
        {
            return Err(self.not_held(lock));
        }
        let change = match NodeSnapshot::of(zk.exists(path).await)? {
            NodeSnapshot::Present(Stat { version: present, .. }) => match version {
                Version::Exactly(expected) if expected != present => {
                    let text = format!("other version: {path} has version {present}");
                    return Err(CommandFailure::new(Exit::CONFLICT, text));
                }
                _ => format!("set version {present} to {size} bytes"),
            },
            NodeSnapshot::Hidden => format!("set to {size} bytes"),
            NodeSnapshot::Missing if self.create => {
                check_creation(zk, path, true, CreateOp::new(path).data(data)).await?;
                format!("create with {size} bytes")
            }
            NodeSnapshot::Missing => return Err(CommandFailure::no_node(path)),
        };
        Ok(TextReport::new(format!("{path}: {change}"), change).into())
    }

    fn not_held(&self, lock: &str) -> CommandFailure {
        let text = format!("no longer held: {lock}; {} was not changed", self.path);
        CommandFailure::new(Exit::CONFLICT, text)
    }

    /// Returns the version to require.
    async fn expected_version(&self, zk: &CuratorFramework) -> Result<Version, CommandFailure> {
        let Some(expected) = &self.if_data else {
            return Ok(self.version.map_or(Version::Any, Version::from));
        };
        let (current, stat) = zk.get_data(&self.path).undecompressed().with_stat().await?;
        if current != expected.as_bytes() {
            return Err(CommandFailure::new(Exit::CONFLICT, format!("other data: {}", self.path)));
        }
        Ok(Version::Exactly(stat.version))
    }

    /// Sets the data in a transaction that fails if the node of the lock is gone.
    async fn set_fenced(
        self,
        zk: &CuratorFramework,
        lock: &str,
        data: Bytes,
        version: Version,
    ) -> Result<CommandOutput, CommandFailure> {
        let transaction = zk
            .transaction()
            .uncompressed()
            .check(lock, Version::Any)
            .set_data_if(&self.path, data, version);
        match transaction.commit().await {
            Ok(_) => Ok(CommandOutput::nothing()),
            Err(error) => match error.kind() {
                ErrorKind::TransactionFailed { index: 0, .. } => Err(self.not_held(lock)),
                _ => Err(error.into()),
            },
        }
    }
}

/// Returns the node of the surrounding lock.
fn lock_node() -> Result<String, CommandFailure> {
    let refused = |_| CommandFailure::usage("--fenced works only below `zkc lock` and `zkc elect`");
    std::env::var(LOCK_NODE).map_err(refused)
}
