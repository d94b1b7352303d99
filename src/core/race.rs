/// The number of times that an operation starts over because others undo its work: delete the parents that
/// it has created, or creates children where it deletes them. Somebody who does it more often does not stop.
pub(crate) const RACE_ROUNDS: u32 = 50;
