use std::fmt;

use zk_curator::Error;
use zk_curator::model::ModelParent;
use zk_curator::typed::Typed;

use super::cache::TypedCache;
use crate::cache::handle::builder::CacheBuilder;

/// Builds a [`TypedCache`] of the nodes of a model: see [`TypedCache::of`].
#[must_use = "nothing is sent until it is started"]
pub struct TypedCacheBuilder<T> {
    typed: Typed<T>,
    cache: Result<CacheBuilder, Error>,
}

impl<T> TypedCache<T> {
    /// Builds a cache of the nodes below a parent, and of the parent. It reads and writes them as
    /// the model specifies.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// use zk_curator_recipes::cache::TypedCache;
    ///
    /// zk_curator::path_template!(StockPath = "/stock/{shop}/{article}": shop: &str, article: u64);
    /// let stock = zk.model(StockPath::spec::<u32>());
    /// stock.at(("berlin", 7)).put(&3).await?;
    ///
    /// let berlin = TypedCache::of(&stock.under("berlin")).start()?;
    /// berlin.cache().loaded().await?;
    /// // One round trip, because the cache knows the value.
    /// berlin.modify("/stock/berlin/7", |pieces| pieces - 1).await?;
    /// berlin.put("/stock/berlin/12", &1).await?;
    /// let pieces: u32 = berlin.children_of("/stock/berlin").iter().filter_map(|node| node.value.as_deref().ok()).sum();
    /// assert_eq!(pieces, 3);
    /// # zk.close().await?;
    /// # Ok(()) }
    /// ```
    pub fn of(parent: &ModelParent<T>) -> TypedCacheBuilder<T> {
        let typed = parent.typed().clone();
        let path = parent.path().map(str::to_owned);
        let cache = path.map(|path| CacheBuilder::new(typed.framework(), path, Some(1)));
        TypedCacheBuilder { typed, cache }
    }
}

impl<T> TypedCacheBuilder<T> {
    /// Changes the settings of the cache.
    pub fn configure(mut self, change: impl FnOnce(CacheBuilder) -> CacheBuilder) -> Self {
        self.cache = self.cache.map(change);
        self
    }

    /// Starts the task of the cache and returns immediately.
    ///
    /// # Errors
    /// `InvalidPath` if a parameter of the model cannot be the name of a node.
    pub fn start(self) -> Result<TypedCache<T>, Error> {
        Ok(TypedCache::new(self.cache?.start(), self.typed))
    }
}

impl<T> fmt::Debug for TypedCacheBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedCacheBuilder").field("cache", &self.cache).finish_non_exhaustive()
    }
}
