use clap::Args;
use serde_json::json;

use crate::app::App;
use crate::exit::Failure;
use crate::output::{Answer, Column, Rows, text};
use crate::{acls, path, walk};

/// The arguments of `zkc acl`.
#[derive(Debug, Args)]
pub(crate) struct Acl {
    /// Node
    #[arg(value_parser = path::parse)]
    path: String,
    /// New list: `SCHEME:ID:PERMISSIONS`, separated by commas; `open`, `read`, or `creator`
    #[arg(long, value_name = "ACL")]
    set: Option<String>,
    /// Also change everything below the node
    #[arg(short, long, requires = "set")]
    recursive: bool,
    /// Only if the list has this version
    #[arg(long, value_name = "N", requires = "set", conflicts_with = "recursive")]
    version: Option<i32>,
    /// Print what would be changed, and change nothing
    #[arg(long, requires = "set")]
    dry_run: bool,
}

const COLUMNS: &[Column] = &[text("scheme"), text("id"), text("permissions")];

impl Acl {
    pub(crate) async fn run(self, app: &App) -> Result<Answer, Failure> {
        let Some(list) = self.set.as_deref() else { return self.show(app).await };
        let list = acls::parse(list)?;
        let mut paths = vec![self.path.clone()];
        if self.recursive {
            path::refuse_system(&self.path)?;
            let nodes = walk::list(app.zk().await?, &self.path, usize::MAX, |_| true).await?;
            paths = nodes.into_iter().map(|node| node.path).collect();
        }
        if self.dry_run {
            let mut rows = Rows::new(const { &[text("path")] }).plain();
            for path in paths {
                rows.push(vec![path.into()]);
            }
            return Ok(rows.into());
        }
        if self.recursive {
            app.agree(&format!("change the ACL of {} nodes?", paths.len())).await?;
        }
        let zk = app.zk_to_change().await?;
        let sets = paths.iter().map(|path| match self.version {
            Some(version) => zk.set_acl(path, list.clone()).version(version),
            None => zk.set_acl(path, list.clone()),
        });
        for outcome in zk_curator::op::fan_out(256, sets).await {
            outcome?;
        }
        Ok(Answer::nothing())
    }

    async fn show(&self, app: &App) -> Result<Answer, Failure> {
        let (list, stat) = app.zk().await?.get_acl(&self.path).with_stat().await?;
        let mut rows = Rows::new(COLUMNS);
        for acl in &list {
            let letters = acls::letters(acl.permissions);
            rows.push(vec![acl.scheme.clone().into(), acl.id.clone().into(), letters.into()]);
        }
        app.out().detail(format!(
            "version {}: {}",
            stat.aversion,
            json!(list.iter().map(acls::text).collect::<Vec<_>>())
        ));
        Ok(rows.into())
    }
}
