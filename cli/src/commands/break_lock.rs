use clap::Args;
use zk_curator::{ErrorKind, SessionId};
use zk_curator_ops::holders;

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::{node, path};

const AFTER_HELP: &str = "\
Deletes the node of exactly this holder, in a transaction that fails with exit code 6 if the node \
has changed or is gone. The token is the czxid of the node. `zkc why` and `zkc lock` print it in \
hexadecimal (0x2f), and ZKC_FENCING_TOKEN is the same number in decimal.

The holder may still be running: `zkc lock` stops its command as soon as it learns of the loss, \
but other clients may continue. Their writes are refused only if they check the lock, as \
`zkc set --fenced` does. Try `zkc revoke` first.";

/// The arguments of `zkc break`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Break {
    /// Lock, or the node of the holder
    #[arg(value_parser = path::parse)]
    path: String,
    /// Fencing token of the holder: decimal, or hexadecimal with 0x
    #[arg(long, value_name = "TOKEN", value_parser = node::parse_id)]
    token: i64,
    /// Only if the holder has this session
    #[arg(long, value_name = "SESSION", value_parser = node::parse_session)]
    if_session: Option<SessionId>,
    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Break {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = if self.dry_run { app.zk().await? } else { app.zk_to_change().await? };
        let token = node::hex(self.token);
        let contenders = holders::contenders(zk, &self.path, holders::LOCKS_AND_ELECTIONS).await?;
        let holder = contenders.into_iter().find(|holder| holder.stat.czxid == self.token);
        let Some(holder) = holder else {
            return Err(conflict(format!("no longer held with token {token}: {}", self.path)));
        };
        let owner = holder.stat.ephemeral_owner;
        let (of, question) = match node::owner(&holder.stat) {
            Some(session) => (
                format!("of session {session}"),
                format!(
                    "take {} away from session {session}, whose client may still be running?",
                    self.path
                ),
            ),
            None => (
                "of no session".to_owned(),
                format!("delete {}, which belongs to no session?", holder.path),
            ),
        };
        if self.if_session.is_some_and(|wanted| wanted.get() != owner) {
            return Err(conflict(format!("other session: {} is {of}", holder.path)));
        }
        if self.dry_run {
            let text = format!("delete {} {of}", holder.path);
            return Ok(TextReport::new(text, holder.path.as_str()).names([holder.path]).into());
        }
        app.agree(&question).await?;
        let transaction = zk
            .transaction()
            .check(&holder.path, holder.stat.version)
            .delete_if(&holder.path, holder.stat.version);
        match transaction.commit().await {
            Ok(_) => Ok(TextReport::new("", holder.path.as_str()).names([holder.path]).into()),
            Err(error) => Err(match error.kind() {
                ErrorKind::TransactionFailed { .. } if !error.may_have_applied() => {
                    conflict(format!("changed since it was read: {}", holder.path))
                }
                _ => error.into(),
            }),
        }
    }
}

fn conflict(text: String) -> CommandFailure {
    CommandFailure::new(Exit::CONFLICT, text)
}
