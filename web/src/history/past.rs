//! A node and the names of its children, as they were.

use bytes::Bytes;
use zk_curator::{Acl, Stat};
use zk_curator_ops::history::{AclList, At, Files, Owner, ReadBudget, Replay, Result};

use super::changes::missing;
use super::view::{PastValue, PastView};

/// A node at a moment.
#[derive(Debug)]
pub(crate) struct PastRead {
    /// The last transaction up to the moment.
    pub(crate) zxid: i64,
    pub(crate) time_ms: Option<i64>,
    /// `None` if it did not exist.
    pub(crate) node: Option<PastNode>,
    /// Sentences about what the files do not tell.
    pub(crate) notes: Vec<String>,
}

/// A node that existed.
#[derive(Debug)]
pub(crate) struct PastNode {
    pub(crate) stat: Stat,
    pub(crate) owner: Owner,
    pub(crate) value: PastValue,
    /// The rights, if the files tell them and the data are shown.
    pub(crate) acl: Option<Vec<Acl>>,
    /// The names of the children, sorted.
    pub(crate) children: Vec<String>,
}

/// Rebuilds a node and its children. `path` is the node of the page.
pub(crate) fn read_past(
    files: &Files,
    budget: &ReadBudget,
    view: &PastView,
    path: &str,
    (at, skips_damaged): (At, bool),
) -> Result<PastRead> {
    let server_path = view.server_path(path);
    let replay = Replay::new(files).shallow(&server_path).budget(budget);
    let replayed = replay.skip_damaged(skips_damaged).run(at)?;
    let mut notes = missing(&replayed.gaps, &replayed.skipped);
    if !replayed.is_settled {
        notes.push(
            "The snapshot does not tell which later changes it contains. The nodes may have some."
                .to_owned(),
        );
    }
    let node = replayed.tree.get(&server_path).map(|node| {
        let stat = node.stat();
        // An ACL that was never changed is that of the creation.
        let is_known = replayed.is_settled || stat.aversion == 0;
        let acl = node.stored_acl().filter(|_| is_known);
        let value = match view.hidden(path, acl.map(AclList::lets_anyone_read)) {
            Some(reason) => PastValue::Hidden(reason),
            None => PastValue::of(node.data().map(Bytes::copy_from_slice)),
        };
        let acl = acl.filter(|_| !matches!(value, PastValue::Hidden(_)));
        PastNode {
            stat,
            owner: node.owner(),
            value,
            acl: acl.and_then(|acl| acl.to_vec().ok()),
            children: node.children().iter().map(|child| child.name().to_owned()).collect(),
        }
    });
    Ok(PastRead { zxid: replayed.zxid, time_ms: replayed.time_ms, node, notes })
}
