use std::sync::Arc;

use futures_util::stream::{Stream, unfold};

use crate::cache::state::Freshness;
use crate::cache::task::{Alive, CacheShared};

/// Follows the [`Freshness`] of a cache.
///
/// A slow reader may miss intermediate changes, but never the latest. Keeps the cache alive.
#[derive(Debug)]
pub struct FreshnessWatch {
    pub(crate) shared: Arc<CacheShared>,
    pub(crate) alive: Alive,
    pub(crate) told: Option<Freshness>,
}

impl FreshnessWatch {
    /// Returns the current freshness at the first call, and then the latest after every change,
    /// unless only the transaction has changed; `None` when the cache has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Freshness> {
        let _alive = &self.alive;
        let told = self.told;
        let news = self.shared.find(|contents| {
            let present = contents.freshness;
            match told {
                Some(told) if told.is_alike(present) => contents.ended.then_some(None),
                _ => Some(Some(present)),
            }
        });
        let news = news.await?;
        self.told = Some(news);
        Some(news)
    }

    /// Returns the freshness as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Freshness> + Send + 'static {
        unfold(self, async |mut watch| watch.next().await.map(|news| (news, watch)))
    }
}
