use clap::Subcommand;
use serde_json::json;
use zk_curator::ensemble::EnsembleConfig;
use zk_curator::{Error, ErrorCode};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::node;
use crate::output::{CommandOutput, TextReport};

/// The arguments of `zkc reconfig`.
#[derive(Debug, Subcommand)]
pub(crate) enum MembershipChange {
    /// Show the members, as in a configuration file
    Show,
    /// Add members, or change them
    Add {
        /// Members, such as server.4=zk4:2888:3888;2181
        #[arg(required = true, value_name = "MEMBER")]
        members: Vec<String>,
        /// Only show the members that there would be
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove members
    Remove {
        /// Ids of members, such as 4
        #[arg(required = true, value_name = "ID")]
        ids: Vec<u64>,
        /// Only show the members that there would be
        #[arg(long)]
        dry_run: bool,
    },
}

impl MembershipChange {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let config = app.zk().await?.get_config().await?;
        match self {
            Self::Show => Ok(shown(&config).into()),
            Self::Add { members: servers, dry_run } => {
                let added = parse(&servers)?;
                let mut after = config.clone();
                after.servers.retain(|member| added.servers.iter().all(|new| new.id != member.id));
                after.servers.extend(added.servers);
                let question = format!("Add {} to the ensemble?", servers.join(", "));
                let change = ReconfigPlan { config, after, joining: servers, leaving: Vec::new() };
                change.apply(app, dry_run, &question).await
            }
            Self::Remove { ids, dry_run } => {
                let known = |id: &u64| config.servers.iter().any(|member| member.id == *id);
                if let Some(unknown) = ids.iter().find(|id| !known(id)) {
                    return Err(CommandFailure::usage(format!("no member has the id {unknown}")));
                }
                let mut after = config.clone();
                after.servers.retain(|member| !ids.contains(&member.id));
                let leaving: Vec<_> = ids.iter().map(u64::to_string).collect();
                let question = format!("Remove server {} from the ensemble?", leaving.join(", "));
                let change = ReconfigPlan { config, after, joining: Vec::new(), leaving };
                change.apply(app, dry_run, &question).await
            }
        }
    }
}

/// A change of the members.
struct ReconfigPlan {
    config: EnsembleConfig,
    after: EnsembleConfig,
    joining: Vec<String>,
    leaving: Vec<String>,
}

impl ReconfigPlan {
    /// Changes the members, unless another client has changed them since they were read.
    async fn apply(
        self,
        app: &App,
        dry_run: bool,
        question: &str,
    ) -> Result<CommandOutput, CommandFailure> {
        let voters = voters(&self.after);
        if voters == 0 {
            return Err(CommandFailure::usage("no voting member would remain"));
        }
        if voters.is_multiple_of(2) {
            let fewer = voters - 1;
            app.out().say(format!(
                "{voters} voting members will tolerate as few failures as {fewer} do"
            ));
        }
        if dry_run {
            return Ok(shown(&self.after).into());
        }
        let zk = app.zk_to_change().await?;
        app.agree(question).await?;
        let change = zk.reconfig().joining(self.joining).leaving(self.leaving);
        let version = self.config.version.unwrap_or(-1);
        let config = change.from_config(version).await.map_err(refused)?;
        Ok(shown(&config).into())
    }
}

/// Returns the failure with the setting or the permission that is missing.
fn refused(error: Error) -> CommandFailure {
    let hint = match error.code() {
        Some(ErrorCode::ReconfigDisabled) => "set reconfigEnabled=true in zoo.cfg",
        Some(ErrorCode::NoAuth) => "the ACL of /zookeeper/config allows only the super user",
        _ => return error.into(),
    };
    CommandFailure::from(error).hint(hint)
}

fn voters(config: &EnsembleConfig) -> usize {
    config.servers.iter().filter(|member| !member.observer).count()
}

fn parse(servers: &[String]) -> Result<EnsembleConfig, CommandFailure> {
    let parsed = EnsembleConfig::parse(servers.join("\n").as_bytes());
    let parsed = parsed.map_err(|error| CommandFailure::usage(error.to_string()))?;
    if parsed.servers.len() == servers.len() {
        return Ok(parsed);
    }
    Err(CommandFailure::usage("not a member")
        .hint("server.ID=HOST:QUORUM-PORT:ELECTION-PORT;CLIENT-PORT"))
}

fn shown(config: &EnsembleConfig) -> TextReport {
    let lines: Vec<_> = config.servers.iter().map(ToString::to_string).collect();
    let version = config.version.map(node::hex);
    let mut text = lines.join("\n");
    if let Some(version) = &version {
        text.push_str(&format!("\nversion={}", version.trim_start_matches("0x")));
    }
    TextReport::new(text, json!({ "servers": lines, "version": version })).names(lines)
}
