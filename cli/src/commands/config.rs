use clap::Subcommand;
use serde_json::{Map, Value, json};
use zk_curator_recipes::config::{ConfigStore, Revision, Snapshot};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, OutputColumn, Rows, TextReport, data, text, time};
use crate::{node, path};

/// The most characters of a value in a table.
const SHOWN: usize = 60;

/// The arguments of `zkc config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print all values of one revision, or one value
    Get {
        /// Store
        #[arg(value_parser = path::parse)]
        path: String,
        /// Key
        key: Option<String>,
    },
    /// Set and remove values in one update
    Set {
        /// Store; created if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// Values: `KEY=VALUE`, or `KEY=` for an empty one
        #[arg(value_name = "KEY=VALUE", required_unless_present = "remove", value_parser = pair)]
        values: Vec<(String, String)>,
        /// Key to remove
        #[arg(long, value_name = "KEY")]
        remove: Vec<String>,
    },
    /// Print the last updates, newest first
    History {
        /// Store
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Restore the values of an earlier revision, as a new update
    Rollback {
        /// Store
        #[arg(value_parser = path::parse)]
        path: String,
        /// Revision, as in `history`
        #[arg(value_parser = revision)]
        to: Revision,
    },
    /// Print the values whenever they change, until Ctrl-C
    Follow {
        /// Store
        #[arg(value_parser = path::parse)]
        path: String,
        /// End after this many revisions
        #[arg(long, value_name = "N")]
        count: Option<usize>,
    },
}

const VALUES: &[OutputColumn] = &[text("key"), text("value"), text("revision").wide()];
const CHANGES: &[OutputColumn] =
    &[text("revision"), text("at"), text("key"), text("before"), text("after")];

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn revision(text: &str) -> Result<Revision, String> {
    let number = i64::from_str_radix(text.trim_start_matches("0x"), 16);
    number.map(Revision::new).map_err(|_| format!("not a revision: {text}"))
}

fn revision_text(revision: Revision) -> String {
    node::hex(revision.get())
}

impl ConfigVerb {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        match self {
            Self::Get { path, key } => {
                let snapshot = ConfigStore::new(app.zk().await?, &path).snapshot().await?;
                match key {
                    None => Ok(values(&snapshot).into()),
                    Some(key) => value(&snapshot, &path, &key),
                }
            }
            Self::Set { path, values, remove } => {
                let mut update = ConfigStore::new(app.zk_to_change().await?, path).update();
                for (key, value) in values {
                    update = update.set(key, value);
                }
                for key in remove {
                    update = update.remove(key);
                }
                Ok(committed(update.commit().await?))
            }
            Self::History { path } => {
                Ok(history(&ConfigStore::new(app.zk().await?, path)).await?.into())
            }
            Self::Rollback { path, to } => {
                let store = ConfigStore::new(app.zk_to_change().await?, path);
                Ok(committed(store.roll_back(to).await?))
            }
            Self::Follow { path, count } => {
                let mut follow = ConfigStore::new(app.zk().await?, path).follow();
                let stop = crate::stop::requested();
                tokio::pin!(stop);
                for _ in 0..count.unwrap_or(usize::MAX) {
                    tokio::select! {
                        snapshot = follow.next() => {
                            if !app.out().print_next(&one_line(&snapshot?).into())? {
                                break;
                            }
                        }
                        interrupted = &mut stop => {
                            interrupted?;
                            break;
                        }
                    }
                }
                Ok(CommandOutput::nothing())
            }
        }
    }
}

fn committed(revision: Revision) -> CommandOutput {
    let text = revision_text(revision);
    TextReport::new(format!("revision {text}"), json!({ "revision": text })).names([text]).into()
}

fn values(snapshot: &Snapshot) -> Rows {
    let mut rows = Rows::new(VALUES);
    for (key, entry) in snapshot.entries() {
        rows.push(vec![
            key.as_str().into(),
            data::cell(&entry.data, SHOWN),
            revision_text(entry.revision).into(),
        ]);
    }
    rows
}

fn value(snapshot: &Snapshot, path: &str, key: &str) -> Result<CommandOutput, CommandFailure> {
    let entry = snapshot.entry(key);
    let entry = entry.ok_or_else(|| CommandFailure::no_node(&format!("{path}/values/{key}")))?;
    let value = json!({ "key": key, "value": data::value(&entry.data) });
    Ok(TextReport::new(data::show(&entry.data), value).raw(entry.data.clone()).into())
}

fn one_line(snapshot: &Snapshot) -> TextReport {
    let entries = snapshot.entries();
    let shown =
        entries.iter().map(|(key, entry)| format!("{key}={}", data::line(&entry.data, SHOWN)));
    let shown: Vec<_> = shown.collect();
    let revision = revision_text(snapshot.revision());
    let of = |(key, entry): (&String, &zk_curator_recipes::config::ConfigEntry)| {
        (key.clone(), data::value(&entry.data))
    };
    let values: Map<String, Value> = entries.iter().map(of).collect();
    let value = json!({ "revision": revision, "values": values });
    TextReport::new(format!("{revision}  {}", shown.join("  ")), value).in_one_line()
}

async fn history(store: &ConfigStore) -> Result<Rows, CommandFailure> {
    let mut rows = Rows::new(CHANGES);
    for change in store.history().await? {
        for (key, value) in &change.keys {
            let shown = |data: &Option<bytes::Bytes>| {
                data.as_ref().map(|data| data::cell(data, SHOWN)).into()
            };
            rows.push(vec![
                revision_text(change.revision).into(),
                time::cell(change.at_ms),
                key.as_str().into(),
                shown(&value.before),
                shown(&value.after),
            ]);
        }
    }
    Ok(rows)
}
