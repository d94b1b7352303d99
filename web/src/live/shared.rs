//! Reads that the viewers of a path share until the path changes.

use std::sync::Arc;

use tokio::sync::OnceCell;
use zk_curator::internal::Locked;

use crate::reads::{CardRead, Listing, ListingQuery, NodeRead, RecipesRead, ServicesRead, WhyRead};

/// The maximum number of different reads of one path that are kept.
const MOST: usize = 8;

/// A read of a path, or of a node below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemoKey {
    /// A node. The room of a recipe has several, so the key has the path.
    Node(String),
    Children(String, ListingQuery),
    /// The recipe on the page of a node.
    Card(String),
    Why(String),
    Recipes,
    Services,
}

/// The result of a read.
#[derive(Debug, Clone)]
pub(crate) enum SharedRead {
    Node(Arc<NodeRead>),
    Children(Arc<Listing>),
    Card(Arc<CardRead>),
    Why(Arc<WhyRead>),
    Recipes(Arc<RecipesRead>),
    Services(Arc<ServicesRead>),
}

/// The reads of one path since its last change.
#[derive(Debug, Default)]
pub(crate) struct Memo(Locked<Vec<(MemoKey, Arc<OnceCell<SharedRead>>)>>);

impl Memo {
    /// Forgets all reads. The results of reads that are under way are not kept.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }

    /// Returns the result of a read. Concurrent callers wait for one of them, and the next one
    /// takes over if that caller goes away or fails.
    pub(crate) async fn get<E, F: Future<Output = Result<SharedRead, E>>>(
        &self,
        key: MemoKey,
        read: impl FnOnce() -> F,
    ) -> Result<SharedRead, E> {
        let cell = self.cell(key);
        cell.get_or_try_init(read).await.cloned()
    }

    fn cell(&self, key: MemoKey) -> Arc<OnceCell<SharedRead>> {
        let mut cells = self.0.lock();
        if let Some((_, cell)) = cells.iter().find(|(known, _)| *known == key) {
            return Arc::clone(cell);
        }
        if cells.len() == MOST {
            cells.remove(0);
        }
        let cell = Arc::new(OnceCell::new());
        cells.push((key, Arc::clone(&cell)));
        cell
    }
}
