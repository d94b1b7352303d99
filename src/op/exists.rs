use zk_curator_client::{OneshotWatch, Stat};

use super::parents::{Parents, create_parents};
use super::{OpTarget, awaits, call_options, freshness_options, output};
use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::path::split;
use crate::raw::{RawClient, RawFuture};
use crate::schema::Intent;
use crate::watch::Watched;

impl CuratorFramework {
    /// Checks if a node exists.
    ///
    /// **Awaiting returns** `Option<Stat>`; `None` if it does not.
    pub fn exists(&self, path: impl Into<String>) -> ExistsBuilder {
        ExistsBuilder::new(self.clone(), path.into())
    }
}

/// Checks if a node exists.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ExistsBuilder<R = output::Plain> {
    target: OpTarget<R>,
    parents: Parents,
}

impl ExistsBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: OpTarget::new(zk, "exists", path), parents: Parents::default() }
    }

    /// **Awaiting returns** a [`Watched`] `Option<Stat>`: the watch fires when the node is created
    /// or deleted, or its data change.
    pub fn watched(self) -> ExistsBuilder<output::Watched> {
        ExistsBuilder { target: self.target.with_output(), parents: self.parents }
    }
}

impl<R> ExistsBuilder<R> {
    super::parents::parent_options!();

    /// Reads, and creates the parents of a missing node if that was requested.
    async fn run<T>(
        &self,
        send: impl Fn(&dyn RawClient, &str) -> RawFuture<T>,
        missing: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let path = self.target.server_path()?;
        let mut budget = self.target.budget();
        let answer = self.target.read_within(&mut budget, &path, send).await?;
        if self.parents.are_wanted() && missing(&answer) {
            create_parents(&self.target, &mut budget, split(&path).0, &self.parents).await?;
        }
        Ok(answer)
    }
}

call_options!(ExistsBuilder<R>);
freshness_options!(ExistsBuilder<R>);

awaits!(ExistsBuilder => Option<Stat>, |this| {
    this.target.admit(Intent::Read { watched: false })?;
    this.run(|raw, path| raw.exists(path), Option::is_none).await
});

awaits!(ExistsBuilder<output::Watched> => Watched<Option<Stat>>, |this| {
    this.target.admit(Intent::Read { watched: true })?;
    let missing = |answer: &(Option<Stat>, OneshotWatch)| answer.0.is_none();
    let (stat, watch) = this.run(|raw, path| raw.exists_watched(path), missing).await?;
    Ok(Watched::new(stat, watch, &this.target.zk))
});
