use clap::Args;
use zk_curator_ops::holders::{self, LockClient};
use zk_curator_recipes::lock::attempt_revoke;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, Rows, data, text};
use crate::{node, path};

/// The most characters of a label.
const SHOWN: usize = 60;

const AFTER_HELP: &str = "\
Writes `__REVOKE__` into the node of each holder, in place of its label, as Curator's Revoker does. \
The label is printed, because it is lost. The holder decides: `zkc lock` stops its command and \
releases the lock, unless it runs with `--on-revoke ignore`; a Java client does so only if it was \
made revocable. Clients of kazoo do not read their nodes, so they are not asked.

Exit codes: 0 asked, 1 the lock is free, 6 no holder can be asked.";

/// The arguments of `zkc revoke`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Revoke {
    /// Lock, or the node of a client that holds it or waits for it
    #[arg(value_parser = path::parse)]
    path: String,
    /// Only the client with this fencing token: decimal, or hexadecimal with 0x
    #[arg(long, value_name = "TOKEN", value_parser = node::parse_id)]
    token: Option<i64>,
    /// Print who would be asked, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Revoke {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let mut rows =
            Rows::new(const { &[text("node"), text("token"), text("session"), text("label")] });
        let (mut asked, mut deaf) = (false, false);
        let contenders = holders::contenders(zk, &self.path, holders::LOCKS).await?;
        let wanted = |holder: &LockClient| match self.token {
            Some(token) => token == holder.stat.czxid,
            None => holder.holds || holder.path == self.path,
        };
        for holder in contenders.into_iter().filter(wanted) {
            if let Some(why) = holder.deaf {
                deaf = true;
                app.out().warn(format!("not asked: {}: {why}: see zkc why", holder.path));
                continue;
            }
            if self.dry_run || attempt_revoke(zk, &holder.path).await? {
                asked = true;
                let owner = node::owner(&holder.stat);
                rows.push(vec![
                    holder.path.into(),
                    node::hex(holder.stat.czxid).into(),
                    owner.into(),
                    data::line(&holder.label, SHOWN).into(),
                ]);
            }
        }
        let exit = match (asked, deaf) {
            (true, _) => Exit::DONE,
            (false, true) => Exit::CONFLICT,
            (false, false) => {
                app.out().say(format!("not held: {}", self.path));
                Exit::NO
            }
        };
        Ok(CommandOutput::from(rows).with_exit(exit))
    }
}
