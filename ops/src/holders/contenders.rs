//! The clients that hold a lock or wait for it, of any layout.

use bytes::Bytes;
use zk_curator::{CuratorFramework, Error, Stat};
use zk_curator_recipes::inspect::{self, Contender, Finding, Library, RecipeKind};

/// The recipes whose clients can be asked to release them.
pub const LOCKS: &[RecipeKind] =
    &[RecipeKind::Mutex, RecipeKind::ReadWriteLock, RecipeKind::Semaphore];

/// The recipes whose clients are replaced by the next one when their node is deleted.
pub const LOCKS_AND_ELECTIONS: &[RecipeKind] =
    &[RecipeKind::Mutex, RecipeKind::ReadWriteLock, RecipeKind::Semaphore, RecipeKind::LeaderLatch];

/// A client that holds a lock or waits for it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LockClient {
    /// The path of its node.
    pub path: String,
    /// The stat of its node.
    pub stat: Stat,
    /// `false` for a client that waits.
    pub holds: bool,
    /// The data of its node.
    pub label: Bytes,
    /// The reason why it does not listen to a request to release the lock; `None` if it may.
    pub deaf: Option<&'static str>,
}

/// Returns the reason why a contender does not listen to a request to release the lock. `None` if
/// it may.
#[must_use]
pub fn deaf(library: Library, contender: &Contender) -> Option<&'static str> {
    let is_kazoos = || contender.name.contains("__lock__") || contender.name.contains("__rlock__");
    match library {
        _ if contender.is_persistent => Some("it is persistent, and no client has it"),
        Library::Kazoo => Some("kazoo's clients do not look at their nodes"),
        Library::Mixed if is_kazoos() => Some("kazoo's clients do not look at their nodes"),
        Library::ZooKeeper => Some("the recipes of ZooKeeper know another request"),
        _ => None,
    }
}

/// Returns the clients that hold a lock, and then the clients that wait for it. If the path is the
/// node of one client, returns only that client. There are none at a recipe of another kind.
///
/// # Errors
/// As of [`inspect`](fn@inspect::inspect).
pub async fn contenders(
    zk: &CuratorFramework,
    path: &str,
    kinds: &[RecipeKind],
) -> Result<Vec<LockClient>, Error> {
    let finding = inspect::inspect(zk, path).await?;
    if !kinds.contains(&finding.kind) {
        return Ok(Vec::new());
    }
    let library = finding.library;
    let contender = |holds| {
        move |contender: Contender| {
            let deaf = deaf(library, &contender);
            let Contender { path, stat, label, .. } = contender;
            Some(LockClient { path, stat: stat?, holds, label, deaf })
        }
    };
    let holders = finding.holders.into_iter().filter_map(contender(true));
    let waiting = finding.waiting.into_iter().filter_map(contender(false));
    let mut all: Vec<_> = holders.chain(waiting).collect();
    if path != finding.path {
        all.retain(|one| one.path == path);
    }
    Ok(all)
}

/// Returns the contenders of a recipe that no session will ever remove.
pub fn persistent(finding: &Finding) -> impl Iterator<Item = &Contender> {
    let contenders = finding.holders.iter().chain(&finding.waiting);
    contenders.filter(|contender| contender.is_persistent)
}
