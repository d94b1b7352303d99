use std::collections::VecDeque;

use zk_curator_client::{Error as RawError, ErrorCode, Version};

use crate::path::join;
use crate::raw::RawClient;

/// The default number of requests in flight while descendants are deleted.
pub(crate) const FAN_OUT: usize = 64;

/// Deletes everything below `root`, with at most `in_flight` requests in flight. Children that are
/// created or deleted at the same time cause no error; the caller checks again.
pub(crate) async fn delete_children(
    raw: &dyn RawClient,
    root: &str,
    in_flight: usize,
) -> Result<(), RawError> {
    // The list has parents before their children.
    let mut found = Vec::new();
    let mut next = 0;
    let mut lists = VecDeque::from([(root.to_owned(), raw.get_children(root))]);
    while let Some((parent, list)) = lists.pop_front() {
        match list.await {
            Ok(children) => found.extend(children.names.iter().map(|name| join(&parent, name))),
            Err(RawError::Refused(ErrorCode::NoNode)) => {}
            Err(error) => return Err(error),
        }
        while lists.len() < in_flight && next < found.len() {
            lists.push_back((found[next].clone(), raw.get_children(&found[next])));
            next += 1;
        }
    }
    // The requests of a session are applied in order, so children are deleted first.
    let mut deletes = VecDeque::new();
    loop {
        while deletes.len() < in_flight
            && let Some(path) = found.pop()
        {
            deletes.push_back(raw.delete(&path, Version::Any));
        }
        let Some(delete) = deletes.pop_front() else {
            return Ok(());
        };
        match delete.await {
            Ok(()) | Err(RawError::Refused(ErrorCode::NoNode | ErrorCode::NotEmpty)) => {}
            Err(error) => return Err(error),
        }
    }
}
