use bytes::Bytes;
use clap::Subcommand;
use serde_json::json;
use zk_curator_recipes::group::{Group as Members, GroupEvent, GroupMember};

#[cfg(unix)]
use super::group_join::Join;
#[cfg(unix)]
use super::membership::Under;
use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, OutputColumn, Rows, TextReport, data, text};
use crate::path;
use crate::stop::{Handled, Stops};

/// The most characters of the data of a member in a table.
const SHOWN: usize = 80;

/// The arguments of `zkc group`.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupVerb {
    /// List the members
    Ls {
        /// Group
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Be a member while a command runs, or until Ctrl-C
    #[cfg_attr(unix, command(after_help = super::membership::help(&[
        ("ZKC_GROUP", "the group"),
        ("ZKC_MEMBER_ID", "the id of the member"),
        ("ZKC_MEMBER_NODE", "its node"),
    ], &[])))]
    Join {
        /// Group; created if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// Id of the member; joins when no other member has it [default: the host and the process,
        /// as `host:pid`]
        id: Option<String>,
        /// Data of the member: text, `@FILE`, or `-` for standard input
        #[arg(default_value = "")]
        data: String,
        #[cfg(unix)]
        #[command(flatten)]
        under: Under,
    },
    /// Wait until the group has this many members, and list them
    Wait {
        /// Group
        #[arg(value_parser = path::parse)]
        path: String,
        /// Least number of members
        members: usize,
    },
    /// Print members that join, change and leave, until Ctrl-C
    Follow {
        /// Group
        #[arg(value_parser = path::parse)]
        path: String,
    },
}

const COLUMNS: &[OutputColumn] = &[text("id"), text("data")];

impl GroupVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Ls { path } => {
                Ok(list(&Members::new(app.zk().await?, path).members().await?).into())
            }
            Self::Wait { path, members } => {
                let group = Members::new(app.zk().await?, path);
                Ok(list(&group.wait_for(members).await?).into())
            }
            Self::Join {
                path,
                id,
                data,
                #[cfg(unix)]
                under,
            } => {
                let data = data::argument(&data).await?;
                let id = id.unwrap_or_else(own_id);
                if id.contains('/') {
                    return Err(CommandFailure::usage(format!("not an id of a member: {id}")));
                }
                #[cfg(unix)]
                if under.is_given() {
                    return Join { group: path, id, data }.run(app, &under).await;
                }
                join(app, path, id, data).await
            }
            Self::Follow { path } => {
                let mut events = Members::new(app.zk().await?, path).follow();
                let stop = crate::stop::requested();
                tokio::pin!(stop);
                loop {
                    tokio::select! {
                        event = events.next() => {
                            if !app.out().print_next(&told(&event?).in_one_line().into())? {
                                return Ok(CommandOutput::nothing());
                            }
                        }
                        interrupted = &mut stop => {
                            interrupted?;
                            return Ok(CommandOutput::nothing());
                        }
                    }
                }
            }
        }
    }
}

/// Joins a group until a signal.
async fn join(
    app: &App,
    path: String,
    id: String,
    data: Bytes,
) -> Result<CommandOutput, CommandFailure> {
    let zk = app.zk_to_change().await?;
    let (mut stops, _handled) = (Stops::catch()?, Handled::begin());
    let member = GroupMember::builder(zk, path, id.as_str()).data(data).start();
    tokio::select! {
        biased;
        // The member leaves when it is dropped.
        stop = stops.next() => return Ok(Exit::of_command(stop.code()).into()),
        joined = member.joined() => joined?,
    }
    let report = TextReport::new(format!("joined {id}"), json!({ "joined": id }));
    app.out().print(&report.names([id]).in_one_line().into())?;
    stops.next().await;
    member.leave().await?;
    Ok(CommandOutput::nothing())
}

/// Returns the id of a member that has none.
fn own_id() -> String {
    #[cfg(unix)]
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").ok();
    format!("{}:{}", host.as_deref().unwrap_or("host"), std::process::id())
}

fn list(members: &std::collections::BTreeMap<String, Bytes>) -> Rows {
    let mut rows = Rows::new(COLUMNS);
    for (id, data) in members {
        rows.push(vec![id.as_str().into(), data::cell(data, SHOWN)]);
    }
    rows
}

fn told(event: &GroupEvent) -> TextReport {
    let (kind, id, data) = match event {
        GroupEvent::Joined { id, data } => ("joined", id, Some(data)),
        GroupEvent::Changed { id, data } => ("changed", id, Some(data)),
        GroupEvent::Unreadable { id, error } => {
            let value = json!({ "event": "unreadable", "id": id, "reason": format!("{error:?}") });
            return TextReport::new(format!("unreadable {id}  {error}"), value);
        }
        GroupEvent::Left { id } => ("left", id, None),
        _ => return TextReport::new("", json!(null)),
    };
    let shown = data.map(|data| data::line(data, SHOWN)).unwrap_or_default();
    let value = json!({ "event": kind, "id": id, "data": data.map(|data| data::value(data)) });
    TextReport::new(format!("{kind:<8} {id}  {shown}").trim_end(), value)
}
