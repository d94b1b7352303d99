use bytes::Bytes;
use zk_curator_client::Stat;

use super::{OpTarget, awaits, call_options, decompression_options, freshness_options, output};
use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::schema::Intent;
use crate::watch::Watched;

impl CuratorFramework {
    /// Reads the data of a node.
    ///
    /// **Awaiting returns** `Bytes`, or with [`with_stat`](GetDataBuilder::with_stat)
    /// `(Bytes, Stat)`.
    pub fn get_data(&self, path: impl Into<String>) -> GetDataBuilder {
        GetDataBuilder::new(self.clone(), path.into())
    }
}

/// Reads the data of a node. Fails with `NoNode`.
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct GetDataBuilder<R = output::Plain> {
    target: OpTarget<R>,
    decompressed: Option<bool>,
}

impl GetDataBuilder {
    pub(crate) fn new(zk: CuratorFramework, path: String) -> Self {
        Self { target: OpTarget::new(zk, "get_data", path), decompressed: None }
    }

    /// **Awaiting returns** `(Bytes, Stat)`.
    pub fn with_stat(self) -> GetDataBuilder<output::WithStat> {
        self.returning()
    }

    /// **Awaiting returns** a [`Watched`] `(Bytes, Stat)`: the watch fires when the data change or
    /// the node is deleted.
    pub fn watched(self) -> GetDataBuilder<output::Watched> {
        self.returning()
    }
}

impl<R> GetDataBuilder<R> {
    fn returning<S>(self) -> GetDataBuilder<S> {
        GetDataBuilder { target: self.target.with_output(), decompressed: self.decompressed }
    }

    async fn read(&self) -> Result<(Bytes, Stat)> {
        self.target.admit(Intent::Read { watched: false })?;
        let answer = self.target.read(|raw, path| raw.get_data(path)).await?;
        Ok((self.target.decompress(self.decompressed, answer.data)?, answer.stat))
    }
}

call_options!(GetDataBuilder<R>);
freshness_options!(GetDataBuilder<R>);
decompression_options!(GetDataBuilder<R>);

awaits!(GetDataBuilder => Bytes, |this| this.read().await.map(|(data, _)| data));

awaits!(GetDataBuilder<output::WithStat> => (Bytes, Stat), |this| this.read().await);

awaits!(GetDataBuilder<output::Watched> => Watched<(Bytes, Stat)>, |this| {
    this.target.admit(Intent::Read { watched: true })?;
    let (answer, watch) = this.target.read(|raw, path| raw.get_data_watched(path)).await?;
    let data = this.target.decompress(this.decompressed, answer.data)?;
    Ok(Watched::new((data, answer.stat), watch, &this.target.zk))
});
