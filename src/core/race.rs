/// How often an operation begins anew because somebody else undoes what it has done: deletes the parents that
/// it has created, or creates children where it deletes them. Somebody who does it more often does not stop.
pub(crate) const RACE_ROUNDS: u32 = 50;
