use bytes::Bytes;
use zk_curator_client::Stat;

use super::{Target, awaits, output};
use crate::framework::CuratorFramework;
use crate::watch::Watched;

/// Reads the data of a node. Fails with `NoNode`.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct GetDataBuilder<R = output::Plain> {
    target: Target<R>,
}

impl GetDataBuilder {
    pub(crate) const fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: Target::new(zk, "get_data", path) }
    }

    /// **Awaiting returns** `(Bytes, Stat)`.
    pub fn with_stat(self) -> GetDataBuilder<output::WithStat> {
        GetDataBuilder { target: self.target.into() }
    }

    /// **Awaiting returns** a [`Watched`] `(Bytes, Stat)`: the watch fires when the data change or the node is
    /// deleted.
    pub fn watched(self) -> GetDataBuilder<output::Watched> {
        GetDataBuilder { target: self.target.into() }
    }
}

awaits!(GetDataBuilder => Bytes, |this| {
    this.target.read(|session, path| session.raw.get_data(path)).await.map(|answer| answer.data)
});

awaits!(GetDataBuilder<output::WithStat> => (Bytes, Stat), |this| {
    this.target.read(|session, path| session.raw.get_data(path)).await.map(|answer| (answer.data, answer.stat))
});

awaits!(GetDataBuilder<output::Watched> => Watched<(Bytes, Stat)>, |this| {
    let (answer, watch) = this.target.read(|session, path| session.raw.get_data_watched(path)).await?;
    Ok(Watched::new((answer.data, answer.stat), watch, this.target.zk.ns()))
});
