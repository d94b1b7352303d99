use std::future::pending;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use zk_curator_recipes::cache::{CacheEvent, CacheEvents, CachedNode, CuratorCache};

use crate::app::App;
use crate::exit::CommandFailure;
use crate::output::{CommandOutput, TextReport, data, time};
use crate::program::{self, Program};
use crate::unreadable::{NameUnreadable, UnreadableNodes};
use crate::{node, path};

/// The most characters of the data in a line.
const SHOWN: usize = 120;

/// The arguments of `zkc watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchCommand {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// Also watch everything below the node
    #[arg(short, long)]
    recursive: bool,
    /// Show the data
    #[arg(long)]
    data: bool,
    /// Also print the nodes that exist at the start
    #[arg(long)]
    initial: bool,
    /// End after this many changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Run this program for each change, with the change as JSON on its standard input
    #[arg(long, value_name = "PROGRAM")]
    exec: Option<String>,
}

impl WatchCommand {
    /// Prints changes until Ctrl-C, or until the reader of the pipe is gone. After a reconnect,
    /// prints the period in which several changes of a node may have been merged into one.
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let zk = app.zk().await?;
        let builder = if self.recursive {
            CuratorCache::tree(zk, &self.path)
        } else {
            CuratorCache::node(zk, &self.path)
        };
        let cache = builder.start();
        let events = if self.initial { cache.events() } else { cache.events_from_now() };
        cache.loaded().await?;
        let unreadable: UnreadableNodes = cache.unreadable().into_iter().collect();
        let answer = unreadable.complete(app.out(), CommandOutput::nothing());
        let stop = crate::stop::requested();
        app.out().say(format!("watching {} until Ctrl-C", self.path));
        let outcome = tokio::select! {
            outcome = self.follow(app, events) => outcome,
            interrupted = stop => interrupted.map_err(CommandFailure::from),
        };
        cache.close().await;
        outcome.map(|()| answer)
    }

    async fn follow(&self, app: &App, mut events: CacheEvents) -> Result<(), CommandFailure> {
        let mut left = self.count.unwrap_or(u64::MAX);
        // The time at which the present gap began, and the number of changes found since then.
        let mut gap: Option<(i64, usize)> = None;
        while let Some(event) = events.next().await {
            match &event {
                CacheEvent::Stale { .. } => {
                    gap.get_or_insert_with(|| (time::now_ms(), 0));
                }
                CacheEvent::Fresh { .. } => {
                    if let Some((since, changes)) = gap.take()
                        && !app.out().print_next(&gap_report(since, time::now_ms(), changes))?
                    {
                        return Ok(());
                    }
                }
                _ => {}
            }
            for change in changes(&event) {
                if let Some((_, changes)) = &mut gap {
                    *changes += 1;
                }
                let is_told = self.tell(app, &change).await?;
                left -= 1;
                if !is_told || left == 0 {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns `false` if nobody reads the changes any more.
    async fn tell(&self, app: &App, change: &ObservedChange) -> Result<bool, CommandFailure> {
        let value = change.value();
        match &self.exec {
            Some(program) => execute(program, &value).await.map(|()| true),
            None => {
                let text = change.text(self.data);
                app.out().print_next(&TextReport::new(text, value).in_one_line().into())
            }
        }
    }
}

fn gap_report(since: i64, until: i64, changes: usize) -> CommandOutput {
    let clock = |ms| {
        let time = time::rfc3339(ms).unwrap_or_default();
        time.get(11..19).unwrap_or_default().to_owned()
    };
    let text = format!("# gap {}–{}, resynced: {changes} changes", clock(since), clock(until));
    let value = json!({ "gap": {
        "from": time::rfc3339(since), "to": time::rfc3339(until), "changes": changes,
    }});
    TextReport::new(text, value).in_one_line().into()
}

/// A change of a node.
struct ObservedChange {
    kind: &'static str,
    /// The present state, or the last one of a deleted node.
    node: Arc<CachedNode>,
    old: Option<Arc<CachedNode>>,
}

fn changes(event: &CacheEvent) -> Vec<ObservedChange> {
    let one = |kind, node: &Arc<CachedNode>, old: Option<&Arc<CachedNode>>| {
        vec![ObservedChange { kind, node: Arc::clone(node), old: old.cloned() }]
    };
    match event {
        CacheEvent::Loaded(snapshot) => {
            let exists = |node: &Arc<CachedNode>| ObservedChange {
                kind: "exists",
                node: Arc::clone(node),
                old: None,
            };
            snapshot.nodes.iter().map(exists).collect()
        }
        CacheEvent::Created(node) => one("created", node, None),
        CacheEvent::Changed { old, new } => one("changed", new, Some(old)),
        CacheEvent::Replaced { old, new } => one("replaced", new, Some(old)),
        CacheEvent::Deleted(node) => one("deleted", node, None),
        CacheEvent::Unreadable { old, .. } => one("unreadable", old, None),
        _ => Vec::new(),
    }
}

impl ObservedChange {
    fn text(&self, with_data: bool) -> String {
        let stat = &self.node.stat;
        let mut text = format!("{:<10} {}  version {}", self.kind, self.node.path, stat.version);
        if with_data {
            if let Some(old) = &self.old {
                text.push_str(&format!("  {} →", data::line(&old.data, SHOWN)));
            }
            text.push_str(&format!("  {}", data::line(&self.node.data, SHOWN)));
        }
        text
    }

    fn value(&self) -> Value {
        let mut value = json!({
            "change": self.kind,
            "path": &*self.node.path,
            "data": data::value(&self.node.data),
            "stat": node::stat_value(&self.node.path, &self.node.stat),
        });
        if let Some(old) = &self.old {
            value["old"] = data::value(&old.data);
        }
        value
    }
}

/// Runs a program with a change on its standard input, and waits for its end.
async fn execute(program: &str, change: &Value) -> Result<(), CommandFailure> {
    let command = [program.into()];
    let input = Some(format!("{change}\n").into_bytes());
    match (Program { command: &command, environment: &[], input }).run(pending()).await {
        Ok(0) => Ok(()),
        Ok(code) => Err(CommandFailure::usage(format!("{program}: {}", program::explain(code)))),
        Err(error) => Err(CommandFailure::usage(format!("{program}: {error}"))),
    }
}
