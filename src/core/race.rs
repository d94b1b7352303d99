use zk_curator_client::ErrorCode;

/// The number of times that an operation starts over because other clients undo its work: they
/// delete the parents that it has created, or create children that it has to delete. A client that
/// does this more often does not stop.
pub const RACE_ROUNDS: u32 = 50;

/// Returns `true` if an operation was refused because another client has created, deleted or
/// written its node.
#[must_use]
pub const fn is_conflict(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NoNode | ErrorCode::NodeExists | ErrorCode::BadVersion)
}
