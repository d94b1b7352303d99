use std::time::Duration;

use clap::Args;
use regex::bytes::Regex;
use zk_curator::{CuratorFramework, Error, ErrorKind};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::CommandOutput;
use crate::path;

/// The arguments of `zkc wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitCommand {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    #[command(flatten)]
    state: AwaitedState,
    /// Give up when this time has passed since the connection, with exit code 1; 3 if there is no
    /// connection then [default: never]
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    limit: Option<Duration>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct AwaitedState {
    /// Until the node exists
    #[arg(long)]
    exists: bool,
    /// Until the node does not exist
    #[arg(long)]
    gone: bool,
    /// Until the data match this regular expression
    #[arg(long, value_name = "RE")]
    data: Option<Regex>,
    /// Until the node has this many children: a number, or >=N, >N, <=N, <N
    #[arg(long, value_name = "COUNT", value_parser = count)]
    children: Option<Count>,
}

/// A condition on a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Count {
    relation: Relation,
    number: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    AtLeast,
    More,
    AtMost,
    Less,
}

fn count(text: &str) -> Result<Count, String> {
    const RELATIONS: [(&str, Relation); 5] = [
        (">=", Relation::AtLeast),
        ("<=", Relation::AtMost),
        (">", Relation::More),
        ("<", Relation::Less),
        ("", Relation::Equal),
    ];
    let split = |(sign, relation): &(&str, Relation)| Some((text.strip_prefix(sign)?, *relation));
    let (rest, relation) = RELATIONS.iter().find_map(split).unwrap_or((text, Relation::Equal));
    let number = rest.trim().parse().map_err(|_| format!("not a number: {rest}"))?;
    Ok(Count { relation, number })
}

impl Count {
    const fn holds(self, count: usize) -> bool {
        match self.relation {
            Relation::Equal => count == self.number,
            Relation::AtLeast => count >= self.number,
            Relation::More => count > self.number,
            Relation::AtMost => count <= self.number,
            Relation::Less => count < self.number,
        }
    }
}

impl WaitCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        // Without a connection, the state is not known.
        let zk = app.zk().await?;
        let limit = self.limit.unwrap_or(Duration::MAX);
        match tokio::time::timeout(limit, self.until(zk)).await {
            Ok(outcome) => outcome.map(|()| CommandOutput::nothing()),
            // The response of a server, also if there was no time for one.
            Err(_) if zk.state().is_connected() => {
                Ok(if self.holds(zk).await? { Exit::DONE } else { Exit::NO }.into())
            }
            Err(_) => {
                let text = format!("no connection: {} at the end of the time", app.servers());
                Err(CommandFailure::new(Exit::NO_CONNECTION, text))
            }
        }
    }

    /// Reads the state once.
    async fn holds(&self, zk: &CuratorFramework) -> Result<bool, CommandFailure> {
        let read = async {
            Ok(if let Some(pattern) = &self.state.data {
                pattern.is_match(&zk.get_data(&self.path).await?)
            } else if let Some(count) = self.state.children {
                count.holds(zk.children(&self.path).await?.len())
            } else {
                zk.exists(&self.path).await?.is_some() == self.state.exists
            })
        };
        match read.await {
            Err(error) if Error::kind(&error) == ErrorKind::NoNode => Ok(false),
            read => Ok(read?),
        }
    }

    async fn until(&self, zk: &CuratorFramework) -> Result<(), CommandFailure> {
        if self.state.exists {
            zk.wait_exists(&self.path).await?;
        } else if self.state.gone {
            zk.wait_gone(&self.path).await?;
        } else if let Some(pattern) = self.state.data.clone() {
            zk.wait_data(&self.path, move |data| pattern.is_match(data)).await?;
        } else if let Some(count) = self.state.children {
            let mut watch = zk.watch_children(&self.path);
            while !watch.next().await?.is_some_and(|(names, _)| count.holds(names.len())) {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_relations() {
        for (text, yes, no) in
            [("3", 3, 2), (">=3", 3, 2), (">3", 4, 3), ("<=3", 3, 4), ("< 3", 2, 3)]
        {
            let count = count(text).expect(text);
            assert!(count.holds(yes) && !count.holds(no), "{text}");
        }
        assert!(count("").is_err() && count("=>3").is_err() && count("-1").is_err());
    }
}
