/// The number of times that an operation starts over because other clients undo its work: they
/// delete the parents that it has created, or create children that it has to delete. A client that
/// does this more often does not stop.
pub(crate) const RACE_ROUNDS: u32 = 50;
