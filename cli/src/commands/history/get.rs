use bytes::Bytes;
use clap::Args;
use serde_json::json;
use zk_curator_ops::history::{At, Error};

use super::arguments::{self, FileArguments};
use super::replay::replay;
use crate::app::App;
use crate::exit::CommandFailure;
use crate::node::hex;
use crate::output::data::{self, DataForm};
use crate::output::{CommandOutput, TextReport, time};
use crate::{node, path};

/// The arguments of `zkc history get`.
#[derive(Debug, Args)]
pub(crate) struct HistoryGet {
    #[command(flatten)]
    files: FileArguments,
    /// Node, by its path on the servers
    #[arg(value_parser = path::parse)]
    path: String,
    /// Moment: a transaction such as 0x100000012, a time in UTC such as 2026-11-30T14:02:00Z, or
    /// ago such as 10m [default: the end of the logs]
    #[arg(long, value_name = "MOMENT", value_parser = arguments::moment)]
    at: Option<At>,
    /// Also show the metadata and the access control list
    #[arg(long)]
    stat: bool,
    #[command(flatten)]
    form: DataForm,
}

impl HistoryGet {
    pub(super) fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let at = self.at.unwrap_or(At::Latest);
        let (replayed, exit) = replay(app, &self.files, &self.path, at)?;
        let Some(found) = replayed.tree.get(&self.path) else {
            return Err(Error::NoSuchNode { path: self.path, zxid: replayed.zxid }.into());
        };
        let bytes = found.data().map(Bytes::copy_from_slice).unwrap_or_default();
        let mut text = self.form.text(&bytes)?;
        let mut value = super::tree::value(&found);
        value["data"] = json!(found.data().map(data::value));
        value["zxid"] = json!(hex(replayed.zxid));
        value["time"] = json!(replayed.time_ms.map(time::exact));
        if self.stat {
            let acl = match found.acl() {
                Ok(Some(acl)) => acl.iter().map(zk_curator_ops::acl::text).collect(),
                Ok(None) => vec!["unknown: the snapshot does not contain it".to_owned()],
                Err(error) => vec![format!("unknown: {error}")],
            };
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&node::stat_text(&self.path, &found.stat()));
            text.push_str(&format!("{:<14}{}\n", "node", found.owner().kind()));
            text.push_str(&format!("{:<14}{}\n", "acl", acl.join(",")));
            value["acl"] = json!(acl);
        }
        let report = TextReport::new(text, value).names([self.path]);
        let report = self.form.with_bytes(report, bytes);
        Ok(CommandOutput::from(report).with_exit(exit))
    }
}
