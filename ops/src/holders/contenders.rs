//! The clients that hold a lock or wait for it, of any layout.

use bytes::Bytes;
use zk_curator::{CuratorFramework, Stat};
use zk_curator_recipes::inspect::{self, Contender, Library, RecipeKind};

use crate::exit::CommandFailure;

/// The recipes whose clients are asked to let go.
pub(crate) const LOCKS: &[RecipeKind] =
    &[RecipeKind::Mutex, RecipeKind::ReadWriteLock, RecipeKind::Semaphore];

/// The recipes whose clients are replaced by the next one when their node is deleted.
pub(crate) const LOCKS_AND_ELECTIONS: &[RecipeKind] =
    &[RecipeKind::Mutex, RecipeKind::ReadWriteLock, RecipeKind::Semaphore, RecipeKind::LeaderLatch];

/// A client that holds a lock or waits for it.
#[derive(Debug)]
pub(crate) struct Holder {
    /// The path of its node.
    pub(crate) path: String,
    pub(crate) stat: Stat,
    /// `false` for a client that waits.
    pub(crate) holds: bool,
    /// The data of its node.
    pub(crate) label: Bytes,
    /// Why it does not listen to a request to let go.
    pub(crate) deaf: Option<&'static str>,
}

/// Returns the reason why a contender does not listen to a request to let go; `None` if it may.
pub(crate) fn deaf(library: Library, contender: &Contender) -> Option<&'static str> {
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
pub(crate) async fn contenders(
    zk: &CuratorFramework,
    path: &str,
    kinds: &[RecipeKind],
) -> Result<Vec<Holder>, CommandFailure> {
    let finding = inspect::inspect(zk, path).await?;
    if !kinds.contains(&finding.kind) {
        return Ok(Vec::new());
    }
    let library = finding.library;
    let contender = |holds| {
        move |contender: Contender| {
            let deaf = deaf(library, &contender);
            let Contender { path, stat, label, .. } = contender;
            Some(Holder { path, stat: stat?, holds, label, deaf })
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

/// Parses a token or a session: hexadecimal with `0x`, or decimal.
pub(crate) fn parse_token(text: &str) -> Result<i64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
        None => text.parse(),
    };
    number.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_decimal_or_hexadecimal() {
        assert_eq!(parse_token("0x2f"), Ok(47));
        assert_eq!(parse_token("47"), Ok(47));
        assert_eq!(parse_token("0xffffffffffffffff"), Ok(-1));
        assert!(parse_token("2f").is_err());
    }
}
