use std::sync::Arc;

use futures_util::stream::{Stream, unfold};

use super::freshness::Freshness;
use super::shared::{Alive, Shared};

/// Follows the [`Freshness`] of a cache.
///
/// A slow reader misses changes in between, but never the latest. Keeps the cache alive.
#[derive(Debug)]
pub struct FreshnessWatch {
    pub(super) shared: Arc<Shared>,
    pub(super) alive: Alive,
    pub(super) told: Option<Freshness>,
}

impl FreshnessWatch {
    /// The present freshness at the first call, then the latest after every change but one of the transaction alone; `None`
    /// when the cache has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Freshness> {
        let _alive = &self.alive;
        let told = self.told;
        let news = self.shared.find(|inner| {
            let present = inner.freshness;
            match told {
                Some(told) if told.is_alike(present) => inner.ended.then_some(None),
                _ => Some(Some(present)),
            }
        });
        let news = news.await?;
        self.told = Some(news);
        Some(news)
    }

    /// The freshness as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Freshness> + Send + 'static {
        unfold(self, async |mut watch| watch.next().await.map(|news| (news, watch)))
    }
}
