use zk_curator_client::Stat;

use super::{Target, awaits, output};
use crate::framework::CuratorFramework;
use crate::schema::Intent;
use crate::watch::Watched;

/// Looks whether a node exists.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ExistsBuilder<R = output::Plain> {
    target: Target<R>,
}

impl ExistsBuilder {
    pub(crate) const fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: Target::new(zk, "exists", path) }
    }

    /// **Awaiting returns** a [`Watched`] `Option<Stat>`: the watch fires when the node is created or deleted,
    /// or its data change.
    pub fn watched(self) -> ExistsBuilder<output::Watched> {
        ExistsBuilder { target: self.target.into() }
    }
}

awaits!(ExistsBuilder => Option<Stat>, |this| {
    this.target.admit(Intent::Read { watched: false })?;
    this.target.read(|session, path| session.raw.exists(path)).await
});

awaits!(ExistsBuilder<output::Watched> => Watched<Option<Stat>>, |this| {
    this.target.admit(Intent::Read { watched: true })?;
    let (stat, watch) = this.target.read(|session, path| session.raw.exists_watched(path)).await?;
    Ok(Watched::new(stat, watch, this.target.zk.ns()))
});
