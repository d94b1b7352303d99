use zk_curator_client::Stat;

use super::{OpTarget, awaits, call_options, freshness_options, output};
use crate::framework::CuratorFramework;
use crate::schema::Intent;
use crate::watch::Watched;

impl CuratorFramework {
    /// Lists the children of a node.
    ///
    /// **Awaiting returns** their names, in no order, or with
    /// [`with_stat`](ChildrenBuilder::with_stat) `(Vec<String>, Stat)`.
    pub fn children(&self, path: impl Into<String>) -> ChildrenBuilder {
        ChildrenBuilder::new(self.clone(), path.into())
    }
}

/// Lists the children of a node. Fails with `NoNode`.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ChildrenBuilder<R = output::Plain> {
    pub(super) target: OpTarget<R>,
}

impl ChildrenBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: OpTarget::new(zk, "children", path) }
    }

    /// **Awaiting returns** `(Vec<String>, Stat)`, the stat of the parent.
    pub fn with_stat(self) -> ChildrenBuilder<output::WithStat> {
        ChildrenBuilder { target: self.target.with_output() }
    }

    /// **Awaiting returns** a [`Watched`] `(Vec<String>, Stat)`: the watch fires when a child is
    /// created or deleted, or the node is deleted.
    pub fn watched(self) -> ChildrenBuilder<output::Watched> {
        ChildrenBuilder { target: self.target.with_output() }
    }
}

call_options!(ChildrenBuilder<R>);
freshness_options!(ChildrenBuilder<R>);
awaits!(ChildrenBuilder => Vec<String>, |this| {
    this.target.admit(Intent::Read { watched: false })?;
    this.target.read(|raw, path| raw.get_children(path)).await.map(|answer| answer.names)
});

awaits!(ChildrenBuilder<output::WithStat> => (Vec<String>, Stat), |this| {
    this.target.admit(Intent::Read { watched: false })?;
    let answer = this.target.read(|raw, path| raw.get_children(path)).await?;
    Ok((answer.names, answer.stat))
});

awaits!(ChildrenBuilder<output::Watched> => Watched<(Vec<String>, Stat)>, |this| {
    this.target.admit(Intent::Read { watched: true })?;
    let (answer, watch) = this.target.read(|raw, path| raw.get_children_watched(path)).await?;
    Ok(Watched::new((answer.names, answer.stat), watch, &this.target.zk))
});
